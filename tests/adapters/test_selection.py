"""Which revision a message is written in: each step of the choice, in its order, and the refusals."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_sansio import AdapterSet, Failure, FailureKind, Preamble, Registry, Rejected
from mcp_sansio.testing import Simulation
from mcp_sansio.wire.json import encode
from speak import ENVELOPE, HANDSHAKE, META, VERSIONS, Channel, Http, Speaker, assert_json

ALL = AdapterSet.default()
LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
INITIALIZE = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "x"}}


def stating(version: Any, method: str = "tools/list") -> dict[str, Any]:
    meta = {META + "protocolVersion": version}
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"_meta": meta}}


def chosen(
    body: Any, header: str | None = None, pin: str | None = None, remembered: str | None = None, among: Any = ALL
) -> str:
    headers = {} if header is None else {"MCP-Protocol-Version": header}
    raw = body if isinstance(body, bytes) else encode(body)
    preamble = Preamble.of(raw, headers, {} if pin is None else {"mcp": pin})
    return among.select(preamble, remembered).version  # type: ignore[no-any-return]


def refused(*args: Any, **options: Any) -> Failure:
    with pytest.raises(Rejected) as caught:
        chosen(*args, **options)
    return caught.value.failure


def unsupported(requested: str, among: AdapterSet = ALL) -> Failure:
    return Failure(
        FailureKind.UNSUPPORTED_VERSION,
        f"unsupported protocol version; this server speaks {', '.join(among.versions)}",
        {"supported": list(among.versions), "requested": requested},
    )


# The steps, in order --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pin", [None, VERSIONS[-1], "nonsense"])
@pytest.mark.parametrize("body", [b"", b"{", b"NaN", b"\xff", b"[1,]"])
def test_1_no_json(body: bytes, pin: str | None) -> None:
    failure = refused(body, pin=pin)
    assert failure.kind is FailureKind.PARSE
    assert failure.message.startswith("the body is not JSON: ")


@pytest.mark.parametrize("pin", VERSIONS)
@pytest.mark.parametrize("header", [None, *VERSIONS, "1999-01-01"])
@pytest.mark.parametrize("body", [LIST, INITIALIZE, [LIST], 5, stating("1999-01-01"), stating(VERSIONS[0])])
def test_2_the_pin_outranks_everything(pin: str, header: str | None, body: Any) -> None:
    assert chosen(body, header, pin, remembered=VERSIONS[-1]) == pin


@pytest.mark.parametrize("pin", ["", "1999-01-01", "2025"])
def test_2_a_pin_to_nothing(pin: str) -> None:
    assert refused(LIST, VERSIONS[0], pin) == unsupported(pin)


def test_3_header_and_body_disagree() -> None:
    failure = Failure(FailureKind.HEADER_MISMATCH, "the version header does not match the version in _meta")
    assert refused(stating(VERSIONS[0]), VERSIONS[1]) == failure
    assert refused(stating("1999-01-01"), VERSIONS[1]) == failure
    assert refused(stating(VERSIONS[0]), "") == failure
    assert refused(stating(5), VERSIONS[1]) == failure


@pytest.mark.parametrize("version", VERSIONS)
def test_4_the_body(version: str) -> None:
    assert chosen(stating(version)) == chosen(stating(version), version) == version
    assert chosen(stating(version), f" {version} ") == version
    assert chosen(stating(version), remembered=VERSIONS[-1]) == version
    # `initialize` that states a revision in its `_meta` is no handshake: it is a request of that revision.
    assert chosen(stating(version, "initialize")) == version
    # A batch states what its first message does.
    assert chosen([stating(version), LIST]) == chosen([stating(version), stating(5)], version) == version
    assert chosen([LIST, stating(version)], remembered=VERSIONS[-1]) == VERSIONS[-1]


@pytest.mark.parametrize("version", ENVELOPE)
def test_4_a_batch_is_refused_by_the_revision_that_it_states(version: str) -> None:
    channel = Channel(version, Registry("s", "1"))
    text = "this protocol revision has no batches; send one message at a time"
    assert channel.send([channel.message("tools/list"), channel.message("tools/list", id=2)]) == [
        {"jsonrpc": "2.0", "error": {"code": -32600, "message": text}}
    ]


@pytest.mark.parametrize(
    ("stated", "requested"), [("1999-01-01", "1999-01-01"), ("", ""), (5, ""), (["x"], ""), ({}, "")]
)
def test_4_the_body_states_nonsense(stated: Any, requested: str) -> None:
    assert refused(stating(stated)) == unsupported(requested)


def test_4_what_was_requested_is_quoted_up_to_a_limit() -> None:
    assert refused(stating("x" * 5000)) == unsupported("x" * 100)


@pytest.mark.parametrize("version", VERSIONS)
def test_5_the_header(version: str) -> None:
    assert chosen(LIST, version) == chosen(LIST, f"\t{version} ") == version
    assert chosen(LIST, version, remembered=VERSIONS[-1]) == version
    assert chosen([LIST], version) == version
    assert chosen(stating(None), version) == version


@pytest.mark.parametrize("header", ["1999-01-01", "", "2025-11-25, 2025-11-25"])
def test_5_the_header_states_nonsense(header: str) -> None:
    assert refused(LIST, header, remembered=VERSIONS[0]) == unsupported(header)


def test_6_a_handshake() -> None:
    assert chosen(INITIALIZE) == HANDSHAKE[0]
    assert chosen(INITIALIZE, "2099-01-01") == HANDSHAKE[0]
    assert chosen(INITIALIZE, "") == HANDSHAKE[0]
    assert chosen(INITIALIZE, remembered=HANDSHAKE[-1]) == HANDSHAKE[0]
    for version in ENVELOPE:
        assert chosen(INITIALIZE, version) == HANDSHAKE[0]
    for version in HANDSHAKE:
        assert chosen(INITIALIZE, version) == version


@pytest.mark.parametrize("version", VERSIONS)
def test_7_what_the_session_remembers(version: str) -> None:
    assert chosen(LIST, remembered=version) == version


def test_8_silence() -> None:
    implied = "2025-03-26" if "2025-03-26" in VERSIONS else HANDSHAKE[0]
    for body in (LIST, [LIST], [], 5, None, "x", {}, {"method": 5}, {"params": []}, {"params": {"_meta": 5}}):
        assert chosen(body) == implied
    assert chosen(LIST, remembered="1999-01-01") == implied
    # Without the revision that silence implies, it is still a revision with a handshake: the others are never silent.
    rest = ALL.only(*(version for version in VERSIONS if version != "2025-03-26"))
    assert chosen(LIST, among=rest) == next(version for version in rest.versions if version in HANDSHAKE)
    for version in ENVELOPE:
        assert chosen(LIST, among=ALL.only(version)) == version


# Sets -----------------------------------------------------------------------------------------------------------------


def test_windows() -> None:
    assert ALL.versions == VERSIONS == tuple(sorted(VERSIONS, reverse=True))
    assert ALL.only(VERSIONS[2], VERSIONS[0]).versions == (VERSIONS[0], VERSIONS[2])
    assert ALL.since(VERSIONS[1]).versions == VERSIONS[:2]
    assert ALL.until(VERSIONS[1]).versions == VERSIONS[1:]
    assert ALL.since(VERSIONS[2]).until(VERSIONS[1]).versions == VERSIONS[1:3]
    assert ALL.fallback.version == VERSIONS[0]
    handshake = ALL.with_handshake()
    assert handshake is not None
    assert handshake.versions == HANDSHAKE
    assert ALL.only(*ENVELOPE).with_handshake() is None if ENVELOPE else True


def test_there_is_one_adapter_of_each_revision() -> None:
    for version, adapter in ALL.by_version.items():
        assert adapter is AdapterSet.default().by_version[version] is ALL.only(version).fallback


@pytest.mark.parametrize("window", ["only", "since", "until"])
def test_a_window_on_nothing(window: str) -> None:
    with pytest.raises(ValueError, match=r"^'1999-01-01' is not among the revisions " + ", ".join(VERSIONS) + "$"):
        getattr(ALL, window)("1999-01-01")


def test_an_empty_set() -> None:
    with pytest.raises(ValueError, match=r"^an AdapterSet needs at least one revision$"):
        AdapterSet([])
    with pytest.raises(ValueError, match=r"^an AdapterSet needs at least one revision$"):
        ALL.only()


@pytest.mark.parametrize("requested", [*VERSIONS, "2099-01-01", ""])
def test_negotiate(requested: str) -> None:
    expected = requested if requested in HANDSHAKE else HANDSHAKE[0]
    assert ALL.negotiate(requested).version == expected
    oldest = ALL.only(HANDSHAKE[-1])
    assert oldest.negotiate(requested).version == HANDSHAKE[-1]


@pytest.mark.parametrize("version", ENVELOPE)
def test_without_a_handshake_there_is_nothing_to_negotiate(version: str) -> None:
    among = ALL.only(version)
    for requested in (*VERSIONS, "2099-01-01", ""):
        with pytest.raises(Rejected) as caught:
            among.negotiate(requested)
        assert caught.value.failure == unsupported(requested, among)
    for params in ([], None, "x", {}):
        assert refused({**INITIALIZE, "params": params}, among=among) == unsupported("", among)
    assert refused({"jsonrpc": "2.0", "id": 1, "method": "initialize"}, among=among) == unsupported("", among)


# Through a server -----------------------------------------------------------------------------------------------------


def initialize(version: Any, **more: Any) -> dict[str, Any]:
    request = Speaker(VERSIONS[0], Registry("s", "1")).initialize(id=1)
    request["params"] |= {"protocolVersion": version}
    return request


@pytest.mark.parametrize("requested", [*HANDSHAKE, *ENVELOPE, "2099-01-01", "1999-12-31", ""])
def test_a_handshake_negotiates(requested: str) -> None:
    simulation = Simulation(Registry("s", "1"))
    expected = requested if requested in HANDSHAKE else HANDSHAKE[0]
    for headers in ({}, {"MCP-Protocol-Version": requested or "?"}, {"MCP-Protocol-Version": "2099-01-01"}):
        answered = simulation.http(initialize(requested), headers=headers)
        assert (answered.status, answered.messages[0]["result"]["protocolVersion"]) == (200, expected)
    [reply] = simulation.channel().send(initialize(requested))
    assert reply["result"]["protocolVersion"] == expected


@pytest.mark.parametrize("requested", [5, None, [], {}, "missing"])
def test_a_handshake_for_no_version(requested: Any) -> None:
    simulation = Simulation(Registry("s", "1"))
    request = initialize(requested)
    if requested == "missing":
        del request["params"]["protocolVersion"]
    error = {"code": -32602, "message": "params.protocolVersion must be a string"}
    failed = {"jsonrpc": "2.0", "id": 1, "error": error}
    assert_json(simulation.http(request), 200, failed)
    channel = simulation.channel()
    assert channel.send(request) == [failed]
    # It was no handshake: the next one still works, and no session was made.
    assert channel.send(initialize(HANDSHAKE[0]))[0]["result"]["protocolVersion"] == HANDSHAKE[0]
    assert len(simulation.server.store) == 0  # type: ignore[arg-type]


@pytest.mark.parametrize("version", ENVELOPE)
@pytest.mark.parametrize(("requested", "shown"), [("2025-11-25", "2025-11-25"), ("", ""), (5, ""), (None, "")])
def test_a_set_without_handshake_refuses_one(version: str, requested: Any, shown: str) -> None:
    among = ALL.only(version)
    simulation = Simulation(Registry("s", "1"), adapters=among)
    failure = unsupported(shown, among)
    error = {"code": -32022, "message": failure.message, "data": failure.data}
    refused_with = {"jsonrpc": "2.0", "id": 1, "error": error}
    assert_json(simulation.http(initialize(requested)), 400, refused_with)
    assert simulation.channel().send(initialize(requested)) == [refused_with]
    with pytest.raises(ValueError, match=r"^the pair of endpoints needs a revision with a handshake$"):
        simulation.pair()
    assert simulation.http(method="GET", headers={"mcp-session-id": "x"}).status == 405


@pytest.mark.parametrize("version", ENVELOPE)
def test_a_set_with_only_handshakes_refuses_the_rest(version: str) -> None:
    among = ALL.with_handshake()
    assert among is not None
    simulation = Simulation(Registry("s", "1"), adapters=among)
    request = Speaker(version, simulation).message("server/discover")
    failure = unsupported(version, among)
    refused_with = {
        "jsonrpc": "2.0",
        "id": 1,
        "error": {"code": -32600, "message": failure.message, "data": failure.data},
    }
    answered = simulation.http(request, headers={"MCP-Protocol-Version": version})
    assert_json(answered, 400, refused_with)
    assert simulation.channel().send(request) == [refused_with]
    negotiated = simulation.channel().send(initialize(version))[0]["result"]["protocolVersion"]
    assert negotiated == HANDSHAKE[0]


@pytest.mark.parametrize("version", VERSIONS)
def test_one_list_feeds_everything(version: str) -> None:
    among = ALL.only(VERSIONS[0], version)
    simulation = Simulation(Registry("s", "1"), adapters=among)
    error = simulation.http(LIST, headers={"MCP-Protocol-Version": "1900-01-01"}).messages[0]["error"]
    assert error["data"] == {"supported": list(among.versions), "requested": "1900-01-01"}
    if VERSIONS[0] in ENVELOPE:
        [described] = Channel(VERSIONS[0], simulation).request("server/discover")
        assert described["result"]["supportedVersions"] == list(among.versions)
    for held in among.versions:
        assert "result" in Channel(held, simulation).request("tools/list")[0]


@pytest.mark.parametrize("version", HANDSHAKE)
def test_the_header_may_not_state_nonsense_after_the_handshake(version: str) -> None:
    speaker = Http(version, Registry("s", "1"))
    answered = speaker.request("tools/list", headers={"MCP-Protocol-Version": "1900-01-01"})
    assert answered.status == 400
    assert answered.messages[0]["error"]["data"] == {"supported": list(VERSIONS), "requested": "1900-01-01"}


@pytest.mark.parametrize("pin", VERSIONS)
def test_a_pinned_endpoint(pin: str) -> None:
    simulation = Simulation(Registry("s", "1"))
    target = f"/mcp?mcp={pin}"
    listed = simulation.http(LIST, target=target)
    if pin in HANDSHAKE:
        assert (listed.status, listed.messages[0]["result"]) == (200, {"tools": []})
        # The pin says what this endpoint speaks, whatever a handshake asks for.
        for requested in (*VERSIONS, "2099-01-01"):
            opened = simulation.http(initialize(requested), target=target)
            assert opened.messages[0]["result"]["protocolVersion"] == pin
    else:
        # It waives no rule of the revision: its headers are still required.
        error = {"code": -32020, "message": "the header MCP-Protocol-Version is missing"}
        assert_json(listed, 400, {"jsonrpc": "2.0", "id": 1, "error": error})


@pytest.mark.parametrize("version", ENVELOPE)
def test_a_pin_settles_a_disagreement_but_waives_no_rule(version: str) -> None:
    speaker = Http(version, Registry("s", "1"))
    request = speaker.message("tools/list")
    disagreeing = speaker.post(request, target=f"/mcp?mcp={version}", headers={"MCP-Protocol-Version": HANDSHAKE[0]})
    text = "the header MCP-Protocol-Version does not match params._meta['io.modelcontextprotocol/protocolVersion']"
    assert_json(disagreeing, 400, {"jsonrpc": "2.0", "id": 1, "error": {"code": -32020, "message": text}})
    settled = speaker.simulation.http(
        request, target=f"/mcp?mcp={HANDSHAKE[0]}", headers={"MCP-Protocol-Version": HANDSHAKE[-1]}
    )
    assert (settled.status, settled.messages[0]["result"]) == (200, {"tools": []})


@pytest.mark.parametrize("target", ["/mcp?mcp=nope", "/mcp?mcp="])
@pytest.mark.parametrize("method", ["POST", "GET"])
def test_a_pin_to_an_unknown_revision(target: str, method: str) -> None:
    simulation = Simulation(Registry("s", "1"))
    answered = simulation.http(LIST, method=method, target=target, headers={"Mcp-Session-Id": "x"})
    assert answered.status == 400
    requested = target.partition("=")[2]
    assert answered.messages[0]["error"]["data"] == {"supported": list(VERSIONS), "requested": requested}


def test_repr() -> None:
    assert ALL.adapters == tuple(ALL.by_version.values())
    assert {repr(adapter) for adapter in ALL.adapters} == {
        f"<Adapter{version.replace('-', '_')}>" for version in VERSIONS
    }


#: Each flag, and the revisions that it is set on.
FLAGS: dict[str, set[str]] = {
    "can_ask": {"2026-07-28"},
    "can_push_ask": {"2025-11-25", "2025-06-18"},
    "asks_in_arguments": {"2025-03-26", "2024-11-05"},
    "has_handshake": {"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"},
    "allows_batch": {"2025-03-26"},
    "is_implied": {"2025-03-26"},
    "disconnect_cancels": {"2026-07-28"},
    "resumes_streams": {"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"},
    "primes_streams": {"2025-11-25"},
    "null_error_id": {"2025-06-18", "2025-03-26", "2024-11-05"},
}


@pytest.mark.parametrize("flag", FLAGS)
def test_flags(flag: str) -> None:
    held = {adapter.version: getattr(adapter, flag) for adapter in ALL.adapters}
    assert held == {version: version in FLAGS[flag] for version in VERSIONS}


#: The JSON-RPC code and the HTTP status of each kind of failure, with a handshake and without.
FAILURES: dict[FailureKind, tuple[tuple[int, int], tuple[int, int]]] = {
    FailureKind.PARSE: ((-32700, 400), (-32700, 400)),
    FailureKind.MALFORMED: ((-32600, 400), (-32600, 400)),
    FailureKind.UNKNOWN_METHOD: ((-32601, 200), (-32601, 404)),
    FailureKind.UNKNOWN_TARGET: ((-32602, 200), (-32602, 400)),
    FailureKind.RESOURCE_NOT_FOUND: ((-32002, 200), (-32602, 400)),
    FailureKind.INVALID_PARAMS: ((-32602, 200), (-32602, 400)),
    FailureKind.INVALID_ARGUMENTS: ((-32602, 200), (-32602, 400)),
    FailureKind.INVALID_STATE: ((-32602, 200), (-32602, 400)),
    FailureKind.HEADER_MISMATCH: ((-32600, 400), (-32020, 400)),
    FailureKind.MISSING_CAPABILITY: ((-32600, 200), (-32021, 400)),
    FailureKind.UNSUPPORTED_VERSION: ((-32600, 400), (-32022, 400)),
    FailureKind.HANDSHAKE_MISSING: ((-32600, 400), (-32600, 400)),
    FailureKind.SESSION_MISSING: ((-32600, 400), (-32600, 400)),
    FailureKind.SESSION_NOT_FOUND: ((-32600, 404), (-32600, 404)),
    FailureKind.FORBIDDEN: ((-32600, 403), (-32600, 403)),
    FailureKind.MISDIRECTED: ((-32600, 421), (-32600, 421)),
    FailureKind.METHOD_NOT_ALLOWED: ((-32600, 405), (-32600, 405)),
    FailureKind.NOT_ACCEPTABLE: ((-32600, 406), (-32600, 406)),
    FailureKind.UNSUPPORTED_MEDIA: ((-32600, 415), (-32600, 415)),
    FailureKind.TOO_LARGE: ((-32600, 413), (-32600, 413)),
    FailureKind.HEADERS_TOO_LARGE: ((-32600, 431), (-32600, 431)),
    FailureKind.TOO_SLOW: ((-32600, 408), (-32600, 408)),
    FailureKind.TOO_MANY: ((-32600, 429), (-32600, 429)),
    FailureKind.TIMED_OUT: ((-32603, 200), (-32603, 200)),
    FailureKind.UNAVAILABLE: ((-32603, 503), (-32603, 503)),
    FailureKind.INTERNAL: ((-32603, 200), (-32603, 200)),
}


@pytest.mark.parametrize("version", VERSIONS)
def test_every_kind_of_failure_has_a_code(version: str) -> None:
    adapter = ALL.by_version[version]
    assert adapter.failures == {kind: codes[version in ENVELOPE] for kind, codes in FAILURES.items()}
    for kind, (_, status) in adapter.failures.items():
        assert adapter.http_status(Failure(kind, "")) == status

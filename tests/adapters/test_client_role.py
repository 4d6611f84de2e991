"""What a client says on each revision, held against the server of the same revision; and where it finds a question."""

from __future__ import annotations

import copy
from types import MappingProxyType
from typing import Any

import pytest

import support
from mcp_sansio import AdapterSet, Exchange, Implementation, NeedInput, Registry, elicit, elicit_accept
from mcp_sansio.adapters.base import Adapter
from mcp_sansio.in_arguments import META_KEY
from mcp_sansio.schema import header_plan
from mcp_sansio.testing import SimulatedHttp, Simulation
from mcp_sansio.wire.json import decode, encode
from speak import VERSIONS

ADAPTERS = AdapterSet.default().by_version
CLIENT = Implementation(name="client", version="1.0", title="Client", website_url="https://client.example")
CAPABILITIES = {"elicitation": {}, "sampling": {}}
SCHEMA = {
    "type": "object",
    "properties": {
        "region": {"type": "string", "x-mcp-header": "Region"},
        "deep": {"type": "object", "properties": {"count": {"type": "integer", "x-mcp-header": "Count"}}},
        "unset": {"type": "boolean", "x-mcp-header": "Unset"},
    },
}


class Caller:
    """A client of one revision that says just what its adapter says."""

    def __init__(self, adapter: Adapter, registry: Registry) -> None:
        self.adapter = adapter
        self.simulation = Simulation(registry)
        self.session: dict[str, str] = {}
        params = adapter.client_handshake_params(CLIENT, CAPABILITIES)
        if params is not None:
            opened = self.post("initialize", params)
            assert opened.messages[0]["result"]["protocolVersion"] == adapter.version
            self.session = {"Mcp-Session-Id": opened.header("Mcp-Session-Id") or ""}

    def post(self, method: str, params: dict[str, Any], mirrored: Any = ()) -> SimulatedHttp:
        headers = {**self.adapter.client_headers(method, params, mirrored), **self.session}
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        return self.simulation.http(message, headers=headers)

    def call(self, method: str, params: dict[str, Any], mirrored: Any = (), **options: Any) -> Any:
        decorated = self.adapter.client_decorate_params(params, CLIENT, CAPABILITIES, **options)
        return self.post(method, decorated, mirrored).messages


@pytest.mark.parametrize("version", VERSIONS)
def test_the_server_of_the_same_revision_takes_what_it_says(version: str) -> None:
    support.need("jsonschema")
    registry, seen = Registry("s", "1"), []

    @registry.tool(input_schema=SCHEMA)
    async def where(arguments: dict[str, Any], ex: Exchange) -> str:
        """Where."""
        seen.append(ex.client_info)
        await ex.progress(1)
        await ex.log("warning", "careful")
        return arguments["region"]

    caller = Caller(ADAPTERS[version], registry)
    if caller.session:
        caller.call("logging/setLevel", {"level": "debug"})
    arguments = {"region": " Zürich ", "deep": {"count": 7}}
    params = {"name": "where", "arguments": arguments, "_meta": {"mine": 1}}
    messages = caller.call("tools/call", params, header_plan(SCHEMA), progress_token="t", log_level="debug")
    assert [message.get("method") for message in messages] == ["notifications/progress", "notifications/message", None]
    assert messages[0]["params"] == {"progressToken": "t", "progress": 1}
    assert messages[-1]["result"]["content"] == [{"type": "text", "text": " Zürich "}]
    [client] = seen
    assert (client.name, client.version, client.capabilities) == ("client", "1.0", CAPABILITIES)
    assert params == {"name": "where", "arguments": arguments, "_meta": {"mine": 1}}


def said_by(version: str, options: dict[str, Any]) -> dict[str, Any]:
    """What a request says besides what was asked, where each describes itself."""
    if ADAPTERS[version].has_handshake:
        return {}
    client = {"name": "client", "version": "1.0", "title": "Client", "websiteUrl": "https://client.example"}
    meta = {"protocolVersion": version, "clientInfo": client, "clientCapabilities": CAPABILITIES}
    if "log_level" in options:
        meta["logLevel"] = options["log_level"]
    return {f"io.modelcontextprotocol/{name}": value for name, value in meta.items()}


@pytest.mark.parametrize("options", [{}, {"progress_token": 0}, {"progress_token": "t", "log_level": "info"}])
@pytest.mark.parametrize("given", [{}, {"a": 1}, {"a": 1, "_meta": {"mine": 1}}])
@pytest.mark.parametrize("version", VERSIONS)
def test_the_params_of_a_request(version: str, given: dict[str, Any], options: dict[str, Any]) -> None:
    before, capabilities = copy.deepcopy(given), MappingProxyType(CAPABILITIES)
    decorated = ADAPTERS[version].client_decorate_params(given, CLIENT, capabilities, **options)
    token = {"progressToken": options["progress_token"]} if options else {}
    meta = given.get("_meta", {}) | token | said_by(version, options)
    assert decorated == {**given, **({"_meta": meta} if meta else {})}
    assert decode(encode(decorated)) == decorated
    decorated["more"] = 1
    assert given == before


@pytest.mark.parametrize("version", VERSIONS)
def test_the_params_of_the_handshake(version: str) -> None:
    params = ADAPTERS[version].client_handshake_params(CLIENT, MappingProxyType(CAPABILITIES))
    info = {"name": "client", "version": "1.0", "title": "Client", "websiteUrl": "https://client.example"}
    shown = {"2025-11-25": info, "2025-06-18": {name: info[name] for name in ("name", "version", "title")}}
    said = shown.get(version, {"name": "client", "version": "1.0"})
    if not ADAPTERS[version].has_handshake:
        assert params is None
        return
    assert params == {"protocolVersion": version, "capabilities": CAPABILITIES, "clientInfo": said}
    assert decode(encode(params)) == params


HEADERS = {
    "2026-07-28": {
        "MCP-Protocol-Version": "2026-07-28",
        "Mcp-Method": "tools/call",
        "Mcp-Name": "=?base64?w6Q=?=",
        "Mcp-Param-Region": "eu",
        "Mcp-Param-Count": "7",
    },
    "2025-11-25": {"MCP-Protocol-Version": "2025-11-25"},
    "2025-06-18": {"MCP-Protocol-Version": "2025-06-18"},
    "2025-03-26": {},
    "2024-11-05": {},
}


@pytest.mark.parametrize("version", VERSIONS)
def test_the_headers_of_a_call(version: str) -> None:
    params = {"name": "ä", "arguments": {"region": "eu", "deep": {"count": 7}, "unset": None}}
    assert ADAPTERS[version].client_headers("tools/call", params, header_plan(SCHEMA)) == HEADERS[version]
    assert "MCP-Protocol-Version" not in ADAPTERS[version].client_headers("initialize", {}) or not (
        ADAPTERS[version].has_handshake
    )


QUESTIONS = {"q": elicit("Sure?")}
#: Results, and the questions and the state in them, where questions ride in ordinary results.
RESULTS: list[tuple[dict[str, Any], tuple[dict[str, Any], str | None]]] = [
    ({"content": []}, ({}, None)),
    ({"content": [], "_meta": {}}, ({}, None)),
    ({"content": [], "_meta": {META_KEY: {}}}, ({}, None)),
    ({"content": [], "_meta": {META_KEY: {"inputRequests": QUESTIONS}}}, (QUESTIONS, None)),
    ({"content": [], "_meta": {META_KEY: {"inputRequests": QUESTIONS, "requestState": "s"}}}, (QUESTIONS, "s")),
]
#: And where they are results of their own.
ASKING: list[tuple[dict[str, Any], tuple[dict[str, Any], str | None]]] = [
    ({"resultType": "input_required"}, ({}, None)),
    ({"resultType": "input_required", "requestState": "s"}, ({}, "s")),
    ({"resultType": "input_required", "inputRequests": QUESTIONS}, (QUESTIONS, None)),
]


@pytest.mark.parametrize("version", VERSIONS)
def test_the_questions_in_a_result(version: str) -> None:
    adapter = ADAPTERS[version]
    for result, found in RESULTS:
        assert adapter.client_input_requests(result) == found
        assert adapter.client_input_requests({**result, "resultType": "complete", "inputRequests": {}}) == found
    for result, found in ASKING:
        assert adapter.client_input_requests(result) == (found if adapter.can_ask else ({}, None))


@pytest.mark.parametrize("version", [version for version in VERSIONS if not ADAPTERS[version].can_push_ask])
def test_a_question_is_found_where_the_revision_puts_it(version: str) -> None:
    registry = Registry("s", "1")
    question = elicit("Sure?")

    @registry.tool
    async def gate(ex: Exchange) -> str:
        """Gate."""
        if ex.answered("sure"):
            return f"{ex.state}: {ex.accepted('sure')}"
        raise NeedInput({"sure": question}, state="left")

    adapter = ADAPTERS[version]
    caller = Caller(adapter, registry)
    [asked] = caller.call("tools/call", {"name": "gate", "arguments": {}})
    requests, state = adapter.client_input_requests(asked["result"])
    assert requests == {"sure": question}
    answers = {"sure": elicit_accept({})}
    again: dict[str, Any] = {"name": "gate", "arguments": {"mcpAnswers": answers, "mcpState": state}}
    if adapter.can_ask:
        again = {"name": "gate", "arguments": {}, "inputResponses": answers, "requestState": state}
    [done] = caller.call("tools/call", again)
    assert done["result"]["content"] == [{"type": "text", "text": "left: True"}]
    assert adapter.client_input_requests(done["result"]) == ({}, None)

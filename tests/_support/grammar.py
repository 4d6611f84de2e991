"""Messages of every revision and what can be wrong with them, from any source of choices.

The source is hypothesis in the tests, and the fuzzer's bytes in ``fuzz/``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

from mcp_sansio.types import LOG_LEVELS
from mcp_sansio.wire.headers import encode_value
from mcp_sansio.wire.json import encode
from speak import CLIENT, ENVELOPE, EVERYTHING, META, TARGETS, VERSIONS

JSON = Any
T = TypeVar("T")


class Choices(Protocol):
    """Where the choices come from."""

    def number(self, low: int, high: int) -> int:
        """A number from `low` to `high`, both included."""

    def text(self) -> str:
        """Any text that UTF-8 can hold, not long."""

    def data(self) -> bytes:
        """Any bytes, not many."""


def pick(choices: Choices, options: Sequence[T]) -> T:
    """One of `options`."""
    return options[choices.number(0, len(options) - 1)]


# Valid messages -------------------------------------------------------------------------------------------------------

#: Requests that are right on a revision that has them, for the registry of `world`.
REQUESTS: Sequence[tuple[str, JSON]] = (
    ("tools/list", {}),
    ("tools/list", {"cursor": "3"}),
    ("tools/call", {"name": "echo", "arguments": {"text": "hi", "count": 2}}),
    ("tools/call", {"name": "shapes", "arguments": {"lines": [{"sku": "a", "n": 1}], "when": "x"}}),
    ("tools/call", {"name": "mirrored", "arguments": {"region": "eu", "level": 3}}),
    ("tools/call", {"name": "wait", "arguments": {}}),
    ("tools/call", {"name": "report", "arguments": {"steps": 3}}),
    ("tools/call", {"name": "ask", "arguments": {"kind": "form"}}),
    ("tools/call", {"name": "ask", "arguments": {"kind": "url"}}),
    ("tools/call", {"name": "ask", "arguments": {"kind": "sample"}}),
    ("tools/call", {"name": "ask", "arguments": {"kind": "roots"}}),
    ("tools/call", {"name": "ask_twice", "arguments": {}}),
    ("tools/call", {"name": "later", "arguments": {}}),
    ("tools/call", {"name": "raw", "arguments": {"a": 1}}),
    ("tools/call", {"name": "keep", "arguments": {"key": "k", "value": [1]}}),
    ("resources/list", {}),
    ("resources/templates/list", {}),
    ("resources/read", {"uri": "text:one"}),
    ("resources/read", {"uri": "user:5"}),
    ("resources/read", {"uri": "file:a/b%20c"}),
    ("resources/subscribe", {"uri": "text:one"}),
    ("resources/unsubscribe", {"uri": "text:one"}),
    ("prompts/list", {}),
    ("prompts/get", {"name": "greet", "arguments": {"who": "you", "times": "2"}}),
    (
        "completion/complete",
        {"ref": {"type": "ref/prompt", "name": "greet"}, "argument": {"name": "who", "value": "y"}},
    ),
    (
        "completion/complete",
        {"ref": {"type": "ref/resource", "uri": "user:{n}"}, "argument": {"name": "n", "value": ""}},
    ),
    ("logging/setLevel", {"level": "debug"}),
    ("ping", {}),
    ("server/discover", {}),
    (
        "subscriptions/listen",
        {"notifications": {"toolsListChanged": True, "resourceSubscriptions": ["text:one", "user:1"]}},
    ),
)
#: The same, with more of those that lead to streams, questions and subscriptions.
_LIKELY = (*REQUESTS, *[one for one in REQUESTS if one[1].get("name") in ("report", "ask", "ask_twice", "later")] * 3)
IDS: Sequence[JSON] = (1, 2, 3, "a", "1", "", 0, -1, 2**63, 10**4299, "é\0\n", "x" * 300)


def request(choices: Choices, version: str) -> dict[str, JSON]:
    """A request of `version`, most likely a right one."""
    method, params = pick(choices, _LIKELY)
    meta = meta_of(version)
    if choices.number(0, 3) == 0:
        meta["progressToken"] = pick(choices, IDS)
    held = {**params, **({"_meta": meta} if meta else {})}
    return {"jsonrpc": "2.0", "id": pick(choices, IDS), "method": method, "params": held}


def initialize(choices: Choices, version: str) -> dict[str, JSON]:
    """The request that starts a handshake for `version`."""
    capabilities = pick(choices, (EVERYTHING, {}, {"elicitation": {}}))
    params = {"protocolVersion": version, "capabilities": capabilities, "clientInfo": CLIENT}
    return {"jsonrpc": "2.0", "id": pick(choices, IDS), "method": "initialize", "params": params}


def meta_of(version: str) -> dict[str, JSON]:
    """What a request of `version` says in its ``_meta``."""
    if version not in ENVELOPE:
        return {}
    return {
        META + "protocolVersion": version,
        META + "clientInfo": CLIENT,
        META + "clientCapabilities": dict(EVERYTHING),
        META + "logLevel": "debug",
    }


def notification(choices: Choices) -> dict[str, JSON]:
    """A notification of a client."""
    method, params = pick(
        choices,
        (
            ("notifications/initialized", None),
            ("notifications/cancelled", {"requestId": pick(choices, IDS), "reason": "x"}),
            ("notifications/roots/list_changed", None),
            ("notifications/progress", {"progressToken": 1, "progress": 1}),
            ("tools/call", {"name": "echo", "arguments": {"text": "x"}}),
        ),
    )
    return {"jsonrpc": "2.0", "method": method, **({} if params is None else {"params": params})}


_FORM = {"action": "accept", "content": {"name": "n", "age": 5}}
RESULTS: Sequence[JSON] = (
    _FORM,
    {"action": "decline"},
    {"action": "cancel"},
    {"action": "accept"},
    {"action": "accept", "content": {"name": 5, "age": "x"}},
    {"action": [], "content": []},
    {"role": "assistant", "model": "m", "content": {"type": "text", "text": "t"}},
    {"role": "assistant", "model": "m", "content": [{"type": "text", "text": "t"}], "stopReason": "endTurn"},
    {"role": "x", "content": 5},
    {"roots": [{"uri": "file:///a"}]},
    {"roots": [5]},
    {},
    None,
    5,
    [],
)


def reply(choices: Choices, asked: Sequence[JSON]) -> dict[str, JSON]:
    """A response to one of the questions `asked`, or to none."""
    made: dict[str, JSON] = {"jsonrpc": "2.0", "id": pick(choices, [*asked, "ask-AAAA", *IDS])}
    if choices.number(0, 4):
        return {**made, "result": pick(choices, RESULTS)}
    return {**made, "error": pick(choices, ({"code": -1, "message": "no"}, {"code": "x"}, None, []))}


def message(choices: Choices, version: str, asked: Sequence[JSON] = ()) -> JSON:
    """Any message of a client of `version`, or a batch of some."""
    kind = choices.number(0, 11)
    if asked and kind > 8:
        return reply(choices, asked)
    if kind == 0:
        return [message(choices, version, asked) for _ in range(choices.number(0, 4))]
    if kind == 1:
        return initialize(choices, pick(choices, (*VERSIONS, "1999-01-01")))
    if kind == 2:
        return notification(choices)
    if kind == 3:
        return reply(choices, asked)
    if kind == 4:
        return answered(choices, request(choices, version))
    return request(choices, version)


def answered(choices: Choices, asking: dict[str, JSON]) -> dict[str, JSON]:
    """A request that brings answers, in every place where a revision has them."""
    answers = {pick(choices, ("name", "second", "roots", "x")): pick(choices, RESULTS)}
    state = pick(choices, ("AAAAAAAAAAAAAAAAAAAAAQ", "", 5, None, "x" * 200))
    params = {**asking["params"], "inputResponses": answers, "requestState": state}
    if isinstance(params.get("arguments"), dict):
        params["arguments"] = {**params["arguments"], "mcpAnswers": answers, "mcpState": state}
    return {**asking, "params": params}


# What can be wrong ----------------------------------------------------------------------------------------------------


def _nested(depth: int) -> JSON:
    made: JSON = 1
    for level in range(depth):
        made = [made] if level % 2 else {"a": made}
    return made


ODD: Sequence[JSON] = (
    *(None, True, False, 0, 1, -1, 1.0, 1.5, 1e300, -1e-300, 2**31, 2**63, 2**64, -(2**70), 10**4299),
    *("", "x", "\0", "\n", "é", "😀", "\u2028", "\x7f" * 50, "a" * 3000, "[" * 2000, "1", "true", "-0", "٣"),
    *([], {}, [[]], [None], [{}], {"": None}, ["x"] * 150, {str(n): n for n in range(70)}, _nested(20), _nested(120)),
    *VERSIONS,
    *LOG_LEVELS[:2],
    *("ref/prompt", "ref/resource", "text:one", "user:x", "user:" + "[" * 2000, "file:../x", "file:%2e%2e", "file:%ff"),
    *(method for method, _ in REQUESTS),
)
NAMES: Sequence[str] = (
    *("jsonrpc", "id", "method", "params", "result", "error", "_meta", "name", "uri", "arguments", "cursor", "level"),
    *("ref", "argument", "context", "notifications", "resourceSubscriptions", "toolsListChanged", "requestId"),
    *("inputResponses", "requestState", "mcpAnswers", "mcpState", "progressToken", "protocolVersion", "capabilities"),
    *("clientInfo", META + "protocolVersion", META + "clientCapabilities", META + "logLevel", META + "clientInfo"),
    *("region", "text", "count", "steps", "order", "lines", "type", "value", "", "__class__", "constructor"),
)


def mutated(choices: Choices, value: JSON, most: int = 3) -> JSON:
    """`value` with up to `most` things about it that are not as they were."""
    for _ in range(max(0, choices.number(-most, most))):
        value = _mutated_at(choices, value, choices.number(0, 6))
    return value


def _mutated_at(choices: Choices, value: JSON, depth: int) -> JSON:
    if depth and isinstance(value, dict) and value:
        key = pick(choices, list(value))
        return {**value, key: _mutated_at(choices, value[key], depth - 1)}
    if depth and isinstance(value, list) and value:
        place = choices.number(0, len(value) - 1)
        return [*value[:place], _mutated_at(choices, value[place], depth - 1), *value[place + 1 :]]
    return _mutated_here(choices, value)


def _mutated_here(choices: Choices, value: JSON) -> JSON:
    kind = choices.number(0, 6)
    if isinstance(value, dict) and kind < 3:
        if value and kind == 0:
            gone = pick(choices, list(value))
            return {key: item for key, item in value.items() if key != gone}
        return {**value, pick(choices, NAMES): odd(choices)}
    if isinstance(value, list) and kind == 1:
        return [*value, *value, odd(choices)]
    if kind == 4:
        return [value]
    if kind == 5:
        return {pick(choices, NAMES): value}
    return odd(choices)


def odd(choices: Choices) -> JSON:
    """A value that hardly anybody expects."""
    return choices.text() if choices.number(0, 4) == 0 else pick(choices, ODD)


def body(choices: Choices, value: JSON) -> bytes:
    """The bytes of a message, which may have suffered."""
    text = encode(value)
    kind = choices.number(0, 30)
    if kind == 0:
        return choices.data()
    if kind == 1:
        place = choices.number(0, len(text))
        return text[:place] + choices.data() + text[place + choices.number(0, 3) :]
    if kind == 2:
        return text[: choices.number(0, len(text))]
    if kind == 3:
        member = encode(pick(choices, NAMES)) + b":" + encode(odd(choices)) + b","
        return text.replace(b"{", b"{" + member, choices.number(1, 3))
    if kind == 4:
        return (
            pick(choices, (b"\xef\xbb\xbf", b" \r\n\t", b"\0", b"[" * 1000)) + text + pick(choices, (b"", b"\n", b"x"))
        )
    return text


# HTTP -----------------------------------------------------------------------------------------------------------------

_VALUES: dict[str, Sequence[str]] = {
    "mcp-protocol-version": (*VERSIONS, "1999-01-01", "", " 2025-11-25 ", "x" * 500),
    "mcp-session-id": ("", "nobody", "AAAAAAAAAAAAAAAAAAAAAQ", "é", "\udcff"),
    "mcp-method": ("tools/call", "tools/list", "", "x"),
    "mcp-name": ("echo", "mirrored", "=?base64?ZWNobw==?=", "=?base64?x?=", "\udcff", ""),
    "mcp-param-region": ("eu", "=?base64?ZXU=?=", "us", "", "\x00"),
    "mcp-param-level": ("3", "3.0", "0x3", "1e400", "nan", "9" * 5000),
    "accept": ("application/json", "text/event-stream", "*/*", "x/y", "", ",;,", 'a/b;c="x,y', "*/*;q=0", "," * 500),
    "content-type": ("application/json; charset=x", "text/plain", "", "APPLICATION/JSON", ";"),
    "host": ("localhost", "localhost:1", "[::1]:80", "evil.test", "", "[", "a:99999", "\udcff"),
    "origin": ("http://localhost", "https://evil.test", "null", "", "://", "http://[::1", "\udcff"),
    "last-event-id": ("", "x", "AAAAAAAAAAAAAAAAAAAAAQ-1", "-", "x-" + "9" * 30, "AAAAAAAAAAAAAAAAAAAAAg-0"),
    "access-control-request-headers": ("x", "a\r\nb: c", "\udcff", ""),
}
TARGETS_OF_REQUESTS = (
    *("/mcp", "/mcp?mcp=2025-11-25", "/mcp?mcp=", "/mcp?mcp=x&mcp=2026-07-28", "/messages?session_id=", "", "?", "*"),
    *("http://h/mcp?mcp=%ff", "/mcp?" + "&" * 300, "/%2e%2e?=%zz#x", "/\udcff?\udcff=\udcff"),
)


def headers_for(choices: Choices, value: JSON, version: str, session: str | None) -> list[tuple[str, str]]:
    """The headers that go with a message, some of which may be wrong, missing or there twice."""
    held = {"content-type": "application/json", "accept": "application/json, text/event-stream", "host": "localhost"}
    held["mcp-protocol-version"] = version
    if session is not None:
        held["mcp-session-id"] = session
    if isinstance(value, dict) and version in ENVELOPE:
        held |= _mirrored(value)
    made = list(held.items())
    for _ in range(max(0, choices.number(-4, 2))):
        made = with_odd_header(choices, made)
    return made


def _mirrored(value: dict[str, JSON]) -> dict[str, str]:
    method, params = value.get("method"), value.get("params")
    if not isinstance(method, str):
        return {}
    held = {"mcp-method": method}
    target = params.get(TARGETS.get(method, "")) if isinstance(params, dict) else None
    if isinstance(target, str):
        held["mcp-name"] = encode_value(target)
    if target == "mirrored":
        held |= {"mcp-param-region": "eu", "mcp-param-level": "3"}
    return held


def with_odd_header(choices: Choices, made: list[tuple[str, str]]) -> list[tuple[str, str]]:
    name = pick(choices, [*_VALUES])
    kind = choices.number(0, 3)
    rest = [pair for pair in made if pair[0] != name]
    if kind == 0:
        return rest
    value = pick(choices, _VALUES[name]) if kind < 3 else choices.text()
    shown = name.upper() if choices.number(0, 1) else name
    return [*(made if kind == 2 else rest), (shown, value)]

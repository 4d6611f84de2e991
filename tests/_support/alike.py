"""A call, and what is like it but for one thing: the requests that a server may take for one before."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import msgspec

from mcp_sansio import Exchange, Registry
from mcp_sansio.wire.json import encode
from speak import META, Channel, Http

JSON = Any
Request = tuple[str, bytes, dict[str, str | None]]
"""What is unlike the usual about it, its body, and its headers beside the usual ones."""


def registry() -> Registry:
    made = Registry("familiar", "1")

    @made.tool
    async def echo(text: str = "nothing") -> str:
        """Echo."""
        return text

    @made.tool
    async def who(ex: Exchange, text: str = "") -> str:
        """Say who calls."""
        await ex.log("info", text)
        return f"{ex.client_info.name} {sorted(ex.client_info.capabilities)} {text}"

    @made.tool
    async def mirrored(
        region: Annotated[str, msgspec.Meta(extra_json_schema={"x-mcp-header": "Region"})],
    ) -> str:
        """Has a header for its argument."""
        return region

    @made.resource("test://{name}")
    async def thing(name: str) -> str:
        """A thing."""
        return name

    return made


def alter(message: JSON, *path: str, value: JSON = ...) -> JSON:
    """The message with that member set, or without it."""
    if not path:
        return value
    held = dict(message)
    if len(path) == 1 and value is ...:
        held.pop(path[0], None)
    else:
        held[path[0]] = alter(held.get(path[0], {}), *path[1:], value=value)
    return held


def alterations(base: JSON) -> Iterator[tuple[str, bytes]]:
    """A call, and what is like it but for one thing."""
    for id in ("a", 2, 10**30, "", True, None, 1.5, [1]):
        yield f"the id {id}", encode(alter(base, "id", value=id))
    yield "no id", encode(alter(base, "id"))
    for version in ("2.0", "1.0", 2, None):
        yield f"jsonrpc {version}", encode(alter(base, "jsonrpc", value=version))
    for method in ("tools/list", "tools/nothing", "ping", "prompts/get", 3):
        yield f"the method {method}", encode(alter(base, "method", value=method))
    for name in ("who", "mirrored", "nobody", "", None, 7):
        yield f"the tool {name}", encode(alter(base, "params", "name", value=name))
    for arguments in ({"text": "b"}, {"text": 3}, {"region": "eu"}, {}, None, [], {"mcpAnswers": {}}, {"more": 1}):
        yield f"the arguments {arguments}", encode(alter(base, "params", "arguments", value=arguments))
    yield "no arguments", encode(alter(base, "params", "arguments"))
    for member, value in (("requestState", "s"), ("inputResponses", {}), ("cursor", "1"), ("cursor", 1), ("x", 1)):
        yield f"{member} {value}", encode(alter(base, "params", member, value=value))
    yield "a member more", encode(alter(base, "result", value={}))
    yield "no params", encode(alter(base, "params"))
    for member, value in (
        ("progressToken", 1),
        (META + "protocolVersion", "2025-06-18"),
        (META + "protocolVersion", 1),
        (META + "clientInfo", {"name": "other", "version": "1"}),
        (META + "clientCapabilities", {}),
        (META + "clientCapabilities", None),
        (META + "logLevel", "debug"),
        (META + "logLevel", "loud"),
        ("x", {"y": [1]}),
    ):
        yield f"_meta has {member} {value}", encode(alter(base, "params", "_meta", member, value=value))
    for meta in (None, [], "m", {}):
        yield f"_meta is {meta}", encode(alter(base, "params", "_meta", value=meta))
    yield "no _meta", encode(alter(base, "params", "_meta"))
    yield "a batch", encode([base])
    text = encode(base)
    yield "a second id", text[:-1] + b',"id":9}'
    yield "blanks", text.replace(b":", b" : ")
    yield "cut off", text[:-1]
    yield "no UTF-8", text.replace(b"client", b"cl\xffent")
    for hidden in (b'{"x":"\xff"}', b"1e999", b"[]"):
        for name in (b"_meta", b"\\u005fmeta", b"_me\\u0074a"):
            yield f"a first {name!r} of {hidden!r}", text.replace(b'"_meta":', b'"%s":%s,"_meta":' % (name, hidden))
            yield f"first params with {name!r} of {hidden!r}", b'{"params":{"%s":%s},' % (name, hidden) + text[1:]
    deep: JSON = "text"
    for _ in range(200):
        deep = [deep]
    yield "too deep", encode(alter(base, "params", "arguments", value={"text": deep}))


def requests(base: JSON) -> Iterator[Request]:
    """Those, and the call with other headers."""
    yield "the call itself", encode(base), {}
    for what, body in alterations(base):
        yield what, body, {}
    for name in ("MCP-Protocol-Version", "Mcp-Method", "Mcp-Name", "Mcp-Session-Id"):
        yield f"no {name}", encode(base), {name: None}
    for name, value in (
        ("MCP-Protocol-Version", "2025-06-18"),
        ("MCP-Protocol-Version", "2099-01-01"),
        ("Mcp-Method", "tools/list"),
        ("Mcp-Name", "who"),
        ("Mcp-Name", "=?base64?ZWNobw==?="),
        ("Mcp-Session-Id", "nobody's"),
        ("Accept", "application/json"),
        ("Accept", "text/event-stream"),
        ("Accept", "text/html"),
        ("Content-Type", "text/plain"),
        ("Content-Length", "99999999999"),
        ("Origin", "https://evil.example"),
        ("Mcp-Param-Region", "us"),
    ):
        yield f"{name} {value}", encode(base), {name: value}


def calls(client: Http | Channel) -> list[JSON]:
    """What a client has to say again and again."""
    return [
        client.message("tools/call", {"name": "echo", "arguments": {"text": "a"}}),
        client.message("tools/call", {"name": "who", "arguments": {"text": "a"}}),
        client.message("tools/list"),
        client.message("resources/read", {"uri": "test://x"}),
    ]

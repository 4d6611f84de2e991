"""What a client says on each revision, held against the server of the same revision; and where it finds a question."""

from __future__ import annotations

from typing import Any

import pytest

import support
from mcp_sansio import AdapterSet, Exchange, Implementation, NeedInput, Registry, elicit, elicit_accept
from mcp_sansio.adapters.base import Adapter
from mcp_sansio.schema import header_plan
from mcp_sansio.testing import SimulatedHttp, Simulation
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

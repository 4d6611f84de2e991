"""What servers of other projects were seen to say (tests/interop, tests/conformance), and what we make of it."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_sansio import AdapterSet, CallEnded, ClientConnection, NegotiationFailed, Operation, QuestionReceived, Runtime
from mcp_sansio.testing import FakeClock, FakeEvent, Scheduler
from mcp_sansio.wire.json import decode, encode

JSON = Any
NEWEST, STABLE = "2026-07-28", "2025-11-25"
pytestmark = pytest.mark.revision(NEWEST, STABLE)


def connection(**options: Any) -> ClientConnection:
    scheduler = Scheduler()
    runtime = Runtime(now=FakeClock(), token_bytes=bytes, event=lambda: FakeEvent(scheduler))
    return ClientConnection(runtime=runtime, **options)


def sent(client: ClientConnection) -> list[JSON]:
    return [decode(message) for message in client.data_to_send()]


def say(client: ClientConnection, message: JSON) -> None:
    client.receive_message(encode({"jsonrpc": "2.0", **message}))


def error(id: JSON, code: int, message: str, **data: JSON) -> JSON:
    return {"id": id, "error": {"code": code, "message": message, **({"data": data} if data else {})}}


class TestAnErrorWithoutAnId:
    """Aiohttp-tiny-mcp, held to the older revisions, answers a request of the newest so."""

    REFUSAL = error(None, -32600, "unsupported protocol version", supported=[STABLE], requested=NEWEST)

    def test_answers_the_question_of_what_is_spoken(self) -> None:
        client = connection()
        client.call(Operation.LIST_TOOLS)
        assert [message["method"] for message in sent(client)] == ["server/discover"]
        say(client, self.REFUSAL)
        assert [message["method"] for message in sent(client)] == ["initialize"]

    def test_ends_it_where_there_is_nothing_else_to_try(self) -> None:
        client = connection(adapters=AdapterSet.default().only(NEWEST))
        call = client.call(Operation.LIST_TOOLS)
        sent(client)
        say(client, self.REFUSAL)
        assert [type(event) for event in client.events()] == [CallEnded]
        with pytest.raises(NegotiationFailed, match="unsupported protocol version") as raised:
            call.result()
        assert raised.value.versions == (STABLE,)

    def test_is_nobodys_once_calls_are_out(self) -> None:
        client = connection(adapters=AdapterSet.default().only(STABLE))
        call = client.call(Operation.CALL_TOOL, {"name": "add"})
        (hello,) = sent(client)
        say(client, {"id": hello["id"], "result": {"protocolVersion": STABLE, "capabilities": {}}})
        assert [message["method"] for message in sent(client)] == ["notifications/initialized", "tools/call"]
        say(client, error(None, -32700, "what?"))
        assert not call.ended


class TestARevisionThatIsRefusedAndNamed:
    """The conformance suite's server does so to the first request."""

    def refused(self, id: JSON) -> JSON:
        return error(id, -32022, "Unsupported protocol version", supported=[NEWEST], requested=NEWEST)

    def test_is_tried_once_more(self) -> None:
        client = connection()
        call = client.call(Operation.PING)
        (first,) = sent(client)
        say(client, self.refused(first["id"]))
        (again,) = sent(client)
        assert (again["method"], again["id"] != first["id"]) == ("server/discover", True)
        say(client, {"id": again["id"], "result": {"supportedVersions": [NEWEST], "capabilities": {}}})
        (ping,) = sent(client)
        say(client, {"id": ping["id"], "result": {"supportedVersions": [NEWEST], "capabilities": {}}})
        assert call.result()["supportedVersions"] == [NEWEST]

    def test_is_not_tried_for_ever(self) -> None:
        client = connection()
        call = client.call(Operation.PING)
        for _ in range(2):
            (asked,) = sent(client)
            say(client, self.refused(asked["id"]))
        assert sent(client) == []
        with pytest.raises(NegotiationFailed, match=f"the server speaks {NEWEST}"):
            call.result()


def test_a_question_without_params_has_empty_ones() -> None:
    """The official SDK, FastMCP and the TypeScript SDK ask for roots so."""
    client = connection(adapters=AdapterSet.default().only(NEWEST), can_answer=True)
    client.call(Operation.CALL_TOOL, {"name": "folders"})
    (probe,) = sent(client)
    say(client, {"id": probe["id"], "result": {"supportedVersions": [NEWEST], "capabilities": {}}})
    (call,) = sent(client)
    client.events()
    asked = {"resultType": "input_required", "inputRequests": {"roots": {"method": "roots/list"}}}
    say(client, {"id": call["id"], "result": asked})
    (event,) = client.events()
    assert isinstance(event, QuestionReceived)
    assert event.question.request == {"method": "roots/list", "params": {}}

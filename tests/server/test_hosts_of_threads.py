"""What a host needs that has a thread for each request, and nothing else: no announcements, and reports in step."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from mcp_sansio import Body, CallReceived, Config, Exchange, Registry, Runtime, Server, ServerError
from mcp_sansio.testing import FakeClock, Scheduler, connect
from mcp_sansio.wire.json import encode
from speak import ENVELOPE, HANDSHAKE, VERSIONS, Http

SILENT = Config(announces_changes=False)


def serve() -> Registry:
    registry = Registry("s", "1")

    @registry.tool
    async def report(ex: Exchange) -> str:
        """Report twice."""
        await ex.progress(1)
        await ex.progress(2)
        return "done"

    @registry.resource("a:b")
    async def read() -> str:
        return "x"

    return registry


@pytest.mark.parametrize("over", ["channel", "http"])
@pytest.mark.parametrize("version", VERSIONS)
def test_a_server_that_announces_nothing_says_so_and_refuses_to_be_listened_to(version: str, over: Any) -> None:
    with connect(serve(), version, over=over, server_config=SILENT) as client:
        capabilities = client.initialize().capabilities
        assert (capabilities["tools"], capabilities["prompts"], capabilities["resources"]) == ({}, {}, {})
        with pytest.raises(ServerError) as refused, client.listen(uris=["a:b"]):
            pass
        assert (refused.value.code, str(refused.value.message)) == (-32601, "this server announces no changes")
        content = client.call_tool("report").content  # type: ignore[union-attr]
        assert content[0].text == "done"  # type: ignore[union-attr]


@pytest.mark.parametrize("version", HANDSHAKE)
def test_there_is_no_stream_of_a_session_and_the_rest_of_a_lost_one_is_still_to_be_had(version: str) -> None:
    client = Http(version, serve(), config=SILENT)
    refused = client.get()
    assert (refused.status, refused.header("allow")) == (405, "POST, OPTIONS")
    unknown = client.get(headers={"Last-Event-ID": "a-1"})
    assert unknown.status == 405


@pytest.mark.parametrize("version", ENVELOPE)
def test_reports_wait_until_they_are_taken_where_the_driver_wants_it(version: str) -> None:
    scheduler, numbers = Scheduler(), itertools.count()
    runtime = Runtime(
        now=FakeClock(), token_bytes=lambda size: next(numbers).to_bytes(size, "big"), event=scheduler.event
    )
    server = Server(serve(), runtime=runtime)
    message = Http(version, serve()).message("tools/call", {"name": "report"}, token="p")
    headers = Http(version, serve()).headers(message)
    engine = server.http_transaction(paced=True)
    accepted = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    engine.receive_request("POST", "/", headers | accepted)
    engine.receive_body(encode(message))
    engine.receive_end()
    (received,) = engine.events()
    assert isinstance(received, CallReceived)
    scheduler.start(received.run())  # type: ignore[arg-type]

    taken = []
    while not engine.ended:
        scheduler.run()
        taken.append([part.data for part in engine.data_to_send() if isinstance(part, Body)])
    assert [[b'"progress":1' in data or b'"progress":2' in data for data in parts] for parts in taken] == [
        [True],
        [True],
        [False],
    ]

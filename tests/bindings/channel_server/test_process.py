"""A server where a process meets its client: its standard streams, its end, and what must not reach the output."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import speak
from lines import Process, text_of

Start = Callable[..., Process]


@pytest.mark.parametrize("version", speak.VERSIONS)
def test_a_process_describes_lists_and_calls(start: Start, version: str) -> None:
    server = start(version=version).shake_hands()
    adapter = server.speaker.adapter
    if not adapter.has_handshake:
        assert server.request("server/discover")["result"]["supportedVersions"] == [*speak.VERSIONS]
    names = [tool["name"] for tool in server.request("tools/list", id="l")["result"]["tools"]]
    assert {"echo", "order", "wait"} <= set(names)
    for tool in ("echo", "echo_in_thread"):
        reply = server.call(tool, {"text": "Größe — ★ 漢"}, id=tool)
        assert (reply["id"], text_of(reply)) == (tool, "Größe — ★ 漢")
    unknown = server.request("nothing/such", id=7)
    assert (unknown["id"], unknown["error"]["code"]) == (7, -32601)


def test_a_process_ends_with_its_input_while_nothing_happens(start: Start) -> None:
    server = start().shake_hands()
    assert server.call("echo", {"text": "a"})["id"] == 1
    server.hang_up()
    assert (server.ended(), server.rest(), server.errors()) == (0, b"", "")

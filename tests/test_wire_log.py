"""The logger ``mcp_sansio.wire`` at a server's end: everything that comes in and goes out, but for secrets."""

from __future__ import annotations

import logging

import pytest

from mcp_sansio import Registry
from mcp_sansio.testing import Simulation

PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
PONG = '{"jsonrpc":"2.0","id":1,"result":{}}'


@pytest.fixture
def seen(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.DEBUG, "mcp_sansio.wire")
    return caplog


def test_a_channel(seen: pytest.LogCaptureFixture) -> None:
    channel = Simulation(Registry("bakery", "1.0")).channel()
    channel.send(PING)
    assert seen.messages == [f"< {PING.decode()}", f"> {PONG}"]


def test_http_without_its_secrets(seen: pytest.LogCaptureFixture) -> None:
    headers = {"Content-Type": "application/json", "Accept": "*/*", "Authorization": "Bearer 1", "Cookie": "a=1"}
    Simulation(Registry("bakery", "1.0")).http(PING, target="/mcp?a=1", headers=headers)
    request, body, response, answer = seen.messages
    lines = request.split("\n")
    assert lines[0] == "< POST /mcp?a=1"
    assert {"< authorization: …", "< cookie: …", "< accept: */*"} <= set(lines)
    assert (body, answer) == (f"< {PING.decode()}", f"> {PONG}")
    assert response == f"> 200\n> Content-Type: application/json\n> Content-Length: {len(PONG)}"


def test_what_is_long_is_cut(seen: pytest.LogCaptureFixture) -> None:
    Simulation(Registry("bakery", "1.0")).channel().send(b'"' + b"x" * 5_000 + b'"')
    assert seen.messages[0] == f'< "{"x" * 3_999}… (5002 bytes)'


def test_nothing_where_nobody_reads_it(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "mcp_sansio.wire")
    Simulation(Registry("bakery", "1.0")).channel().send(PING)
    assert caplog.messages == []

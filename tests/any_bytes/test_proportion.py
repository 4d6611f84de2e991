"""Work and words in proportion: what is large and wrong costs its length, and is not answered at greater length.

Time is not measured: at these sizes a search of quadratic time takes minutes, which the suite counts as a hang.
"""

from __future__ import annotations

from typing import Any

import pytest

from mcp_sansio.wire.json import encode
from speak import VERSIONS, Channel, Http
from world import Errors, registry

SIZE = 150_000


def call(name: str, arguments: Any, **more: Any) -> tuple[str, Any]:
    return "tools/call", {"name": name, "arguments": arguments, **more}


def numbered(value: Any) -> dict[str, Any]:
    return {str(number): value for number in range(SIZE // 10)}


REQUESTS: dict[str, tuple[str, Any]] = {
    "a long text": call("echo", {"text": "a" * SIZE}),
    "an array for a number": call("echo", {"text": "a", "count": [1] * SIZE}),
    "many arguments": call("echo", numbered(1)),
    "an unknown tool": call("\x7f" * SIZE, {}),
    "wrong items": call("shapes", {"lines": [1] * SIZE}),
    "a wrong item at the end": call("shapes", {"lines": [{"sku": "a"}] * (SIZE // 10) + [1]}),
    "unknown properties": call("shapes", {"lines": [{"x": 1}] * (SIZE // 10)}),
    "wrong values under a long key": call("shapes", {"lines": [], "grid": {"k" * SIZE: ["x"] * SIZE}}),
    "equal items": call("shapes", {"lines": [], "tags": ["x"] * SIZE}),
    "unequal items": call("shapes", {"lines": [], "tags": [*map(str, range(SIZE // 10)), 1]}),
    "a raw schema": call("raw", {"a": 1, "b": ["x"] * SIZE}),
    "many answers": call("ask", {"kind": "form"}, inputResponses=numbered({})),
    "many answers in arguments": call("ask", {"kind": "form", "mcpAnswers": numbered({})}),
    "a long state": call("ask", {"kind": "form"}, requestState="x" * SIZE),
    "a long URI": ("resources/read", {"uri": "file:" + "a/" * SIZE}),
    "a URI of the longest kind": ("resources/read", {"uri": "user:" + "%20" * 2700}),
    "a number of brackets": ("prompts/get", {"name": "greet", "arguments": {"who": "a", "times": "[" * SIZE}}),
    "many arguments of a prompt": ("prompts/get", {"name": "greet", "arguments": numbered("a")}),
    "many URIs": ("subscriptions/listen", {"notifications": {"resourceSubscriptions": [*numbered(1)]}}),
    "an unknown method": ("\x7f" * SIZE, {}),
    "a long cursor": ("tools/list", {"cursor": "9" * SIZE}),
    "an unknown prompt": (
        "completion/complete",
        {"ref": {"type": "ref/prompt", "name": "\x7f" * SIZE}, "argument": {"name": "who", "value": "a"}},
    ),
    "a long level": ("logging/setLevel", {"level": "x" * SIZE}),
}
BODIES = {
    "brackets": b"[" * SIZE,
    "brackets and a string": b"[" * 200 + b'"' + b"\\" * SIZE,
    "quotes": b'"' * SIZE,
    "escapes": b'"' + b"\\u00e9" * SIZE + b'\\ud800"',
    "numbers": b"[" + b"1e9," * SIZE + b"1e999]",
    "digits": b"1" * SIZE,
    "equal keys": b"{" + b'"id":1,' * SIZE + b'"id":2}',
    "no UTF-8": b"\xff" * SIZE,
    "a batch": b"[" + b"0," * SIZE + b"0]",
}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("wrong", REQUESTS)
def test_large_requests(version: str, wrong: str) -> None:
    channel = Channel(version, registry())
    message = channel.message(*REQUESTS[wrong])
    with Errors() as errors:
        before = len(channel.end.sent)
        channel.send(message)
    assert errors.said == []
    answered = sum(map(len, channel.end.sent[before:]))
    assert 0 < answered < 2 * len(encode(message)) + 30_000
    channel.end.close()


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("wrong", BODIES)
def test_large_bodies(version: str, wrong: str) -> None:
    channel, speaker = Channel(version, registry()), Http(version, registry())
    before = len(channel.end.sent)
    channel.end.send(BODIES[wrong])
    assert 0 < sum(map(len, channel.end.sent[before:])) < 500
    refused = speaker.simulation.http(BODIES[wrong], headers=speaker.headers())
    assert refused.status in (400, 413)
    assert len(refused.body) < 500


@pytest.mark.parametrize("name", ["accept", "origin", "host", "content-type", "mcp-name", "last-event-id", "x"])
@pytest.mark.parametrize("piece", [",", '"', "\\", ";q=0", "0", " ", "a/b;", "=?base64?", "[::", "é", "\udcff"])
def test_large_headers(name: str, piece: str) -> None:
    # As much as is let through (`Config.max_headers`), and as targets have no limit here, more of that.
    simulation = Http(VERSIONS[0], registry()).simulation
    for method in ("POST", "GET", "OPTIONS"):
        value = piece * (60_000 // len(piece))
        answered = simulation.http(method=method, target="/?" + value * 5, headers={name: value}, loopback=True)
        assert answered.ended
        assert answered.status is not None
        assert len(answered.body) < 500

"""The first HTTP transport: a pair of endpoints, one that streams and one that takes messages."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_sansio import Config, Exchange, Head, Registry, elicit, elicit_accept
from mcp_sansio.testing import SimulatedHttp, Simulation
from mcp_sansio.wire.json import decode
from mcp_sansio.wire.sse import ServerSentEvent
from speak import ENVELOPE, HANDSHAKE, STREAM_HEAD, Speaker, check_all, methods_of, notification


def registry() -> Registry:
    made = Registry("s", "1")

    @made.tool
    async def echo(text: str) -> str:
        """Echo."""
        return text

    @made.tool
    async def gate(ex: Exchange) -> str:
        """Ask."""
        return (await ex.ask("q", elicit("Sure?"))).action

    @made.tool
    async def wait(ex: Exchange) -> str:
        """Wait."""
        await ex.wait_cancelled()
        return "late"

    return made


class Pair(Speaker):
    """A client of the pair of endpoints."""

    def __init__(self, version: str, simulation: Any, *, prefix: str = "", **options: Any) -> None:
        super().__init__(version, simulation, **options)
        self.path = f"{prefix}/messages"
        self.stream: SimulatedHttp = self.simulation.pair(message_path=self.path, **self.options)
        [endpoint] = self.stream.events()
        assert isinstance(endpoint, ServerSentEvent)
        assert endpoint.event == "endpoint"
        self.where = endpoint.data.decode()

    def post(self, message: Any, *, where: str | None = None, **options: Any) -> SimulatedHttp:
        given = {"message_path": self.path, **self.options, **options}
        target = where or self.where
        return self.simulation.pair(message, method="POST", target=target, **given)

    def send(self, message: Any) -> list[Any]:
        """Send a message; what came back by now, on the stream."""
        before = len(self.told)
        accepted = self.post(message)
        assert (accepted.head, accepted.body, accepted.ended) == (Head(202, ()), b"", True)
        answers = self.told[before:]
        check_all(self.version, answers, methods_of(message))
        return answers

    @property
    def told(self) -> list[Any]:
        """The messages on the stream."""
        events = [event for event in self.stream.events() if isinstance(event, ServerSentEvent)]
        assert all(event.event == "message" for event in events[1:])
        return [decode(event.data) for event in events[1:]]


def test_the_endpoint_comes_first() -> None:
    simulation = Simulation(registry())
    for prefix, path in (("", "/messages"), ("/a/b", "/a/b/messages"), ("/ż a?", "/%C5%BC%20a%3F/messages")):
        pair = Pair(HANDSHAKE[-1], simulation, prefix=prefix)
        assert pair.stream.head == STREAM_HEAD
        assert pair.where == f"{path}?session_id={pair.stream.engine.id}"  # type: ignore[attr-defined]
        assert pair.stream.body == f"event: endpoint\ndata: {pair.where}\n\n".encode()
        assert len(pair.where.partition("=")[2]) == 32


@pytest.mark.parametrize("version", HANDSHAKE)
def test_a_conversation(version: str) -> None:
    pair = Pair(version, registry())
    [opened] = pair.send(pair.initialize())
    assert opened["result"]["protocolVersion"] == version
    assert pair.send(notification("notifications/initialized")) == []
    [listed] = pair.send(pair.message("tools/list"))
    assert [tool["name"] for tool in listed["result"]["tools"]] == ["echo", "gate", "wait"]
    [echoed] = pair.send(pair.message("tools/call", {"name": "echo", "arguments": {"text": "ż"}}, id="x"))
    content = [{"type": "text", "text": "ż"}]
    assert echoed == {"jsonrpc": "2.0", "id": "x", "result": {"content": content}}
    [unknown] = pair.send(pair.message("nonsense"))
    assert unknown["error"] == {"code": -32601, "message": "unknown method: 'nonsense'"}
    [parse] = pair.send(b"{")
    assert parse["error"]["code"] == -32700
    pair.simulation.advance(15)
    assert pair.stream.body.endswith(b":\n\n")


@pytest.mark.parametrize("version", [version for version in HANDSHAKE if version in ("2025-11-25", "2025-06-18")])
def test_a_question(version: str) -> None:
    pair = Pair(version, registry())
    pair.send(pair.initialize())
    [question] = pair.send(pair.message("tools/call", {"name": "gate"}))
    [answered] = pair.send({"jsonrpc": "2.0", "id": question["id"], "result": elicit_accept()})
    assert answered["result"]["content"][0]["text"] == "accept"


@pytest.mark.parametrize("version", ENVELOPE)
def test_a_revision_without_handshake_is_refused(version: str) -> None:
    pair = Pair(version, registry())
    [refused] = pair.send(pair.message("tools/list"))
    assert refused == {
        "jsonrpc": "2.0",
        "id": 1,
        "error": {
            "code": -32600,
            "message": f"unsupported protocol version; this server speaks {', '.join(HANDSHAKE)}",
            "data": {"supported": list(HANDSHAKE), "requested": version},
        },
    }
    request = Speaker(HANDSHAKE[0], pair.simulation).initialize()
    request["params"]["protocolVersion"] = version
    pair.version = HANDSHAKE[0]
    assert pair.send(request)[0]["result"]["protocolVersion"] == HANDSHAKE[0]


@pytest.mark.parametrize("version", HANDSHAKE)
def test_a_message_before_the_handshake(version: str) -> None:
    pair = Pair(version, registry())
    pair.version = HANDSHAKE[0]
    [refused] = pair.send(pair.message("tools/list"))
    assert refused["error"] == {"code": -32600, "message": "the handshake is missing: send initialize first"}


def test_who_may_post() -> None:
    simulation = Simulation(registry())
    pair = Pair(HANDSHAKE[-1], simulation, principal="ada")
    ping = pair.message("ping")
    bad = [
        pair.post(ping, principal="bob"),
        pair.post(ping, principal=None),
        pair.post(ping, where="/messages"),
        pair.post(ping, where="/messages?session_id="),
        pair.post(ping, where="/messages?session_id=" + "0" * 32),
    ]
    for refused in bad:
        assert (refused.status, refused.ended) == (404, True)
        text = "there is no open stream with that session_id"
        assert refused.messages[0]["error"] == {"code": -32600, "message": text}
    assert pair.told == []
    assert len(pair.send(ping)) == 1


def test_what_is_no_message() -> None:
    pair = Pair(HANDSHAKE[-1], registry(), config=Config(max_message=100))
    assert pair.post(b"{}" + b" " * 99).status == 413
    plain = pair.simulation.pair(
        b"{}", method="POST", target=pair.where, headers={"Content-Type": "text/plain"}, message_path=pair.path
    )
    assert plain.status == 415
    assert pair.simulation.pair(method="DELETE").status == 405
    assert pair.simulation.pair(method="DELETE").header("allow") == "GET, POST, OPTIONS"
    assert pair.simulation.pair(headers={"Accept": "application/json"}).status == 406
    assert pair.simulation.pair(headers={"Accept": "text/event-stream"}).status == 200


@pytest.mark.parametrize("version", HANDSHAKE)
def test_the_stream_is_the_channel(version: str) -> None:
    pair = Pair(version, registry())
    simulation = pair.simulation
    pair.send(pair.initialize())
    pair.send(notification("notifications/initialized"))
    pair.send(pair.message("tools/call", {"name": "wait"}))
    assert (len(simulation.scheduler), len(simulation.server.pairs)) == (1, 1)
    pair.stream.disconnect()
    assert (len(simulation.scheduler), len(simulation.server.pairs), len(simulation.server.topics)) == (0, 0, 0)
    assert pair.stream.engine.next_deadline() is None
    assert pair.post(pair.message("ping")).status == 404


def test_changes_and_shutdown() -> None:
    made = registry()
    pair = Pair(HANDSHAKE[-1], made)
    pair.send(pair.initialize())
    made.remove_tool("wait")
    assert len(pair.told) == 1
    pair.send(notification("notifications/initialized"))
    made.remove_tool("echo")
    pair.simulation.settle()
    assert pair.told[1:] == [notification("notifications/tools/list_changed")]
    pair.simulation.server.shutdown()
    pair.simulation.settle()
    assert pair.stream.ended
    server = pair.simulation.server
    assert (len(server.pairs), len(server.topics), len(server._streams)) == (0, 0, 0)
    assert pair.simulation.pair().status == 503
    pair.stream.disconnect()


def test_too_many_streams() -> None:
    simulation = Simulation(registry(), config=Config(max_streams=1))
    simulation.pair()
    refused = simulation.pair()
    assert refused.status == 503
    text = "this server keeps 1 streams open at most"
    assert refused.messages[0]["error"] == {"code": -32603, "message": text}


def test_who_does_not_read_the_stream_may_not_post() -> None:
    simulation = Simulation(registry(), config=Config(max_unsent=1000))
    pair = Pair(HANDSHAKE[-1], simulation)
    simulation.peers.remove(pair.stream)
    answers = [pair.post(pair.message("ping", id=number)) for number in range(100)]
    statuses = [answer.status for answer in answers]
    accepted = statuses.count(202)
    assert statuses == [202] * accepted + [429] * (100 - accepted)
    text = "the stream is not read: answers wait there to be sent"
    assert answers[-1].messages[0]["error"] == {"code": -32600, "message": text}
    assert 1000 < sum(len(part.data) for part in pair.stream.engine.data_to_send()) < 2000  # type: ignore[union-attr]
    assert pair.post(pair.message("ping")).status == 202

"""The recorder writes down what both sides say, and `replay` runs it again for either of them."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest

import speak
from mcp_sansio import (
    AdapterSet,
    CallTimeout,
    ClientConfig,
    Config,
    Exchange,
    Implementation,
    Known,
    McpError,
    Registry,
    ServerError,
    elicit,
    elicit_accept,
)
from mcp_sansio.testing import Recorder, Simulation, Transcript, connect, play, replay
from mcp_sansio.testing.folding import length, texts
from mcp_sansio.wire.json import decode

JSON = Any
CHANNEL, HTTP = speak.VERSIONS[0], speak.HANDSHAKE[0]


def registry() -> Registry:
    made = Registry("s", "1")

    @made.tool
    async def echo(text: str) -> str:
        """Echo."""
        return text

    @made.tool
    async def wait(ex: Exchange) -> str:
        """Wait."""
        await ex.progress(1)
        await ex.wait_cancelled()
        return "late"

    @made.tool
    async def ask(ex: Exchange) -> str:
        """Ask."""
        return str((await ex.ask("sure", elicit("Sure?"))).action)

    return made


def recorded(version: str, over: Any) -> str:
    """A conversation in which everything happens."""
    with connect(registry(), version, over=over, on_ask=lambda request: elicit_accept()) as client:
        client.recorder.comment("Two calls at once.")
        waiting = client.start(client.calls.call_tool("wait", on_progress=lambda *said: None))
        client.call_tool("echo", {"text": "a"})
        client.advance(20)
        waiting.cancel()
        client.call_tool("ask")
        with pytest.raises(CallTimeout):
            client.call_tool("wait", timeout=40)
    return client.recorder.text()


WAYS = [(version, over) for version in speak.VERSIONS for over in ("channel", "http")]
WAYS += [(version, "pair") for version in speak.HANDSHAKE]


@pytest.mark.parametrize(("version", "over"), WAYS)
class TestEveryWay:
    def test_what_was_recorded_is_replayed_for_either_role(self, version: str, over: str) -> None:
        text = recorded(version, over)
        replay(text, registry())
        replay(text)
        assert recorded(version, over) == text
        assert play(Transcript.parse(text)).text() == text

    def test_what_the_server_says_now_is_compared(self, version: str, over: str) -> None:
        text = recorded(version, over)
        other = Simulation(registry())
        other.server.registry.remove_tool("echo")
        with pytest.raises(AssertionError, match=r"\n\+S.*there is no tool named"):
            replay(text, other)

    def test_what_the_client_says_now_is_compared(self, version: str, over: str) -> None:
        text = recorded(version, over)
        changed = re.sub(r'(?m)^(C.*"text": ?)"a"', r'\1"b"', text)
        with pytest.raises(AssertionError) as caught:
            replay(changed)
        lines = str(caught.value).splitlines()
        assert [line[:2] for line in lines if '"text": "b"' in line or '"text":"b"' in line] == ["-C"]
        assert [line[:2] for line in lines if line.startswith("+C")] == ["+C"]

    def test_what_the_caller_hears_is_compared(self, version: str, over: str) -> None:
        text = recorded(version, over)
        changed = re.sub(r'(?m)^(< 2 result .*"text":)"a"', r'\1"b"', text)
        assert changed != text
        with pytest.raises(AssertionError, match=r"\n-< 2 result .*\n\+< 2 result "):
            replay(changed)


@pytest.mark.parametrize(("version", "over"), WAYS)
async def test_what_was_recorded_on_a_loop_is_replayed(version: str, over: Any) -> None:
    async def agree(request: JSON) -> JSON:
        await asyncio.sleep(0)
        return elicit_accept()

    async with connect(registry(), version, over=over, on_ask=agree) as client:
        waiting = asyncio.ensure_future(client.call_tool("wait"))
        await client.advance(1)
        await client.call_tool("echo", {"text": "a"})
        await client.advance(20)
        waiting.cancel()
        await client.advance(1)
        await client.call_tool("ask")
    text = client.recorder.text()
    replay(text, registry())
    replay(text)


def test_how_it_reads() -> None:
    with connect(registry(), CHANNEL) as client:
        client.recorder.about = "An echo."
        client.recorder.comment("Once.")
        client.call_tool("echo", {"text": "a"})
        client.advance(2.5)
        client.call_tool("echo", {"text": "b"})
        text = client.recorder.text()
        assert str(client.recorder) == text
    lines = [line for line in text.splitlines() if line and not re.match("[CS]>", line)]
    reply = f'"resultType":"complete","_meta":{{"{speak.META}serverInfo":{{"name":"s","version":"1"}}}}}}'
    assert lines == [
        "# An echo.",
        f'# client: {{"over":"channel","adapters":["{CHANNEL}"]}}',
        "# Once.",
        '> 1 call_tool {"params":{"name":"echo","arguments":{"text":"a"}}}',
        f'< negotiated {{"revision":"{CHANNEL}","pair":false}}',
        f'< 1 result {{"content":[{{"type":"text","text":"a"}}],{reply}',
        "@ +2.5s",
        '> 2 call_tool {"params":{"name":"echo","arguments":{"text":"b"}}}',
        f'< 2 result {{"content":[{{"type":"text","text":"b"}}],{reply}',
    ]


def test_before_anything_was_said() -> None:
    recorder = Recorder(lambda: 0.0, {"client": '{"over":"channel"}', "config": ""})
    assert recorder.text() == '# A recorded conversation.\n# client: {"over":"channel"}\n'


@pytest.mark.parametrize("version", speak.VERSIONS)
def test_a_question_that_nobody_answers(version: str) -> None:
    def refuse(request: JSON) -> JSON:
        raise LookupError("nobody is there")

    with connect(registry(), version, on_ask=refuse) as client, pytest.raises(McpError):
        client.call_tool("ask")
    text = client.recorder.text()
    assert '\n> 1 fail "the client could not answer"\n' in text
    replay(text, registry())
    replay(text)


@pytest.mark.parametrize("version", speak.VERSIONS)
def test_what_is_unusual_about_the_two_sides_is_written_down(version: str) -> None:
    adapters = AdapterSet.default().only(version)
    options: JSON = {
        "client_info": Implementation(name="c", version="2"),
        "capabilities": {"roots": {}},
        "config": ClientConfig(timeout=5.0),
        "known": Known(version),
        "log_level": "error",
    }
    limits = Config(call_timeout=3.0)
    with connect(registry(), adapters, over="http", headers={"X-A": "b"}, server_config=limits, **options) as client:
        with pytest.raises(ServerError):
            client.call_tool("wait")
        text = client.recorder.text()
    settings = Transcript.parse(text).settings
    assert settings["config"] == "call_timeout=3.0"
    assert decode(settings["client"].encode()) == {
        "over": "http",
        "headers": {"X-A": "b"},
        "adapters": [version],
        "client_info": {"name": "c", "version": "2"},
        "capabilities": {"roots": {}},
        "config": {"timeout": 5.0},
        "known": {"revision": version, "pair": False},
        "log_level": "error",
    }
    replay(text, registry())
    replay(text)


def test_requests_whose_responses_go_on_have_names() -> None:
    text = recorded(HTTP, "http")
    posts = re.findall(r"(?m)^C ?([a-z0-9-]*)> (GET|POST|DELETE) /mcp$", text)
    names = [name for name, _ in posts if name]
    assert len(set(names)) == len(names)
    assert [(name, method) for name, method in posts if method == "GET"] == [("stream", "GET")]
    assert {"call", "call-2", "stream"} <= set(names)


# A server that is not there

OLD = """\
# A server that knows nothing newer, told of by hand.
# client: {"over":"channel"}

> 1 call_tool {"params":{"name":"add","arguments":{"a":1}}}

C> {
C>   "jsonrpc": "2.0",
C>   "id": 1,
C>   "method": "server/discover",
C>   "params": {
C>     "_meta": {
C>       "io.modelcontextprotocol/protocolVersion": "2026-07-28",
C>       "io.modelcontextprotocol/clientInfo": {"name": "mcp-sansio", "version": "0"},
C>       "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}, "url": {}}}
C>     }
C>   }
C> }
"""
REFUSED = 'S> {"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"what?"}}\n'
SHAKEN = """
C> {
C>   "jsonrpc": "2.0",
C>   "id": 2,
C>   "method": "initialize",
C>   "params": {
C>     "protocolVersion": "2025-11-25",
C>     "capabilities": {},
C>     "clientInfo": {"name": "mcp-sansio", "version": "0"}
C>   }
C> }
S> {
S>   "jsonrpc": "2.0",
S>   "id": 2,
S>   "result": {"protocolVersion": "2025-03-26", "capabilities": {}, "serverInfo": {"name": "old", "version": "0"}}
S> }
< negotiated {"revision":"2025-03-26","pair":false}

C> {"jsonrpc":"2.0","method":"notifications/initialized"}

C> {"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"add","arguments":{"a":1}}}
S> {"jsonrpc":"2.0","id":3,"result":{"content":[{"type":"text","text":"2"}]}}
< 1 result {"content":[{"type":"text","text":"2"}]}
"""


@pytest.mark.parametrize("silence", [REFUSED, "\n@ +5s\n"])
def test_a_server_of_another_hand(silence: str) -> None:
    replay(OLD + silence + SHAKEN)


def test_what_a_client_says_beyond_the_file_and_what_it_does_not_say() -> None:
    text = OLD + REFUSED + SHAKEN
    shorter = text.replace('\nC> {"jsonrpc":"2.0","method":"notifications/initialized"}\n', "")
    with pytest.raises(AssertionError, match=r"\n\+C> .*notifications/initialized"):
        replay(shorter)
    longer = text + '\nC> {"jsonrpc":"2.0","method":"nothing"}\n'
    with pytest.raises(AssertionError, match=r'\n-C> \{"jsonrpc":"2.0","method":"nothing"\}'):
        replay(longer)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("C> {}\n", "the transcript does not say what its client is: it needs a setting `client:`"),
        (OLD + "\n> nonsense!\n", "transcript:19: '> nonsense!' is no command"),
        (OLD + "\n> 1 nonsense {}\n", "transcript:19: 'nonsense' is not a valid Operation"),
        (OLD + "\n> 7 cancel\n", "transcript:19: there is no number 7 yet"),
        (OLD + "\n> 1 answer {}\n", "transcript:19: there is no number 1 yet"),
    ],
)
def test_what_no_client_can_be_told(text: str, fault: str) -> None:
    with pytest.raises(ValueError, match=re.escape(fault)):
        replay(text)


def test_a_faulty_line_is_refused() -> None:
    with pytest.raises(ValueError, match=re.escape("transcript:1: 'what?' is no line of a transcript")):
        replay("what?\n")


def test_texts_one_after_the_other() -> None:
    lines = ['{"a":1}', "{", '  "b": 2', "}", "[", "  1", "]", "plain", "{"]
    assert texts(lines) == [b'{"a":1}', b'{"b":2}', b"[1]", b"plain", b"{"]
    assert [length(lines), length(lines[1:]), length(["{", "never closed"])] == [1, 3, 1]

"""The checks that the author of a channel runs on their own driver of the client role."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from functools import partial
from typing import Any, ClassVar, Protocol, TypeAlias

from mcp_sansio.adapters.base import Adapter
from mcp_sansio.adapters.selection import AdapterSet
from mcp_sansio.asking import elicit_accept
from mcp_sansio.client.api import ClientApi
from mcp_sansio.client.options import ClientOptions
from mcp_sansio.errors import CallTimeout, ConnectionLost
from mcp_sansio.operation import Operation
from mcp_sansio.registry import Registry
from mcp_sansio.server.config import Config
from mcp_sansio.types import JSON
from mcp_sansio.wire.json import decode, encode

from .checking import QUIET, Case, Maybe, Scene, run_all, settled, shown
from .simulation import SimulatedChannel, Simulation

_MANY = 5
_LARGE = 2**18
#: What no server may send, and no client may stumble over.
_RUBBISH = (b"{", b"\xff\xfe", b"[]", b'"text"', b'{"jsonrpc":"2.0","id":77,"result":{}}')
_TIMEOUT = 0.2


class ChannelServer(Protocol):
    """A server at the other end of a channel, as `check_channel_client` needs it, and the `client` at this end.

    The methods may be ``async def`` or plain functions.
    """

    @property
    def client(self) -> ClientApi:
        """The client whose driver is checked."""

    def receive(self, seconds: float) -> Maybe[bytes | None]:
        """The next message of the client; ``None`` where none came within `seconds`, ``b""`` where none can come."""

    def send(self, message: bytes) -> Maybe[None]:
        """Send one whole message. It holds no newline."""

    def wait(self, seconds: float) -> Maybe[object]:
        """Let time pass and read nothing: ``asyncio.sleep``, for example."""

    def close(self) -> Maybe[None]:
        """End the channel from the server's side."""


OpenClient: TypeAlias = Callable[
    [Adapter, ClientOptions], AbstractAsyncContextManager[ChannelServer] | AbstractContextManager[ChannelServer]
]


async def check_channel_client(
    open_client: OpenClient, *, adapters: AdapterSet | None = None, patience: float = 5.0
) -> None:
    """Check the driver of a channel's client against the rules of docs/write-a-transport.md, "A client".

    ``open_client(adapter, options)`` is a context manager, with or without ``async``. It makes a client of that
    revision with those `ClientOptions`, and gives a `ChannelServer` at the other end of its channel. When it is left,
    the client is closed. The rest is as for `check_channel`.
    """
    await run_all(_CASES, ClientScene, partial(_with_options, open_client), adapters, patience)


def _with_options(open_client: OpenClient, adapter: Adapter) -> Callable[[Registry, Config], Any]:
    options: ClientOptions = {"on_ask": lambda request: elicit_accept()}
    return lambda registry, config: open_client(adapter, options)


class ClientScene(Scene):
    """A client under a check, and what answers it: a server of the library, or the check itself."""

    client: ChannelServer
    rules: ClassVar[Mapping[int, str]] = {
        2: "hand in the facts, all of them, in the order in which they happened, and call _pump after each",
        3: "_flush has data_to_send() sent, in order, and one timer kept for next_deadline(): handle_timeout and _pump",
        4: "_spawn runs work in a task of its own, and returns what cancels it",
        5: "close calls the engine's, pumps, and lets go of what the transport holds",
    }
    page: ClassVar[str] = 'docs/write-a-transport.md, "A client"'
    last_rule: ClassVar[int] = 5
    _peer: SimulatedChannel | None = None

    def begin(self, name: str, work: Callable[[ClientApi], Awaitable[Any]]) -> Begun:
        """Have the client's caller do `work`, in a task of the client's own."""
        return Begun(self, name, work)

    async def serve(self, begun: Begun) -> Any:
        """Answer everything until `begun` has ended: what came of it."""
        waited, heard = 0.0, 0
        while not begun.ended:
            message: bytes | None = await settled(self.client.receive(QUIET))
            if message:
                waited, heard = 0.0, heard + 1
                await self.answer(message)
            waited += QUIET
            if waited > self.patience or message == b"":
                sent = f"{heard} messages came from the client, and all are answered" if heard else "nothing is sent"
                self.fail(2 if heard else 3, f"{begun.name} goes on; {sent}")
        return begun.result()

    async def answer(self, message: bytes) -> None:
        """Send what a server of the library says to a message."""
        peer = self._peer = self._peer or Simulation(self.subject.registry).channel()
        before = len(peer.sent)
        peer.engine.receive_message(message)
        peer.simulation.settle()
        for reply in peer.sent[before:]:
            await settled(self.client.send(reply))

    async def initialize(self) -> None:
        """Settle what is spoken, so that the next thing to come is a call."""
        await self.serve(self.begin("initialize", lambda client: client.initialize()))
        await settled(self.client.wait(QUIET))
        while await settled(self.client.receive(QUIET)):
            pass  # what ends the handshake

    async def hear(self, rule: int, otherwise: str) -> JSON:
        """The client's next message, which must come."""
        message: bytes | None = await settled(self.client.receive(self.patience))
        if not message:
            self.fail(rule, otherwise)
        return decode(message)

    async def reply(self, request: JSON, text: str) -> None:
        """Answer a call."""
        result = {"content": [{"type": "text", "text": text}]}
        await settled(self.client.send(encode({"jsonrpc": "2.0", "id": request["id"], "result": result})))

    async def ends(self, begun: Begun, rule: int, what: str) -> None:
        """`begun` must end."""
        await self.until(lambda: begun.ended, rule, f"{what}, and {begun.name} goes on")


class Begun:
    """Something that the client's caller does, until it has `ended`."""

    def __init__(self, scene: ClientScene, name: str, work: Callable[[ClientApi], Awaitable[Any]]) -> None:
        self.name = name
        self.ended = False
        self._scene = scene
        self._outcome: list[Any] = []
        self._error: Exception | None = None
        scene.subject.running.append(name)
        self.cancel = scene.client.client._spawn(lambda: self._run(work))

    async def _run(self, work: Callable[[ClientApi], Awaitable[Any]]) -> None:
        try:
            self._outcome.append(await work(self._scene.client.client))
        except Exception as error:
            self._error = error
        finally:
            self.ended = True
            self._scene.subject.running.remove(self.name)

    def result(self) -> Any:
        """What came of it."""
        if self._error is not None:
            raise AssertionError(f"{self._scene.name}: {self.name} failed: {self._error!r}") from self._error
        return self._outcome[0]

    def failed(self, kind: type[Exception], rule: int) -> None:
        """It must have failed like that."""
        if not isinstance(self._error, kind):
            what = self._error or self._outcome
            self._scene.fail(rule, f"{self.name} should end with {kind.__name__}, and ends with {shown(what)}")


def _echo(text: str, **options: Any) -> Callable[[ClientApi], Awaitable[Any]]:
    return lambda client: client.call_tool("echo", {"text": text}, **options)


# What is checked


async def _conversation(scene: ClientScene) -> None:
    """What the caller wants is done."""
    reports: list[float] = []

    async def whole(client: ClientApi) -> list[Any]:
        server, tools = await client.initialize(), await client.list_tools()
        said: list[Any] = [server.name, tools[0].name]
        calls = [
            await client.call_tool("echo", {"text": "é" * 1000}),
            await client.call_tool("echo", {"text": "x" * _LARGE}),
            await client.call_tool("count", {"to": 10}, on_progress=lambda *report: reports.append(report[0])),
            await client.call_tool("ask", {"name": "ask"}),
        ]
        return [*said, *(getattr(result, "content", [None])[0].text for result in calls)]

    said = await scene.serve(scene.begin("a whole conversation", whole))
    wanted = ["checked", "echo", "é" * 1000, "x" * _LARGE, "counted to 10", "the user chose to accept"]
    if (said, reports) != (wanted, list(range(1, 11))):
        scene.fail(2, f"the caller should hear {shown(wanted)}, and hears {shown(said)} and the progress {reports}")


async def _in_flight(scene: ClientScene) -> None:
    """Calls do not wait for each other, and those that wait for the handshake are all sent after it."""
    calls = [scene.begin(f"call {number}", _echo(str(number))) for number in range(_MANY)]
    requests: list[JSON] = []
    while len(requests) < _MANY:
        message = await scene.hear(3, f"of {_MANY} calls {len(requests)} are sent while none has ended")
        if message["method"] == scene.adapter.method_for(Operation.CALL_TOOL):
            requests.append(message)
        else:
            await scene.answer(encode(message))
    for request in reversed(requests):
        text = request["params"]["arguments"]["text"]
        await scene.reply(request, f"to {text}")
        call = calls[int(text)]
        await scene.ends(call, 2, f"{call.name} is answered before the others")
        if call.result().content[0].text != f"to {text}":
            scene.fail(2, f"{call.name} gets the answer of another: {shown(call.result())}")


async def _timed_out(scene: ClientScene) -> None:
    """A call that is made later may have to end sooner."""
    await scene.initialize()
    patient = scene.begin("a patient call", _echo("patient", timeout=60))
    await scene.hear(3, "a call is made, and nothing is sent")
    for name in ("a call in a hurry", "the next one"):
        call = scene.begin(name, _echo(name, timeout=_TIMEOUT))
        await scene.hear(3, "a call is made, and nothing is sent")
        await scene.ends(call, 3, f"nothing is answered for {_TIMEOUT:g} seconds, which is all the time that it has")
        call.failed(CallTimeout, 3)
        await scene.hear(3, "a call took too long, and the server is not told that it is given up")
    patient.cancel()


async def _cancelled(scene: ClientScene) -> None:
    """A task that is cancelled gives its call up."""
    await scene.initialize()
    call = scene.begin("a call", _echo("nobody waits"))
    request = await scene.hear(3, "a call is made, and nothing is sent")
    call.cancel()
    await scene.ends(call, 4, "its task was cancelled")
    told = await scene.hear(3, "a task was cancelled that waited for a call, and the server is not told")
    if told.get("params", {}).get("requestId") != request["id"]:
        scene.fail(3, f"the server should be told that a call is given up, and is told {shown(told)}")


async def _rubbish(scene: ClientScene) -> None:
    """A server that sends what no server may send is passed over."""
    await scene.initialize()
    for message in _RUBBISH:
        await settled(scene.client.send(message))
    call = scene.begin("a call", _echo("still here"))
    result = await scene.serve(call)
    if result.content[0].text != "still here":
        scene.fail(2, f"after rubbish a call ends with {shown(result)}")


async def _lost(scene: ClientScene) -> None:
    """With the channel, the calls in flight end."""
    await scene.initialize()
    calls = [scene.begin(f"call {number}", _echo(str(number))) for number in range(2)]
    for _ in calls:
        await scene.hear(3, "a call is made, and nothing is sent")
    await settled(scene.client.close())
    for call in calls:
        await scene.ends(call, 2, "the server closed the channel")
        call.failed(ConnectionLost, 2)


async def _closed(scene: ClientScene) -> None:
    """With the client, the calls in flight end, and the channel does."""
    await scene.initialize()
    call = scene.begin("a call", _echo("nobody answers"))
    await scene.hear(3, "a call is made, and nothing is sent")
    await scene.client.client.close()
    await scene.ends(call, 5, "the client was closed")
    for _ in range(2):  # it may have told the server that the call is given up
        message: bytes | None = await settled(scene.client.receive(scene.patience))
        if message == b"":
            return
    scene.fail(5, "the client was closed, and its channel stays open")


_CASES = (
    Case("a whole conversation", _conversation),
    Case("many calls in flight", _in_flight),
    Case("calls that take too long", _timed_out, once=True),
    Case("a task that is cancelled", _cancelled),
    Case("a server that sends rubbish", _rubbish),
    Case("a server that closes the channel", _lost),
    Case("a client that is closed", _closed),
)

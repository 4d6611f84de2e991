"""The checks that the author of a duplex channel runs on their own driver."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from mcp_sansio.adapters.selection import AdapterSet
from mcp_sansio.server.config import Config
from mcp_sansio.types import JSON
from mcp_sansio.wire.json import decode

from .checking import (
    QUIET,
    SLOW,
    SMALL,
    Case,
    Maybe,
    Open,
    has_long_reports,
    pushes,
    run_all,
    settled,
    shown,
)
from .server_scene import Reader, ServerScene, ask_timeout, asked, in_flight, several_events, unread, woken
from .simulation import Simulation
from .speaker import Said

#: No message at all, and messages that nobody may send.
_BAD = (b"{", b"\xff\xfe", b"[]", b'"text"', b'{"jsonrpc":"2.0","id":1}', b'{"jsonrpc":"2.0","id":2,"method":"none"}')
_TOO_LARGE = (
    "a message over max_message is not answered: it is handed in as well, or what is known of its size, as an Overlong"
    " to ChannelDriver.receive or by receive_overlong of the engine"
)


class ChannelClient(Protocol):
    """A client at the other end of a channel that is served, as `check_channel` needs it.

    The methods may be ``async def`` or plain functions. It may have one more, ``stop_reading()``: read no more, and do
    not leave, so that sending to it fails from now on. Without that, what a driver does then is not checked.
    """

    def send(self, message: bytes) -> Maybe[None]:
        """Send one whole message. It holds no newline."""

    def receive(self, seconds: float) -> Maybe[bytes | None]:
        """The next message; ``None`` where none came within `seconds`, and ``b""`` where none can come any more."""

    def wait(self, seconds: float) -> Maybe[object]:
        """Let time pass and read nothing: ``asyncio.sleep``, for example."""

    def close(self) -> Maybe[None]:
        """End the channel from this side."""

    def shutdown(self) -> Maybe[None]:
        """Shut the server down, as its operator would, by `Server.shutdown`."""


async def check_channel(
    open_channel: Open[ChannelClient], *, adapters: AdapterSet | None = None, patience: float = 5.0
) -> None:
    """Check the driver of a duplex channel against the rules of docs/write-a-transport.md.

    ``open_channel(registry, config)`` is a context manager, with or without ``async``. It serves that registry within
    those limits, by a server and a driver of its own each time, and gives a `ChannelClient` at the other end. Nothing
    of them goes on once it is left. What lies between them should hold little, as a socket or a pipe does, or a
    ``Queue(1)``: a driver cannot be seen to wait for a transport that takes everything.

    `adapters` are the revisions that are spoken, all unless given. `patience` is how many seconds what should happen
    may take. Raises ``AssertionError`` for the first rule that is broken. It needs no event loop of its own: await it
    on any, or run it by `Scheduler.complete` where there is none.
    """
    await run_all(_CASES, ChannelScene, lambda adapter: open_channel, adapters, patience)


class ChannelReader(Reader):
    """What comes next on the channel."""

    _scene: ChannelScene

    async def message(self, rule: int, otherwise: str) -> JSON:
        """See `Reader.message`."""
        return await self._scene.hear(rule, otherwise)

    async def end(self, rule: int, otherwise: str) -> None:
        """See `Reader.end`: a channel shows none."""


class ChannelScene(ServerScene[ChannelReader]):
    """A channel under a check."""

    client: ChannelClient

    async def open(self) -> None:
        """See `ServerScene.open`."""
        handshake = self.speaker.handshake()
        if handshake:
            opened = await self.say(handshake[0])
            await opened.message(4, "the handshake is not answered")
            await self.tell(handshake[1])

    async def say(self, said: Said) -> ChannelReader:
        """See `ServerScene.say`."""
        await self.tell(said)
        return ChannelReader(self, said)

    async def tell(self, said: Said) -> None:
        """See `ServerScene.tell`."""
        await settled(self.client.send(said.body))

    async def hear(self, rule: int, otherwise: str) -> JSON:
        """The next message, which must come."""
        message = await self.hear_bytes(rule, otherwise)
        try:
            return decode(message)
        except ValueError as error:
            self.fail(6, f"what comes is no message ({error}): {shown(message)}")

    async def hear_bytes(self, rule: int, otherwise: str) -> bytes:
        """The bytes of the next message, which must come."""
        message: bytes | None = await settled(self.client.receive(self.patience))
        if message is None:
            self.fail(rule, f"{otherwise}, for {self.patience:g} seconds")
        if not message:
            self.fail(rule, f"{otherwise}, and the channel has ended")
        return message

    async def hear_nothing(self, rule: int, otherwise: str) -> None:
        """Nothing may come."""
        message: bytes | None = await settled(self.client.receive(QUIET))
        if message:
            self.fail(rule, f"{otherwise}: {shown(message)}")

    async def listen(self) -> ChannelReader | None:
        """Ask for announcements, where they want to be asked for."""
        said = self.speaker.listen()
        if said is None:
            return None
        listening = await self.say(said)
        await listening.message(4, "a request to listen is not acknowledged")
        return listening


# What is checked


async def _conversation(scene: ChannelScene) -> None:
    """What comes out is what the engine says, to the byte."""
    engine = Simulation(scene.subject.registry, config=scene.config).channel()
    speaker = scene.speaker
    too_large = Said(b"x" * (scene.config.max_message + 1))
    said = [
        *speaker.handshake(),
        *speaker.repeated(),
        speaker.call("echo", text="é" * 1000),
        speaker.call("plain", text="by a thread"),
        speaker.call("count", "token", to=100),
        speaker.call("echo", text="x" * (scene.config.max_message - 2000)),
        *map(Said, _BAD),
        too_large,
        speaker.call("echo", text="still here"),
    ]
    for one in said:
        before = len(engine.sent)
        engine.send(one.body)
        await scene.tell(one)
        missed = (3, _TOO_LARGE) if one is too_large else (4, f"{shown(one.body)} is not answered")
        for wanted in engine.sent[before:]:
            heard = await scene.hear_bytes(*missed)
            if heard != wanted:
                what = f"{shown(one.body)} brings {shown(heard)}, where the engine says {shown(wanted)}"
                scene.fail(6 if heard in engine.sent else 3, what)
    await scene.hear_nothing(6, "what the engine never said comes out")


async def _cancelled(scene: ChannelScene) -> None:
    """A call that is given up has its task cancelled, and no reply."""
    await scene.open()
    await scene.give_up(await scene.stuck("stuck"))
    await scene.hear_nothing(5, "a call that was given up is answered")
    await scene.echo(5, "after a cancellation calls are not answered")


async def _call_timeout(scene: ChannelScene) -> None:
    """Calls have deadlines, each its own, and end by them one after the other."""
    await scene.open()
    await scene.hold("hold")
    seconds = scene.config.call_timeout
    for name in ("a", "b"):
        await settled(scene.client.wait(seconds / 4))
        await scene.relay(name, "hold")
    for number in range(3):
        otherwise = f"a call may take {seconds:g} seconds, and {3 - number} of 3 are not ended by then"
        failed = await scene.hear(7, otherwise)
        if "error" not in failed:
            scene.fail(7, f"{otherwise}: {shown(failed)}")
    await scene.ended(5, "a call took too long and was ended")
    await scene.echo(5, "after a timeout calls are not answered")


async def _announced(scene: ChannelScene) -> None:
    """A change that a plain function makes, in whatever thread, reaches the client."""
    await scene.open()
    await scene.listen()
    await scene.say(scene.speaker.call("declare", name="further"))
    otherwise = "a plain function declared a tool, and of the change and the reply not both come"
    heard = [await scene.hear(4, otherwise) for _ in range(2)]
    if not any("list_changed" in message.get("method", "") for message in heard):
        scene.fail(4, f"{otherwise}: {shown(heard)}")


async def _left(scene: ChannelScene) -> None:
    """With the channel, the calls in flight end."""
    await scene.open()
    await scene.stuck("stuck")
    await settled(scene.client.close())
    await scene.ended(8, "the client closed the channel with calls in flight")


async def _deaf(scene: ChannelScene) -> None:
    """Who can be told nothing any more is not served any more."""
    stop_reading: Callable[[], Maybe[None]] | None = getattr(scene.client, "stop_reading", None)
    if stop_reading is None:
        return
    await scene.open()
    await scene.stuck("stuck")
    await settled(stop_reading())
    await scene.say(scene.speaker.call("echo", text="nobody reads this"))
    await scene.ended(8, "nothing can be sent to the client, and the channel is not ended: a call is in flight")


async def _abandoned(scene: ChannelScene) -> None:
    """With the driver, the calls in flight end."""
    await scene.open()
    await scene.stuck("stuck")


async def _shut_down(scene: ChannelScene) -> None:
    """What listens is told the end, and nothing begins any more."""
    await scene.open()
    listen = await scene.listen()
    await settled(scene.client.shutdown())
    if listen is not None:
        ended = await scene.hear(9, "the server was shut down, and a stream that listens does not end")
        if ended.get("id") != listen.said.id:
            scene.fail(9, f"the server was shut down, and a stream that listens ends with {shown(ended)}")


_CASES: tuple[Case[ChannelScene], ...] = (
    Case("a whole conversation", _conversation, Config(max_message=SMALL)),
    Case("several events at once", several_events, applies=lambda adapter: adapter.allows_batch),
    Case("a handler that goes on by itself", woken, Config(max_unsent=1)),
    Case("many calls in flight", in_flight),
    Case("a call that is given up", _cancelled),
    Case("a question that is pushed", asked, applies=pushes),
    Case("a question that nobody answers", ask_timeout, Config(ask_timeout=0.2), applies=pushes, once=True),
    Case("calls that take too long", _call_timeout, Config(call_timeout=0.4), once=True),
    Case("a client that does not read", unread, SLOW, applies=has_long_reports, once=True),
    Case("a change of the registry", _announced),
    Case("a client that leaves", _left),
    Case("a client that reads no more", _deaf),
    Case("a driver that ends", _abandoned),
    Case("a server that is shut down", _shut_down),
)

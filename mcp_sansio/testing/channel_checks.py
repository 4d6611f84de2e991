"""The checks that the author of a duplex channel runs on their own driver."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import attrs

from mcp_sansio.adapters.selection import AdapterSet
from mcp_sansio.asking import elicit_accept
from mcp_sansio.operation import Operation
from mcp_sansio.server.config import Config
from mcp_sansio.types import JSON, RequestId
from mcp_sansio.wire.json import decode
from mcp_sansio.wire.jsonrpc import encode_batch

from .checking import (
    MANY,
    QUIET,
    SLOW,
    SMALL,
    Case,
    Maybe,
    Open,
    Scene,
    has_long_reports,
    pushes,
    run_all,
    settled,
    shown,
)
from .simulation import Simulation
from .speaker import Said
from .subject import FLOOD

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


@attrs.frozen
class InFlight:
    """A call in flight: the name of its handler, and its id."""

    name: str
    id: RequestId | None


class ChannelScene(Scene):
    """A channel under a check."""

    client: ChannelClient

    async def open(self) -> None:
        """Make the handshake, where there is one."""
        for number, message in enumerate(self.speaker.handshake()):
            await self.say(message)
            if not number:
                await self.hear(4, "the handshake is not answered")

    async def say(self, said: Said | bytes) -> RequestId | None:
        """Send a message: its id."""
        await settled(self.client.send(said if isinstance(said, bytes) else said.body))
        return None if isinstance(said, bytes) else said.id

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

    async def hear_text(self, rule: int, request_id: RequestId | None, text: str, otherwise: str) -> None:
        """The reply to a call must come next, and be that text."""
        message = await self.hear(rule, otherwise)
        if message.get("id") != request_id or message.get("result", {}).get("content", [{}])[0].get("text") != text:
            self.fail(rule, f"{otherwise}; what came is {shown(message)}")

    async def hear_progress(self, rule: int, done: int, otherwise: str) -> None:
        """A report of progress must come next."""
        message = await self.hear(rule, otherwise)
        if message.get("params", {}).get("progress") != done:
            self.fail(rule, f"{otherwise}; what came is {shown(message)}")

    async def hear_nothing(self, rule: int, otherwise: str) -> None:
        """Nothing may come."""
        message: bytes | None = await settled(self.client.receive(QUIET))
        if message:
            self.fail(rule, f"{otherwise}: {shown(message)}")

    async def echo(self, rule: int, otherwise: str) -> None:
        """A call must be answered."""
        call = await self.say(self.speaker.call("echo", text="still here"))
        await self.hear_text(rule, call, "still here", otherwise)

    async def hold(self, *names: str) -> list[InFlight]:
        """Calls that go on until they are given up."""
        calls = [InFlight(name, await self.say(self.speaker.call("hold", name=name))) for name in names]
        await self.started(*names)
        return calls

    async def relay(self, name: str, *after: str, token: str | None = None) -> InFlight:
        """A call that goes on when each of those is given up."""
        request_id = await self.say(self.speaker.call("relay", token, name=name, after=list(after)))
        await self.started(name)
        return InFlight(name, request_id)

    async def stuck(self, name: str) -> InFlight:
        """A call whose handler waits for ever."""
        marked = await self.say(self.speaker.call("mark", name="mark"))
        await self.hear_text(5, marked, "marked", "a call is not answered")
        return await self.relay(name, "mark")

    async def listen(self) -> RequestId | None:
        """Ask for announcements, where they want to be asked for: the request's id."""
        listen = self.speaker.listen()
        if listen is None:
            return None
        await self.say(listen)
        await self.hear(4, "a request to listen is not acknowledged")
        return listen.id

    async def cancel(self, call: InFlight) -> None:
        """Give a call up, which ends its handler."""
        await self.say(self.speaker.cancel(call.id))
        await self.ended(5, "the client gave a call up", call.name)


# What is checked


async def _conversation(scene: ChannelScene) -> None:
    """What comes out is what the engine says, to the byte."""
    engine = Simulation(scene.subject.registry, config=scene.config).channel()
    speaker = scene.speaker
    too_large = b"x" * (scene.config.max_message + 1)
    said: list[Said | bytes] = [
        *speaker.handshake(),
        speaker.request(Operation.LIST_TOOLS),
        speaker.call("echo", text="é" * 1000),
        speaker.call("plain", text="by a thread"),
        speaker.call("count", "token", to=100),
        speaker.call("echo", text="x" * (scene.config.max_message - 2000)),
        *_BAD,
        too_large,
        speaker.call("echo", text="still here"),
    ]
    for one in said:
        message = one if isinstance(one, bytes) else one.body
        before = len(engine.sent)
        engine.send(message)
        await scene.say(message)
        missed = (3, _TOO_LARGE) if message is too_large else (4, f"{shown(message)} is not answered")
        for wanted in engine.sent[before:]:
            heard = await scene.hear_bytes(*missed)
            if heard != wanted:
                what = f"{shown(message)} brings {shown(heard)}, where the engine says {shown(wanted)}"
                scene.fail(6 if heard in engine.sent else 3, what)
    await scene.hear_nothing(6, "what the engine never said comes out")


async def _several_events(scene: ChannelScene) -> None:
    """One message may bring several calls."""
    await scene.open()
    calls = [scene.speaker.call("echo", text=text) for text in "abc"]
    await scene.say(encode_batch([b"{}", *(call.body for call in calls)]))
    replies = await scene.hear(5, "a batch of several calls is not answered, as if only some of its events were seen")
    if len(replies) != 1 + len(calls):
        scene.fail(5, f"a batch of {len(calls)} calls brings {shown(replies)}")


async def _woken(scene: ChannelScene) -> None:
    """What a handler says while it runs comes out at once."""
    await scene.open()
    call = await scene.say(scene.speaker.call("count", "token", to=5))
    otherwise = "a handler goes on when what it said was taken, and what it says then does not come out"
    for number in range(1, 6):
        await scene.hear_progress(4, number, otherwise)
    await scene.hear_text(4, call, "counted to 5", otherwise)
    first, second = await scene.hold("first", "second")
    relay = await scene.relay("relay", "first", "second", token="token")
    otherwise = "a handler that waited has gone on and reports progress, and the report does not come out"
    await scene.cancel(first)
    await scene.hear_progress(4, 1, otherwise)
    await scene.cancel(second)
    await scene.hear_progress(4, 2, otherwise)
    otherwise = "a handler that waited has returned, and its reply does not come"
    await scene.hear_text(4, relay.id, "relay is over", otherwise)


async def _in_flight(scene: ChannelScene) -> None:
    """Calls do not wait for each other."""
    await scene.open()
    names = [f"hold-{number}" for number in range(MANY)]
    holds = await scene.hold(*names)
    relays = [await scene.relay(f"relay-{number}", name) for number, name in enumerate(names)]
    await scene.echo(5, "a call is not answered while others are in flight")
    for number in reversed(range(MANY)):
        await scene.cancel(holds[number])
        otherwise = f"call {number + 1} of {MANY} is over first, and its reply does not come next"
        await scene.hear_text(5, relays[number].id, f"relay-{number} is over", otherwise)
    await scene.ended(5, "every call is over or was given up")


async def _cancelled(scene: ChannelScene) -> None:
    """A call that is given up has its task cancelled, and no reply."""
    await scene.open()
    await scene.cancel(await scene.stuck("stuck"))
    await scene.hear_nothing(5, "a call that was given up is answered")
    await scene.echo(5, "after a cancellation calls are not answered")


async def _asked(scene: ChannelScene) -> None:
    """A question is pushed while the call is in flight, and its answer lets the call go on."""
    await scene.open()
    call = await scene.say(scene.speaker.call("ask", name="ask"))
    question = await scene.hear(4, "a handler asks the client, and the question does not come out")
    await scene.echo(5, "a call is not answered while a question is open")
    await scene.say(scene.speaker.answer(question, elicit_accept()))
    await scene.hear_text(4, call, "the user chose to accept", "the question is answered, and the call does not go on")


async def _ask_timeout(scene: ChannelScene) -> None:
    """A question has a deadline that comes long before the one of its call."""
    await scene.open()
    (hold,) = await scene.hold("hold")
    call = await scene.say(scene.speaker.call("ask", name="ask"))
    await scene.hear(4, "a handler asks the client, and the question does not come out")
    seconds = scene.config.ask_timeout
    otherwise = f"nobody answers a question, which has {seconds:g} seconds, and it is not withdrawn"
    await scene.hear(7, f"{otherwise}: its deadline is earlier than the one before it")
    failed = await scene.hear(4, "a question was withdrawn, and its call does not fail")
    if failed.get("id") != call or "error" not in failed:
        scene.fail(7, f"a question was withdrawn, and then came {shown(failed)}")
    await scene.cancel(hold)


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


async def _unread(scene: ChannelScene) -> None:
    """A client that does not read costs no memory, and its calls end in time all the same."""
    await scene.open()
    call = await scene.say(scene.speaker.call("flood", "token", name="flood"))
    await scene.started("flood")
    await scene.ended(7, "a call took too long, and should have been ended although the client does not read")
    if scene.subject.flooded >= FLOOD / 2:
        scene.fail(6, f"a handler reported {scene.subject.flooded} bytes to a client that reads nothing")
    done = 0
    while "id" not in (message := await scene.hear(6, "what waited for the client does not come when it reads")):
        if message["params"]["progress"] != done:
            scene.fail(6, f"report {done} should come next, and what comes is {message['params']['progress']}")
        done += 1
    if message["id"] != call or "error" not in message:
        scene.fail(7, f"a call took too long, and ends with {shown(message)}")


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
        if ended.get("id") != listen:
            scene.fail(9, f"the server was shut down, and a stream that listens ends with {shown(ended)}")


_CASES = (
    Case("a whole conversation", _conversation, Config(max_message=SMALL)),
    Case("several events at once", _several_events, applies=lambda adapter: adapter.allows_batch),
    Case("a handler that goes on by itself", _woken, Config(max_unsent=1)),
    Case("many calls in flight", _in_flight),
    Case("a call that is given up", _cancelled),
    Case("a question that is pushed", _asked, applies=pushes),
    Case("a question that nobody answers", _ask_timeout, Config(ask_timeout=0.2), applies=pushes, once=True),
    Case("calls that take too long", _call_timeout, Config(call_timeout=0.4), once=True),
    Case("a client that does not read", _unread, SLOW, applies=has_long_reports, once=True),
    Case("a change of the registry", _announced),
    Case("a client that leaves", _left),
    Case("a client that reads no more", _deaf),
    Case("a driver that ends", _abandoned),
    Case("a server that is shut down", _shut_down),
)

"""A server's driver that is being checked, whatever its transport: calls in flight, and what is said on all alike."""

from __future__ import annotations

from typing import Generic, TypeVar

import attrs

from mcp_sansio.asking import elicit_accept
from mcp_sansio.types import JSON
from mcp_sansio.wire.jsonrpc import encode_batch

from .checking import MANY, Scene, shown
from .speaker import Said
from .subject import FLOOD


class Reader:
    """What a message brings, as far as it has been read."""

    def __init__(self, scene: Scene, said: Said) -> None:
        self._scene = scene
        self.said = said

    async def message(self, rule: int, otherwise: str) -> JSON:
        """The next message, which must come."""
        raise NotImplementedError

    async def end(self, rule: int, otherwise: str) -> None:
        """What the message brings must come to its end, where its transport shows one."""
        raise NotImplementedError

    async def text(self, rule: int, text: str, otherwise: str) -> None:
        """The reply to a call must come next, and be that text."""
        message = await self.message(rule, otherwise)
        if message.get("id") != self.said.id or message.get("result", {}).get("content", [{}])[0].get("text") != text:
            self._scene.fail(rule, f"{otherwise}; what came is {shown(message)}")
        await self.end(rule, f"{otherwise} as the last thing of its response")

    async def progress(self, rule: int, done: int, otherwise: str) -> None:
        """A report of progress must come next."""
        message = await self.message(rule, otherwise)
        if message.get("params", {}).get("progress") != done:
            self._scene.fail(rule, f"{otherwise}; what came is {shown(message)}")


ReaderT = TypeVar("ReaderT", bound=Reader)


@attrs.frozen
class InFlight(Generic[ReaderT]):
    """A call in flight: the name of its handler, and what it brings."""

    name: str
    response: ReaderT


class ServerScene(Scene, Generic[ReaderT]):
    """A server's driver under a check."""

    async def open(self) -> None:
        """Make the handshake, where there is one."""
        raise NotImplementedError

    async def say(self, said: Said) -> ReaderT:
        """Send a message."""
        raise NotImplementedError

    async def tell(self, said: Said) -> None:
        """Send what has no reply."""
        raise NotImplementedError

    async def give_up(self, call: InFlight[ReaderT]) -> None:
        """Give a call up, which ends its handler."""
        await self.tell(self.speaker.cancel(call.response.said.id))
        await self.ended(5, "the client gave a call up", call.name)

    async def echo(self, rule: int, otherwise: str) -> None:
        """A call must be answered."""
        response = await self.say(self.speaker.call("echo", text="still here"))
        await response.text(rule, "still here", otherwise)

    async def hold(self, *names: str) -> list[InFlight[ReaderT]]:
        """Calls that go on until they are given up."""
        calls = [InFlight(name, await self.say(self.speaker.call("hold", name=name))) for name in names]
        await self.started(*names)
        return calls

    async def relay(self, name: str, *after: str, token: str | None = None) -> InFlight[ReaderT]:
        """A call that goes on when each of those is given up."""
        response = await self.say(self.speaker.call("relay", token, name=name, after=list(after)))
        await self.started(name)
        return InFlight(name, response)

    async def stuck(self, name: str) -> InFlight[ReaderT]:
        """A call whose handler waits for ever."""
        marked = await self.say(self.speaker.call("mark", name="mark"))
        await marked.text(5, "marked", "a call is not answered")
        return await self.relay(name, "mark")


# What is checked on every transport


async def several_events(scene: ServerScene[ReaderT]) -> None:
    """One message may bring several calls."""
    await scene.open()
    calls = [scene.speaker.call("echo", text=text) for text in "abc"]
    response = await scene.say(Said(encode_batch([b"{}", *(call.body for call in calls)])))
    otherwise = "a batch of several calls is not answered, as if only some of its events were seen"
    replies = await response.message(5, otherwise)
    if len(replies) != 1 + len(calls):
        scene.fail(5, f"a batch of {len(calls)} calls brings {shown(replies)}")


async def woken(scene: ServerScene[ReaderT]) -> None:
    """What a handler says while it runs comes out at once."""
    await scene.open()
    call = await scene.say(scene.speaker.call("count", "token", to=5))
    otherwise = "a handler goes on when what it said was taken, and what it says then does not come out"
    for number in range(1, 6):
        await call.progress(4, number, otherwise)
    await call.text(4, "counted to 5", otherwise)
    first, second = await scene.hold("first", "second")
    relay = await scene.relay("relay", "first", "second", token="token")
    otherwise = "a handler that waited has gone on and reports progress, and the report does not come out"
    await scene.give_up(first)
    await relay.response.progress(4, 1, otherwise)
    await scene.give_up(second)
    await relay.response.progress(4, 2, otherwise)
    otherwise = "a handler that waited has returned, and its reply does not come"
    await relay.response.text(4, "relay is over", otherwise)


async def in_flight(scene: ServerScene[ReaderT]) -> None:
    """Calls do not wait for each other."""
    await scene.open()
    names = [f"hold-{number}" for number in range(MANY)]
    holds = await scene.hold(*names)
    relays = [await scene.relay(f"relay-{number}", name) for number, name in enumerate(names)]
    await scene.echo(5, "a call is not answered while others are in flight")
    for number in reversed(range(MANY)):
        await scene.give_up(holds[number])
        otherwise = f"call {number + 1} of {MANY} is over before the others, and its reply does not come next"
        await relays[number].response.text(5, f"relay-{number} is over", otherwise)
    await scene.ended(5, "every call is over or was given up")


async def asked(scene: ServerScene[ReaderT]) -> None:
    """A question is pushed while the call is in flight, and its answer lets the call go on."""
    await scene.open()
    call = await scene.say(scene.speaker.call("ask", name="ask"))
    question = await call.message(4, "a handler asks the client, and the question does not come out")
    await scene.echo(5, "a call is not answered while a question is open")
    await scene.tell(scene.speaker.answer(question, elicit_accept()))
    await call.text(4, "the user chose to accept", "the question is answered, and the call does not go on")


async def ask_timeout(scene: ServerScene[ReaderT]) -> None:
    """A question has a deadline that comes long before the one of its call."""
    await scene.open()
    (hold,) = await scene.hold("hold")
    call = await scene.say(scene.speaker.call("ask", name="ask"))
    await call.message(4, "a handler asks the client, and the question does not come out")
    seconds = scene.config.ask_timeout
    otherwise = f"nobody answers a question, which has {seconds:g} seconds, and it is not withdrawn"
    await call.message(7, f"{otherwise}: its deadline is earlier than the one before it")
    failed = await call.message(4, "a question was withdrawn, and its call does not fail")
    if failed.get("id") != call.said.id or "error" not in failed:
        scene.fail(7, f"a question was withdrawn, and then came {shown(failed)}")
    await call.end(4, "a call has failed, and its response does not end")
    await scene.give_up(hold)


async def unread(scene: ServerScene[ReaderT]) -> None:
    """A client that does not read costs no memory, and its calls end in time all the same."""
    await scene.open()
    call = await scene.say(scene.speaker.call("flood", "token", name="flood"))
    await scene.started("flood")
    await scene.ended(7, "a call took too long, and should have been ended although the client does not read")
    if scene.subject.flooded >= FLOOD / 2:
        scene.fail(6, f"a handler reported {scene.subject.flooded} bytes to a client that reads nothing")
    otherwise, done = "what waited for the client does not come when it reads", 0
    while "id" not in (message := await call.message(6, otherwise)):
        if message["params"]["progress"] != done:
            scene.fail(6, f"report {done} should come next, and what comes is {message['params']['progress']}")
        done += 1
    if message["id"] != call.said.id or "error" not in message:
        scene.fail(7, f"a call took too long, and ends with {shown(message)}")

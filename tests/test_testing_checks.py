"""`check_channel` and `check_http` pass drivers that keep the rules, and name the rule that any other one breaks."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

import pytest

import client_drivers
import drivers
import loopless_drivers
import support
from mcp_sansio import Adapter, AdapterSet, ClientOptions, Event, Head, Part, StoreNeeded, Whole
from mcp_sansio.testing import Scheduler, check_channel, check_channel_client, check_http
from mcp_sansio.wire.headers import Headers

#: Long enough for what is under test here, and short enough to wait for what never comes.
PATIENCE = 1.0
ALL = AdapterSet.default()
NEWEST = ALL.only(ALL.versions[0])
PUSHING = ALL.only(next(adapter.version for adapter in ALL.adapters if adapter.can_push_ask))
BATCHES = ALL.only(next(adapter.version for adapter in ALL.adapters if adapter.allows_batch))


async def test_a_channel_that_keeps_the_rules() -> None:
    await check_channel(drivers.channel_of())


async def test_http_that_keeps_the_rules() -> None:
    await check_http(drivers.http_of())


def test_drivers_on_trio_that_keep_the_rules() -> None:
    trio = support.need("trio")
    import trio_drivers

    async def check() -> None:
        await check_channel(trio_drivers.open_channel)
        await check_http(trio_drivers.open_http)

    trio.run(check)


def test_drivers_without_a_loop_that_keep_the_rules() -> None:
    Scheduler().complete(check_channel(loopless_drivers.open_channel))
    Scheduler().complete(check_http(loopless_drivers.open_http))


# What a driver may do wrong on either


class NoTimer(drivers.Driver):
    def set_timer(self) -> None:
        pass


class TimerAtFactsAlone(drivers.Driver):
    """It looks at the deadline when something comes in, and not when a handler has brought an earlier one about."""

    armed = False

    def set_timer(self) -> None:
        if not self.armed:
            super().set_timer()
        self.armed = self.timer is not None


class TimerOnce(drivers.Driver):
    """It does not set the timer again when that has gone off."""

    gone_off = False

    def set_timer(self) -> None:
        if not self.gone_off:
            super().set_timer()

    def time_out(self) -> None:
        self.gone_off = True
        super().time_out()


class NoWake(drivers.Driver):
    def wake(self) -> None:
        pass


class FirstEventAlone(drivers.Driver):
    def take_events(self) -> list[Event]:
        return super().take_events()[:1]


class NoCancelling(drivers.Driver):
    def cancel(self, key: Any) -> None:
        pass


class OneCallAtATime(drivers.Driver):
    """The next call waits for the one before."""

    last: asyncio.Future[None] | None = None

    def start(self, key: Any, run: Callable[[], Any]) -> None:
        before = self.last

        async def after() -> None:
            if before is not None:
                await asyncio.wait([before])
            await run()

        super().start(key, after)
        self.last = self.tasks[key]


class Backwards(drivers.Driver):
    async def send_all(self, pieces: list[Any]) -> None:
        await super().send_all(pieces[::-1])


class NoWaiting(drivers.Driver):
    """It takes everything at once, into memory."""

    kept: asyncio.Queue[Any] | None = None

    async def send_all(self, pieces: list[Any]) -> None:
        if self.kept is None:
            self.kept = asyncio.Queue()
            self.start(self, self.send_kept)
        for piece in pieces:
            self.kept.put_nowait(piece)

    async def send_kept(self) -> None:
        assert self.kept is not None
        while True:
            await self.send(await self.kept.get())


class BusyWhileItSends(drivers.Driver):
    """It does nothing else while the client does not read."""

    is_sending = False

    def turn(self) -> None:
        if not self.is_sending:
            super().turn()

    async def send_all(self, pieces: list[Any]) -> None:
        self.is_sending = True
        await super().send_all(pieces)
        self.is_sending = False
        self.turn()


class CancelsNothingThatTimesOut(drivers.Driver):
    """It takes no events after a timeout."""

    def time_out(self) -> None:
        self.engine.handle_timeout(time.monotonic())
        self.engine.events()
        self.to_send.set()
        self.set_timer()


class Twice(drivers.Driver):
    async def send_all(self, pieces: list[Any]) -> None:
        await super().send_all([piece for piece in pieces for _ in range(2)])


EITHER = [
    (NoTimer, PUSHING, 7, "nobody answers a question, which has 0.2 seconds, and it is not withdrawn"),
    (TimerAtFactsAlone, PUSHING, 7, "its deadline is earlier than the one before it"),
    (NoWake, NEWEST, 4, "a handler goes on when what it said was taken, and what it says then does not come out"),
    (FirstEventAlone, BATCHES, 5, "a batch of several calls is not answered, as if only some of its events were seen"),
    (NoCancelling, PUSHING, 5, "the client gave a call up, and its handler goes on"),
    (Backwards, NEWEST, None, "where the engine says"),
    (NoWaiting, NEWEST, 6, "bytes to a client that reads nothing"),
    (BusyWhileItSends, NEWEST, 7, "should have been ended although the client does not read, and its handler goes on"),
    (Twice, NEWEST, None, "where the engine says"),
]


def case(defect: type, *more: Any) -> Any:
    """The parameters of a test."""
    return pytest.param(defect, *more, id=defect.__name__)


async def assert_broken(checked: Any, rule: int | None, what: str) -> None:
    """The check fails, with the rule and the words."""
    with pytest.raises(AssertionError) as caught:
        await checked
    assert what in str(caught.value)
    if rule is not None:
        assert f"\nRule {rule} of docs/write-a-transport.md: " in str(caught.value)


# Channels


class StrictText(drivers.ChannelServing):
    def receive(self, message: bytes) -> None:
        super().receive(message.decode().encode())


class LosesWhatIsThereAtOnce(drivers.ChannelServing):
    """It has tools run where their calls come in, and does not look at the replies that it gets for that."""

    def __init__(self, server: Any, client: drivers.ChannelClient) -> None:
        self.client = client
        self.driver = self.driver_class(partial(server.connection, runs_at_once=True), client.take)

    def receive(self, message: bytes) -> None:
        self.connection.respond(message)
        self.driver.turn()


class NoLargeMessages(drivers.ChannelServing):
    def receive(self, message: bytes) -> None:
        if len(message) < 2**16:
            super().receive(message)


class DropsTheOverlong(drivers.ChannelServing):
    """A framing with a limit of its own, of which the engine hears nothing."""

    def receive(self, message: bytes) -> None:
        if len(message) <= self.connection.server.config.max_message:
            super().receive(message)


class CutsLargeMessages(drivers.ChannelServing):
    def __init__(self, server: Any, client: drivers.ChannelClient) -> None:
        super().__init__(server, client)
        self.driver.send = lambda message: client.take(message[: 2**16])


class NoEnd(drivers.ChannelServing):
    async def end(self) -> None:
        pass


class LooksAtNoWriter(drivers.ChannelServing):
    """It does not see that nothing can be sent any more."""

    async def first_ended(self, working: list[asyncio.Future[None]]) -> None:
        await working[0]


class WaitsForItsCalls(drivers.ChannelServing):
    async def end(self) -> None:
        await asyncio.gather(*self.driver.tasks.values())


class DeafWhenIdle(drivers.Driver):
    """What happens while no call is in flight comes out later."""

    def wake(self) -> None:
        if self.tasks:
            super().wake()


CHANNELS = [
    *EITHER,
    (CancelsNothingThatTimesOut, NEWEST, 5, "a call took too long and was ended, and its handler goes on"),
    (TimerOnce, NEWEST, 7, "of 3 are not ended by then"),
    (OneCallAtATime, NEWEST, 5, "calls came in, and no handler of ('first', 'second') runs, for 1 seconds"),
    (StrictText, NEWEST, 4, "b'\\xff\\xfe' is not answered"),
    (LosesWhatIsThereAtOnce, NEWEST, 4, "is not answered"),
    (NoLargeMessages, NEWEST, 4, "characters) is not answered, for 1 seconds"),
    (DropsTheOverlong, NEWEST, 3, "a message over max_message is not answered: it is handed in as well"),
    (CutsLargeMessages, NEWEST, 3, "where the engine says"),
    (NoEnd, NEWEST, 8, "the client closed the channel with calls in flight, and its handler goes on"),
    (WaitsForItsCalls, NEWEST, 8, "the client closed the channel with calls in flight, and its handler goes on"),
    (LooksAtNoWriter, NEWEST, 8, "nothing can be sent to the client, and the channel is not ended"),
    (DeafWhenIdle, NEWEST, 9, "the server was shut down, and a stream that listens does not end"),
]


def serving(defect: type, base: type) -> Any:
    """What serves with that defect."""
    return type(defect.__name__, (base,), {"driver_class": defect}) if issubclass(defect, drivers.Driver) else defect


@pytest.mark.parametrize(("defect", "adapters", "rule", "what"), [case(*row) for row in CHANNELS])
async def test_a_channel_that_breaks_a_rule(defect: type, adapters: AdapterSet, rule: int | None, what: str) -> None:
    broken = drivers.channel_of(serving(defect, drivers.ChannelServing))
    await assert_broken(check_channel(broken, adapters=adapters, patience=PATIENCE), rule, what)


# HTTP


class IgnoresTheEnd(drivers.HttpServing):
    def left(self) -> None:
        pass


class CancelsAtTheEnd(drivers.HttpServing):
    """As if a lost connection were a cancellation on every revision."""

    def left(self) -> None:
        super().left()
        for key in self.driver.tasks:
            self.driver.cancel(key)


class NoStore(drivers.Driver):
    def handle(self, event: Event) -> None:
        if not isinstance(event, StoreNeeded):
            super().handle(event)


class CollectsTheStream(drivers.HttpServing):
    """It sends the response when it is complete."""

    def __init__(self, server: Any, exchange: drivers.HttpExchange) -> None:
        super().__init__(server, exchange)
        self.parts: list[Part] = []

    async def send(self, part: Part) -> None:
        self.parts.append(part)
        if isinstance(part, drivers.End):
            for each in self.parts:
                await super().send(each)


class OneStatus(drivers.HttpServing):
    async def send(self, part: Part) -> None:
        await super().send(Head(200, part.headers) if isinstance(part, Head) else part)


class LosesHeaders(drivers.HttpServing):
    async def send(self, part: Part) -> None:
        await super().send(Head(part.status, part.headers[:1]) if isinstance(part, Head) else part)


class FirstChunkAlone(drivers.HttpServing):
    async def serve(self, method: str, target: str, headers: dict[str, str], body: bytes) -> None:
        await super().serve(method, target, headers, body[: 2**16])


class LosesTheQuery(drivers.HttpServing):
    async def serve(self, method: str, target: str, headers: dict[str, str], body: bytes) -> None:
        await super().serve(method, target.partition("?")[0], headers, body)


class LosesTheWhole(drivers.HttpServing):
    """It makes no engine for what is there without one, and forgets to send that."""

    def __init__(self, server: Any, exchange: drivers.HttpExchange) -> None:
        super().__init__(server, exchange)
        self.server = server

    async def serve(self, method: str, target: str, headers: dict[str, str], body: bytes) -> None:
        head = self.server.admit(target, Headers(headers)) if method == "POST" else None
        if head is not None and isinstance(self.server.respond(head, body), Whole):
            return
        await super().serve(method, target, headers, body)


class PostAlone(drivers.HttpServing):
    async def serve(self, method: str, target: str, headers: dict[str, str], body: bytes) -> None:
        if method != "POST":
            raise ConnectionRefusedError("only POST is served here")
        await super().serve(method, target, headers, body)


class NoEndOfHttp(drivers.HttpServing):
    async def end(self) -> None:
        pass


class DeafToTheEnd(drivers.Driver):
    """What ends a response while nothing of it is in flight comes out never."""

    def wake(self) -> None:
        if not self.engine.ended:
            super().wake()


class BlindWhileItSends(drivers.HttpServing):
    """It minds the connection when it is not sending."""

    is_sending = False

    async def send(self, part: Part) -> None:
        self.is_sending = True
        await super().send(part)
        self.is_sending = False

    def left(self) -> None:
        if not self.is_sending:
            super().left()


HTTP = [
    *EITHER,
    (DeafWhenIdle, NEWEST, 4, "a plain function declared a tool, and a stream that is open does not say so"),
    (DeafToTheEnd, NEWEST, 9, "the server was shut down, and a stream that is open does not end"),
    (BlindWhileItSends, NEWEST, 8, "the client has left, which gives its call up, and its handler goes on"),
    (CancelsNothingThatTimesOut, NEWEST, 5, "a call took too long and was ended, and its handler goes on"),
    (TimerOnce, NEWEST, 7, "nothing happens for 0.1 seconds, and no comment says that the server is there"),
    (IgnoresTheEnd, NEWEST, 8, "the client has left, which gives its call up, and its handler goes on"),
    (CancelsAtTheEnd, PUSHING, 8, "which gives nothing up on this revision, and its call was ended"),
    (NoStore, PUSHING, 4, "is not answered"),
    (CollectsTheStream, NEWEST, 4, "reports progress, and the report does not come out"),
    (OneStatus, NEWEST, 3, "where the engine says Head(status=400"),
    (LosesHeaders, NEWEST, 3, "has a response with the header Content-Length: None, where the engine says"),
    (FirstChunkAlone, NEWEST, 3, "where the engine says"),
    (LosesTheQuery, NEWEST, 3, "POST /mcp?mcp=none of"),
    (LosesTheWhole, NEWEST, 4, "is not answered"),
    (PostAlone, NEWEST, 4, "PUT /mcp of b'' is not answered"),
    (NoEndOfHttp, NEWEST, 8, "the driver has ended, and left stuck running"),
]


@pytest.mark.parametrize(("defect", "adapters", "rule", "what"), [case(*row) for row in HTTP])
async def test_http_that_breaks_a_rule(defect: type, adapters: AdapterSet, rule: int | None, what: str) -> None:
    broken = drivers.http_of(serving(defect, drivers.HttpServing))
    await assert_broken(check_http(broken, adapters=adapters, patience=PATIENCE), rule, what)


# Clients


async def test_a_client_that_keeps_the_rules() -> None:
    await check_channel_client(client_drivers.client_of())


class ClientWithoutTimer(client_drivers.QueueClient):
    def set_timer(self) -> None:
        pass


class ClientThatKeepsItsTimer(client_drivers.QueueClient):
    def set_timer(self) -> None:
        if self.timer is None:
            super().set_timer()


class ClientThatDoesNotPump(client_drivers.QueueClient):
    def receive(self, message: bytes) -> None:
        self.engine.receive_message(message)


class ClientThatSendsOneThing(client_drivers.QueueClient):
    """It takes all that there is to send, and sends the first of it."""

    def _flush(self) -> None:
        for message in self._engine.data_to_send()[:1]:
            self.outgoing.put_nowait(message)
        self.set_timer()


class ClientThatCancelsNothing(client_drivers.QueueClient):
    def cancel(self, task: asyncio.Future[None]) -> None:
        pass


class ClientOfStrictText(client_drivers.QueueClient):
    def receive(self, message: bytes) -> None:
        super().receive(message.decode().encode())


class ClientThatHearsNoEnd(client_drivers.QueueClient):
    def end(self) -> None:
        pass


class ClientThatEndsNothing(client_drivers.QueueClient):
    """It closes its channel and leaves its callers waiting."""

    async def close(self) -> None:
        self.outgoing.put_nowait(b"")


class ClientThatStaysOpen(client_drivers.QueueClient):
    async def close(self) -> None:
        await super().close()
        while not self.outgoing.empty():
            self.outgoing.get_nowait()


HANDSHAKE = ALL.only(next(adapter.version for adapter in ALL.adapters if adapter.has_handshake))
CLIENTS = [
    (ClientWithoutTimer, NEWEST, 3, "which is all the time that it has, and a call in a hurry goes on"),
    (ClientThatKeepsItsTimer, NEWEST, 3, "which is all the time that it has, and a call in a hurry goes on"),
    (
        ClientThatDoesNotPump,
        NEWEST,
        2,
        "1 messages came from the client, and all are answered",
    ),
    (ClientThatSendsOneThing, HANDSHAKE, 3, "of 5 calls 0 are sent while none has ended"),
    (ClientThatCancelsNothing, NEWEST, 4, "its task was cancelled, and a call goes on"),
    (ClientOfStrictText, NEWEST, 2, "1 messages came from the client, and all are answered"),
    (ClientThatHearsNoEnd, NEWEST, 2, "the server closed the channel, and call 0 goes on"),
    (ClientThatEndsNothing, NEWEST, 5, "the driver has ended, and left a patient call running"),
    (ClientThatStaysOpen, NEWEST, 5, "the client was closed, and its channel stays open"),
]


@pytest.mark.parametrize(("defect", "adapters", "rule", "what"), [case(*row) for row in CLIENTS])
async def test_a_client_that_breaks_a_rule(
    defect: type[client_drivers.QueueClient], adapters: AdapterSet, rule: int, what: str
) -> None:
    broken = client_drivers.client_of(defect)
    with pytest.raises(AssertionError) as caught:
        await check_channel_client(broken, adapters=adapters, patience=PATIENCE)
    assert what in str(caught.value)
    assert f'\nRule {rule} of docs/write-a-transport.md, "A client": ' in str(caught.value)


async def test_a_client_that_cuts_its_check_off() -> None:
    """A nursery swallows what it has cancelled itself, the task that it was opened in included."""

    @asynccontextmanager
    async def open_client(adapter: Adapter, options: ClientOptions) -> AsyncIterator[client_drivers.QueueServer]:
        async with client_drivers.client_of()(adapter, options) as server:
            with suppress(ZeroDivisionError):
                yield CutOff(server.client)

    class CutOff(client_drivers.QueueServer):
        async def receive(self, seconds: float) -> bytes | None:
            raise ZeroDivisionError

    with pytest.raises(AssertionError, match="the check was cut off, and its context manager hides by what"):
        await check_channel_client(open_client, adapters=NEWEST, patience=PATIENCE)

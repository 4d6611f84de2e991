"""Drives the engine of one HTTP request, beside the coroutine that writes the response.

That coroutine alone writes, and is lent by the transport, and so is the loop: `ResponseDriver` is for loops that call
back. It sees to it that calls run, are cancelled and have their deadlines, whatever the coroutine is waiting for, and
goes on from callback to callback once it has gone.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

from .call import Call
from .driving import Alarm, Handle, Orphans, Task, Tasks
from .events import Body, CallCancelled, CallReceived, End, Event, Head, Part, StoreNeeded
from .runtime import Event as Flag
from .runtime import RunSync, Runtime

__all__ = ["LentLoop", "ResponseDriver", "ResponseEngine", "ServingLoop", "data_of"]

logger = logging.getLogger("mcp_sansio")


class ServingLoop(Protocol):
    """What a driver needs of the loop that it runs on."""

    def now(self) -> float:
        """Seconds, as the engine's runtime has them."""

    def event(self) -> Flag:
        """Something to wait for, as `Runtime.event`."""

    def start(self, work: Awaitable[None], /) -> Task:
        """A task for the coroutine `work`, which may have run to its first wait, or to its end."""

    def call_soon(self, callback: Callable[[], Any], /) -> Any:
        """Call back after what is going on now."""

    def call_at(self, when: float, callback: Callable[[], Any], /) -> Handle:
        """Call back at that time."""

    def run_in_loop(self, callback: Callable[[], None], /) -> None:
        """See `Runtime.run_in_loop`."""


class LentLoop:
    """A `ServingLoop` that is made of `loop`, which has asyncio's interface.

    `now` and `event` are those of the `Runtime`, and `start` makes a task of a coroutine. `thread` says in which thread
    its caller is, as ``threading.get_ident`` does; the loop's is the one that this is made in.
    """

    def __init__(
        self,
        loop: Any,
        *,
        now: Callable[[], float],
        event: Callable[[], Flag],
        start: Callable[[Any], Task],
        thread: Callable[[], int],
    ) -> None:
        self.loop = loop
        self.now = now
        self.event = event
        self.start = start
        self.call_soon: Callable[[Callable[[], Any]], Any] = loop.call_soon
        self._thread = thread
        self._own_thread = thread()

    def runtime(self, token_bytes: Callable[[int], bytes], run_sync: RunSync, **further: Any) -> Runtime:
        """The core's runtime on this loop. The arguments are those of `Runtime`."""
        lent = {"now": self.now, "event": self.event, "run_in_loop": self.run_in_loop, **further}
        return Runtime(token_bytes=token_bytes, run_sync=run_sync, **lent)

    def call_at(self, when: float, callback: Callable[[], Any], /) -> Handle:
        """See `ServingLoop.call_at`."""
        handle: Handle = self.loop.call_later(when - self.now(), callback)
        return handle

    def run_in_loop(self, callback: Callable[[], None], /) -> None:
        """See `Runtime.run_in_loop`. Nothing happens where the loop is closed: nobody is left to be told."""
        if self._own_thread == self._thread():
            callback()
            return
        try:
            self.loop.call_soon_threadsafe(callback)
        except RuntimeError:
            if not self.loop.is_closed():
                raise


def data_of(parts: Sequence[Part]) -> bytes:
    """The bytes of the body that are in `parts`."""
    if len(parts) == 3:  # mostly they are a whole response
        head, body, end = parts
        if type(head) is Head and type(body) is Body and type(end) is End:
            return body.data
    return b"".join([part.data for part in parts if type(part) is Body])


class ResponseEngine(Protocol):
    """What is driven: an `HttpTransaction`."""

    def receive_disconnect(self) -> None:
        """The connection has gone."""

    def handle_timeout(self, now: float) -> None:
        """The time of `next_deadline` has come."""

    def events(self) -> list[Event]:
        """What happened since the last time."""

    def data_to_send(self) -> list[Part]:
        """The parts of the response that are ready."""

    def next_deadline(self) -> float | None:
        """When to call `handle_timeout`."""


class ResponseDriver:
    """Takes what `engine` has, and minds its calls and its deadlines on `loop`.

    A transport makes the engine with `wake`, sets it, and hands it the facts of the request. The coroutine that writes
    the response then has each of its parts from `take`, and puts what it waits for while it writes between `pause` and
    `resume`. It ends with `leave`, after `disconnect` where the client has left. Calls that do not end with that are
    for `orphans` to keep.
    """

    #: Seconds of waiting for a response until its client is watched: where that costs a task, most need none.
    patience = 0.0

    # Defaults stand here, since most requests change none of them.
    _look: Handle | None = None
    _waiter: Flag | None = None
    _alarm: Alarm | None = None
    _watched = False
    _woken = False
    _stores: Sequence[StoreNeeded] = ()
    #: The calls that have not ended with their first step. Most do.
    _tasks: Tasks[Call, Task] | None = None
    _writing = False
    _lost = False
    _alone = False

    engine: ResponseEngine

    def __init__(self, loop: ServingLoop, orphans: Orphans) -> None:
        self._loop = loop
        self._orphans = orphans

    def watch(self) -> None:
        """Have `lose` called when the client leaves. A transport that can see that says here how.

        It is called before the first wait, since most responses are there without one, or after `patience` seconds of
        it. Raises ``ConnectionError`` where the client has left already, unless there is a patience.
        """

    # For the coroutine that writes

    async def take(self) -> list[Part]:
        """The next parts of the response, as soon as there are any. Raises ``ConnectionError`` when the client left."""
        while not self._lost:
            stores, self._stores = self._stores, []
            for store in stores:
                await store.run()
            parts = self.take_now()
            if parts:
                return parts
            if not (self._stores or self._woken):
                await self._wait()
        raise ConnectionResetError("the client left")

    def take_now(self) -> list[Part]:
        """The parts that are there without a wait: of most responses that is all of them. `take` gives what is not."""
        self._woken = False  # first: what wakes from now on may be too late for this turn
        self._stores = self._turn()
        return [] if self._stores else self.engine.data_to_send()

    def pause(self) -> None:
        """The coroutine waits for its client from now on, and calls and deadlines are seen to without it."""
        self._arm()
        self._writing = True
        if self._woken:  # since the last `take`, and nobody heard it
            self._loop.call_soon(self._attend)

    def resume(self) -> None:
        """It is back, and will `take` what there is."""
        self._writing = False

    async def respond(self, send: Callable[[list[Part]], Awaitable[object]]) -> None:
        """`send` the whole response, part for part. Raises what `take` and `send` do."""
        parts: list[Part] = []
        while not (parts and isinstance(parts[-1], End)):
            parts = await self.take()
            self.pause()
            await send(parts)
            self.resume()

    def disconnect(self) -> None:
        """The client has left, or the coroutine is cancelled."""
        self.engine.receive_disconnect()
        self._go_alone()

    def leave(self) -> None:
        """The coroutine ends. Calls that do not end with it go on without."""
        if self._look is not None:
            self._look.cancel()
        if self._alone:
            return
        if self._tasks is not None and not all(task.done() for task in self._tasks.running.values()):
            self._go_alone()
            return
        if self._alarm is not None:
            self._alarm.stop()
        # Both hold this driver. Without the ways back all are freed now, and not by the collector.
        self._alarm = None
        del self.engine

    async def _wait(self) -> None:
        """Return when there is something to do."""
        self._arm()
        if not self._watched:
            self._watched = True
            if self.patience:
                self._look = self._loop.call_at(self._loop.now() + self.patience, self.watch)
            else:
                self.watch()
        waiter = self._waiter = self._loop.event()
        try:
            if not self._woken:  # as by a watch that saw something at once
                await waiter.wait()
        finally:
            self._waiter = None

    # What the engine asks for

    def _turn(self) -> list[StoreNeeded]:
        """Start and cancel calls. What the engine wants of its store is given, to be awaited."""
        stores: list[StoreNeeded] = []
        while events := self.engine.events():
            for event in events:
                if isinstance(event, CallReceived):
                    self.start_call(event.call, event.run())
                elif isinstance(event, StoreNeeded):
                    stores.append(event)
                elif not isinstance(event, CallCancelled):
                    logger.debug("%s", event.failure)
                elif self._tasks is not None:
                    self._tasks.cancel(event.call)
        return stores

    def start_call(self, call: Call, work: Awaitable[None]) -> None:
        """Run `work` of `call`, and keep it where it does not end with its first step."""
        task = self._loop.start(work)
        if task.done():
            return
        if self._tasks is None:
            self._tasks = Tasks(self._loop.start)
        self._tasks.hold(call, task)

    def _go_alone(self) -> None:
        self._alone = True
        self._turn_alone()

    def _turn_alone(self) -> None:
        """A turn without the coroutine that writes, which is busy or gone."""
        for store in self._turn():
            self._orphans.adopt(self._loop.start(store.run()))
        if self._alone and self._tasks is not None:
            for task in self._tasks.running.values():
                self._orphans.adopt(task)
        self._arm()

    # What wakes the coroutine that writes

    def wake(self) -> None:
        """There is something to take. Called by the engine, from any thread."""
        # In this order: who is about to wait looks at the first once he can be seen to wait.
        self._woken = True
        if self._waiter is not None or self._alone or self._writing:
            self._loop.run_in_loop(self._signal)

    def lose(self) -> None:
        """The client has left. To be called on the loop, whatever the coroutine is waiting for."""
        self._lost = True
        self._signal()

    def _signal(self) -> None:
        self._woken = True
        if self._waiter is not None:
            self._waiter.set()
        elif self._alone or self._writing:
            # Soon and not now: the engine may be in the middle of what it wakes for.
            self._loop.call_soon(self._attend)

    def _attend(self) -> None:
        """A turn, unless the coroutine that writes has come to it meanwhile."""
        if self._alone or self._writing:
            self._turn_alone()

    def _arm(self) -> None:
        due = self.engine.next_deadline()
        if self._alarm is None:
            if due is None:
                return
            self._alarm = Alarm(self._loop.call_at, self._pass_time)
        if due is None:
            self._alarm.stop()  # it would hold what it belongs to until then
        else:
            self._alarm.set(due)

    def _pass_time(self) -> None:
        self.engine.handle_timeout(self._loop.now())
        self._turn_alone()
        self._signal()

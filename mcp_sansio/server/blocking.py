"""Serves one HTTP request in the thread that brings it, without an event loop.

Source: PEP 3333 is what it was made for; a function that is called once for each request is served in the same way.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from contextvars import copy_context
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any, Protocol

from mcp_sansio.driving import Alarm, Handle, Tasks
from mcp_sansio.driving import Task as AnyTask
from mcp_sansio.events import CallCancelled, CallReceived, Head, Part, StoreNeeded
from mcp_sansio.stepping import Job, Task

from .server import Server

if TYPE_CHECKING:
    from .http import HttpTransaction

logger = logging.getLogger("mcp_sansio")

#: One read of a request's body.
_PIECE = 64 * 2**10


class Condition(Protocol):
    """A lock around the server and all that is done with it, and a way to wait for news: ``threading.Condition``."""

    def __enter__(self) -> bool: ...
    def __exit__(self, *raised: Any) -> Any: ...

    def wait(self, timeout: float | None = None) -> Any:
        """Wait, without the lock, until somebody notifies, for so many seconds at most."""

    def notify_all(self) -> Any:
        """Have everybody go on who waits."""


class Lent(Protocol):
    """An event loop that runs in another thread. The transaction that calls it has the lock."""

    def start(self, work: Awaitable[None], outside: Callable[[Job[Any]], object], /) -> AnyTask:
        """Run `work` there, with the lock while it runs and without it while it waits; `outside` has its jobs done."""

    def call_at(self, when: float, callback: Callable[[], object], /) -> Handle:
        """Call back at that time, which is the runtime's, with the lock."""

    def run(self, function: Callable[[], object], /) -> object:
        """Run `function`, which may block, in some other thread."""


class BlockingTransaction:
    """A transaction of `server`: its methods block the thread of the request, and run its handlers there.

    `news` has the lock of all transactions of `server`, which can be taken again by who has it. It is let go of while a
    plain function runs and while nothing is to be done. With a `loop`, calls run there. Then deadlines hold, and calls
    can be given up, while the thread sends to a client that does not read; and those that go on when the client has
    left need no thread. With a `message_path` it is a request to the pair of endpoints of the first HTTP transport: see
    `Server.pair_transaction`. `options` are those of `HttpTransaction`. The server's runtime has the `Event` and the
    `run_outside` of `stepping`.
    """

    def __init__(
        self,
        server: Server,
        news: Condition,
        *,
        loop: Lent | None = None,
        message_path: str | None = None,
        **options: Any,
    ) -> None:
        self._now = server.runtime.now
        self._news = news
        self._steps: deque[Callable[[], object]] = deque()
        self._jobs: deque[Job[Any]] = deque()
        self._loop = loop
        begin = self._step if loop is None else loop.start
        self._tasks: Tasks[object, AnyTask] = Tasks(lambda work: begin(work, self.have_done))
        #: Set while the loop has what the thread of the request cannot see to: it sends something, or has gone.
        self._is_away = self._has_left = False
        self._alarm = None if loop is None else Alarm(loop.call_at, self._stand_in)
        if message_path is None:
            self._engine: HttpTransaction = server.http_transaction(wake=self._notify, paced=True, **options)
        else:
            self._engine = server.pair_transaction(wake=self._notify, message_path=message_path, **options)

    def receive(
        self,
        method: str,
        target: str,
        headers: Iterable[tuple[str, str]],
        read: Callable[[int], bytes],
        length: int | None,
    ) -> None:
        """Take the request in: see `HttpTransaction.receive_request`.

        ``read(size)`` reads the body, of which there are `length` bytes, or ``None`` where it ends with ``b""``. An
        ``OSError`` that it raises says that the client has left, a ``ValueError`` that what it sends is no body.
        """
        engine = self._engine
        with self._news:
            engine.receive_request(method, target, headers)
        left = inf if length is None else length
        while engine.receiving and left:
            try:
                data = read(int(min(left, _PIECE)))
            except (OSError, ValueError):
                data, length = b"", 0
            with self._news:
                if not data and length is not None:
                    engine.receive_disconnect()  # it is shorter than was said
                engine.receive_body(data)
                self._pass_time()
            left = left - len(data) if data else 0
        with self._news:
            engine.receive_end()

    def next_parts(self) -> list[Part]:
        """Do what there is to do until something is to be sent, and give that. None at all says that all is over."""
        while True:
            with self._news:
                self._is_away = False
                self._go_on()
                parts = self._engine.data_to_send()
                if len(parts) == 1 and isinstance(parts[0], Head) and not self._engine.ended:
                    self._engine.write_comment()  # PEP 3333: a head is not sent before the first bytes of its body
                    parts += self._engine.data_to_send()
                if parts or self._is_over or (self._has_left and self._alarm and not self._jobs):
                    self._go_away()
                    return parts
                if not self._jobs:
                    due = self._engine.next_deadline()
                    self._news.wait(None if due is None else max(0.0, due - self._now()))
                    continue
                job = self._jobs.popleft()
            self._do(job)

    def leave(self) -> None:
        """The connection is done with. Without a loop, calls that go on have this thread until they have ended."""
        with self._news:
            self._engine.receive_disconnect()
            self._has_left = True
        while self.next_parts():
            pass

    def have_done(self, job: Job[Any]) -> None:
        """Have `job` done, in this request's thread while there is one. Any thread may call it."""
        with self._news:
            if self._loop is not None and self._has_left and self._is_away:
                self._loop.run(partial(self._do, job))
            else:
                self._jobs.append(job)
                self._notify()

    def _do(self, job: Job[Any]) -> None:
        try:
            job.run()
        finally:
            self._soon(job.done.set)

    @property
    def _is_over(self) -> bool:
        return self._engine.ended and not self._tasks.running

    def _go_away(self) -> None:
        """Let the loop stand in, if there is one, while the request's thread does something else."""
        if self._alarm is not None:
            self._is_away = not self._is_over
            if self._is_away:
                self._alarm.set(self._engine.next_deadline())
            else:
                self._alarm.stop()

    def _stand_in(self) -> None:
        """Let everything go on for the request's thread."""
        if self._is_away:
            self._go_on()
            self._go_away()

    def _go_on(self) -> None:
        """Let everything go on as far as it can."""
        self._pass_time()
        while (events := self._engine.events()) or self._steps:
            for event in events:
                if isinstance(event, CallReceived):
                    self._start(event.call, event.run())
                elif isinstance(event, StoreNeeded):
                    self._start(event, event.run())
                elif isinstance(event, CallCancelled):
                    self._tasks.cancel(event.call)
                else:
                    logger.debug("%s", event.failure)
            for _ in range(len(self._steps)):
                self._steps.popleft()()

    def _step(self, work: Awaitable[None], outside: Callable[[Job[Any]], object]) -> AnyTask:
        # What a handler sets in its context is its own: the thread brings the requests of others, too.
        return Task(work, self._soon, outside, context=copy_context())

    def _start(self, key: object, work: Awaitable[None]) -> None:
        self._tasks.start(key, work)
        task = self._tasks.running.get(key)
        if task is not None:
            task.add_done_callback(lambda _: self._notify())

    def _pass_time(self) -> None:
        due, now = self._engine.next_deadline(), self._now()
        if due is not None and due <= now:
            self._engine.handle_timeout(now)

    def _soon(self, step: Callable[[], object]) -> None:
        self._steps.append(step)
        self._notify()

    def _notify(self) -> None:
        with self._news:
            self._news.notify_all()
            if self._alarm is not None and self._is_away:
                self._alarm.set(self._now())

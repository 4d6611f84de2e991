"""Threads that never keep a process alive: where plain ``def`` handlers run, and what blocks without being pollable.

asyncio's own pool joins its threads when the loop closes and again when the interpreter exits. A handler that sleeps
for an hour would keep a server alive for an hour after its client went away.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from queue import SimpleQueue
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

#: Means something to the interpreter or to a future, and so cannot be passed on as what a function raised.
_NOT_FOR_OTHERS = (StopIteration, GeneratorExit, SystemExit, KeyboardInterrupt)


class DaemonThreads(ThreadPoolExecutor):
    """An executor of at most `most` daemon threads, which are started as they are needed.

    It is a ``ThreadPoolExecutor`` in name only, since a loop takes nothing else as its default executor. `shutdown`
    waits for nobody: threads end when what they run has ended, or with the process.
    """

    def __init__(self, most: int) -> None:
        super().__init__(1)
        self._most = most
        self._jobs: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._started = 0
        self._unfinished = 0
        self._is_shut = False

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """See ``Executor.submit``. Raises ``RuntimeError`` after `shutdown`."""
        future: Future[T] = Future()
        with self._lock:
            if self._is_shut:
                raise RuntimeError("this server has ended; its threads take no more work")
            self._unfinished += 1
            needs_thread = self._started < min(self._unfinished, self._most)
            self._started += needs_thread
        self._jobs.put((future, partial(fn, *args, **kwargs)))
        if needs_thread:
            threading.Thread(target=self._work, name="mcp_sansio_stdio", daemon=True).start()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more work. It never waits."""
        with self._lock:
            self._is_shut = True
            started, self._started = self._started, 0
        for _ in range(started):
            self._jobs.put(None)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            _settle(*job)
            del job  # an idle thread keeps nobody's result alive
            with self._lock:
                self._unfinished -= 1


def _settle(future: Future[Any], function: Callable[[], Any]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = function()
    except _NOT_FOR_OTHERS as error:
        future.set_exception(RuntimeError(f"{type(error).__name__} was raised in a thread"))
    except BaseException as error:  # the core ends handlers by some of its own
        future.set_exception(error)
    else:
        future.set_result(result)

"""The one thread that an engine of a client belongs to, and the threads that do for it what takes time.

Callers wait, and touch nothing: so any number of threads may call at once, a KeyboardInterrupt finds the engine as it
should be, and it makes no difference whether an event loop runs in the caller's thread. Each reading and writing that
blocks, and each callback, has a thread of its own while it lasts. So the coroutines of `ClientApi` are run as they are.

Rejected: a lock around the engine, with each caller working on it in its own thread. A KeyboardInterrupt comes between
any two instructions of the main thread, so it would leave an engine half way; and deadlines that nobody waits for (a
stream that is to be opened again) need a thread all the same.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, wait
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from mcp_sansio import LocalProtocolError, Runtime
from mcp_sansio.stepping import Agenda, Cancelled, Event, Task, run_outside

from ._helpers import Helpers

T = TypeVar("T")
logger = logging.getLogger("mcp_sansio_sync")


class Keeper(Agenda):
    """A thread, from the first `run` to `stop`, that does one thing after the other."""

    def __init__(self) -> None:
        self._inbox: SimpleQueue[Callable[[], Any]] = SimpleQueue()
        self._helpers = Helpers(self._inbox.put)
        #: Runs a function, which raises nothing, in a thread of its own, without waiting for it.
        self.beside = self._helpers.run
        super().__init__(time.monotonic, self._inbox.put, self._helpers.have_done)
        self.runtime = Runtime(now=time.monotonic, token_bytes=os.urandom, event=Event, run_sync=run_outside)
        self._tasks: dict[Future[Any], Task] = {}
        self._lock = threading.RLock()
        self._thread: threading.Thread | None = None
        self._is_over = False
        self._process = 0

    # For callers, in any thread

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` here, and wait for its end: what it returns, or raises. Who is interrupted cancels it."""
        if self._thread is not None and self._process != os.getpid():
            work.close()
            raise LocalProtocolError("this client was used before the process was forked; make one in each process")
        future: Future[T] = Future()
        try:
            self._hand_over(partial(self._begin, work, future))
            return future.result()
        finally:
            if not future.done():
                self._hand_over(partial(self._cancel, work, future))
                wait([future])

    def stop(self) -> None:
        """End the thread. What is run later can only find out that nothing happens any more."""
        with self._lock:
            self._is_over = True
            thread, self._thread = self._thread, None
        if thread is not None:
            self.call_soon(self._helpers.stop)
            thread.join()

    def _hand_over(self, callback: Callable[[], None]) -> None:
        with self._lock:
            self.call_soon(callback)
            if self._is_over and self._thread is None:
                self._end()
            elif self._thread is None:
                self._process = os.getpid()
                self._thread = threading.Thread(target=self._live, name="mcp_sansio_sync", daemon=True)
                self._thread.start()

    # Inside

    def _begin(self, work: Coroutine[Any, Any, T], future: Future[T]) -> None:
        task = self._tasks[future] = self.start(work)
        task.add_done_callback(lambda _: self._settle(task, future))

    def _settle(self, task: Task, future: Future[Any]) -> None:
        del self._tasks[future]
        if task.error is None:
            future.set_result(task.value)
        else:
            future.set_exception(task.error)

    def _cancel(self, work: Coroutine[Any, Any, T], future: Future[T]) -> None:
        if future in self._tasks:
            self._tasks[future].cancel()
        elif not future.done():  # the interrupt came before it had begun
            work.close()
            future.set_exception(Cancelled())

    def _live(self) -> None:
        while not self._is_over:
            try:
                self._do(self._inbox.get(timeout=self.pass_time()))
            except Empty:
                pass
        with self._lock:
            self._end()

    def _end(self) -> None:
        """Do what is still to be done, now that nothing will happen any more."""
        while self._tasks or not self._inbox.empty():
            while not self._inbox.empty():
                self._do(self._inbox.get())
            for task in tuple(self._tasks.values()):
                task.cancel()

    def _do(self, callback: Callable[[], Any]) -> None:
        try:
            callback()
        except Exception:
            logger.exception("%r failed", callback)

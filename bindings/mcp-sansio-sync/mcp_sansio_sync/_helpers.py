"""Threads that do what blocks, for the one thread that has an engine to itself."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from math import inf
from queue import SimpleQueue
from typing import Any

from mcp_sansio.stepping import Job, Soon


class Helpers:
    """Threads that never keep a process alive: as many as are needed at once, up to `most`, and used again.

    ``soon(function)``, which any thread may call, has the thread with the engine run that.
    """

    def __init__(self, soon: Soon, most: float = inf) -> None:
        self._soon = soon
        self._most = most
        self._jobs: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._started = 0
        #: How many have nothing to do; below zero, how many jobs wait for one.
        self._free = 0
        self._is_over = False

    def have_done(self, job: Job[Any]) -> None:
        """Have `job` done. Who waits for it hears of its errors, and of an interrupt that nobody meant for a helper."""

        def work() -> None:
            with suppress(KeyboardInterrupt):
                job.run()
            self._soon(job.done.set)

        self.run(work)

    def run(self, job: Callable[[], object]) -> None:
        """Have `job`, which raises nothing, run."""
        with self._lock:
            if self._free <= 0 and self._started < self._most:
                threading.Thread(target=self._work, args=(job,), name="mcp_sansio_sync helper", daemon=True).start()
                self._started += 1
                return
            self._free -= 1
        self._jobs.put(job)

    def stop(self) -> None:
        """Let the threads end that have nothing to do, and the others as soon as they have."""
        with self._lock:
            self._is_over = True
            for _ in range(self._free):
                self._jobs.put(None)

    def _work(self, job: Callable[[], object] | None) -> None:
        while job is not None:
            job()
            job = None  # an idle thread keeps nobody's result alive
            with self._lock:
                if self._is_over:
                    return
                self._free += 1
            job = self._jobs.get()

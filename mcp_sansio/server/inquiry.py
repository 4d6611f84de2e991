"""What a request asks the other workers of the deployment, because it came in at the wrong one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from mcp_sansio.outcome import Failure, FailureKind

if TYPE_CHECKING:
    from .http import HttpTransaction
    from .workers import Message


class Inquiry:
    """A question of the request `http`, and the time that the others have to answer it.

    `heard` is called with each answer, `unknown` where none comes within `Config.worker_timeout` seconds: nobody has
    what was asked for, or who has it is dead.
    """

    def __init__(
        self, http: HttpTransaction, message: Message, heard: Callable[[Message], None], unknown: Callable[[], None]
    ) -> None:
        self.deadline: float | None = None
        self._http = http
        self._workers = http.server.workers
        self._heard = heard
        self._unknown = unknown
        self._question: str | None = None
        if self._workers.alone:
            unknown()
        elif self._workers.cut_off:
            self._refuse()
        else:
            self.deadline = http.server.runtime.now() + http.config.worker_timeout
            self._question = self._workers.ask(message, self._answer)
            self._said = self._workers.said_so_far

    def _answer(self, message: Message) -> None:
        self.deadline = None
        self._heard(message)
        self._http.wake()

    def handle_timeout(self, now: float) -> None:
        """Do what is due."""
        if self.deadline is None or self.deadline > now:
            return
        self.close()
        if not self._workers.has_taken(self._said):
            self._refuse()
        else:
            self._unknown()

    def _refuse(self) -> None:
        self._http.refuse(Failure(FailureKind.UNAVAILABLE, "the other workers cannot be reached"))

    def still_reads(self, reads: bool) -> None:
        """Tell who answered whether what it says is still read."""
        if self._question is not None:
            self._workers.say_of(self._question, reads=reads)

    def close(self) -> None:
        """No further answer is of interest."""
        self.deadline = None
        if self._question is not None:
            self._workers.forget(self._question)
            self._question = None

"""A message that is due no reply, by a POST of its own: any success will do, and its failure harms no call."""

from __future__ import annotations

from collections.abc import Callable

from .exchange import Complete, Finding, Refusal, Response, Unreadable
from .http_errors import refused


class Notice:
    """One such message. `what` names it where it has to be said that it did not get there; `fault` is told so.

    `then` is called once it is known what became of it, and `matters` says that somebody misses it otherwise. One that
    `is_parting` is still delivered while the client closes.
    """

    def __init__(self, what: str, fault: Callable[[str, bool], None]) -> None:
        self.matters = self.is_parting = False
        self.then: Callable[[], None] | None = None
        self._what = what
        self._fault = fault

    def began(self, response: Response) -> None:
        """See `Job.began`."""

    def found(self, finding: Finding) -> None:
        """See `Job.found`."""
        if isinstance(finding, Refusal):
            self._end(f"was refused: {refused(finding)}")
        elif isinstance(finding, Unreadable):
            self._end(f"may not have arrived: {finding.reason}")
        elif isinstance(finding, Complete):
            self._end(None)

    def lost(self, reason: str, cause: BaseException | None = None, connected: bool = True) -> None:
        """See `Job.lost`."""
        self._end(f"may not have arrived: {reason}")

    def _end(self, fault: str | None) -> None:
        if fault is not None:
            self._fault(f"{self._what} {fault}", self.matters)
        if self.then is not None:
            self.then()

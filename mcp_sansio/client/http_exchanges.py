"""The HTTP requests in flight: what each is for, where redirects lead, and how long each may take."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from itertools import count
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from mcp_sansio.wire.urls import are_same_origin, resolve

from .exchange import Due, Finding, Message, Named, Overlong, Redirect, Response, Unreadable
from .http_errors import unreached
from .http_requests import HttpAbort, HttpRequest

#: The redirects that leave a request as it is, whatever its method (RFC 9110 section 15.4).
_KEEPING = frozenset({307, 308})
_PERMANENT = 308


class Job(Protocol):
    """What a request is for."""

    def began(self, response: Response) -> None:
        """The head of a response came, and its body is to be read."""

    def found(self, finding: Finding) -> None:
        """Something was found in the response. Redirects are not among it."""

    def lost(self, reason: str, cause: BaseException | None = None, connected: bool = True) -> None:
        """There will be no response, or nothing more of it. Where it was never `connected`, `reason` says all."""


class Flight(Struct, eq=False):
    """A request in flight, for those who sent it. `request` changes where it is redirected."""

    job: Job
    due: Due
    request: HttpRequest
    response: Response
    deadline: float | None = None
    redirects: int = 0
    #: Nothing more of the response is of use.
    settled: bool = False

    def __repr__(self) -> str:
        return f"<Flight {self.request.exchange} {self.request.method}>"


class Exchanges:
    """The requests of one client, by the number that stands for each in facts.

    `max_message` and `max_headers` are as for `Response`. `max_redirects` bounds how often one request is sent on.
    `linger` is how many seconds the rest of a response, of which nothing more is wanted, may take before it is given
    up: a connection whose response was read to the end can be used again.
    """

    def __init__(
        self,
        url: str,
        now: Callable[[], float],
        *,
        max_message: int,
        max_headers: int,
        max_redirects: int,
        linger: float,
    ) -> None:
        self.url = url
        self._now = now
        self._limits = max_message, max_headers
        self._max_redirects = max_redirects
        self._linger = linger
        self._numbers = count(1)
        self._flights: dict[Hashable, Flight] = {}
        #: Those with a deadline, which most of the requests in flight do not have.
        self._timed: dict[Hashable, Flight] = {}
        self.pending: Collection[object] = self._timed
        #: What there is to do, in order.
        self.unsent: list[HttpRequest | HttpAbort] = []

    def __len__(self) -> int:
        """How many requests are in flight, those of which only the end is waited for included."""
        return len(self._flights)

    def __contains__(self, exchange: Hashable) -> bool:
        """Whether that request is in flight."""
        return exchange in self._flights

    # For those who send

    def send(
        self,
        job: Job,
        due: Due,
        method: str,
        headers: Mapping[str, str],
        body: bytes = b"",
        *,
        url: str | None = None,
        timeout: float | None = None,
    ) -> Flight:
        """Send a request for `job`, to `url` or to the endpoint.

        `timeout` is how many seconds all of it may take, or ``None`` where somebody else minds that.
        """
        exchange = next(self._numbers)
        request = HttpRequest(exchange, method, url or self.url, headers, body)
        self._flights[exchange] = flight = Flight(job, due, request, Response(due, *self._limits))
        self.unsent.append(request)
        if timeout is not None:
            self.limit(flight, timeout)
        return flight

    def limit(self, flight: Flight, timeout: float | None) -> None:
        """From now on that request may take so many seconds, or any time for ``None``."""
        exchange = flight.request.exchange
        if timeout is None:
            flight.deadline = None
            self._timed.pop(exchange, None)
        elif exchange in self._flights:
            flight.deadline = self._now() + timeout
            self._timed[exchange] = flight

    def settle(self, flight: Flight) -> None:
        """Nothing more is wanted of that response: its rest may come, but not for long."""
        if not flight.settled:
            flight.settled = True
            if flight.request.exchange in self._flights:
                self.limit(flight, self._linger)

    def abort(self, flight: Flight) -> None:
        """Give that request up, or what is left of its response."""
        flight.settled = True
        if self._land(flight.request.exchange) is not None:
            self.unsent.append(HttpAbort(flight.request.exchange))

    def abort_all(self, *, but: Callable[[Job], bool]) -> None:
        """Give everything up, `but` what some jobs are at."""
        for flight in tuple(self._flights.values()):
            if not but(flight.job):
                self.abort(flight)

    # Facts in

    def receive_response(
        self, exchange: Hashable, status: int, headers: Mapping[str, str] | Iterable[tuple[str, str]]
    ) -> None:
        """The head of a response."""
        flight = self._flights.get(exchange)
        if flight is None or flight.response.status is not None:
            return
        response = flight.response
        findings = response.receive_response(status, headers)
        if findings:
            self._found(flight, findings)
        elif response.status is not None and status < 300 and not flight.settled:
            flight.job.began(response)

    def receive_data(self, exchange: Hashable, data: bytes) -> None:
        """A piece of a response's body."""
        flight = self._flights.get(exchange)
        if flight is None or flight.settled:
            return
        findings = flight.response.receive_data(data)
        if findings:
            self._found(flight, findings)

    def receive_end(self, exchange: Hashable, data: bytes = b"") -> None:
        """A response is complete with that piece of its body."""
        flight = self._land(exchange)
        if flight is not None and not flight.settled:
            self._found(flight, flight.response.receive_end(data))

    def receive_failure(
        self, exchange: Hashable, reason: str, cause: BaseException | None = None, connected: bool = True
    ) -> None:
        """There is no response, or no more of it; see `HttpClientSession.receive_failure`."""
        flight = self._land(exchange)
        if flight is not None and not flight.settled:
            flight.settled = True
            flight.job.lost(reason if connected else unreached(flight.request.url, reason), cause, connected)

    def handle_timeout(self, now: float) -> None:
        """Give up what took too long."""
        for flight in tuple(self._timed.values()):
            if flight.deadline is not None and flight.deadline <= now:
                was_settled = flight.settled
                self.abort(flight)
                if not was_settled:
                    flight.job.lost("there was no answer in time")

    # Things to take

    def next_deadline(self) -> float | None:
        """When to call `handle_timeout`."""
        return min((flight.deadline for flight in self._timed.values() if flight.deadline is not None), default=None)

    # Inside

    def _land(self, exchange: Hashable) -> Flight | None:
        self._timed.pop(exchange, None)
        return self._flights.pop(exchange, None)

    def _found(self, flight: Flight, findings: list[Finding]) -> None:
        for finding in findings:
            if flight.settled:
                return
            if type(finding) is Message:
                flight.job.found(finding)
            elif type(finding) is Redirect:
                self._redirected(flight, finding)
            else:
                self._found_one(flight, finding)

    def _found_one(self, flight: Flight, finding: Finding) -> None:
        if isinstance(finding, Unreadable):
            self.abort(flight)
        elif not isinstance(finding, Named | Overlong):
            self.settle(flight)
        flight.job.found(finding)

    def _redirected(self, flight: Flight, redirect: Redirect) -> None:
        url = resolve(flight.request.url, redirect.location)
        fault = self._fault_of_redirect(flight, redirect.status, url)
        if url is None or fault is not None:
            reason = f"it redirects to {(url or redirect.location)[:200]!r}, {fault}"
            self._found_one(flight, Unreadable(redirect.status, redirect.headers, reason))
            return
        self._leave_behind(flight)
        if redirect.status == _PERMANENT and flight.request.url == self.url:
            self.url = url
        flight.request = replace(flight.request, exchange=next(self._numbers), url=url)
        flight.response = Response(flight.due, *self._limits)
        flight.redirects += 1
        self._flights[flight.request.exchange] = flight
        self.unsent.append(flight.request)
        if flight.deadline is not None:
            self._timed[flight.request.exchange] = flight

    def _leave_behind(self, flight: Flight) -> None:
        """What is left of the response of a request that goes elsewhere still comes, under the old number."""
        exchange = flight.request.exchange
        if self._land(exchange) is not None:
            husk = self._flights[exchange] = replace(flight)
            self.settle(husk)

    def _fault_of_redirect(self, flight: Flight, status: int, url: str | None) -> str | None:
        if url is None:
            return "which is no URL to go on to"
        if not are_same_origin(flight.request.url, url):
            # Headers that a caller gave may say who they are; they are for the origin that they were given for.
            return "which is another origin"
        if flight.request.method != "GET" and status not in _KEEPING:
            return f"and with status {status} the request would not get there as it is"
        if flight.redirects >= self._max_redirects:
            return f"after {self._max_redirects} other redirects"
        return None

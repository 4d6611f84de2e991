"""What this worker has and a client asks for at another one: the streams that it keeps, and its pairs of endpoints.

A request that comes in at the wrong worker is asked about in the whole deployment. The worker that has the stream lends
it: the events go over the hub, for as long as the other one says now and then that somebody still reads them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .streams import EventLog, StandaloneStream

if TYPE_CHECKING:
    from .server import Server
    from .sessions import LiveSession
    from .workers import Message

#: After how many silences (`Config.keep_alive`) without a word from the other worker nobody reads there any more.
_LEASE = 3


class LentLog:
    """A log of this worker that a response at another one reads; `question` is what that one asked for it."""

    def __init__(self, server: Server, question: str, log: EventLog, standalone: StandaloneStream | None) -> None:
        self._server = server
        self._question = question
        self._log = log
        self._standalone = standalone
        self._until = server.runtime.now() + _LEASE * server.config.keep_alive

    def start(self, number: int) -> None:
        """Send what comes after the event of that number, and what follows."""
        if self._standalone is not None:
            self._standalone.attach()
            self._server.stream_opened(self)
        self._log.attach(self._write, self._finish)
        self._tell([event.decode() for event in self._log.after(number)], over=self._log.finished)
        if self._log.finished:
            self.leave()

    def renew(self) -> None:
        """Somebody still reads, and hears that this worker is still there."""
        self._until = self._server.runtime.now() + _LEASE * self._server.config.keep_alive
        self._tell([])

    def _write(self, event: bytes) -> None:
        if self._server.runtime.now() > self._until:
            self.leave()
        else:
            self._tell([event.decode()])

    def _finish(self) -> None:
        self._tell([], over=True)
        self.leave()

    def _tell(self, events: list[str], *, over: bool = False) -> None:
        self._server.workers.tell(self._question, {"events": events, "over": over})

    def leave(self) -> None:
        """Nobody reads there any more; what is written meanwhile is kept for a return."""
        self._server.lender.forget(self._question)
        self._server.stream_closed(self)
        self._log.detach(self._write)
        if self._standalone is not None:
            self._standalone.detach()

    def close(self) -> None:
        """The server shuts down: the client has to come back for another stream."""
        self._server.workers.tell(self._question, {"lost": True})
        self.leave()


class Lender:
    """Answers what other workers ask about, where this one has it, and is silent where it has not."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._lent: dict[str, LentLog] = {}

    def forget(self, question: str) -> None:
        """What was lent for that question is no longer read."""
        self._lent.pop(question, None)

    def hear(self, message: Message) -> None:
        """A question of another worker, or a word on what was lent for one."""
        question: str = message["question"]
        if "resume" in message:
            self._server.with_live_session(message["session"], lambda live: self._lend(question, live, message))
        elif "post" in message:
            self._take(question, message)
        elif question in self._lent:
            lent = self._lent[question]
            lent.renew() if message["reads"] else lent.leave()

    def _lend(self, question: str, live: LiveSession, message: Message) -> None:
        found = live.log_of(message["resume"])
        if found is None:
            return
        log, number = found
        standalone = live.standalone_of(log)
        if standalone is not None and self._server.closing:
            self._server.workers.tell(question, {"lost": True})
            return
        lent = self._lent[question] = LentLog(self._server, question, log, standalone)
        lent.start(number)

    def _take(self, question: str, message: Message) -> None:
        pair = self._server.pairs.get(message["pair"])
        if pair is None or pair.principal != message["principal"]:
            return
        fault = pair.fault_of_backlog()
        if fault is None:
            pair.receive_message(message["post"].encode("latin-1"))
        self._server.workers.tell(question, {"fault": None if fault is None else fault.message})

"""HTTP sessions, on the revisions that have them: what is stored, whose they are, and what of them is in flight here.

A session's id travels in a header and is a credential; it is therefore bound to the principal that opened the session,
and to anybody else the session does not exist (tutorials/security/security_best_practices, "Session Hijacking").
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

from mcp_sansio.call import ClientInfo
from mcp_sansio.changes import LIST_CHANGES, Change, ChangeKind
from mcp_sansio.errors import SessionExpired
from mcp_sansio.outcome import Failure, FailureKind, Rejected
from mcp_sansio.runtime import given_now
from mcp_sansio.storage import MemorySessionStore, Session, SessionRecord, SessionStore, owned_key
from mcp_sansio.types import JSON, RequestId
from mcp_sansio.wire.json import encode

from .calls import RunningCall
from .streams import EventLog, StandaloneStream, standalone_id

if TYPE_CHECKING:
    from mcp_sansio.dispatcher import Peer

    from .server import Server

SESSION_HEADER = "Mcp-Session-Id"
_MOST_OPENED = 256
_GET_OF_MEMORY = MemorySessionStore.get


def session_key(session_id: str, principal: str | None) -> str:
    """Where the session of `session_id` is stored that `principal` opened."""
    return owned_key("session", principal, session_id)


def look_up_of(store: SessionStore) -> Callable[[str, float | None], SessionRecord | None]:
    """``store.get``, of a store that `answers_at_once`, without having to be awaited.

    To run a coroutine for each look-up took a tenth of what a call in a session costs.
    """
    # Where another `get` stands in its place, whoever put it there, that is the one to ask.
    if isinstance(store, MemorySessionStore) and getattr(store.get, "__func__", None) is _GET_OF_MEMORY:
        return store.look_up
    return lambda key, ttl: given_now(store.get(key, ttl=ttl))


def no_such_session() -> Rejected:
    """The refusal of a session that is unknown, over, or another principal's."""
    return Rejected(Failure(FailureKind.SESSION_NOT_FOUND, "there is no such session; initialize again"))


def session_missing() -> Rejected:
    """The refusal of a request that says of no session that it belongs there."""
    text = f"the header {SESSION_HEADER} is missing; initialize first"
    return Rejected(Failure(FailureKind.SESSION_MISSING, text))


def new_session(version: str, client: ClientInfo, principal: str | None, most: int) -> dict[str, JSON]:
    """The record of a session that a handshake opens.

    Raises `Rejected` where the client says more than `most` bytes of itself: they are kept for as long as the session.
    """
    said = {"name": client.name, "version": client.version, "capabilities": dict(client.capabilities)}
    if len(encode(said)) > most:
        text = f"what the client says of itself is larger than {most} bytes"
        raise Rejected(Failure(FailureKind.TOO_LARGE, text))
    return {
        "version": version,
        "principal": principal,
        "client": said,
        "log_level": None,
        "subscriptions": [],
        "values": {},
    }


class Opened(Struct, frozen=True):
    """What a handshake and the client's requests since left in the session's record, as of its `version`."""

    version: int
    revision: str
    principal: str | None
    client: ClientInfo
    log_level: str | None


class OpenedSessions:
    """The sessions that came in lately, by their keys, so that a record is read only when it has changed."""

    def __init__(self) -> None:
        self._opened: dict[str, Opened] = {}

    def of(self, key: str, record: SessionRecord) -> Opened:
        """What is in the `record` under `key`."""
        opened = self._opened.get(key)
        if opened is not None and opened.version == record.version:
            return opened
        data = record.data
        client = ClientInfo(**data["client"])
        opened = Opened(record.version, data["version"], data["principal"], client, data["log_level"])
        self._opened.pop(key, None)
        if len(self._opened) >= _MOST_OPENED:  # the oldest makes room
            self._opened.pop(next(iter(self._opened)), None)
        self._opened[key] = opened
        return opened


class HttpSession(Struct, eq=False):
    """A session as one request sees it: its record, what of that was read, and the `Peer` that writes to it."""

    id: str
    opened: Opened
    _server: Server
    _record: SessionRecord
    _values: Session | None = None

    @property
    def values(self) -> Session:
        """What the application keeps for the session."""
        if self._values is None:
            ttl = self._server.config.session_ttl
            self._values = Session(self._server.store, session_key(*self.owner), self.id, self._record, ttl)
        return self._values

    @property
    def record(self) -> Mapping[str, JSON]:
        """The stored data."""
        return self._record.data if self._values is None else self._values.record.data

    @property
    def owner(self) -> tuple[str, str | None]:
        """Whose answers count for questions that are asked in this session."""
        return self.id, self.opened.principal

    async def set_log_level(self, level: str) -> None:
        """See `Peer.set_log_level`."""
        await self._write(lambda data: {**data, "log_level": level})

    async def subscribe(self, uri: str) -> None:
        """See `Peer.subscribe`."""
        most = self._server.config.max_subscriptions

        def add(data: Mapping[str, JSON]) -> Mapping[str, JSON]:
            held = data["subscriptions"]
            if uri not in held and len(held) >= most:
                raise Rejected(Failure(FailureKind.TOO_MANY, f"a session may subscribe to {most} resources at most"))
            return data if uri in held else {**data, "subscriptions": [*held, uri]}

        await self._write(add)
        self._server.with_live_session(self.id, lambda live: live.watch(uri))
        await self._tell_watched(uri, wanted=True)

    async def unsubscribe(self, uri: str) -> None:
        """See `Peer.unsubscribe`."""
        await self._write(
            lambda data: {**data, "subscriptions": [held for held in data["subscriptions"] if held != uri]}
        )
        self._server.with_live_session(self.id, lambda live: live.unwatch(uri))
        await self._tell_watched(uri, wanted=False)

    async def _tell_watched(self, uri: str, *, wanted: bool) -> None:
        # An update that follows the reply must not overtake this, wherever it comes from.
        self._server.workers.watched(self.id, uri, wanted=wanted)
        await self._server.workers.said()

    async def _write(self, change: Callable[[Mapping[str, JSON]], Mapping[str, JSON]]) -> None:
        """Change the record. Raises `Rejected` where another request ended the session meanwhile."""
        try:
            await self.values.write(change)
        except SessionExpired:
            raise no_such_session() from None


class NoPeer:
    """The `Peer` of a client of whom nothing is remembered."""

    async def set_log_level(self, level: str) -> None:
        """Accepted, but there is no session to keep it in."""

    async def subscribe(self, uri: str) -> None:
        """Refused: without a session there is no stream to tell it on."""
        raise Rejected(Failure(FailureKind.SESSION_MISSING, "subscribing needs a session; send initialize first"))

    async def unsubscribe(self, uri: str) -> None:
        """Accepted: there is nothing to stop."""


NO_PEER = NoPeer()


class InSession:
    """What an `Outlet` says of the session that its calls came in, which is `held`, if there is one."""

    __slots__ = ()

    held: HttpSession | None

    @property
    def owner(self) -> object:
        """See `Outlet`: a session with its principal."""
        return None if self.held is None else self.held.owner

    @property
    def peer(self) -> Peer:
        """See `Outlet`."""
        return self.held or NO_PEER

    @property
    def session(self) -> Session | None:
        """See `Outlet`."""
        return None if self.held is None else self.held.values


class LiveSession(Struct, eq=False, weakref=True):
    """What of a session is in flight in this process: calls, and streams that can be resumed."""

    id: str
    _server: Server
    #: When a request last came in it, in the runtime's seconds.
    used: float
    #: Those in flight. Several may use one id, against the rules; each keeps its own response.
    calls: dict[RunningCall, None] = {}
    _logs: dict[str, EventLog] = {}
    _standalone: list[StandaloneStream] = []
    _listens_elsewhere: bool = False

    @property
    def idle(self) -> bool:
        """Whether nothing is in flight, and nothing kept for a client that may come back."""
        return not (self.calls or self._logs or self._standalone)

    def cancel(self, request_id: RequestId) -> bool:
        """The client gave up a request. False where it is not in flight here."""
        held = [running for running in self.calls if running.call.id == request_id]
        for running in held:
            running.cancel()
        return bool(held)

    # Streams

    def new_log(self, *, standalone: bool = False) -> EventLog:
        """A log for a new stream, `standalone` or a call's. What is missed least makes room."""
        config = self._server.config
        while len(self._logs) >= config.replay_streams:
            self._forget(self._missed_least())
        stream_id = self._server.workers.signed(self._server.runtime.token())
        stream_id = standalone_id(stream_id, self.id) if standalone else stream_id
        log = EventLog(stream_id, config.replay_events, config.replay_bytes, config.retry)
        self._logs[log.id] = log
        return log

    def _missed_least(self) -> EventLog:
        """The oldest log that is finished, or else the oldest one: a call without its log still gets its reply out.

        The stream that the session's announcements go out on ends with its log, so that is the last one to go.
        """
        announcing = self._standalone[-1].log if self._standalone else None
        logs = self._logs.values()
        finished = next((held for held in logs if held.finished), None)
        return finished or next((held for held in logs if held is not announcing), None) or next(iter(logs))

    def _forget(self, log: EventLog) -> None:
        stream = self.standalone_of(log)
        if stream is not None:
            stream.end()
            self.drop_standalone(stream)
        self._logs.pop(log.id, None)

    def log_of(self, event_id: str) -> tuple[EventLog, int] | None:
        """The log of this session that `event_id` belongs to, and the event's number in it, or ``None``."""
        stream_id, _, number = event_id.rpartition("-")
        log = self._logs.get(stream_id)
        if log is None or not (number.isascii() and number.isdigit() and len(number) < 20):
            return None
        return (log, int(number)) if log.reaches_back_to(int(number)) else None

    def standalone_of(self, log: EventLog) -> StandaloneStream | None:
        """The standalone stream that writes to `log`, if one does."""
        return next((stream for stream in self._standalone if stream.log is log), None)

    def add_standalone(self, stream: StandaloneStream, uris: list[str]) -> None:
        """`stream` takes over the session's announcements: each message goes on one stream only."""
        for older in self._standalone:
            older.silence()
        self._standalone.append(stream)
        self._listens_elsewhere = False
        stream.listen([*LIST_CHANGES, *(Change(ChangeKind.RESOURCE_UPDATED, uri) for uri in uris)])

    def heard_listening(self, stream_id: str) -> None:
        """Announcements go out on that stream, which may be another worker's.

        What two workers say of a session comes to both in one order, their own words included: the last one counts.
        """
        mine = next((stream for stream in self._standalone if stream.log.id == stream_id), None)
        if mine is not None:
            mine.is_known = True
            return
        if all(stream.is_known for stream in self._standalone):
            self._listens_elsewhere = True
            for stream in self._standalone:
                stream.silence()

    def drop_standalone(self, stream: StandaloneStream) -> None:
        """`stream` is over. What it listened for moves to the stream before it, if there is one."""
        if stream not in self._standalone:
            return
        changes = stream.silence()
        self._standalone.remove(stream)
        self._logs.pop(stream.log.id, None)
        if self._standalone and changes:
            self._standalone[-1].listen(changes)

    def watch(self, uri: str) -> None:
        """The session subscribed to `uri`."""
        if self._standalone and not self._listens_elsewhere:
            self._standalone[-1].listen([Change(ChangeKind.RESOURCE_UPDATED, uri)])

    def unwatch(self, uri: str) -> None:
        """The session unsubscribed from `uri`."""
        if self._standalone:
            self._standalone[-1].ignore([Change(ChangeKind.RESOURCE_UPDATED, uri)])

    def end(self) -> None:
        """The session is over: calls are given up and streams end."""
        for running in tuple(self.calls):
            running.cancel()
        for stream in tuple(self._standalone):
            stream.end()
            self.drop_standalone(stream)
        self._logs.clear()

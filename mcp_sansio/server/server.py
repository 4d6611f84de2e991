"""The server role of an application: what its HTTP requests and channels share."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Protocol, TypedDict, Unpack

from mcp_sansio import wire_log
from mcp_sansio.adapters.selection import AdapterSet
from mcp_sansio.changes import Change, ChangeKind
from mcp_sansio.dispatcher import Dispatcher
from mcp_sansio.events import Whole
from mcp_sansio.given import check_kind, checked
from mcp_sansio.immediate import Listening
from mcp_sansio.outcome import Failure, FailureKind
from mcp_sansio.registry import Registry
from mcp_sansio.request_state import StateCodec, StoredState
from mcp_sansio.runtime import Runtime
from mcp_sansio.storage import Hub, MemorySessionStore, SessionAccess, SessionStore

from .at_once import Pending, answer
from .config import Config
from .connection import ServerConnection
from .familiar import Familiar
from .lending import Lender
from .questions import Questions
from .sessions import LiveSession, OpenedSessions, look_up_of
from .topics import Topics
from .workers import Workers

if TYPE_CHECKING:
    from .heads import RequestHead, RequestHeads
    from .http import HttpTransaction
    from .pair import PairTransaction
    from .streamable import StreamableTransaction

logger = logging.getLogger("mcp_sansio")

_MAX_LOGGED = 100
_SETTINGS = {FailureKind.MISDIRECTED: "allowed_hosts", FailureKind.FORBIDDEN: "allowed_origins"}


class Closable(Protocol):
    """A long-lived stream that a shutdown ends."""

    def close(self) -> None:
        """End the stream as its revision wants it."""


class ServerOptions(TypedDict, total=False):
    """What a server of one client may be told, as keywords. ``None`` is as good as nothing."""

    adapters: AdapterSet | None
    """The revisions to serve, all unless given."""
    config: Config | None
    """Limits and times."""
    store: SessionStore | None
    """Keeps sessions and what handlers leave between attempts."""
    states: StateCodec | None
    """Turns what handlers leave into tokens."""


class HttpServerOptions(ServerOptions, total=False):
    """What a server of HTTP may be told, as keywords. ``None`` is as good as nothing."""

    hub: Hub | None
    """Joins the workers of one deployment, of which there is one unless given."""
    allowed_origins: Collection[str] | None
    """Replaces `Config.allowed_origins`: full origins, ``https://app.example``."""
    allowed_hosts: Collection[str] | None
    """Replaces `Config.allowed_hosts`: names, ``mcp.example``, with a port or without."""


class Server:
    """The pure server role: `registry` on the revisions of `adapters`, within the limits of `config`.

    `runtime` is what the binding lends. `store` keeps sessions and what handlers leave between attempts, in this
    process unless given; `hub` joins the workers of one deployment, of which there is one unless given; `states` turns
    what handlers leave into tokens, by the store unless given.

    Raises ``TypeError`` where one of them is something else: a class in place of its object, a store without a method
    that `SessionStore` has.
    """

    # Over 40 lines, since it lists the parts of a server, and nothing else.
    def __init__(
        self,
        registry: Registry,
        *,
        runtime: Runtime,
        adapters: AdapterSet | None = None,
        config: Config | None = None,
        store: SessionStore | None = None,
        hub: Hub | None = None,
        states: StateCodec | None = None,
    ) -> None:
        check_kind("registry", registry, Registry)
        self.registry = registry
        self.runtime = runtime
        self.adapters = AdapterSet.default() if adapters is None else adapters
        check_kind("adapters", self.adapters, AdapterSet)
        self.config = Config() if config is None else config
        check_kind("config", self.config, Config)
        self.logs_wire = wire_log.is_wanted()
        # Not `or`: a store may be empty, and then false.
        self.store: SessionStore = (
            MemorySessionStore(clock=runtime.now) if store is None else checked("store", store, SessionStore)
        )
        self.asks_store_at_once = self.config.asks_store_at_once and getattr(self.store, "answers_at_once", False)
        self.look_up = look_up_of(self.store)
        codec = StoredState(self.store) if states is None else checked("states", states, StateCodec)
        codec.lend(runtime, ttl=self.config.state_ttl, max_state=self.config.max_state)
        self.dispatcher = Dispatcher(
            registry,
            runtime,
            codec,
            supported=self.adapters.versions,
            max_rounds=self.config.max_rounds,
            max_answers=self.config.max_answers,
            max_state=self.config.max_state,
            announces=self.config.announces_changes,
        )
        self.familiar = Familiar(registry, self.config.max_depth, self.dispatcher.immediate)
        self.topics = Topics()
        self.workers = Workers(self, None if hub is None else checked("hub", hub, Hub))
        self.lender = Lender(self)
        self.questions = Questions(runtime)
        self.opened = OpenedSessions()
        self.pairs: dict[str, PairTransaction] = {}
        self._pair_adapters = self.adapters.with_handshake()  # one for all, so that what their clients say is alike
        self.closing = False
        self._streams: dict[Closable, None] = {}
        self._live: dict[str, LiveSession] = {}
        self._logged: set[tuple[FailureKind, str]] = set()
        registry.watch(self.publish)

    @classmethod
    def for_http(cls, registry: Registry, runtime: Runtime, **options: Unpack[HttpServerOptions]) -> Server:
        """A server with these `options`. Raises ``ValueError`` where one string is given for a collection of them."""
        given: dict[str, Any] = {**options}
        allowed = {name: given.pop(name, None) for name in ("allowed_origins", "allowed_hosts")}
        config = Config.of(given.pop("config", None), **allowed)
        return cls(registry, runtime=runtime, config=config, **given)

    # Loaded with the first request over HTTP: it is 3 ms of the start of a server that has a channel alone

    @cached_property
    def heads(self) -> RequestHeads:
        """Judges the heads of requests."""
        from .heads import RequestHeads

        return RequestHeads(self.config, self.adapters)

    @cached_property
    def _streamable(self) -> type[StreamableTransaction]:
        from .streamable import StreamableTransaction

        return StreamableTransaction

    # What it makes

    def http_transaction(
        self,
        *,
        principal: str | None = None,
        loopback: bool = False,
        request: Any = None,
        wake: Callable[[], None] = lambda: None,
        paced: bool = False,
    ) -> StreamableTransaction:
        """The engine for one request to the Streamable HTTP endpoint. See `HttpTransaction` for the arguments."""
        return self._streamable(self, principal=principal, loopback=loopback, request=request, wake=wake, paced=paced)

    def admit(
        self, target: str, headers: Iterable[tuple[bytes, bytes]], *, loopback: bool = False
    ) -> RequestHead | None:
        """The head of a POST to the Streamable HTTP endpoint, if its body is wanted; else an engine is to refuse it.

        The arguments are those of `HttpTransaction`, but the headers are pairs of bytes, as they came over the wire.
        """
        head = self.heads.of_bytes(target, headers, loopback)
        return None if self.closing or head.fault_of_post is not None else head

    def respond(
        self, head: RequestHead, body: bytes, *, principal: str | None = None, request: Any = None
    ) -> Whole | Pending:
        """The response to a POST that has come in whole, if it is there at once. `admit` gives the `head`.

        For drivers that would rather make no engine, and do nothing else, where none is needed, as mostly. Other
        requests are `Pending`: a driver has to `begin` them. `principal` and `request` are those of `HttpTransaction`.
        """
        recalled = None
        if head.accepts_json and not self.logs_wire and len(body) <= self.config.max_message:
            call = self.familiar.recall(head.place, body)
            if call is not None:
                given = answer(self, head, call, principal)
                if isinstance(given, Whole):
                    return given
                recalled = given
        return Pending(self, head, body, principal, request, recalled)

    def pair_transaction(
        self,
        *,
        message_path: str,
        principal: str | None = None,
        loopback: bool = False,
        request: Any = None,
        wake: Callable[[], None] = lambda: None,
    ) -> HttpTransaction:
        """The engine for one request to either endpoint of the first HTTP transport.

        `message_path` is the absolute path of the one that takes messages, with the prefix that it is mounted under;
        the other arguments are those of `HttpTransaction`. A GET opens the stream, a POST brings a message.

        Raises ``ValueError`` where no revision of this server has a handshake, since nothing else is spoken there.
        """
        adapters = self._pair_adapters
        if adapters is None:
            raise ValueError("the pair of endpoints needs a revision with a handshake")
        from .pair import PairTransaction

        return PairTransaction(
            self,
            message_path=message_path,
            adapters=adapters,
            principal=principal,
            loopback=loopback,
            request=request,
            wake=wake,
        )

    def routes(
        self, path: str | None, *, sse_path: str | None = None, message_path: str = "/messages"
    ) -> dict[str, Callable[..., HttpTransaction]]:
        """What makes the engine of a request to each path, for a host that has no router of its own.

        `path` is that of the Streamable HTTP endpoint, `sse_path` and `message_path` are those of the first HTTP
        transport; what is ``None`` is not served. Slashes at an end are left out, of what is asked for as well.

        Raises ``ValueError`` for a path without a slash at its start, and as `pair_transaction` does.
        """
        routes: dict[str, Callable[..., HttpTransaction]] = {}
        if path is not None:
            routes[path] = self.http_transaction
        if sse_path is not None:
            open_pair = partial(self.pair_transaction, message_path=message_path)
            open_pair()  # refuses here and now what every request would be refused for
            routes |= {sse_path: open_pair, message_path: open_pair}
        for given in routes:
            if not given.startswith("/"):
                raise ValueError(f"a path begins with a slash, which {given!r} does not")
        return {given.rstrip("/"): engine for given, engine in routes.items()}

    def connection(
        self,
        *,
        principal: str | None = None,
        request: Any = None,
        wake: Callable[[], None] = lambda: None,
        runs_at_once: bool = False,
    ) -> ServerConnection:
        """The engine for one duplex channel. See `ServerConnection` for the arguments."""
        return ServerConnection(self, principal=principal, request=request, wake=wake, runs_at_once=runs_at_once)

    # For a driver with a hub: each in a task of its own, and again whenever it raises what the hub raises

    async def follow(self) -> None:
        """Hear what the other workers of the deployment say, for ever."""
        await self.workers.follow()

    async def relay(self) -> None:
        """Tell the other workers what there is to tell, for ever."""
        await self.workers.relay()

    async def farewell(self) -> None:
        """Return once the other workers will hear all that there was to tell, or the hub did not take it.

        For the end, before `relay` is cancelled. It waits no longer than the hub does for its engine.
        """
        await self.workers.farewell()

    # Commands

    def publish(self, change: Change) -> None:
        """Tell every client that listens for `change`. May be called from any thread; the registry does by itself."""
        if change.kind is not ChangeKind.RESOURCE_UPDATED:
            self.familiar.forget()
        self.runtime.run_in_loop(partial(self._publish, change))

    def _publish(self, change: Change) -> None:
        self.topics.publish(change)
        self.workers.changed(change)

    def shutdown(self) -> None:
        """End every stream as its revision wants it, and refuse new requests. Calls in flight are left to finish."""
        self.closing = True
        for stream in tuple(self._streams):
            stream.close()

    # For its engines

    def session_access(self, principal: str | None) -> SessionAccess:
        """The sessions that a handler of `principal` may open and use by handle."""
        return SessionAccess(self.store, self.runtime, principal, self.config.session_ttl)

    def live_session(self, session_id: str) -> LiveSession:
        """What of that session is in flight here, as something will be now."""
        live = self._live.get(session_id)
        if live is None:
            live = self._live[session_id] = LiveSession(session_id, self, self.runtime.now())
        return live

    def session_used(self, session_id: str) -> LiveSession | None:
        """A request came in that session. What of it is in flight here, if anything is."""
        if not self._live:
            return None
        live = self._live.get(session_id)
        if live is None:
            self._sweep()
        else:
            self.touch(live)
        return live

    def touch(self, live: LiveSession) -> None:
        """`live` is in use now. The least used stays first, for `_sweep`."""
        if self._live.get(live.id) is live:
            live.used = self.runtime.now()
            self._live[live.id] = self._live.pop(live.id)

    def with_live_session(self, session_id: str, act: Callable[[LiveSession], object]) -> None:
        """Do `act` on what of that session is in flight here, if anything is."""
        live = self._live.get(session_id)
        if live is not None:
            act(live)

    def release(self, live: LiveSession) -> None:
        """Forget `live` if nothing of it is in flight any more."""
        if live.idle and self._live.get(live.id) is live:
            del self._live[live.id]

    def end_session(self, session_id: str) -> None:
        """The session is over: end what of it is in flight here."""
        live = self._live.pop(session_id, None)
        if live is not None:
            live.end()

    def _sweep(self) -> None:
        """Drop what is kept for sessions that nobody used for their whole life; the least used come first.

        What has a call or a stream in flight is touched by it, so it is not among them.
        """
        oldest = self.runtime.now() - self.config.session_ttl
        while self._live:
            live = next(iter(self._live.values()))
            if live.used > oldest:
                return
            self.end_session(live.id)

    def fault_of_streams(self) -> Failure | None:
        """Why there can be no further stream, or ``None``."""
        most = self.config.max_streams
        if len(self._streams) < most:
            return None
        return Failure(FailureKind.UNAVAILABLE, f"this server keeps {most} streams open at most")

    def fault_of_listening(self, listening: Listening) -> Failure | None:
        """Why `listening` cannot be honoured, or ``None``."""
        most = self.config.max_subscriptions
        if len(listening.uris) > most:
            return Failure(FailureKind.TOO_MANY, f"one stream may watch {most} resources at most")
        return self.fault_of_streams()

    def stream_opened(self, stream: Closable) -> None:
        """`stream` is open until `stream_closed`."""
        self._streams[stream] = None

    def stream_closed(self, stream: Any) -> None:
        """`stream` is over, if it was open."""
        self._streams.pop(stream, None)

    def log_refused(self, failure: Failure) -> None:
        """Say once for each refused value, to the operator, which setting would let it in."""
        seen = (failure.kind, str(failure.data))
        if seen in self._logged or len(self._logged) >= _MAX_LOGGED:
            return
        self._logged.add(seen)
        logger.warning("%s: %r; add it to %s to let it in", failure.message, failure.data, _SETTINGS[failure.kind])

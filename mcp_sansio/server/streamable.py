"""The endpoint of Streamable HTTP: one path for every revision that has it, and POST, GET and DELETE on it.

A reply starts out as JSON and becomes a stream the moment something must precede the result, or when the client would
otherwise wait in silence for too long; so a call that never asks and never reports costs no stream.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, ClassVar

from mcp_sansio.adapters.base import Adapter
from mcp_sansio.adapters.preamble import PIN, Preamble
from mcp_sansio.call import Call, DecodeFailure, Reply
from mcp_sansio.dispatcher import Listening
from mcp_sansio.events import CallCancelled, PeerFaulted, StoreNeeded
from mcp_sansio.operation import Operation
from mcp_sansio.outcome import Failure, FailureKind, Outcome, Rejected, Value
from mcp_sansio.storage import StoreFull
from mcp_sansio.types import RequestId
from mcp_sansio.wire.sse import encode_comment, encode_event

from . import gate
from ._state import ResponseState
from .calls import RunningCall, logger
from .http import HttpTransaction
from .listening import ListenStream
from .replies import Replies, expects_reply, quoted_id, usable_id
from .sessions import SESSION_HEADER, HttpSession, LiveSession, NoPeer, new_session, session_key
from .streams import EventLog, StandaloneStream


class StreamableTransaction(HttpTransaction):
    """A request to the Streamable HTTP endpoint."""

    methods: ClassVar[dict[str, str]] = {"GET": "_get", "POST": "_post", "DELETE": "_delete"}

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._accepts_stream = False
        self._accepts_json = False
        self._adapter: Adapter = self.server.adapters.fallback
        self._preamble: Preamble | None = None
        self._session: HttpSession | None = None
        self._live: LiveSession | None = None
        self._replies = Replies(is_batch=False)
        self._log: EventLog | None = None
        self._resumable = False
        self._listen: ListenStream | None = None
        self._standalone: StandaloneStream | None = None
        self._let_go: float | None = None
        self._touched = 0.0

    @property
    def can_stream(self) -> bool:
        """See `Outlet.can_stream`. A client that went away can still be reached where it may resume."""
        return self._accepts_stream and (self.connected or self._log is not None)

    @property
    def rendering(self) -> Adapter:
        """See `HttpTransaction.rendering`: the revision of the message, once it is known."""
        return self._adapter

    def message_id(self) -> RequestId | None:
        """See `HttpTransaction.message_id`."""
        return quoted_id(self._preamble.body) if self._preamble else None

    def allowed_methods(self) -> str:
        """The value of ``Allow``."""
        hidden = {"DELETE"} if not self.config.deletable_sessions else set()
        if not self._has_sessions(None):
            hidden |= {"GET", "DELETE"}
        return ", ".join([method for method in (*self.methods, "OPTIONS") if method not in hidden])

    # POST

    def _post(self, body: bytes) -> None:
        preamble = self._preamble = Preamble.of(body, self.headers, self.query, max_depth=self.config.max_depth)
        adapter = self._adapter = self.server.adapters.select(preamble)
        self._accepts_json, self._accepts_stream = gate.accepted_forms(self.headers)
        if not (self._accepts_json or self._accepts_stream):
            text = "the Accept header admits neither application/json nor text/event-stream"
            raise Rejected(Failure(FailureKind.NOT_ACCEPTABLE, text))
        session_id = self.headers.get(SESSION_HEADER.lower())
        if not adapter.has_handshake or preamble.method == "initialize":
            self._process(adapter, preamble)
        elif session_id is not None:
            self._load(session_id, lambda: self._process(self._select(preamble), preamble))
        elif self.config.require_session:
            raise Rejected(
                Failure(FailureKind.SESSION_MISSING, f"the header {SESSION_HEADER} is missing; initialize first")
            )
        else:
            self._process(adapter, preamble)

    def _select(self, preamble: Preamble) -> Adapter:
        return self.server.adapters.select(preamble, self._session.version if self._session else None)

    def _process(self, adapter: Adapter, preamble: Preamble) -> None:
        self._adapter = adapter
        body = preamble.body
        if isinstance(body, list) and len(body) > self.config.max_batch:
            raise Rejected(Failure(FailureKind.TOO_LARGE, f"a batch may hold {self.config.max_batch} messages at most"))
        adapter.check_http(preamble, self.server.registry)
        session = self._session
        decoded = adapter.decode(
            preamble,
            client=session.client if session else None,
            log_level=session.log_level if session else None,
        )
        self._replies = Replies(is_batch=isinstance(body, list))
        due = [item for item in decoded if expects_reply(item)]
        self._replies.expected = len(due)
        for item in decoded:
            self._receive(item)
        if not due and not self.ended:
            self._acknowledge(decoded)

    def _acknowledge(self, decoded: list[Any]) -> None:
        # A malformed notification gets an error status and no response (basic/transports, "Sending Messages" 4).
        faulty = next((item for item in decoded if isinstance(item, DecodeFailure)), None)
        if faulty is not None:
            self.refuse(faulty.failure)
        else:
            self.respond(202)

    def _receive(self, item: Call | DecodeFailure | Reply) -> None:
        if isinstance(item, DecodeFailure):
            self.emit(PeerFaulted(item.failure))
            if item.replies:
                self._add(self._adapter.encode_failure(item.id, item.failure), item.failure)
        elif isinstance(item, Reply):
            self._answer(item)
        elif item.id is None:
            self._notified(item)
        else:
            self._called(item)

    def _answer(self, reply: Reply) -> None:
        owner = self._session.owner if self._session else None
        if owner is not None and self.server.questions.answer(owner, reply):
            return
        self.emit(PeerFaulted(Failure(FailureKind.INVALID_PARAMS, "a response to no question that is open here")))
        if owner is not None:
            self.server.workers.answered(owner, reply)

    def _notified(self, call: Call) -> None:
        # Where there is no session, the client's disconnect is what gives a call up.
        if call.operation is not Operation.CANCEL or self._live is None:
            return
        request_id = usable_id(call.params.get("requestId"))
        if request_id is not None and not self._live.cancel(request_id):
            self.server.workers.cancelled(self._live.id, request_id)

    def _called(self, call: Call) -> None:
        if call.operation is Operation.DESCRIBE and call.adapter.has_handshake:
            self._initialize(call)
            return
        outcome = self.server.dispatcher.immediate(call)
        if isinstance(outcome, Value) and isinstance(outcome.result, Listening):
            self._start_listening(call, outcome.result)
        elif outcome is not None:
            self._reply_at_once(call, outcome)
        else:
            self._start(call)

    def _reply_at_once(self, call: Call, outcome: Outcome) -> None:
        failure = outcome if isinstance(outcome, Failure) else None
        self._add(call.adapter.encode(call, self.server.registry, outcome), failure)

    def _start(self, call: Call) -> None:
        if self._live is not None and self._live.calls >= self.config.max_calls:
            failure = Failure(
                FailureKind.TOO_MANY, f"a session may have {self.config.max_calls} calls in flight at most"
            )
            self._reply_at_once(call, failure)
            return
        session = self._session
        running = RunningCall(
            self.server,
            call,
            self,
            owner=session.owner if session else None,
            peer=session or NoPeer(),
            principal=self.principal,
            session=session.values if session else None,
            request=self.request,
        )
        if self._live is not None:
            self._live.add_call(running)
        self._resumable = call.adapter.resumes_streams and self._live is not None
        self.start_call(running)
        self.start_silence()
        spec = self.server.registry.tools.get(call.target or "") if call.operation is Operation.CALL_TOOL else None
        if (spec is not None and spec.streaming) or not self._accepts_json:
            self._become_stream()
        if spec is not None and spec.poll_after is not None and call.adapter.primes_streams and self._resumable:
            self._become_stream()
            self._let_go = self.server.runtime.now() + spec.poll_after

    # Sessions

    def _initialize(self, call: Call) -> None:
        if self.query.get(PIN) is None:
            call.adapter = self.server.adapters.negotiate(call.params["protocolVersion"])
        adapter = call.adapter
        session_id = self.server.runtime.token()
        record = new_session(adapter.version, adapter.client_info_for(call.params), self.principal)

        async def create() -> None:
            await self.server.store.create(session_key(session_id), record, ttl=self.config.session_ttl)

        def reply() -> None:
            outcome = self.server.dispatcher.immediate(call)
            assert outcome is not None
            message = adapter.encode(call, self.server.registry, outcome)
            self._respond_reply(message, ((SESSION_HEADER, session_id),))

        self._await_store(create, reply)

    def _respond_reply(self, message: bytes, headers: tuple[tuple[str, str], ...]) -> None:
        if self._accepts_json:
            self.respond_json(200, message, headers)
            return
        self.start_stream(headers)
        self.write(encode_event(message))
        self.end()

    def _load(self, session_id: str, then: Callable[[], None]) -> None:
        """Find the session and go on with `then`; refuse the request where there is none of this principal."""
        found: list[Any] = []

        async def get() -> None:
            record = await self.server.store.get(session_key(session_id))
            if record is not None and record.data["principal"] == self.principal:
                await self.server.store.touch(session_key(session_id), ttl=self.config.session_ttl)
                found.append(record)

        def proceed() -> None:
            if not found:
                raise Rejected(Failure(FailureKind.SESSION_NOT_FOUND, "there is no such session; initialize again"))
            self._session = HttpSession(self.server, session_id, found[0])
            self._touched = self.server.runtime.now()
            self._live = self.server.live_session(session_id)
            try:
                then()
            finally:
                self.server.release(self._live)

        self._await_store(get, proceed)

    def _await_store(self, work: Callable[[], Awaitable[None]], then: Callable[[], None]) -> None:
        """Have the driver await `work`, then go on with `then`. A store that fails is the server's fault."""

        async def run() -> None:
            try:
                await work()
            except StoreFull as error:
                self.refuse(Failure(FailureKind.UNAVAILABLE, str(error)))
            except Exception:
                logger.exception("the session store failed")
                self.refuse(Failure(FailureKind.UNAVAILABLE, "the session store cannot be reached"))
            else:
                self._proceed(then)
            self.wake()

        self.emit(StoreNeeded(run))

    def _proceed(self, then: Callable[[], None]) -> None:
        if not self.connected:
            return
        try:
            then()
        except Rejected as rejected:
            self.refuse(rejected.failure)

    def _touch(self) -> None:
        """A session with something in flight does not expire."""
        session, now = self._session, self.server.runtime.now()
        if session is None or now - self._touched < self.config.session_ttl / 4:
            return
        self._touched = now
        if self._live is not None:
            self.server.touch(self._live)

        async def touch() -> None:
            try:
                await self.server.store.touch(session_key(session.id), ttl=self.config.session_ttl)
            except Exception:
                logger.exception("the session store failed")

        self.emit(StoreNeeded(touch))

    # What goes out

    def send(self, message: bytes) -> None:
        """See `Outlet.send`."""
        self._become_stream()
        self._write_message(message)

    def reply(self, running: RunningCall, message: bytes, failure: Failure | None) -> None:
        """See `Outlet.reply`."""
        self._over(running)
        self._add(message, failure)

    def gone(self, running: RunningCall) -> None:
        """See `Outlet.gone`."""
        self._over(running)
        self.emit(CallCancelled(running.call))
        self._add(None)

    def _over(self, running: RunningCall) -> None:
        self.settle_call(running)
        if self._live is not None:
            self._live.drop_call(running)
            self.server.release(self._live)

    def _add(self, message: bytes | None, failure: Failure | None = None) -> None:
        """One reply is made, or will never be. When none is missing the response is complete."""
        streaming = self._log is not None or self.state is ResponseState.STREAMING
        if streaming and message is not None:
            self._write_message(message)
        self._replies.add(message, failure)
        if not self._replies.complete:
            return
        if streaming:
            self._finish_stream()
        else:
            self._respond_all()

    def _respond_all(self) -> None:
        body = self._replies.body()
        if body is None:
            self._end_without_reply()
        elif self._accepts_json:
            failure = self._replies.failure
            self.respond_json(200 if failure is None else self._adapter.http_status(failure), body)
        else:
            self.start_stream()
            self.write(encode_event(body))
            self.end()

    def _end_without_reply(self) -> None:
        # A request that was given up gets no response, but its HTTP exchange has to end: as an empty stream.
        if self.can_stream:
            self.start_stream()
            self.end()
        else:
            self.respond(202)

    def _become_stream(self) -> None:
        if self._log is not None or self.state is not ResponseState.WAITING or not self.can_stream:
            return
        self.start_stream()
        if self._resumable and self._live is not None:
            self._log = self._live.new_log()
            if self._adapter.primes_streams:
                self.write(self._log.prime())
            self._log.attach(self.write, self._end_woken)
        for message in self._replies.made:
            self._write_message(message)
        self._replies.made.clear()

    def _write_message(self, message: bytes) -> None:
        if self._log is not None:
            self._log.write(message)
        else:
            self.write(encode_event(message))

    def _finish_stream(self) -> None:
        if self._log is None:
            self.end()
        else:
            self._log.finish()

    def on_silence(self) -> None:
        """Say something: a comment, for which a reply that waits becomes a stream."""
        self._touch()
        if not self.connected or self.ended:
            return
        self._become_stream()
        self.write(encode_comment())

    def next_deadline(self) -> float | None:
        """See `HttpTransaction.next_deadline`."""
        due = [deadline for deadline in (super().next_deadline(), self._let_go) if deadline is not None]
        return min(due) if due else None

    def handle_timeout(self, now: float) -> None:
        """See `HttpTransaction.handle_timeout`."""
        super().handle_timeout(now)
        if self._let_go is not None and self._let_go <= now:
            self._let_go = None
            self._let_connection_go()

    def _let_connection_go(self) -> None:
        """End the response but not the stream: the client comes back for the rest (basic/transports, 6)."""
        if self._log is not None and not self.ended:
            self._detach(self._log)
            self.end()

    def _detach(self, log: EventLog) -> None:
        log.detach(self.write)
        log.detach(self._write_woken)
        if self._standalone is not None:
            self._standalone.detach()

    def on_disconnect(self) -> None:
        """The client went away. A resumable stream waits for it; whether calls end is the revision's to say."""
        self.server.stream_closed(self)
        if self._listen is not None:
            self._listen.end()
        if self._log is not None:
            self._detach(self._log)
        if self._adapter.disconnect_cancels:
            for running in tuple(self._running):
                running.cancel()

    # Streams of changes

    def _start_listening(self, call: Call, listening: Listening) -> None:
        fault = self.server.fault_of_listening(listening)
        if fault is None and not self.can_stream:
            fault = Failure(
                FailureKind.NOT_ACCEPTABLE, "listening needs an Accept header that admits text/event-stream"
            )
        if fault is not None:
            self._reply_at_once(call, fault)
            return
        self.start_stream()
        stream = ListenStream(self.server, call, listening, self._write_change, self._listening_over)
        self._listen = stream
        stream.start()

    def _write_change(self, message: bytes) -> None:
        self.write(encode_event(message))
        if self._unsent > self.config.max_unsent:
            # A client that does not read loses its stream, and knows it: it may listen again and read the lists anew.
            assert self._listen is not None
            self._listen.end()
            self.end()
        self.wake()

    def _listening_over(self, message: bytes) -> None:
        self.write(encode_event(message))
        self.end()
        self.wake()

    def _get(self, body: bytes) -> None:
        adapter = self._stated_adapter()
        session_id = self.headers.get(SESSION_HEADER.lower())
        if session_id is None or not self._has_sessions(adapter):
            self.refuse_method()
            return
        if not gate.accepted_forms(self.headers)[1]:
            raise Rejected(Failure(FailureKind.NOT_ACCEPTABLE, "the Accept header does not admit text/event-stream"))
        self._accepts_stream = True
        self._load(session_id, lambda: self._open_stream(adapter))

    def _stated_adapter(self) -> Adapter | None:
        """The adapter of the revision that the URL or the header states, if one does. Raises `Rejected`."""
        stated = self.query.get(PIN, self.headers.get("mcp-protocol-version"))
        if stated is None:
            return None
        adapter = self.server.adapters.by_version.get(stated.strip())
        if adapter is None:
            raise self.server.adapters.unsupported(stated)
        self._adapter = adapter
        return adapter

    def _has_sessions(self, stated: Adapter | None) -> bool:
        """Whether a request that states that revision, or none, may be about a session."""
        possible = self.server.adapters.adapters if stated is None else (stated,)
        return any(adapter.has_handshake for adapter in possible)

    def _open_stream(self, stated: Adapter | None) -> None:
        assert self._session is not None
        assert self._live is not None
        self._adapter = stated or self.server.adapters.by_version.get(self._session.version) or self._adapter
        last = self.headers.get("last-event-id")
        if last is not None:
            self._resume(self._live, last)
            return
        fault = self.server.fault_of_streams()
        if fault is not None:
            self.refuse(fault)
            return
        log = self._log = self._live.new_log()
        stream = self._standalone = StandaloneStream(self.server, self._adapter, log)
        self._open_listening()
        if self._adapter.primes_streams:
            self.write(log.prime())
        log.attach(self._write_woken, self._end_woken)
        self._live.add_standalone(stream, self._session.record["subscriptions"])

    def _resume(self, live: LiveSession, last: str) -> None:
        """Go on with a stream where the client lost it, and with that stream alone."""
        found = live.log_of(last)
        if found is None:
            failure = Failure(
                FailureKind.SESSION_NOT_FOUND, "there is no stream of this session with that Last-Event-ID"
            )
            self.refuse(failure)
            return
        self._log, number = found
        self._standalone = live.standalone_of(self._log)
        if self._standalone is not None:
            self._standalone.attach()
        self._open_listening()
        for event in self._log.after(number):
            self.write(event)
        if self._log.finished:
            self.end()
            return
        self._log.attach(self._write_woken, self._end_woken)

    def _open_listening(self) -> None:
        self.start_stream()
        self.server.stream_opened(self)

    def close(self) -> None:
        """The server shuts down: the stream ends here, and the client may come back to another worker for the rest."""
        self._let_connection_go()
        self.wake()

    def end(self) -> None:
        """See `HttpTransaction.end`."""
        super().end()
        self.server.stream_closed(self)

    def _write_woken(self, event: bytes) -> None:
        self.write(event)
        if self._unsent > self.config.max_unsent:
            # A client that does not read loses its connection and not its stream: it may come back for the rest.
            self._let_connection_go()
        self.wake()

    def _end_woken(self) -> None:
        self.end()
        self.wake()

    # DELETE

    def _delete(self, body: bytes) -> None:
        adapter = self._stated_adapter()
        if not self.config.deletable_sessions or not self._has_sessions(adapter):
            self.refuse_method()
            return
        session_id = self.headers.get(SESSION_HEADER.lower())
        if session_id is None:
            raise Rejected(Failure(FailureKind.SESSION_MISSING, f"the header {SESSION_HEADER} is missing"))
        self._load(session_id, self._end_session)

    def _end_session(self) -> None:
        session = self._session
        assert session is not None

        async def delete() -> None:
            await self.server.store.delete(session_key(session.id))

        def ended() -> None:
            self.server.end_session(session.id)
            self.server.workers.ended(session.id)
            self.respond(204)

        self._await_store(delete, ended)

"""The endpoint of Streamable HTTP: one path for every revision that has it, and POST, GET and DELETE on it.

Here is decided what a request is about: its revision, its session, its messages. How a session is found is in
`session_transaction`, how a POST is answered in `post`, and what a GET reads in `session_stream`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import ClassVar

from mcp_sansio.adapters.base import Adapter
from mcp_sansio.adapters.preamble import PIN, VERSION_HEADER, Preamble
from mcp_sansio.call import NOBODY, Call, ClientInfo, Decoded, DecodeFailure, Reply
from mcp_sansio.dispatcher import RUN
from mcp_sansio.events import PeerFaulted
from mcp_sansio.immediate import Listening
from mcp_sansio.operation import Operation
from mcp_sansio.outcome import Failure, FailureKind, Outcome, Rejected, Value
from mcp_sansio.types import RequestId
from mcp_sansio.wire.sse import encode_event

from ._state import RESPONSE, ResponseInput
from .calls import RunningCall
from .heads import RequestHead
from .listening import ListenStream
from .post import PostTransaction
from .replies import Replies, expects_reply, quoted_id, usable_id
from .session_stream import SessionStream
from .sessions import SESSION_HEADER, HttpSession, new_session, session_key, session_missing

_CALL_TOOL, _DESCRIBE = Operation.CALL_TOOL, Operation.DESCRIBE
#: The characters that a head may have of which something is kept beyond its request.
_MAX_KEPT = 2**14


class StreamableTransaction(PostTransaction):
    """A request to the Streamable HTTP endpoint."""

    methods: ClassVar[dict[str, str]] = {"GET": "_get", "POST": "_post", "DELETE": "_delete"}

    # None of these is there before the request is; a class has them so that making one costs nothing.
    _message_id: RequestId | None = None
    _listen: ListenStream | None = None
    _stream: SessionStream | None = None
    _told: bool = False

    def message_id(self) -> RequestId | None:
        """See `HttpTransaction.message_id`."""
        return self._message_id

    def allowed_methods(self) -> str:
        """The value of ``Allow``."""
        hidden = {"DELETE"} if not self.config.deletable_sessions else set()
        if not self.config.announces_changes:
            hidden |= {"GET"}
        if not self._has_sessions(None):
            hidden |= {"GET", "DELETE"}
        return ", ".join([method for method in (*self.methods, "OPTIONS") if method not in hidden])

    # POST: a message, or a batch of them

    def _post(self, body: bytes) -> None:
        head = self.head
        call = self.server.familiar.recall(head.place, body)
        if call is None:
            self._post_unfamiliar(body)
            return
        self._adapter, self._message_id = call.adapter, call.id
        if call.adapter.has_handshake and head.session_id is not None:
            self._load(head.session_id, partial(self._call_in_session, call))
        else:
            self._called(call)

    def _call_in_session(self, call: Call) -> None:
        assert self.held is not None
        opened = self.held.opened
        call.client, call.log_level = opened.client, opened.log_level
        self._called(call)

    def _post_unfamiliar(self, raw: bytes) -> None:
        head = self.head
        preamble = Preamble.of(raw, head.headers, head.query, max_depth=self.config.max_depth)
        self._message_id = quoted_id(preamble.body)
        adapter = self._adapter = self.server.adapters.select(preamble)
        if not (head.accepts_json or head.accepts_stream):
            text = "the Accept header admits neither application/json nor text/event-stream"
            raise Rejected(Failure(FailureKind.NOT_ACCEPTABLE, text))
        if not adapter.has_handshake or preamble.method == "initialize":
            self._process(raw, preamble)
        elif head.session_id is not None:
            self._load(head.session_id, partial(self._process_in_session, raw, preamble))
        elif self.config.require_session:
            raise session_missing()
        else:
            self._process(raw, preamble)

    def _process_in_session(self, raw: bytes, preamble: Preamble) -> None:
        assert self.held is not None
        opened = self.held.opened
        if preamble.header_version is None:
            self._adapter = self.server.adapters.select(preamble, opened.revision)
        self._process(raw, preamble, opened.client, opened.log_level)

    def _process(
        self, raw: bytes, preamble: Preamble, client: ClientInfo = NOBODY, log_level: str | None = None
    ) -> None:
        adapter, body = self._adapter, preamble.body
        assert adapter is not None
        is_batch = isinstance(body, list)
        if is_batch and len(body) > self.config.max_batch:
            raise Rejected(Failure(FailureKind.TOO_LARGE, f"a batch may hold {self.config.max_batch} messages at most"))
        adapter.check_http(preamble, self.server.registry)
        decoded = adapter.decode(preamble, client=client, log_level=log_level)
        due = sum(map(expects_reply, decoded))
        if is_batch:
            self._batch = Replies(due)
        is_worth_keeping = not is_batch and preamble.header_version is not None and self.head.headers.size <= _MAX_KEPT
        for item in decoded:
            if isinstance(item, Call) and item.id is not None:
                if is_worth_keeping:
                    self.server.familiar.remember(self.head.place, raw, item)
                self._called(item)
            else:
                self._receive(item)
        if not due and not self.ended:
            self._acknowledge(decoded)

    def _acknowledge(self, decoded: list[Decoded]) -> None:
        # A malformed notification gets an error status and no response (basic/transports, "Sending Messages to the
        # Server" 4).
        faulty = next((item for item in decoded if isinstance(item, DecodeFailure)), None)
        if faulty is not None:
            self.refuse(faulty.failure)
        elif self._told:
            self._once_told(lambda _: self.respond(202))
        else:
            self.respond(202)

    def _receive(self, item: Decoded) -> None:
        if isinstance(item, Call):
            self._notified(item)
        elif isinstance(item, Reply):
            self._answer(item)
        else:
            self.emit(PeerFaulted(item.failure))
            if item.replies:
                self.add(self.rendering.encode_failure(item.id, item.failure), item.failure)

    def _answer(self, answer: Reply) -> None:
        owner = self.held.owner if self.held else None
        if owner is not None and self.server.questions.answer(owner, answer):
            return
        self.emit(PeerFaulted(Failure(FailureKind.INVALID_PARAMS, "a response to no question that is open here")))
        if owner is not None:
            self._told = True
            self.server.workers.answered(owner, answer)

    def _notified(self, call: Call) -> None:
        # Where there is no session, the client's disconnect is what gives a call up.
        if call.operation is not Operation.CANCEL or self.held is None:
            return
        request_id = usable_id(call.params.get("requestId"))
        if request_id is not None and not (self._live and self._live.cancel(request_id)):
            self._told = True
            self.server.workers.cancelled(self.held.id, request_id)

    def _called(self, call: Call) -> None:
        if call.operation in RUN:
            self._start(call)
            return
        if call.operation is _DESCRIBE and call.adapter.has_handshake:
            self._initialize(call)
            return
        outcome = self.server.dispatcher.immediate(call)
        assert outcome is not None
        if isinstance(outcome, Value) and isinstance(outcome.result, Listening):
            self._start_listening(call, outcome.result)
        else:
            self._reply_at_once(call, outcome)

    def _reply_at_once(self, call: Call, outcome: Outcome) -> None:
        self.add(call.adapter.encode(call, self.server.registry, outcome), outcome.failure)

    def _start(self, call: Call) -> None:
        server = self.server
        now = server.runtime.now()
        running = RunningCall(server, call, self, now + self.config.call_timeout)
        if self.held is not None and not self._start_in_session(running, self.held.id):
            return
        self.start_call(running, now)
        spec = server.registry.tools.get(call.target or "") if call.operation is _CALL_TOOL else None
        if not self.head.accepts_json or (spec is not None and spec.streaming):
            self.become_stream()
        if spec is not None and spec.poll_after is not None:
            self.let_go_after(spec.poll_after)

    def take_over(self, head: RequestHead, running: RunningCall, session: HttpSession | None) -> None:
        """Go on with a POST, of which `running` has begun already: see `at_once`."""
        self.state = RESPONSE[RESPONSE[self.state][ResponseInput.REQUEST]][ResponseInput.RECEIVED]
        self.method, self.head = "POST", head
        self._adapter, self._message_id = running.call.adapter, running.call.id
        self._touched = now = self.server.runtime.now()
        running.outlet = self
        if session is not None:
            self.held = session
            self._live = self.server.live_session(session.id)
            self._live.calls[running] = None
        self.hold_call(running, now)

    def _start_in_session(self, running: RunningCall, session_id: str) -> bool:
        most = self.config.max_calls
        self._live = live = self.server.live_session(session_id)
        if len(live.calls) >= most:
            failure = Failure(FailureKind.TOO_MANY, f"a session may have {most} calls in flight at most")
            self._reply_at_once(running.call, failure)
            return False
        live.calls[running] = None
        return True

    def _start_listening(self, call: Call, listening: Listening) -> None:
        fault = self.server.fault_of_listening(listening)
        if fault is None and not self.can_stream:
            text = "listening needs an Accept header that admits text/event-stream"
            fault = Failure(FailureKind.NOT_ACCEPTABLE, text)
        if fault is not None:
            self._reply_at_once(call, fault)
            return
        self.start_stream()
        self._listen = ListenStream(self.server, call, listening, self._write_change, self._listening_over)
        self._listen.start()

    def _write_change(self, message: bytes) -> None:
        # What waits from before decides, not this message: an acknowledgement may be long, and nobody is slow yet.
        if self.is_congested:
            # A client that does not read loses its stream, and knows it: it may listen again and read the lists anew.
            assert self._listen is not None
            self._listen.end()
            self.end()
        else:
            self.write(encode_event(message))
        self.wake()

    def _listening_over(self, message: bytes) -> None:
        self.write(encode_event(message))
        self.end()
        self.wake()

    # Sessions

    def _initialize(self, call: Call) -> None:
        if self.head.query.get(PIN) is None:
            call.adapter = self.server.adapters.negotiate(call.params["protocolVersion"])
        outcome = self.server.dispatcher.immediate(call)
        assert outcome is not None
        if not self.config.opens_sessions:
            self._reply_at_once(call, outcome)
            return
        session_id = self.server.runtime.token()
        store, key, ttl = self.server.store, session_key(session_id, self.principal), self.config.session_ttl
        client = call.adapter.client_info_for(call.params)
        record = new_session(call.adapter.version, client, self.principal, self.config.max_state)

        def opened(_: bool) -> None:
            self.extra_headers = ((SESSION_HEADER, session_id),)
            self._reply_at_once(call, outcome)

        self._await_store(lambda: store.create(key, record, ttl=ttl), opened)

    # GET: a stream of the session

    def _get(self, body: bytes) -> None:
        adapter = self._stated_adapter()
        session_id = self.head.session_id
        if not self._may_get(adapter) or (session_id is None and not self.config.require_session):
            self.refuse_method()
            return
        if session_id is None:
            raise session_missing()
        if not self.head.accepts_stream:
            raise Rejected(Failure(FailureKind.NOT_ACCEPTABLE, "the Accept header does not admit text/event-stream"))
        self._load(session_id, lambda: self._open_stream(adapter))

    def _may_get(self, adapter: Adapter | None) -> bool:
        """Whether there is a stream to read: the session's own, or the rest of one that was lost."""
        return self._has_sessions(adapter) and (self.config.announces_changes or "last-event-id" in self.head.headers)

    def _stated_adapter(self) -> Adapter | None:
        """The adapter of the revision that the URL or the header states, if one does. Raises `Rejected`."""
        stated = self.head.query.get(PIN, self.head.headers.get(VERSION_HEADER))
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
        assert self.held is not None
        session, last = self.held, self.head.headers.get("last-event-id")
        adapter = stated or self.server.adapters.by_version.get(session.opened.revision) or self.rendering
        self._adapter = adapter
        if last is None:
            self._use_stream(lambda stream: stream.open(adapter, session.record["subscriptions"]))
        else:
            reopen = partial(self._load, session.id, lambda: self._replace_stream(adapter))
            self._use_stream(lambda stream: stream.resume(last, reopen))

    def _replace_stream(self, adapter: Adapter) -> None:
        assert self.held is not None
        session = self.held
        self._use_stream(lambda stream: stream.open_instead(adapter, session.record["subscriptions"]))

    def _use_stream(self, use: Callable[[SessionStream], None]) -> None:
        assert self.held is not None
        self._live = live = self.server.live_session(self.held.id)
        self._stream = SessionStream(self, live)
        try:
            use(self._stream)
        finally:
            self.server.release(live)

    # DELETE: the end of the session

    def _delete(self, body: bytes) -> None:
        adapter = self._stated_adapter()
        if not self.config.deletable_sessions or not self._has_sessions(adapter):
            self.refuse_method()
            return
        session_id = self.head.session_id
        if session_id is None:
            raise Rejected(Failure(FailureKind.SESSION_MISSING, f"the header {SESSION_HEADER} is missing"))
        self._load(session_id, lambda: self._end_session(session_id))

    def _end_session(self, session_id: str) -> None:
        store, key = self.server.store, session_key(session_id, self.principal)

        def ended(_: None) -> None:
            self.server.end_session(session_id)
            self.server.workers.ended(session_id)
            self._once_told(lambda _: self.respond(204))

        self._await_store(lambda: store.delete(key), ended)

    # Time and absence

    def next_deadline(self) -> float | None:
        """See `HttpTransaction.next_deadline`."""
        own = super().next_deadline()
        let_go = self._let_go if self._stream is None else self._stream.next_deadline()
        return let_go if own is None or (let_go is not None and let_go < own) else own

    def handle_timeout(self, now: float) -> None:
        """See `HttpTransaction.handle_timeout`."""
        super().handle_timeout(now)
        self._check_patience(now)
        if self._stream is not None:
            self._stream.handle_timeout(now)

    def on_silence(self) -> None:
        """See `HttpTransaction.on_silence`. A reply that waits becomes a stream for it."""
        self._touch()
        if self.ended:
            return
        if self.method == "POST":
            self.become_stream()
        super().on_silence()
        if self._stream is not None:
            self._stream.on_silence()

    def on_over(self) -> None:
        """See `HttpTransaction.on_over`. Nothing points back here any more, so no collector is needed to free it."""
        self._reader = None
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.over()

    def on_disconnect(self) -> None:
        """See `HttpTransaction.on_disconnect`. Whether calls end with the connection is the revision's to say."""
        if self._listen is not None:
            self._listen.end()
        if self._reader is not None:  # a resumable stream waits for its client
            self._reader.detach()
        if self.rendering.disconnect_cancels:
            for running in tuple(self._running):
                running.cancel()

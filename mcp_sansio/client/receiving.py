"""What comes from a server, one message at a time, and whom it concerns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from mcp_sansio.adapters.base import Adapter
from mcp_sansio.errors import ServerError, UnusableReply
from mcp_sansio.notices import Acknowledged, Changed, Logged, Progressed, Withdrawn
from mcp_sansio.outcome import Rejected
from mcp_sansio.types import JSON
from mcp_sansio.wire.jsonrpc import Envelope, Shape, classify

from .calls import OutgoingRequest
from .events import LogReceived, ProgressReceived

if TYPE_CHECKING:
    from .engine import ClientEngine

# Named once: see `mcp_sansio.operation`.
_RESPONSE = Shape.RESPONSE

Origin = OutgoingRequest | None
"""The request on whose reply a message came, where the transport tells."""


def receive(engine: ClientEngine, message: JSON, origin: Origin, size: int) -> None:
    """One message has come, in `size` bytes."""
    envelope = classify(message)
    if envelope.shape is _RESPONSE:
        _replied(engine, envelope, origin, size)
    elif envelope.shape is Shape.INVALID:
        _unusable(engine, envelope, origin)
    elif envelope.shape is Shape.REQUEST:
        engine.questions.received(envelope, origin, engine.reading(origin))
    else:
        _noticed(engine, envelope, origin)


# Replies


def _replied(engine: ClientEngine, envelope: Envelope, origin: Origin, size: int) -> None:
    request = _request_of(engine, envelope, origin)
    if request is None:
        late = engine.flight.was_issued(envelope.id)
        engine.fault("an answer that comes too late, or again" if late else "an answer to no request")
        return
    if origin is None:
        # It did not come where the transport waits for it, if it waits anywhere in particular.
        engine.release(request, cancelled=False)
    if envelope.error is not None:
        error = envelope.error
        status = engine.status_of(request)
        engine.failed(request, ServerError(error["code"], error["message"], error.get("data"), status))
    elif engine.flight.take(request):
        if request.call is not None:
            engine.flight.answered(request, envelope.result, size)
        else:
            engine.negotiation.answered(request, envelope.result)


def _request_of(engine: ClientEngine, envelope: Envelope, origin: Origin) -> OutgoingRequest | None:
    """The request that a response answers. One on the reply to another request answers nothing."""
    if envelope.id is None:
        # The server could not read the id, or what it refuses has none to read: it answers the request whose reply
        # this is, or the one that asks what is spoken, while nothing else was asked.
        return engine.flight.request_of(origin.id) if origin is not None else engine.flight.sole_negotiation()
    request = engine.flight.request_of(envelope.id)
    return request if origin is None or request is origin else None


def _unusable(engine: ClientEngine, envelope: Envelope, origin: Origin) -> None:
    text = f"no usable message: {envelope.fault}"
    # What a program prints beside its messages, like a number or a null, answers nothing that was asked on a channel.
    is_of_some_request = envelope.method is None and not (envelope.id is None and origin is None)
    request = _request_of(engine, envelope, origin) if is_of_some_request else None
    if request is None:
        engine.fault(text)
    else:
        engine.failed(request, UnusableReply(text))


# Notifications


def _noticed(engine: ClientEngine, envelope: Envelope, origin: Origin) -> None:
    """One that nobody knows says nothing."""
    method, adapter = envelope.method or "", engine.reading(origin)
    if adapter is None:
        engine.fault(f"{method[:100]!r} before anything was agreed on")
        return
    try:
        notice = adapter.client_notice(method, envelope.params)
    except Rejected as rejected:
        engine.fault(f"{method[:100]!r} is malformed: {rejected}")
        return
    if notice is not None:
        _HEARD[type(notice)](engine, notice, adapter, origin)


def _progressed(engine: ClientEngine, notice: Progressed, adapter: Adapter, origin: Origin) -> None:
    request = engine.flight.request_of(notice.token)
    call = None if request is None else request.call
    if call is None or not call.wants_progress or (origin is not None and request is not origin):
        engine.fault("progress of no call that is in flight")
        return
    call.extend(engine.runtime.now())
    engine.emit(ProgressReceived(call, notice.progress, notice.total, notice.message))


def _logged(engine: ClientEngine, notice: Logged, adapter: Adapter, origin: Origin) -> None:
    engine.emit(LogReceived(notice.level, notice.data, notice.logger))


def _changed(engine: ClientEngine, notice: Changed, adapter: Adapter, origin: Origin) -> None:
    engine.listeners.changed(notice, origin, adapter)


def _acknowledged(engine: ClientEngine, notice: Acknowledged, adapter: Adapter, origin: Origin) -> None:
    engine.listeners.acknowledged(notice, origin)


def _withdrawn(engine: ClientEngine, notice: Withdrawn, adapter: Adapter, origin: Origin) -> None:
    # Ids of the two directions are separate, and only one of the two is ever withdrawn on a revision.
    known = engine.questions.withdraw if adapter.has_handshake else engine.listeners.withdrawn
    if not known(notice.request_id):
        engine.fault("the withdrawal of nothing that is open")


_HEARD: Mapping[type, Callable[[ClientEngine, Any, Adapter, Origin], None]] = {
    Progressed: _progressed,
    Logged: _logged,
    Changed: _changed,
    Acknowledged: _acknowledged,
    Withdrawn: _withdrawn,
}

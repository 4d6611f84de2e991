"""What a server tells unasked, and whom it concerns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from mcp_sansio.adapters.base import Adapter
from mcp_sansio.notices import Acknowledged, Changed, Logged, Progressed, Withdrawn
from mcp_sansio.outcome import Rejected
from mcp_sansio.wire.jsonrpc import Envelope

from .calls import OutgoingRequest
from .events import LogReceived, ProgressReceived

if TYPE_CHECKING:
    from .engine import ClientEngine


def noticed(engine: ClientEngine, envelope: Envelope, adapter: Adapter | None, origin: OutgoingRequest | None) -> None:
    """A notification has come; one that nobody knows says nothing. `origin` is the request on whose reply it came."""
    method = envelope.method or ""
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


def _progressed(engine: ClientEngine, notice: Progressed, adapter: Adapter, origin: OutgoingRequest | None) -> None:
    request = engine.request_of(notice.token)
    call = None if request is None else request.call
    if call is None or not call.wants_progress or (origin is not None and request is not origin):
        engine.fault("progress of no call that is in flight")
        return
    call.extend(engine.runtime.now())
    engine.emit(ProgressReceived(call, notice.progress, notice.total, notice.message))


def _logged(engine: ClientEngine, notice: Logged, adapter: Adapter, origin: OutgoingRequest | None) -> None:
    engine.emit(LogReceived(notice.level, notice.data, notice.logger))


def _changed(engine: ClientEngine, notice: Changed, adapter: Adapter, origin: OutgoingRequest | None) -> None:
    engine.listeners.changed(notice, origin, adapter)


def _acknowledged(engine: ClientEngine, notice: Acknowledged, adapter: Adapter, origin: OutgoingRequest | None) -> None:
    engine.listeners.acknowledged(notice, origin)


def _withdrawn(engine: ClientEngine, notice: Withdrawn, adapter: Adapter, origin: OutgoingRequest | None) -> None:
    # Ids of the two directions are separate, and only one of the two is ever withdrawn on a revision.
    known = engine.questions.withdraw if adapter.has_handshake else engine.listeners.withdrawn
    if not known(notice.request_id):
        engine.fault("the withdrawal of nothing that is open")


_HEARD: Mapping[type, Callable[[ClientEngine, Any, Adapter, OutgoingRequest | None], None]] = {
    Progressed: _progressed,
    Logged: _logged,
    Changed: _changed,
    Acknowledged: _acknowledged,
    Withdrawn: _withdrawn,
}

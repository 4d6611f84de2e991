"""Who is told of which change in this process, and the telling: one encoding for each revision, whoever listens."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import msgspec

from mcp_sansio.adapters.base import Adapter
from mcp_sansio.changes import Change

Frame = tuple[bytes, bytes | None]


class Listener(Protocol):
    """A stream of changes."""

    @property
    def adapter(self) -> Adapter:
        """The revision that changes are encoded in."""

    def deliver(self, frame: Frame) -> None:
        """Send one change, encoded by this listener's adapter (see `Adapter.change_frame`)."""


class Topics(msgspec.Struct):
    """The listeners of each change."""

    _listeners: dict[Change, dict[Listener, None]] = msgspec.field(default_factory=dict)

    def subscribe(self, listener: Listener, changes: Iterable[Change]) -> None:
        """Tell `listener` of `changes` from now on."""
        for change in changes:
            self._listeners.setdefault(change, {})[listener] = None

    def unsubscribe(self, listener: Listener, changes: Iterable[Change]) -> None:
        """Stop telling `listener` of `changes`."""
        for change in changes:
            held = self._listeners.get(change, {})
            held.pop(listener, None)
            if not held:
                self._listeners.pop(change, None)

    def publish(self, change: Change) -> None:
        """Tell everybody who listens for `change`, in the order in which they subscribed."""
        frames: dict[Adapter, Frame] = {}
        for listener in tuple(self._listeners.get(change, ())):
            adapter = listener.adapter
            frame = frames.get(adapter)
            if frame is None:
                frame = frames[adapter] = adapter.change_frame(change)
            listener.deliver(frame)

    def __len__(self) -> int:
        """How many pairs of a change and a listener there are."""
        return sum(map(len, self._listeners.values()))

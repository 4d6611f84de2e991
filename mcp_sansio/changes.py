"""What a server may announce without being asked: a list that changed, a resource that was updated."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from weakref import WeakMethod

import attrs


class ChangeKind(StrEnum):
    """The kinds of announcement (basic/patterns/subscriptions, "Notification Filter")."""

    TOOLS = "tools"
    PROMPTS = "prompts"
    RESOURCES = "resources"
    RESOURCE_UPDATED = "resource_updated"


@attrs.frozen
class Change:
    """One announcement. `uri` names the resource for :attr:`ChangeKind.RESOURCE_UPDATED` and is ``None`` otherwise.

    Changes compare by value, so they serve as the topics that streams subscribe to.
    """

    kind: ChangeKind
    uri: str | None = None


#: What is announced to everybody who listens at all.
LIST_CHANGES = (Change(ChangeKind.TOOLS), Change(ChangeKind.PROMPTS), Change(ChangeKind.RESOURCES))


class Watchers:
    """Bound methods to call on every change, for as long as their objects live."""

    def __init__(self) -> None:
        # By their ids, and never made anew: who is added by another thread meanwhile is not to get lost.
        self._held: dict[int, WeakMethod[Callable[[Change], None]]] = {}

    def add(self, watcher: Callable[[Change], None]) -> None:
        """Call `watcher`, too."""
        held = WeakMethod(watcher)
        self._held[id(held)] = held

    def announce(self, change: Change) -> None:
        """Call all of them."""
        for key, held in tuple(self._held.items()):
            call = held()
            if call is None:
                self._held.pop(key, None)
            else:
                call(change)

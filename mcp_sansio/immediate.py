"""What the registry alone can answer, at once and on every revision alike: who serves, what there is, pings, listening.

The records here say what the answer is in words that no revision owns; adapters make results of them. What needs a
handler, or waits for anything, belongs in `dispatcher`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec import Struct

from .call import Call
from .changes import ChangeKind
from .operation import Operation
from .outcome import Failure, FailureKind, Outcome, Value
from .registry import Registry
from .specs import Spec
from .types import JSON

#: Where no changes are announced, there is no method to ask for that.
NOTHING_ANNOUNCED = Failure(FailureKind.UNKNOWN_METHOD, "this server announces no changes")
#: What each member of a listen request's filter asks for (basic/patterns/subscriptions, "Notification Filter").
LISTEN_FILTER = {
    "toolsListChanged": ChangeKind.TOOLS,
    "promptsListChanged": ChangeKind.PROMPTS,
    "resourcesListChanged": ChangeKind.RESOURCES,
}
LISTEN_URIS = "resourceSubscriptions"


class Described(Struct, frozen=True):
    """The result of describing the server: the handshake's, or the stateless discovery's.

    `supported` are revisions, and `announces` is whether changes are announced.
    """

    supported: tuple[str, ...]
    announces: bool = True


class Empty(Struct, frozen=True):
    """A result without content."""


class ListPage(Struct):
    """One page of a list: the declarations on it, and the cursor of the next one, or ``None``.

    It is of one revision, whose adapter puts its JSON text into `text`.
    """

    specs: tuple[Spec, ...]
    next_cursor: str | None
    text: bytes | None = None


class Listening(Struct, frozen=True):
    """The call stays open and carries the changes that its filter names; `uris` are the resources to watch."""

    kinds: frozenset[ChangeKind]
    uris: tuple[str, ...]


#: The tables of a registry that lists are made from.
_TABLES: Mapping[Operation, str] = {
    Operation.LIST_TOOLS: "tools",
    Operation.LIST_RESOURCES: "resources",
    Operation.LIST_RESOURCE_TEMPLATES: "templates",
    Operation.LIST_PROMPTS: "prompts",
}


class Immediate:
    """Answers from the declarations of `registry`.

    `supported` are the revisions that this server tells of, and `announces` is whether it tells of changes.
    """

    def __init__(self, registry: Registry, supported: tuple[str, ...], *, announces: bool) -> None:
        self._registry = registry
        self._supported = supported
        self._announces = announces

    def outcome(self, call: Call) -> Outcome | None:
        """The outcome of `call`, or ``None`` for one that has to be run."""
        answer = ROUTES.get(call.operation)
        return None if answer is None else answer(self, call)

    def _describe(self, call: Call) -> Outcome:
        return Value(Described(self._supported, self._announces))

    def _nothing(self, call: Call) -> Outcome:
        return Value(Empty())

    def _list(self, call: Call) -> Outcome:
        cursor = call.params.get("cursor")
        if cursor is None:
            key = (call.adapter.version, call.operation, "first page")
            return Value(self._registry.rendered(key, self._page_after, 0, call))
        after = _serial_of(cursor)
        if after is None:
            return Failure(FailureKind.INVALID_PARAMS, "cursor was not given out by this server")
        return Value(self._page_after(after, call))

    def _page_after(self, serial: int, call: Call) -> ListPage:
        table: Mapping[str, Spec] = getattr(self._registry, _TABLES[call.operation])
        offered = [spec for spec in tuple(table.values()) if spec.serial > serial and call.adapter.offers(spec)]
        size = self._registry.page_size
        page = tuple(offered[:size])
        return ListPage(page, str(page[-1].serial) if len(offered) > size else None)

    def _listen(self, call: Call) -> Outcome:
        if not self._announces:
            return NOTHING_ANNOUNCED
        wanted = call.params["notifications"]
        kinds = frozenset(kind for member, kind in LISTEN_FILTER.items() if wanted.get(member) is True)
        return Value(Listening(kinds, tuple(dict.fromkeys(wanted.get(LISTEN_URIS) or ()))))


ROUTES: Mapping[Operation, Callable[[Immediate, Call], Outcome]] = {
    Operation.DESCRIBE: Immediate._describe,
    Operation.PING: Immediate._nothing,
    Operation.HANDSHAKE_COMPLETE: Immediate._nothing,
    Operation.CANCEL: Immediate._nothing,
    **dict.fromkeys(_TABLES, Immediate._list),
    Operation.LISTEN: Immediate._listen,
}


def _serial_of(cursor: JSON) -> int | None:
    """The declaration that a cursor stands after. Serials are never reused, so a cursor outlives any change."""
    sound = isinstance(cursor, str) and cursor.isascii() and cursor.isdigit() and len(cursor) < 20
    return int(cursor) if sound else None

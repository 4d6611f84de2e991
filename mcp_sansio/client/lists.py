"""Lists: read to their last page, kept while the server says so, and without the entries that cannot be used.

Source: server/utilities/pagination; server/utilities/caching; basic/transports/streamable-http, "Schema Extension".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import attrs

from mcp_sansio.catalogue import Prompt, Resource, ResourceTemplate, Tool
from mcp_sansio.changes import ChangeKind
from mcp_sansio.errors import DeclarationError, McpError, UnusableReply
from mcp_sansio.operation import Operation
from mcp_sansio.reading import WireFault, from_wire
from mcp_sansio.schema import HeaderParam, header_plan, is_object_schema
from mcp_sansio.types import JSON

from ._state import CALL, CallInput
from .calls import Answered, Failed, OutgoingCall, OutgoingRequest

if TYPE_CHECKING:
    from .engine import ClientEngine

#: The member of each list's result, and what its entries are.
LISTS: Mapping[Operation, tuple[str, type]] = {
    Operation.LIST_TOOLS: ("tools", Tool),
    Operation.LIST_RESOURCES: ("resources", Resource),
    Operation.LIST_RESOURCE_TEMPLATES: ("resourceTemplates", ResourceTemplate),
    Operation.LIST_PROMPTS: ("prompts", Prompt),
}
#: What makes a list stale.
_CHANGED_BY = {
    Operation.LIST_TOOLS: ChangeKind.TOOLS,
    Operation.LIST_RESOURCES: ChangeKind.RESOURCES,
    Operation.LIST_RESOURCE_TEMPLATES: ChangeKind.RESOURCES,
    Operation.LIST_PROMPTS: ChangeKind.PROMPTS,
}
#: So many entries that cannot be used are named. A list may hold as many more as it may have entries.
_MOST_NAMED = 100
#: A list may be kept for a year at most (in milliseconds): a number may have any number of digits.
_LONGEST = 365 * 24 * 3600 * 1000


@attrs.define(eq=False)
class _Gathered:
    """The pages of a list that came so far. It is fresh until `until`, the earliest end of any page's time."""

    started: float
    items: list[JSON] = attrs.field(factory=list)
    plans: dict[str, tuple[HeaderParam, ...]] = attrs.field(factory=dict)
    cursor: str | None = None
    seen: set[str] = attrs.field(factory=set)
    pages: int = 0
    entries: int = 0
    left_out: int = 0
    size: int = 0
    until: float = float("inf")
    public: bool = True


@attrs.frozen
class _Kept:
    result: Mapping[str, JSON]
    until: float
    public: bool


class Lists:
    """The lists that are being read, and those that are kept."""

    def __init__(self, engine: ClientEngine) -> None:
        self._engine = engine
        self._gathered: dict[OutgoingCall, _Gathered] = {}
        self._kept: dict[Operation, _Kept] = {}
        #: What is mirrored of the arguments of each tool, and the request that the last of that was listed by.
        self._plans: dict[str, tuple[HeaderParam, ...]] = {}
        self._planned_by = 0
        #: When each kind of list changed last: what began to be read before is not to be kept.
        self._changed: dict[ChangeKind, float] = {}
        #: Calls whose headers were refused, each with its error, while the list of tools is read anew for all of them.
        self._refused: list[tuple[OutgoingCall, McpError]] = []

    # What is kept

    def kept(self, call: OutgoingCall) -> Mapping[str, JSON] | None:
        """The list that `call` wants to begin with, where it is still fresh.

        A private one serves no call with headers of its own, which may speak for somebody else.
        """
        kept = self._kept.get(call.operation)
        if kept is None or call.request is not None or call.params or (call.headers is not None and not kept.public):
            return None
        return kept.result if self._engine.runtime.now() < kept.until else None

    def changed(self, kind: ChangeKind) -> None:
        """The server announced a change: what is kept is stale, however fresh ("Interaction with Notifications")."""
        self._changed[kind] = self._engine.runtime.now()
        for operation, changed_by in _CHANGED_BY.items():
            if changed_by is kind:
                self._kept.pop(operation, None)

    def forget(self) -> None:
        """Announcements may have been missed."""
        self._kept.clear()

    # Pages

    def params_of(self, call: OutgoingCall) -> Mapping[str, JSON]:
        """The params of the next page's request."""
        gathered = self._gathered.get(call)
        return call.params if gathered is None else {**call.params, "cursor": gathered.cursor}

    def page(self, call: OutgoingCall, request: OutgoingRequest, result: Mapping[str, JSON], size: int) -> None:
        """A page has come."""
        gathered = self._gathered.pop(call, None) or _Gathered(call.started)
        try:
            self._gather(call, request, gathered, result, size)
        except WireFault as fault:
            self._engine.flight.end(call, Failed(UnusableReply(str(fault))))
            return
        if gathered.cursor is not None:
            self._gathered[call] = gathered
            call.extend(self._engine.runtime.now())
            self._engine.flight.send(call)
            return
        member, _ = LISTS[call.operation]
        unnamed = gathered.left_out - _MOST_NAMED
        if unnamed > 0:
            self._engine.fault(f"{unnamed} more entries of {member} are left out", matters=True)
        whole = {**{name: value for name, value in result.items() if name != "nextCursor"}, member: gathered.items}
        self._keep(call, whole, gathered)
        if call.operation is Operation.LIST_TOOLS and not call.params:
            self._plans, self._planned_by = gathered.plans, request.id
        self._engine.flight.end(call, Answered(whole))

    def _gather(
        self,
        call: OutgoingCall,
        request: OutgoingRequest,
        gathered: _Gathered,
        result: Mapping[str, JSON],
        size: int,
    ) -> None:
        config = self._engine.config
        member, _ = LISTS[call.operation]
        items = result.get(member)
        if not isinstance(items, list):
            raise WireFault(f"result.{member} must be a list")
        gathered.pages += 1
        gathered.entries += len(items)
        gathered.size += size
        if gathered.entries > config.max_items or gathered.size > config.max_list:
            raise WireFault(f"the list is longer than {config.max_items} entries or {config.max_list} bytes")
        gathered.items += [item for item in items if self._is_sound(call.operation, request, item, gathered)]
        self._time(gathered, result)
        gathered.cursor = cursor = result.get("nextCursor")
        if cursor is None:
            return
        if not isinstance(cursor, str):
            raise WireFault("result.nextCursor must be a string")
        if cursor in gathered.seen or gathered.pages >= config.max_pages:
            raise WireFault(f"the list does not end: after {gathered.pages} pages a cursor came again or one too many")
        gathered.seen.add(cursor)

    def _time(self, gathered: _Gathered, result: Mapping[str, JSON]) -> None:
        ttl = result.get("ttlMs")
        if not isinstance(ttl, int) or isinstance(ttl, bool):
            ttl = 0
        seconds = min(max(ttl, 0), _LONGEST) / 1000
        gathered.until = min(gathered.until, self._engine.runtime.now() + seconds)
        gathered.public = gathered.public and result.get("cacheScope") == "public"

    def _keep(self, call: OutgoingCall, whole: Mapping[str, JSON], gathered: _Gathered) -> None:
        now = self._engine.runtime.now()
        if call.params or gathered.until <= now or (call.headers is not None and not gathered.public):
            return
        if self._changed.get(_CHANGED_BY[call.operation], -1.0) >= gathered.started:
            return
        self._kept[call.operation] = _Kept(whole, gathered.until, gathered.public)

    def call_ended(self, call: OutgoingCall) -> None:
        """`call` reads no further."""
        self._gathered.pop(call, None)

    # Entries

    def _is_sound(self, operation: Operation, request: OutgoingRequest, item: JSON, gathered: _Gathered) -> bool:
        """Whether an entry can be used. One that cannot does not hide the others ("Schema Extension")."""
        member, cls = LISTS[operation]
        try:
            record: object = from_wire(cls, item, "it")
            if isinstance(record, Tool):
                self._plan(request, record, gathered)
        except (WireFault, DeclarationError) as fault:
            gathered.left_out += 1
            if gathered.left_out <= _MOST_NAMED:
                name = item.get("name") if isinstance(item, dict) else None
                self._engine.fault(f"an entry of {member} is left out, {str(name)[:100]!r}: {fault}", matters=True)
            return False
        return True

    def _plan(self, request: OutgoingRequest, tool: Tool, gathered: _Gathered) -> None:
        if not is_object_schema(tool.input_schema):
            raise WireFault('it.inputSchema must have "type": "object"')
        if self._engine.has_headers and request.adapter.mirrors_arguments:
            gathered.plans[tool.name] = header_plan(tool.input_schema)

    # Mirrored arguments

    def mirrored(self, call: OutgoingCall | None) -> tuple[HeaderParam, ...]:
        """The arguments of a call of a tool that go into headers, as far as the tool has been listed."""
        if not self._plans or call is None or call.operation is not Operation.CALL_TOOL:
            return ()
        return self._plans.get(call.params["name"], ())

    def refresh_for(self, call: OutgoingCall, error: McpError) -> bool:
        """The headers of `call` were refused: read the list of tools anew, once for all such calls, and try once more.

        Source: basic/transports/streamable-http, "Client Behavior".
        """
        if not self._engine.has_headers or call.operation is not Operation.CALL_TOOL or call.refreshed:
            return False
        call.refreshed = True
        call.state = CALL[call.state][CallInput.PARK]
        if call.request is not None and call.request.id < self._planned_by:
            self._engine.flight.send(call)  # it was sent before the list was read
            return True
        self._refused.append((call, error))
        if len(self._refused) == 1:
            self._kept.pop(Operation.LIST_TOOLS, None)
            self._engine.flight.internal_call(Operation.LIST_TOOLS, {}, self._refreshed)
        return True

    def _refreshed(self, listing: OutgoingCall) -> None:
        refused, self._refused = self._refused, []
        has_failed = isinstance(listing.outcome, Failed)
        for call, error in refused:
            if has_failed:
                self._engine.flight.end(call, Failed(error))
            elif not call.ended:
                self._engine.flight.send(call)

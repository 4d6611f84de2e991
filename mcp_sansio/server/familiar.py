"""Requests like one that was found sound before, of which only the id and the arguments are new.

A client says the same of itself in every request, and calls the same few tools. What depends on that alone need not be
worked out again: which revision a message is in, whether its headers mirror it, whether it is complete, who its client
is. There are no rules here: what is remembered is what the rules made of the first such request, and whatever is not
wholly like that goes their way. This took half of what the core does for a call, see docs/performance.md.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any, Literal

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType
from msgspec.structs import replace

from mcp_sansio.call import NOBODY, Call
from mcp_sansio.immediate import ListPage
from mcp_sansio.operation import Operation
from mcp_sansio.outcome import Outcome, Value
from mcp_sansio.registry import Registry
from mcp_sansio.specs import ToolSpec

# JSON of so many levels: arguments that are of a type need no look at how deep they are.
_Json0 = str | int | float | bool | None
_Json1 = _Json0 | list[_Json0] | dict[str, _Json0]
_Json2 = _Json0 | list[_Json1] | dict[str, _Json1]
_Json3 = _Json0 | list[_Json2] | dict[str, _Json2]
_Json4 = _Json0 | list[_Json3] | dict[str, _Json3]
#: The levels that a request with such arguments may have.
_DEPTH = 7


class _Params(Struct, frozen=True, forbid_unknown_fields=True):
    """The params of what is worth remembering: nothing but what a call is about, and `meta` as it was written."""

    name: str | UnsetType = UNSET
    uri: str | UnsetType = UNSET
    cursor: str | UnsetType = UNSET
    arguments: dict[str, _Json4] | UnsetType = UNSET
    meta: Raw = msgspec.field(name="_meta", default=Raw(b""))


class _Request(Struct, frozen=True, forbid_unknown_fields=True):
    jsonrpc: Literal["2.0"]
    id: str | int
    method: str
    params: _Params = _Params()


_decode = msgspec.json.Decoder(_Request).decode
#: All of a request but its id, its `_meta` and what its arguments are; of those, whether there are any.
_about = attrgetter("method", "params.name", "params.uri", "params.cursor", "params.arguments.__class__")
#: What the letters of a member's name may be spelled with, by who has one to hide.
_ESCAPE = b"\\u00"
_BACKSLASH = ord("\\")  # a number is looked for in a tenth of the time
#: What comes of a body that is not to be remembered. The last are of what is no ``bytes``: whoever reads it next takes
#: it, or says what is wrong.
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError, AttributeError, TypeError, BufferError)
#: What clients repeat, of which no rule but a tool's own looks at the arguments.
_REPEATED = frozenset(
    {
        Operation.CALL_TOOL,
        Operation.READ_RESOURCE,
        Operation.LIST_TOOLS,
        Operation.LIST_RESOURCES,
        Operation.LIST_RESOURCE_TEMPLATES,
        Operation.LIST_PROMPTS,
    }
)
#: How many requests are remembered, and the bytes that each may have: together they bound what clients can fill.
_MOST, _MAX_SIZE = 512, 2048


class Familiar:
    """The requests to one server that were found sound lately.

    A `place` is what else was known of a request than its body, and decided of it: they are only alike within one.
    `immediate` gives what a call comes to by the declarations of `registry` alone.
    """

    def __init__(self, registry: Registry, max_depth: int, immediate: Callable[[Call], Outcome | None]) -> None:
        self._registry = registry
        self._max_depth = max_depth
        self._immediate = immediate
        self._known: dict[Any, Call] = {}

    def recall(self, place: object, body: bytes) -> Call | None:
        """The call in `body`, if it is like one before, but for its client and log level where a session keeps them.

        It never raises: what is wrong with a body is for the rules to say.
        """
        try:
            request = _decode(body)
            like = self._known.get((place, _about(request), bytes(request.params.meta), body.count(b"_meta")))
        except _UNREADABLE:
            return None
        if like is None or (_BACKSLASH in body and _ESCAPE in body):
            return None
        arguments = request.params.arguments
        if arguments is UNSET:
            return replace(like, id=request.id, arguments={})
        return replace(like, id=request.id, arguments=arguments, params={**like.params, "arguments": arguments})

    def remember(self, place: object, body: bytes, call: Call) -> None:
        """`body` was sound, and came to `call`, which nobody has touched yet."""
        known = self._known  # first: what is declared from now on, in a thread say, starts another collection
        if type(body) is not bytes or call.operation not in _REPEATED or _is_new_each_time(call) or self._is_much(body):
            return
        tool = call.adapter.tool_of(call, self._registry)
        # Headers of its own have to be compared with the arguments each time.
        if call.operation is Operation.CALL_TOOL and (tool is None or tool.headers):
            return
        try:
            request = _decode(body)
        except _UNREADABLE:
            return
        meta, named = bytes(request.params.meta), body.count(b"_meta")
        # The decoder takes the last `_meta`, and looks whether that alone is JSON: there must not be another one.
        if named != (meta != b"") or _ESCAPE in body:
            return
        if len(known) >= _MOST:
            known.pop(next(iter(known)))  # the oldest makes room
        common = _without_its_own(call, tool)
        common.text = self._text_of(common)
        known[place, _about(request), meta, named] = common

    def _text_of(self, call: Call) -> bytes | None:
        """The result of `call`, if that is the first page of a list. Of others, a client could have any number kept.

        To find it anew each time was a third of what the core does for a list, see docs/performance.md.
        """
        page = None if "cursor" in call.params else self._immediate(call)
        if not (isinstance(page, Value) and isinstance(page.result, ListPage)):
            return None
        text: bytes = call.adapter.page_text(call, self._registry, page.result)
        return text

    def _is_much(self, body: bytes) -> bool:
        """Whether `body` is too much to keep: a bracket costs thirty times its byte. No limit may be under `_DEPTH`."""
        brackets = body.count(b"{") + body.count(b"[")
        return len(body) > _MAX_SIZE or brackets > self._max_depth or self._max_depth < _DEPTH

    def forget(self) -> None:
        """The declarations have changed, and with them what is checked of a call."""
        self._known = {}


def _is_new_each_time(call: Call) -> bool:
    return call.progress_token is not None or call.request_state is not None or bool(call.answers)


def _without_its_own(call: Call, tool: ToolSpec | None) -> Call:
    """What calls like `call`, of `tool`, have in common: nothing else of a client is to outlive its call."""
    params = {**call.params, "arguments": {}} if "arguments" in call.params else call.params
    common = replace(call, arguments={}, params=params, tool=tool)
    if call.adapter.has_handshake:
        common.client, common.log_level = NOBODY, None
    return common

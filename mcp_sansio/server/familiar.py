"""Requests like one that was found sound before, of which only the id and the arguments are new.

A client says the same of itself in every request, and calls the same few tools. What depends on that alone need not be
worked out again: which revision a message is in, whether its headers mirror it, whether it is complete, who its client
is. There are no rules here: what is remembered is what the rules made of the first such request, and whatever is not
wholly like that goes their way. This took half of what the core does for a call, see docs/performance.md.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType
from msgspec.structs import replace

from mcp_sansio.call import NOBODY, Call
from mcp_sansio.operation import Operation
from mcp_sansio.registry import Registry

_ABSENT = Raw(b"")
# A number is found in bytes in a fifth of the time that a piece is counted in.
_BRACKET, _BACKSLASH = ord("["), ord("\\")


class _Params(Struct, frozen=True, forbid_unknown_fields=True):
    """The params of what is worth remembering: nothing but what a call is about, and `meta` as it was written."""

    name: str | UnsetType = UNSET
    uri: str | UnsetType = UNSET
    cursor: str | UnsetType = UNSET
    arguments: dict[str, Any] | UnsetType = UNSET
    meta: Raw = msgspec.field(name="_meta", default=_ABSENT)


class _Request(Struct, frozen=True, forbid_unknown_fields=True):
    jsonrpc: Literal["2.0"]
    id: str | int
    method: str
    params: _Params = _Params()


_decode = msgspec.json.Decoder(_Request).decode
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
    """

    def __init__(self, registry: Registry, max_depth: int) -> None:
        self._registry = registry
        self._max_depth = max_depth
        self._known: dict[Any, Call] = {}

    def recall(self, place: object, body: bytes) -> Call | None:
        """The call in `body`, if it is like one before, but for its client and log level where a session keeps them.

        It never raises: what is wrong with a body is for the rules to say.
        """
        if not self._known or self._may_be_deep(body):
            return None
        try:
            request = _decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None
        like = self._known.get(_key(place, request))
        if like is None or _may_hide(body, request):
            return None
        arguments = request.params.arguments
        if arguments is UNSET:
            return replace(like, id=request.id, arguments={})
        return replace(like, id=request.id, arguments=arguments, params={**like.params, "arguments": arguments})

    def remember(self, place: object, body: bytes, call: Call) -> None:
        """`body` was sound, and came to `call`, which nobody has touched yet."""
        known = self._known  # first: what is declared from now on, in a thread say, starts another collection
        if call.operation not in _REPEATED or len(body) > _MAX_SIZE or _is_new_each_time(call):
            return
        if self._may_be_deep(body):  # `recall` would not look for it
            return
        spec = self._registry.tools.get(call.target or "")
        if spec is not None and spec.headers:  # which have to be compared with the arguments each time
            return
        try:
            key = _key(place, _decode(body))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return
        if len(known) >= _MOST:
            known.pop(next(iter(known)))  # the oldest makes room
        known[key] = _without_its_own(call)

    def _may_be_deep(self, body: bytes) -> bool:
        try:
            return body.count(b"{") + (body.count(b"[") if _BRACKET in body else 0) > self._max_depth
        except (AttributeError, TypeError):  # no ``bytes``: whoever reads it next takes it, or says what is wrong
            return True

    def forget(self) -> None:
        """The declarations have changed, and with them what is checked of a call."""
        self._known = {}


def _key(place: object, request: _Request) -> tuple[Any, ...]:
    """All of a request but its id and what its arguments are."""
    params = request.params
    about = (request.method, params.name, params.uri, params.cursor, params.arguments is UNSET)
    return place, bytes(params.meta), about


def _may_hide(body: bytes, request: _Request) -> bool:
    """Whether `body` may have a second `_meta`: the decoder takes the last, and looks whether that alone is JSON.

    Nobody escapes a letter but who has one to hide.
    """
    return body.count(b"_meta") > (request.params.meta is not _ABSENT) or (_BACKSLASH in body and b"\\u00" in body)


def _is_new_each_time(call: Call) -> bool:
    return call.progress_token is not None or call.request_state is not None or bool(call.answers)


def _without_its_own(call: Call) -> Call:
    """What calls like `call` have in common with it: nothing else of a client is to outlive its call."""
    params = {**call.params, "arguments": {}} if "arguments" in call.params else call.params
    common = replace(call, arguments={}, params=params)
    if call.adapter.has_handshake:
        common.client, common.log_level = NOBODY, None
    return common

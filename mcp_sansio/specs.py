"""What an application declared: one record for each tool, resource, prompt and completion, in no revision's words.

A spec holds everything that any revision may want to publish. How much of it a revision can express is decided by its
adapter (`describe_tool` and its siblings).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, Literal, Self

import attrs
import msgspec

from .binding import Bound
from .schema import HeaderParam
from .simplify import simplified, stripped
from .types import JSON, Annotations, Icon, ToolAnnotations
from .uri_template import UriTemplate


@attrs.frozen
class CacheHint:
    """How long a client may keep a result, and whether caches may share it (server/utilities/caching).

    `ttl_ms` is in milliseconds. ``public`` lets any cache hand the result to anyone, so it is never the default.
    """

    ttl_ms: int = attrs.field(default=0, validator=attrs.validators.ge(0))
    scope: Literal["public", "private"] = "private"


class Spec(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """What all declarations have in common.

    `serial` numbers the declarations of a registry; lists are in its order, and cursors point into it. `since` names
    the oldest revision that is offered this declaration, or is ``None``.
    """

    serial: int
    name: str
    bound: Bound
    title: str | None = None
    description: str | None = None
    icons: Sequence[Icon] | None = None
    meta: Mapping[str, JSON] | None = None
    since: str | None = None
    blocking: bool = True

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}>"


# `dict` is for the cached properties.
class ToolSpec(Spec, frozen=True, kw_only=True, eq=False, dict=True):
    """A tool.

    `streaming` starts the reply as a stream at once. `poll_after` (seconds) lets go of a streaming connection after
    that time where the client can resume it. `ask_in_arguments` is ``None`` where the registry decides. `headers` is
    the plan for the arguments that HTTP mirrors.
    """

    input_schema: Mapping[str, JSON]
    output_schema: Mapping[str, JSON] | None = None
    annotations: ToolAnnotations | None = None
    headers: tuple[HeaderParam, ...] = ()
    streaming: bool = False
    poll_after: float | None = None
    ask_in_arguments: bool | None = None
    verbatim_schema: bool = False

    @property
    def begins_as_stream(self) -> bool:
        """Whether the reply to a call over HTTP is a stream from the start, where the client accepts one."""
        return self.streaming or self.poll_after is not None

    @cached_property
    def ends_at_once(self) -> bool:
        """Whether a call can be run where it is read: it waits for nothing, and nothing goes before its reply."""
        return self.bound.never_waits and not self.begins_as_stream

    @cached_property
    def simple_input_schema(self) -> Mapping[str, JSON] | None:
        """The input schema in a form for clients of limited schema support, or ``None`` if that loses meaning."""
        return stripped(self.input_schema) if self.verbatim_schema else simplified(self.input_schema)

    @cached_property
    def simple_output_schema(self) -> Mapping[str, JSON] | None:
        """The same of the output schema, which still admits the nulls that the tool returns."""
        if self.output_schema is None:
            return None
        return self.output_schema if self.verbatim_schema else simplified(self.output_schema, nullable=True)


class ResourceSpec(Spec, frozen=True, kw_only=True, eq=False):
    """A resource, or a template of many: then `template` is set and `uri` is its text. `size` is in bytes."""

    uri: str
    template: UriTemplate | None = None
    mime_type: str | None = None
    size: int | None = None
    annotations: Annotations | None = None
    cache: CacheHint | None = None


class PromptSpec(Spec, frozen=True, kw_only=True, eq=False):
    """A prompt. `arguments` are the described arguments, as the specification's JSON objects."""

    arguments: Sequence[Mapping[str, JSON]] = ()


@attrs.frozen
class CompletionRequest:
    """What a client wants completed (server/utilities/completion).

    Exactly one of `prompt` (a name) and `resource` (a URI or template) is set. `value` is what was typed so far of
    `argument`, and `context` the arguments that are already decided.
    """

    argument: str
    value: str
    prompt: str | None = None
    resource: str | None = None
    context: Mapping[str, str] = attrs.field(factory=dict)

    @classmethod
    def of(cls, params: Mapping[str, JSON]) -> Self:
        """The request in the params of a message, which were checked."""
        ref, argument = params["ref"], params["argument"]
        is_prompt = ref["type"] == "ref/prompt"
        return cls(
            argument=argument["name"],
            value=argument["value"],
            prompt=ref["name"] if is_prompt else None,
            resource=None if is_prompt else ref["uri"],
            context=(params.get("context") or {}).get("arguments") or {},
        )


CompletionKey = tuple[str | None, str | None, str | None]
"""A prompt's name, a resource's URI and an argument's name; ``None`` stands for any."""


class CompletionSpec(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """A completion. `handler` takes a `CompletionRequest`, and an Exchange where `exchange_param` names one."""

    handler: Callable[..., Any]
    is_async: bool
    request_param: str
    exchange_param: str | None
    blocking: bool

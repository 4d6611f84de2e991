"""Where an application declares what it serves. One registration serves every client of every revision.

Everything that can be wrong with a declaration is found here, when it is made, and said so that it can be mended.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Any, TypeVar, overload

from .binding import Bound
from .changes import Change, ChangeKind, Watchers
from .checks import (
    COMPLETION_OPTIONS,
    PROMPT_OPTIONS,
    TOOL_OPTIONS,
    check_function,
    check_options,
    check_shown,
    check_variables,
    completion_params,
)
from .errors import DeclarationError
from .exchange import Exchange
from .in_arguments import RESERVED_ARGUMENTS
from .providers import Provider, provider_of
from .specs import CacheHint, CompletionKey, CompletionRequest, CompletionSpec, PromptSpec, ResourceSpec, ToolSpec
from .types import JSON, Annotations, Icon, Implementation, ToolAnnotations
from .uri_template import UriTemplate, is_template

F = TypeVar("F", bound=Callable[..., Any])

_LIST_CACHE = CacheHint(ttl_ms=60_000)
_MAX_RENDERED = 256


class Registry:
    """The tools, resources, prompts and completions of one server.

    `name` and `version` identify the server to clients; `instructions` are for their models. `ask_in_arguments` lets
    every tool that takes an Exchange put its questions in its result and take the answers as arguments, for clients
    that cannot be asked otherwise. `page_size` bounds one page of a list. `list_cache` is the hint on lists.

    Declarations may change while the server runs: open streams are told, and cached lists are rendered anew.
    """

    def __init__(
        self,
        name: str,
        version: str,
        *,
        title: str | None = None,
        description: str | None = None,
        website_url: str | None = None,
        icons: Sequence[Icon] | None = None,
        instructions: str | None = None,
        ask_in_arguments: bool = False,
        page_size: int = 100,
        list_cache: CacheHint = _LIST_CACHE,
    ) -> None:
        if page_size < 1:
            raise DeclarationError(f"page_size must be at least 1, not {page_size}")
        self.info = Implementation(
            name=name, version=version, title=title, description=description, website_url=website_url, icons=icons
        )
        # By revision: how `info` is shown, and what is around the id and the text of a result. Adapters put it here.
        self.shown_info: dict[str, dict[str, JSON]] = {}
        self.around_text: dict[str, tuple[bytes, ...]] = {}
        self.instructions = instructions
        self.ask_in_arguments = ask_in_arguments
        self.page_size = page_size
        self.list_cache = list_cache
        self.tools: dict[str, ToolSpec] = {}
        self.resources: dict[str, ResourceSpec] = {}
        self.templates: dict[str, ResourceSpec] = {}
        self.prompts: dict[str, PromptSpec] = {}
        self.completions: dict[CompletionKey, CompletionSpec] = {}
        self.providers: dict[Any, Provider] = {}
        self._serials = count(1)
        self._rendered: dict[Any, Any] = {}
        self._watchers = Watchers()

    # Declaring

    @overload
    def tool(self, fn: F, /) -> F: ...
    @overload
    def tool(
        self,
        /,
        *,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        annotations: ToolAnnotations | None = None,
        icons: Sequence[Icon] | None = None,
        meta: Mapping[str, JSON] | None = None,
        input_schema: Mapping[str, JSON] | None = None,
        output_schema: Mapping[str, JSON] | None = None,
        streaming: bool = False,
        poll_after: float | None = None,
        ask_in_arguments: bool | None = None,
        verbatim_schema: bool = False,
        since: str | None = None,
        blocking: bool = True,
    ) -> Callable[[F], F]: ...
    def tool(self, fn: Any = None, /, **options: Any) -> Any:
        """Declare a tool: ``@registry.tool`` or ``@registry.tool(name=…)``.

        The name is the function's and the description its docstring, unless given. Arguments come as one model
        parameter or as annotated parameters; an `Exchange` and provided dependencies come by annotation. A plain
        ``def`` runs in a thread unless ``blocking=False``.

        `input_schema` and `output_schema` replace the schemas of the annotations by raw JSON Schema. `streaming` starts
        the HTTP reply as a stream at once, and `poll_after` (seconds) lets go of its connection where the client can
        come back for the rest. `ask_in_arguments` is as for the registry, whose choice it overrides.
        `verbatim_schema` shows the schema as it is to the revisions that would be shown a simpler one. `since` names
        the oldest revision that is offered the tool.

        Raises `DeclarationError`. Source: server/tools.
        """
        check_options("registry.tool", options, TOOL_OPTIONS)
        return self._decorate("registry.tool", fn, lambda function: self._add_tool(function, **options))

    def _add_tool(
        self,
        fn: Callable[..., Any],
        *,
        name: str | None = None,
        description: str | None = None,
        input_schema: Mapping[str, JSON] | None = None,
        output_schema: Mapping[str, JSON] | None = None,
        **options: Any,
    ) -> None:
        bound = self._bind(fn, input_schema=input_schema, output_schema=output_schema)
        name = name or bound.name
        if name in self.tools:
            raise DeclarationError(f"there is a tool named {name!r} already; give this one another name=")
        reserved = RESERVED_ARGUMENTS & set(bound.input_schema.get("properties", ()))
        if reserved:
            raise DeclarationError(f"tool {name!r}: the argument {min(reserved)!r} is reserved for asking; rename it")
        spec = ToolSpec(
            serial=next(self._serials),
            name=name,
            bound=bound,
            description=description or bound.description,
            input_schema=bound.input_schema,
            output_schema=bound.output_schema,
            headers=bound.headers,
            **options,
        )
        given = {"input_schema": input_schema, "output_schema": output_schema}
        check_shown(f"tool {name!r}", spec, [which for which, raw in given.items() if raw is not None])
        self.tools[name] = spec
        self._changed(ChangeKind.TOOLS)

    # Over 40 lines, since each of its options has one of its own, here and where they are handed on.
    def resource(
        self,
        uri: str,
        /,
        *,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        mime_type: str | None = None,
        size: int | None = None,
        annotations: Annotations | None = None,
        icons: Sequence[Icon] | None = None,
        meta: Mapping[str, JSON] | None = None,
        cache: CacheHint | None = None,
        since: str | None = None,
        blocking: bool = True,
    ) -> Callable[[F], F]:
        """Declare a resource, or a template where `uri` holds ``{name}`` or ``{+name}``.

        The variables of a template are parameters of the function. `size` is in bytes, `cache` the hint that goes with
        the contents; `since` and `blocking` are as for tools. Raises `DeclarationError`. Source: server/resources.
        """
        if not isinstance(uri, str):
            raise DeclarationError("registry.resource needs the URI first, as in registry.resource('note://today')")
        shown = {"name": name, "title": title, "description": description, "mime_type": mime_type, "size": size}
        given = {**shown, "annotations": annotations, "icons": icons, "meta": meta, "since": since}
        check_options(f"resource {uri!r}", given, given)
        template = UriTemplate.parse(uri) if is_template(uri) else None

        def add(fn: Callable[..., Any]) -> None:
            table = self.resources if template is None else self.templates
            if uri in table:
                raise DeclarationError(f"there is a resource at {uri!r} already")
            bound = self._bind(fn, lax_strings=True)
            check_variables(uri, template.names if template else (), bound)
            spec = ResourceSpec(
                serial=next(self._serials),
                uri=uri,
                template=template,
                name=name or bound.name,
                title=title,
                description=description or bound.description,
                mime_type=mime_type,
                size=size,
                annotations=annotations,
                icons=icons,
                meta=meta,
                cache=cache,
                since=since,
                blocking=blocking,
                bound=bound,
            )
            check_shown(f"resource {uri!r}", spec)
            table[uri] = spec
            self._changed(ChangeKind.RESOURCES)

        return self._decorate("registry.resource", None, add)  # type: ignore[no-any-return]

    @overload
    def prompt(self, fn: F, /) -> F: ...
    @overload
    def prompt(
        self,
        /,
        *,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        icons: Sequence[Icon] | None = None,
        meta: Mapping[str, JSON] | None = None,
        since: str | None = None,
        blocking: bool = True,
    ) -> Callable[[F], F]: ...
    def prompt(self, fn: Any = None, /, **options: Any) -> Any:
        """Declare a prompt: ``@registry.prompt`` or ``@registry.prompt(name=…)``.

        Its arguments come as text, so they are ``str``, numbers, ``bool`` or a choice of those. `since` and `blocking`
        are as for tools. Raises `DeclarationError`. Source: server/prompts.
        """
        check_options("registry.prompt", options, PROMPT_OPTIONS)
        return self._decorate("registry.prompt", fn, lambda function: self._add_prompt(function, **options))

    def _add_prompt(
        self, fn: Callable[..., Any], *, name: str | None = None, description: str | None = None, **options: Any
    ) -> None:
        bound = self._bind(fn, lax_strings=True)
        name = name or bound.name
        if name in self.prompts:
            raise DeclarationError(f"there is a prompt named {name!r} already; give this one another name=")
        spec = PromptSpec(
            serial=next(self._serials),
            name=name,
            bound=bound,
            description=description or bound.description,
            arguments=bound.prompt_arguments(),
            **options,
        )
        check_shown(f"prompt {name!r}", spec)
        self.prompts[name] = spec
        self._changed(ChangeKind.PROMPTS)

    @overload
    def completion(self, fn: F, /) -> F: ...
    @overload
    def completion(
        self,
        /,
        *,
        prompt: str | None = None,
        resource: str | None = None,
        argument: str | None = None,
        blocking: bool = True,
    ) -> Callable[[F], F]: ...
    def completion(self, fn: Any = None, /, **options: Any) -> Any:
        """Declare who completes arguments: of everything, or of one `prompt` or `resource`, or of one `argument` of it.

        The function takes a `CompletionRequest` and gives a list of strings or a `Completion`; the most specific
        declaration wins. Raises `DeclarationError`. Source: server/utilities/completion.
        """
        check_options("registry.completion", options, COMPLETION_OPTIONS)
        return self._decorate("registry.completion", fn, lambda function: self._add_completion(function, **options))

    def _add_completion(
        self,
        fn: Callable[..., Any],
        *,
        prompt: str | None = None,
        resource: str | None = None,
        argument: str | None = None,
        blocking: bool = True,
    ) -> None:
        if prompt is not None and resource is not None:
            raise DeclarationError("a completion is for a prompt or for a resource, not for both")
        key = (prompt, resource, argument)
        if key in self.completions:
            raise DeclarationError(f"there is a completion for {prompt or resource or 'everything'!r} already")
        request_param, exchange_param = completion_params(fn)
        self.completions[key] = CompletionSpec(
            handler=fn,
            is_async=inspect.iscoroutinefunction(fn),
            request_param=request_param,
            exchange_param=exchange_param,
            blocking=blocking,
        )

    def provide(self, kind: Any, source: Any) -> None:
        """Supply every parameter annotated `kind` by `source`, once for each call that wants it.

        `source` is a function (plain, async, or a generator of either kind that yields the value once and cleans up
        after) which may itself take an Exchange and dependencies by annotation; anything that is not callable is the
        value itself. Declare dependencies before the handlers that take them. Raises `DeclarationError`.
        """
        name = getattr(kind, "__name__", str(kind))
        if kind in self.providers or kind is Exchange:
            raise DeclarationError(f"{name!r} is provided already")
        self.providers[kind] = provider_of(name, source, {Exchange, *self.providers})

    # Changing while serving

    def remove_tool(self, name: str) -> None:
        """Take a tool away; clients are told. Raises ``KeyError`` for a name that is not declared."""
        del self.tools[name]
        self._changed(ChangeKind.TOOLS)

    def remove_resource(self, uri: str) -> None:
        """Take a resource or a template away; clients are told. Raises ``KeyError`` for what is not declared."""
        del (self.resources if uri in self.resources else self.templates)[uri]
        self._changed(ChangeKind.RESOURCES)

    def remove_prompt(self, name: str) -> None:
        """Take a prompt away; clients are told. Raises ``KeyError`` for a name that is not declared."""
        del self.prompts[name]
        self._changed(ChangeKind.PROMPTS)

    def resource_updated(self, uri: str) -> None:
        """Tell the clients that subscribed to `uri` that what it holds has changed."""
        self._watchers.announce(Change(ChangeKind.RESOURCE_UPDATED, uri))

    def watch(self, watcher: Callable[[Change], None]) -> None:
        """Call the bound method `watcher` on every change, for as long as its object lives."""
        self._watchers.add(watcher)

    def _changed(self, kind: ChangeKind) -> None:
        self._rendered = {}
        self._watchers.announce(Change(kind))

    # Looking up

    def match_resource(self, uri: str) -> tuple[ResourceSpec, Mapping[str, str]] | None:
        """The declaration that `uri` belongs to, with the values of its variables, or ``None``.

        A URI is compared as the exact string; a resource comes before the templates, in the order declared.
        """
        spec = self.resources.get(uri)
        if spec is not None:
            return spec, {}
        for candidate in tuple(self.templates.values()):
            values = candidate.template.match(uri) if candidate.template else None
            if values is not None:
                return candidate, values
        return None

    def match_completion(self, request: CompletionRequest) -> CompletionSpec | None:
        """The most specific declaration for `request`, or ``None``."""
        places = [(request.prompt, request.resource), (None, None)]
        found = (self.completions.get((*place, argument)) for place in places for argument in (request.argument, None))
        return next((spec for spec in found if spec is not None), None)

    def asks_in_arguments(self, spec: ToolSpec) -> bool:
        """Whether `spec` may put questions in its result on any revision."""
        chosen = self.ask_in_arguments if spec.ask_in_arguments is None else spec.ask_in_arguments
        return chosen and spec.bound.takes_exchange

    def rendered(self, key: Any, render: Callable[..., Any], *arguments: Any) -> Any:
        """What `render` gave for `key`, kept until a declaration changes. For results that no call influences.

        The oldest of many makes room, since a peer may ask for a page from any place on.
        """
        kept = self._rendered.get(key)
        if kept is not None:
            return kept
        rendered, made = self._rendered, render(*arguments)
        # What is declared meanwhile, in a handler's thread say, starts a new collection: this is not put into that one.
        if len(rendered) >= _MAX_RENDERED:
            rendered.pop(next(iter(rendered), None), None)
        rendered[key] = made
        return made

    # Shared by the declarations

    def _bind(self, fn: Callable[..., Any], **options: Any) -> Bound:
        return Bound.of(fn, exchange_type=Exchange, provided=self.providers.__contains__, **options)

    @staticmethod
    def _decorate(what: str, fn: Any, add: Callable[[Any], None]) -> Any:
        def declare(function: Any) -> Any:
            check_function(what, function)
            add(function)
            return function

        return declare if fn is None else declare(fn)

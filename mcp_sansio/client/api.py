"""The methods that every asynchronous client has, written once over what the engine does."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Mapping
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack

from mcp_sansio.adapters.base import Adapter
from mcp_sansio.catalogue import Prompt, Resource, ResourceTemplate, ServerDescription, Tool
from mcp_sansio.changes import Change
from mcp_sansio.errors import LocalProtocolError, UnusableReply
from mcp_sansio.operation import Operation
from mcp_sansio.reading import WireFault, from_wire
from mcp_sansio.types import JSON, CallToolResult, Completion, GetPromptResult, LogLevel, ReadResourceResult

from .calls import Answered, OutgoingCall
from .driver import ClientDriver, OnProgress
from .known import Known
from .lists import LISTS
from .options import CallOptions, fault_of_call_options, named_params

T = TypeVar("T")
_CALL_TOOL = Operation.CALL_TOOL  # named once: see `mcp_sansio.operation`
#: The methods that take the options of a call, for messages.
_METHODS: Mapping[Operation, str] = {
    Operation.CALL_TOOL: "call_tool",
    Operation.READ_RESOURCE: "read_resource",
    Operation.GET_PROMPT: "get_prompt",
    Operation.COMPLETE: "complete",
}


class ClientApi(ClientDriver):
    """What a caller can ask of a server. Every method raises the errors of a call, plain:

    `ServerError` for the server's own refusals, `CallTimeout`, `ConnectionLost`, `NegotiationFailed`, `UnusableReply`
    for a reply that cannot be read, `AnswerFailed` where a question had no answer, and `HeadersFailed` where the
    function that gives the headers raised. One call's error touches no other call. A task that is cancelled gives its
    call up.

    Use it as an asynchronous context manager, or `close` it. Any task may do either: none of it is bound to the task
    that began it.
    """

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def adapter(self) -> Adapter | None:
        """The revision that is spoken, or ``None`` while that is not settled."""
        return self._engine.adapter

    @property
    def server(self) -> ServerDescription | None:
        """What the server says of itself, or ``None`` before `initialize`."""
        return self._engine.server

    @property
    def known(self) -> Known | None:
        """What was found out about the server, to be kept for the next client (``Known.to_json``)."""
        return self._engine.known

    def _end_of(
        self,
        operation: Operation,
        params: Mapping[str, JSON],
        /,
        *,
        on_progress: OnProgress | None = None,
        **options: Any,
    ) -> Awaitable[OutgoingCall]:
        """A call once it has ended. `options` are those of `CallOptions`; raises ``TypeError`` for others."""
        wanted = on_progress or self._on_progress
        try:
            call = self._engine.call(operation, params, wants_progress=wanted is not None, **options)
        except TypeError as error:
            raise fault_of_call_options(_METHODS.get(operation, operation), options) or error from None
        return self._wait(call, wanted)

    async def _perform(self, operation: Operation, params: Mapping[str, JSON], /, **options: Any) -> Mapping[str, JSON]:
        """The raw result of a call."""
        return (await self._end_of(operation, params, **options)).result()

    # The server

    async def initialize(self) -> ServerDescription:
        """Find out what the server is and what it speaks. Every other method does so by itself, as far as it needs."""
        await self._perform(Operation.DESCRIBE, {})
        server = self._engine.server
        assert server is not None
        return server

    async def ping(self, *, timeout: float | None = None) -> None:
        """Return once the server has answered anything at all. `timeout` is in seconds."""
        await self._perform(Operation.PING, {}, timeout=timeout)

    async def set_log_level(self, level: LogLevel) -> None:
        """Have log messages of `level` and above, from now on."""
        await self._perform(Operation.SET_LOG_LEVEL, {"level": level})

    # Lists

    async def list_tools(self) -> list[Tool]:
        """Every tool. One that cannot be used is left out, and the engine's `ServerFaulted` says why."""
        return await self._list(Operation.LIST_TOOLS, Tool)

    async def list_resources(self) -> list[Resource]:
        """Every resource."""
        return await self._list(Operation.LIST_RESOURCES, Resource)

    async def list_resource_templates(self) -> list[ResourceTemplate]:
        """Every resource template."""
        return await self._list(Operation.LIST_RESOURCE_TEMPLATES, ResourceTemplate)

    async def list_prompts(self) -> list[Prompt]:
        """Every prompt."""
        return await self._list(Operation.LIST_PROMPTS, Prompt)

    async def _list(self, operation: Operation, cls: type[T]) -> list[T]:
        result = await self._perform(operation, {})
        member, _ = LISTS[operation]
        return [_read(cls, item) for item in result[member]]

    # What runs a handler

    async def call_tool(
        self, name: str, arguments: Mapping[str, JSON] | None = None, **options: Unpack[CallOptions]
    ) -> CallToolResult | dict[str, JSON]:
        """Call the tool `name`. `options` are those of `CallOptions`: `timeout`, `on_progress`, `headers` and so on.

        Where the server asks something in its result and nothing answers, the raw result comes back as a dictionary:
        read the questions with ``client.adapter.client_input_requests``, and call again with `input_responses` and
        `request_state`. A tool that failed is a result too: see ``is_error``.
        """
        params = named_params("call_tool", name, arguments)
        return await self._run(_CALL_TOOL, params, CallToolResult, options)

    async def read_resource(self, uri: str, **options: Unpack[CallOptions]) -> ReadResourceResult | dict[str, JSON]:
        """Read the resource `uri`. `options`, and what comes back where the server asks, are as for `call_tool`."""
        return await self._run(Operation.READ_RESOURCE, {"uri": uri}, ReadResourceResult, options)

    async def get_prompt(
        self, name: str, arguments: Mapping[str, str] | None = None, **options: Unpack[CallOptions]
    ) -> GetPromptResult | dict[str, JSON]:
        """The prompt `name`. `options`, and what comes back where the server asks, are as for `call_tool`."""
        params = named_params("get_prompt", name, arguments)
        return await self._run(Operation.GET_PROMPT, params, GetPromptResult, options)

    async def _run(
        self, operation: Operation, params: Mapping[str, JSON], cls: type[T], options: CallOptions
    ) -> T | dict[str, JSON]:
        call = await self._end_of(operation, params, **options)
        outcome = call.outcome
        if not isinstance(outcome, Answered) or outcome.asks:
            return dict(call.result())
        result = outcome.result
        if cls is CallToolResult and "content" not in result and "structuredContent" not in result:
            raise UnusableReply("result.content is missing")
        return _read(cls, result)

    async def complete(
        self,
        ref: Mapping[str, str],
        name: str,
        value: str = "",
        *,
        context: Mapping[str, str] | None = None,
        **options: Unpack[CallOptions],
    ) -> Completion:
        """Suggestions for the argument `name` of `ref`, of which `value` is typed so far.

        `ref` is ``{"type": "ref/prompt", "name": …}`` or ``{"type": "ref/resource", "uri": …}``; `context` holds the
        arguments that are filled in already.
        """
        params: dict[str, JSON] = {"ref": dict(ref), "argument": {"name": name, "value": value}}
        if context is not None:
            params["context"] = {"arguments": dict(context)}
        result = await self._perform(Operation.COMPLETE, params, **options)
        return _read(Completion, result.get("completion"), "result.completion")

    # Changes

    def listen(
        self, *, tools: bool = False, prompts: bool = False, resources: bool = False, uris: Iterable[str] = ()
    ) -> Listening:
        """Be told when lists change, and when the resources named by `uris` are updated.

        An asynchronous context manager, and what it gives an asynchronous iterator of `Change`. Entering waits until
        the server listens. The iterator ends when the server ends it, and raises what ended it otherwise; what was
        missed meanwhile nobody tells, so read again what matters.
        """
        return Listening(self, {"tools": tools, "prompts": prompts, "resources": resources, "uris": tuple(uris)})


class Listening:
    """See `ClientApi.listen`."""

    def __init__(self, client: ClientApi, wanted: Mapping[str, Any]) -> None:
        self._client = client
        self._wanted = wanted
        self._call: OutgoingCall | None = None

    async def __aenter__(self) -> Self:
        self._call = await self._client._begin_listening(self._wanted)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._call is not None:
            self._client._end_listening(self._call)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Change:
        if self._call is None:
            raise LocalProtocolError("listening begins with `async with`")
        change = await self._client._next_change(self._call)
        if change is None:
            raise StopAsyncIteration
        return change


def _read(cls: type[T], wire: JSON, where: str = "result") -> T:
    try:
        return from_wire(cls, wire, where)
    except WireFault as fault:
        raise UnusableReply(str(fault)) from None

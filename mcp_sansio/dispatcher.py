"""From a call to its outcome: the route of every operation that is run, and what wraps the running of a handler.

Nothing here names a revision or waits for a transport. What a handler raises or returns becomes an outcome; a handler's
fault is logged with its traceback and answered with a fixed sentence.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from contextvars import copy_context
from typing import Any, Protocol

from .asker import Asker, Stop
from .attempts import Attempts
from .binding import ArgumentsInvalid
from .call import Call
from .dependencies import Scope
from .errors import ResourceNotFound, ToolError
from .exchange import Exchange
from .immediate import NOTHING_ANNOUNCED, Empty, Immediate
from .in_arguments import RESERVED_ARGUMENTS, take_answers
from .operation import HANDLED, Operation
from .outcome import Failure, FailureKind, NeedInput, NeedsInput, Outcome, Value
from .raised import HANDLER_FAULT, arguments_text, handler_failure, not_found, raise_again, tool_failure
from .registry import Registry
from .request_state import StateCodec
from .results import Unfit, completion_result, prompt_result, resource_result, tool_value
from .runtime import Runtime, given_now
from .specs import CompletionRequest, Spec
from .wire.json import fault_of
from .wording import short

logger = logging.getLogger("mcp_sansio")


class Peer(Protocol):
    """What is remembered about a client between its messages, where the revision remembers anything."""

    async def set_log_level(self, level: str) -> None:
        """Keep the severity from which log messages are wanted."""

    async def subscribe(self, uri: str) -> None:
        """Tell this client when `uri` is updated. Raises `Rejected` over the limit."""

    async def unsubscribe(self, uri: str) -> None:
        """Stop telling."""


class Run(Protocol):
    """One running of a call: what its handler may need, made when it is asked for.

    `scope` is where dependencies are made; there is none until a handler takes one. `raised` is what the handler raised
    already, in `Dispatcher.at_once`.
    """

    call: Call
    raised: BaseException | None
    scope: Scope | None

    @property
    def asker(self) -> Asker:
        """The questions of the call."""

    @property
    def exchange(self) -> Exchange:
        """What its handler is given, if it takes it."""

    @property
    def peer(self) -> Peer:
        """What is remembered of its client."""

    @property
    def principal(self) -> str | None:
        """Who its client is."""


class Dispatcher:
    """Routes operations to the registry and its handlers.

    `supported` are the revisions that this server tells of, and `announces` is whether it tells of changes.
    `max_rounds` bounds how often one call may be run again in place to ask more, `max_answers` how many answers it may
    bring, and `max_state` how many bytes of answers and state are kept for its next attempt.
    """

    def __init__(
        self,
        registry: Registry,
        runtime: Runtime,
        states: StateCodec,
        *,
        supported: tuple[str, ...] = (),
        max_rounds: int = 32,
        max_answers: int = 64,
        max_state: int = 2**16,
        announces: bool = True,
    ) -> None:
        self.registry = registry
        self._runtime = runtime
        self._attempts = Attempts(states, max_answers=max_answers, max_state=max_state)
        self._max_rounds = max_rounds
        self._announces = announces
        #: The outcome of a call that the registry alone can answer, or ``None`` for one that has to be run.
        self.immediate = Immediate(registry, supported, announces=announces).outcome

    def asks_in_arguments(self, call: Call) -> bool:
        """Whether `call` may put questions in its result and bring answers in its arguments."""
        spec = self.registry.tools.get(call.target or "") if call.operation is Operation.CALL_TOOL else None
        if spec is None or spec.bound.exchange_param is None:
            return False
        return bool(call.adapter.asks_in_arguments) or self.registry.asks_in_arguments(spec)

    def at_once(self, call: Call) -> Outcome | BaseException | None:
        """The outcome of a call that waits for nothing, as far as can be told; ``None`` for one that has to be run.

        So does one whose handler raised what is given here: that is for `run` to judge. Its handler had a context of
        its own, as in a task, which it has no use for.
        """
        tool = call.tool
        if tool is None:
            return self.immediate(call)
        if not tool.ends_at_once:
            return None
        try:
            work = tool.bound.fn(**tool.bound.parse(call.arguments))
            return tool_value(tool, copy_context().run(given_now, work))
        except BaseException as error:
            return error

    async def run(self, run: Run) -> Outcome:
        """The outcome of a call.

        What it raises has to be given to `outcome_of`, unless it cancels the task.
        """
        call = run.call
        tool = call.tool
        if tool is None:
            tool = call.tool = call.adapter.tool_of(call, self.registry)
        if tool is None or not tool.bound.is_direct or call.answers or call.request_state is not None:
            return await self._run_at_length(run)
        # Most calls are of a tool that takes nothing but its arguments: all that the others may need is left out here.
        try:
            if run.raised is not None:
                raise_again(run)
            return tool_value(tool, await tool.bound.fn(**tool.bound.parse(call.arguments)))
        except NeedInput as asked:
            needed = asked.with_traceback(None)  # which would point back here
        except (Exception, SystemExit) as error:
            return tool_failure(tool, error)
        return await self._run(run, needed)

    def _run_at_length(self, run: Run) -> Awaitable[Outcome]:
        call = run.call
        if call.request_state is not None or call.answers or not RESERVED_ARGUMENTS.isdisjoint(call.arguments):
            return self._run_on(run)
        return self._run(run)

    async def _run_on(self, run: Run) -> Outcome:
        """Run a call with what its previous attempt left, which is spent by that, unless this attempt fails."""
        call = run.call
        if self.asks_in_arguments(call):
            take_answers(call)
        left = await self._attempts.take_up(call, run.principal)
        try:
            outcome = await self._run(run)
        except BaseException:
            await self._attempts.put_back(call, run.principal, left)
            raise
        if isinstance(outcome, Failure):
            await self._attempts.put_back(call, run.principal, left)
        return outcome

    async def _run(self, run: Run, needed: NeedInput | None = None) -> Outcome:
        """Run a call until it has an outcome. `needed` is what its handler asked for already."""
        attempt, asked = _RUN[run.call.operation], 0
        outcome: Outcome | None = None
        try:
            while outcome is None:
                if needed is not None:
                    _check_need(needed)
                    if not run.asker.pushes(needed.requests):
                        break
                    asked += 1
                    await self._push(run, needed, asked)
                try:
                    outcome = await attempt(self, run)
                except NeedInput as more:
                    needed = more.with_traceback(None)
        except BaseException as error:
            if run.scope is not None:
                await run.scope.close(error)
            raise
        if run.scope is not None:
            await run.scope.close(needed if outcome is None else None)
        if outcome is None:
            assert needed is not None
            return await self._needs_input(run, needed)
        return outcome

    async def _push(self, run: Run, needed: NeedInput, asked: int) -> None:
        """Have the questions of a handler answered, so that it can be run again in place.

        `asked` counts how often this call came here.
        """
        await run.asker.push_all(needed.requests)
        run.call.state = needed.state
        if asked >= self._max_rounds:
            text = f"the handler asked for input more than {self._max_rounds} times"
            raise Stop(Failure(FailureKind.INTERNAL, text))

    async def _needs_input(self, run: Run, needed: NeedInput) -> Outcome:
        call, asker = run.call, run.asker
        if call.operation not in HANDLED:
            logger.error(
                "%s %r asked for input, which only tools, resources and prompts may", call.operation, call.target
            )
            return Failure(FailureKind.INTERNAL, HANDLER_FAULT)
        for request in needed.requests.values():
            missing = asker.missing_capability(request)
            if missing is not None:
                return missing
        token = await self._attempts.leave(call, run.principal, needed)
        return NeedsInput(dict(needed.requests), token, in_arguments=asker.rides_in_arguments(needed.requests))

    async def _call_tool(self, run: Run) -> Outcome:
        call, spec = run.call, run.call.tool
        if spec is None:
            return Failure(FailureKind.UNKNOWN_TARGET, f"there is no tool named {short(call.target or '')!r}")
        try:
            return tool_value(spec, await self._invoked(run, spec, spec.bound.parse(call.arguments)))
        except (Exception, SystemExit) as error:
            return tool_failure(spec, error)

    async def _read_resource(self, run: Run) -> Outcome:
        call = run.call
        uri = call.params["uri"]
        found = self.registry.match_resource(uri)
        if found is None or not call.adapter.offers(found[0]):
            return not_found(uri)
        spec, values = found
        try:
            return Value(resource_result(spec, uri, await self._invoked(run, spec, spec.bound.parse(values))))
        except (ArgumentsInvalid, ResourceNotFound):
            return not_found(uri)
        except (ToolError, Unfit) as error:
            return handler_failure(spec, error)

    async def _get_prompt(self, run: Run) -> Outcome:
        call = run.call
        spec = self.registry.prompts.get(call.target or "")
        if spec is None or not call.adapter.offers(spec):
            return Failure(FailureKind.UNKNOWN_TARGET, f"there is no prompt named {short(call.target or '')!r}")
        try:
            return Value(prompt_result(await self._invoked(run, spec, spec.bound.parse(call.arguments))))
        except ArgumentsInvalid as invalid:
            return Failure(FailureKind.INVALID_PARAMS, arguments_text(invalid))
        except (ToolError, Unfit) as error:
            return handler_failure(spec, error)

    async def _complete(self, run: Run) -> Outcome:
        request = CompletionRequest.of(run.call.params)
        if not self._knows(request):
            named = short(request.prompt or request.resource or "")
            return Failure(FailureKind.INVALID_PARAMS, f"there is no {named!r} to complete for")
        spec = self.registry.match_completion(request)
        if spec is None:
            return Value(completion_result(()))
        arguments: dict[str, Any] = {spec.request_param: request}
        if spec.exchange_param is not None:
            arguments[spec.exchange_param] = run.exchange
        made = self._started(spec.handler, arguments, is_async=spec.is_async, blocking=spec.blocking)
        return Value(completion_result(await made))

    def _knows(self, request: CompletionRequest) -> bool:
        if request.prompt is not None:
            return request.prompt in self.registry.prompts
        uri = request.resource or ""
        return uri in self.registry.templates or self.registry.match_resource(uri) is not None

    async def _set_log_level(self, run: Run) -> Outcome:
        await run.peer.set_log_level(run.call.params["level"])
        return Value(Empty())

    async def _unsubscribe(self, run: Run) -> Outcome:
        if not self._announces:
            return NOTHING_ANNOUNCED
        await run.peer.unsubscribe(run.call.params["uri"])
        return Value(Empty())

    async def _subscribe(self, run: Run) -> Outcome:
        if not self._announces:
            return NOTHING_ANNOUNCED
        uri = run.call.params["uri"]
        found = self.registry.match_resource(uri)
        if found is None or not run.call.adapter.offers(found[0]):
            return not_found(uri)
        await run.peer.subscribe(uri)
        return Value(Empty())

    def _invoked(self, run: Run, spec: Spec, arguments: dict[str, Any]) -> Awaitable[Any]:
        """To be awaited for what the handler of `spec` gives."""
        bound = spec.bound
        if bound.dependencies:
            return self._invoked_in_scope(run, spec, arguments)
        if bound.exchange_param is not None:
            arguments[bound.exchange_param] = run.exchange
        return self._started(bound.fn, arguments, is_async=bound.is_async, blocking=spec.blocking)

    async def _invoked_in_scope(self, run: Run, spec: Spec, arguments: dict[str, Any]) -> Any:
        bound = spec.bound
        if bound.exchange_param is not None:
            arguments[bound.exchange_param] = run.exchange
        if run.scope is None:
            run.scope = Scope(self.registry.providers, run.exchange)
        for name, kind in bound.dependencies.items():
            arguments[name] = await run.scope.resolve(kind)
        return await self._started(bound.fn, arguments, is_async=bound.is_async, blocking=spec.blocking)

    def _started(
        self, fn: Callable[..., Any], arguments: dict[str, Any], *, is_async: bool, blocking: bool
    ) -> Awaitable[Any]:
        if is_async:
            made: Awaitable[Any] = fn(**arguments)
            return made
        if blocking:
            return _awaited(self._runtime.run_sync(lambda: (_called(fn, arguments),)))
        return _in_place(fn, arguments)


async def _awaited(running: Awaitable[tuple[Any]]) -> Any:
    """What a plain function gives. That of a decorator gives the coroutine of an ``async def``, which is for the loop.

    It comes in a tuple, since trio takes a function for a mistake that gives a coroutine in a thread.
    """
    (made,) = await running
    return await made if isinstance(made, Awaitable) else made


async def _in_place(fn: Callable[..., Any], arguments: dict[str, Any]) -> Any:
    made = _called(fn, arguments)
    return await made if isinstance(made, Awaitable) else made


def _called(fn: Callable[..., Any], arguments: dict[str, Any]) -> Any:
    """``fn(**arguments)``, of which a future can be told: given a StopIteration, who waits would wait for ever."""
    try:
        return fn(**arguments)
    except (SystemExit, StopIteration) as error:
        raise RuntimeError(f"the handler raised {type(error).__name__}") from error


# A table and not a `match`, which compares with one member after the other. With that of `immediate` it covers each
# operation once; a test sees to that.
_RUN: Mapping[Operation, Callable[[Dispatcher, Run], Awaitable[Outcome]]] = {
    Operation.CALL_TOOL: Dispatcher._call_tool,
    Operation.READ_RESOURCE: Dispatcher._read_resource,
    Operation.GET_PROMPT: Dispatcher._get_prompt,
    Operation.COMPLETE: Dispatcher._complete,
    Operation.SUBSCRIBE: Dispatcher._subscribe,
    Operation.UNSUBSCRIBE: Dispatcher._unsubscribe,
    Operation.SET_LOG_LEVEL: Dispatcher._set_log_level,
}


def _check_need(needed: NeedInput) -> None:
    """What no revision could carry is the handler's fault on all of them."""
    for what, value in (("state left behind", needed.state), ("question asked", dict(needed.requests))):
        fault = fault_of(value)
        if fault is not None:
            raise TypeError(f"the {what} is not JSON: {fault}") from None
    if not needed.requests and needed.state is None:
        raise ValueError("NeedInput asks nothing and leaves no state: the call could never go on") from None


#: The operations that are run: `Dispatcher.immediate` has no answer to them.
RUN = frozenset(_RUN)

"""What every asynchronous client does alike, whatever loop it runs on: waiting for calls, answering, running callbacks.

A binding is left with its I/O: it reads bytes into the engine, writes what the engine has to send, and keeps one timer.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from mcp_sansio.changes import Change
from mcp_sansio.errors import ToolError
from mcp_sansio.outcome import InputRequest
from mcp_sansio.runtime import Event
from mcp_sansio.types import JSON

from ._state import QuestionState
from .callbacks import Callbacks, Work, logger
from .calls import OutgoingCall, Question
from .engine import ClientEngine
from .events import (
    CallEnded,
    ChangeReceived,
    ClientEvent,
    ConnectionEnded,
    ListenStarted,
    LogReceived,
    ProgressReceived,
    QuestionReceived,
    QuestionWithdrawn,
    ServerFaulted,
)

OnAsk = Callable[[InputRequest], "Mapping[str, JSON] | Awaitable[Mapping[str, JSON]]"]
"""Answers a question of the server, ``{"method": …, "params": {…}}``, with a raw reply (see `elicit_accept`)."""
OnProgress = Callable[[float, "float | None", "str | None"], Any]
"""Takes the progress, the total and a message."""
OnLog = Callable[[str, JSON, "str | None"], Any]
"""Takes the level, the data and the name of the logger."""
OnChange = Callable[[Change], Any]
"""Takes a change of a list."""


class ClientDriver:
    """Drives an engine for those who wait for it. A binding subclasses it and supplies `_flush`, `_spawn` and `close`.

    After each fact that it hands to the engine, the binding calls `_pump`. Callbacks may be plain or asynchronous.
    `on_ask` answers questions: a `ToolError` that it raises is told to the server, any other exception is logged. The
    engine must have been made with ``can_answer`` and ``wants_changes`` where `on_ask` and `on_change` are given.
    """

    def __init__(
        self,
        engine: ClientEngine,
        *,
        on_ask: OnAsk | None = None,
        on_progress: OnProgress | None = None,
        on_log: OnLog | None = None,
        on_change: OnChange | None = None,
    ) -> None:
        self._engine = engine
        self._on_ask = on_ask
        self._on_progress = on_progress
        self._on_log = on_log
        self._on_change = on_change
        self._callbacks = Callbacks(self._spawn, engine.config.max_callbacks, self._call_back)
        self._woken_by: dict[OutgoingCall, list[Event]] = {}
        self._progress: dict[OutgoingCall, tuple[OnProgress, Callbacks]] = {}
        self._changes: dict[OutgoingCall, dict[Change, None]] = {}
        self._asking: dict[Question, Callable[[], None]] = {}

    # What a binding supplies

    def _flush(self) -> None:
        """Have everything sent that the engine has to send, and set the timer to its next deadline. It may not wait."""
        raise NotImplementedError

    def _spawn(self, work: Work) -> Callable[[], None]:
        """Run ``work()`` in a task of its own; what is returned cancels that task."""
        raise NotImplementedError

    async def close(self) -> None:
        """End everything in flight, with `ConnectionLost`, and let go of what the transport holds."""
        raise NotImplementedError

    def _call_back(self, callback: Callable[..., Any], *given: Any) -> Any:
        """What a `callback` of the caller's gives, or is to be awaited for. A binding may call it elsewhere."""
        return callback(*given)

    # What drives

    def _pump(self) -> None:
        """Take everything that happened. Call it after each fact and each command."""
        for event in self._engine.events():
            handle = _HANDLERS.get(type(event))
            if handle is not None:
                handle(self, event)
        self._flush()

    async def _wait(self, call: OutgoingCall, on_progress: OnProgress | None = None) -> OutgoingCall:
        """`call`, once it has ended and all of its progress is told. A task that is cancelled here gives it up."""
        callbacks = None
        if on_progress is not None:
            callbacks = Callbacks(self._spawn, self._engine.config.max_callbacks, self._call_back)
            self._progress[call] = on_progress, callbacks
        try:
            first = self._begin(call)
            if first is not None:
                await first
            while call.outcome is None:
                await self._woken(call)
            if callbacks is not None:
                await callbacks.idle(self._engine.runtime.event)
        finally:
            if callbacks is not None:
                self._progress.pop(call, None)
            if call.outcome is None:
                self._engine.cancel(call)
                self._pump()
        return call

    def _begin(self, call: OutgoingCall) -> Awaitable[None] | None:
        """Have the first request of `call` sent. What is given, if anything, is work on it for its caller to await."""
        self._pump()
        return None

    async def _woken(self, call: OutgoingCall) -> None:
        """Return when something happens to `call`. Several tasks may wait for that."""
        event = self._engine.runtime.event()
        waiting = self._woken_by.setdefault(call, [])
        waiting.append(event)
        try:
            await event.wait()
        finally:
            waiting.remove(event)
            if not waiting and self._woken_by.get(call) is waiting:
                del self._woken_by[call]

    def _wake(self, call: OutgoingCall) -> None:
        for event in self._woken_by.pop(call, ()):
            event.set()

    # Listening

    async def _begin_listening(self, wanted: Mapping[str, Any]) -> OutgoingCall:
        """Listen, and return once the server knows. Raises what goes wrong."""
        call = self._engine.listen(**wanted)
        self._changes[call] = {}
        self._pump()
        try:
            while not self._engine.listens(call):
                if call.ended:
                    call.result()
                    break  # it ended as soon as it had begun
                await self._woken(call)
        except BaseException:
            self._end_listening(call)
            raise
        return call

    async def _next_change(self, call: OutgoingCall) -> Change | None:
        """The next change, or ``None`` where the server ended the listening. Raises what ended it otherwise."""
        changes = self._changes.get(call, {})
        while not changes and not call.ended:
            await self._woken(call)
        if not changes:
            call.result()
            return None
        change = next(iter(changes))
        del changes[change]
        return change

    def _end_listening(self, call: OutgoingCall) -> None:
        self._changes.pop(call, None)
        self._engine.cancel(call)
        self._pump()

    # Events

    def _call_ended(self, event: CallEnded | ListenStarted) -> None:
        if self._woken_by:
            self._wake(event.call)

    def _progressed(self, event: ProgressReceived) -> None:
        held = self._progress.get(event.call)
        if held is not None:
            on_progress, callbacks = held
            callbacks.run(on_progress, event.progress, event.total, event.message)

    def _logged(self, event: LogReceived) -> None:
        if self._on_log is not None:
            self._callbacks.run(self._on_log, event.level, event.data, event.logger)

    def _changed(self, event: ChangeReceived) -> None:
        if event.call is None:
            if self._on_change is not None:
                self._callbacks.run(self._on_change, event.change)
            return
        changes = self._changes.get(event.call)
        if changes is None:
            return
        # A change that is still to be read says what this one would: a slow reader costs no more than that.
        changes[event.change] = None
        if len(changes) > self._engine.config.max_callbacks:
            del changes[next(iter(changes))]
        self._wake(event.call)

    def _faulted(self, event: ServerFaulted) -> None:
        (logger.warning if event.matters else logger.debug)("the server sent something wrong: %s", event.fault)

    def _ended(self, event: ConnectionEnded) -> None:
        logger.debug("the connection has ended: %s", event.error)

    # Questions

    def _asked(self, event: QuestionReceived) -> None:
        question = event.question
        cancel = self._spawn(lambda: self._ask(question))
        if question.state is QuestionState.OPEN:
            self._asking[question] = cancel

    async def _ask(self, question: Question) -> None:
        assert self._on_ask is not None
        try:
            reply = self._call_back(self._on_ask, question.request)
            self._engine.answer(question, await reply if inspect.isawaitable(reply) else reply)
        except ToolError as error:
            self._engine.fail(question, str(error), error)
        except Exception as error:
            logger.exception("on_ask failed")
            self._engine.fail(question, "the client could not answer", error)
        finally:
            self._asking.pop(question, None)
        self._pump()

    def _withdrawn(self, event: QuestionWithdrawn) -> None:
        cancel = self._asking.pop(event.question, None)
        if cancel is not None:
            cancel()


_HANDLERS: Mapping[type[ClientEvent], Callable[[ClientDriver, Any], None]] = {
    CallEnded: ClientDriver._call_ended,
    ListenStarted: ClientDriver._call_ended,
    ProgressReceived: ClientDriver._progressed,
    LogReceived: ClientDriver._logged,
    ChangeReceived: ClientDriver._changed,
    ServerFaulted: ClientDriver._faulted,
    ConnectionEnded: ClientDriver._ended,
    QuestionReceived: ClientDriver._asked,
    QuestionWithdrawn: ClientDriver._withdrawn,
}

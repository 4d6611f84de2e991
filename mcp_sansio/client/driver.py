"""What every asynchronous client does alike, whatever loop it runs on: waiting for calls, running callbacks.

A binding is left with its I/O: it reads bytes into the engine, writes what the engine has to send, and keeps one timer.
"""

from __future__ import annotations

import inspect
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from mcp_sansio.changes import Change
from mcp_sansio.errors import McpError
from mcp_sansio.outcome import InputRequest
from mcp_sansio.types import JSON

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

logger = logging.getLogger("mcp_sansio.client")

OnAsk = Callable[[InputRequest], "Mapping[str, JSON] | Awaitable[Mapping[str, JSON]]"]
"""Answers a question of the server, ``{"method": …, "params": {…}}``, with a raw reply (see `elicit_accept`)."""
OnProgress = Callable[[float, "float | None", "str | None"], Any]
"""Takes progress, the total and a message."""
OnLog = Callable[[str, JSON, "str | None"], Any]
"""Takes the level, the data and the name of the logger."""
OnChange = Callable[[Change], Any]
"""Takes a change of a list."""

Work = Callable[[], Awaitable[None]]


class Callbacks:
    """Callbacks of the caller's, run in order and one at a time. What waits for them is bounded: the oldest goes."""

    def __init__(self, spawn: Callable[[Work], Callable[[], None]], limit: int) -> None:
        self._spawn = spawn
        self._waiting: deque[tuple[Callable[..., Any], tuple[Any, ...]]] = deque(maxlen=limit)
        self._running = False

    def run(self, callback: Callable[..., Any], *given: Any) -> None:
        """Call `callback`, at once unless an earlier one is still at work."""
        if self._running:
            self._waiting.append((callback, given))
            return
        made = _called(callback, given)
        if inspect.isawaitable(made):
            self._running = True
            self._spawn(lambda: self._work(made))

    async def _work(self, made: Awaitable[Any]) -> None:
        try:
            await _awaited(made)
            while self._waiting:
                callback, given = self._waiting.popleft()
                following = _called(callback, given)
                if inspect.isawaitable(following):
                    await _awaited(following)
        finally:
            self._running = False


def _called(callback: Callable[..., Any], given: tuple[Any, ...]) -> Any:
    try:
        return callback(*given)
    except Exception:
        logger.exception("a callback failed")
        return None


async def _awaited(made: Awaitable[Any]) -> None:
    try:
        await made
    except Exception:
        logger.exception("a callback failed")


class ClientDriver:
    """Drives an engine for those who wait for it. A binding subclasses it and supplies `_flush` and `_spawn`.

    After each fact that it hands to the engine, the binding calls `_pump`.
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
        self._callbacks = Callbacks(self._spawn, engine.config.max_callbacks)
        self._waiting: dict[OutgoingCall, Any] = {}
        self._progress: dict[OutgoingCall, OnProgress] = {}
        self._changes: dict[OutgoingCall, deque[Change]] = {}
        self._asking: dict[Question, Callable[[], None]] = {}

    # What a binding supplies

    def _flush(self) -> None:
        """Have everything sent that the engine has to send, and set the timer to its next deadline. It may not wait."""
        raise NotImplementedError

    def _spawn(self, work: Work) -> Callable[[], None]:
        """Run ``work()`` in a task of its own; what is returned cancels that task."""
        raise NotImplementedError

    # What drives

    def _pump(self) -> None:
        """Take everything that happened. Call it after each fact and each command."""
        for event in self._engine.events():
            handle = _HANDLERS.get(type(event))
            if handle is not None:
                handle(self, event)
        self._flush()

    async def _wait(self, call: OutgoingCall) -> Mapping[str, JSON]:
        """The raw result of `call`. Raises its error. A task that is cancelled here gives the call up."""
        self._pump()
        try:
            while not call.ended:
                await self._woken(call)
        finally:
            self._progress.pop(call, None)
            if not call.ended:
                self._engine.cancel(call)
                self._pump()
        return call.result()

    async def _begin_listening(self, wanted: Mapping[str, Any], changes: deque[Change]) -> OutgoingCall:
        """Listen, and return once the server does. Changes are put into `changes`. Raises what goes wrong."""
        call = self._engine.listen(**wanted)
        self._changes[call] = changes
        started = False
        self._pump()
        try:
            while not (started := self._engine.listens(call)) and not call.ended:
                await self._woken(call)
            if call.ended:
                call.result()
        finally:
            if not started:
                self._end_listening(call)
        return call

    async def _wait_for_change(self, call: OutgoingCall, changes: deque[Change]) -> None:
        """Return once there is a change in `changes`, or the listening has ended."""
        while not changes and not call.ended:
            await self._woken(call)

    def _end_listening(self, call: OutgoingCall) -> None:
        self._changes.pop(call, None)
        self._engine.cancel(call)
        self._pump()

    async def _woken(self, call: OutgoingCall) -> None:
        self._waiting[call] = event = self._engine.runtime.event()
        try:
            await event.wait()
        finally:
            self._waiting.pop(call, None)

    def _wake(self, call: OutgoingCall) -> None:
        waiting = self._waiting.pop(call, None)
        if waiting is not None:
            waiting.set()

    # Events

    def _call_ended(self, event: CallEnded) -> None:
        self._wake(event.call)

    def _listen_started(self, event: ListenStarted) -> None:
        self._wake(event.call)

    def _progressed(self, event: ProgressReceived) -> None:
        callback = self._progress.get(event.call, self._on_progress)
        if callback is not None:
            self._callbacks.run(callback, event.progress, event.total, event.message)

    def _logged(self, event: LogReceived) -> None:
        if self._on_log is not None:
            self._callbacks.run(self._on_log, event.level, event.data, event.logger)

    def _changed(self, event: ChangeReceived) -> None:
        if event.call is None:
            if self._on_change is not None:
                self._callbacks.run(self._on_change, event.change)
            return
        changes = self._changes.get(event.call)
        # A change that is still to be read says what this one would: a slow reader costs no more than that.
        if changes is not None and event.change not in changes:
            changes.append(event.change)
            self._wake(event.call)

    def _faulted(self, event: ServerFaulted) -> None:
        logger.debug("the server sent something wrong: %s", event.fault)

    def _ended(self, event: ConnectionEnded) -> None:
        logger.debug("the connection has ended: %s", event.error)

    # Questions

    def _asked(self, event: QuestionReceived) -> None:
        question = event.question
        self._asking[question] = self._spawn(lambda: self._ask(question))

    async def _ask(self, question: Question) -> None:
        try:
            assert self._on_ask is not None
            reply = self._on_ask(question.request)
            if inspect.isawaitable(reply):
                reply = await reply
            self._engine.answer(question, reply)
        except McpError as error:
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
    ListenStarted: ClientDriver._listen_started,
    ProgressReceived: ClientDriver._progressed,
    LogReceived: ClientDriver._logged,
    ChangeReceived: ClientDriver._changed,
    ServerFaulted: ClientDriver._faulted,
    ConnectionEnded: ClientDriver._ended,
    QuestionReceived: ClientDriver._asked,
    QuestionWithdrawn: ClientDriver._withdrawn,
}

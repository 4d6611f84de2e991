"""Dependencies of one call: made on demand, shared within the call, closed when it ends."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from inspect import isasyncgen, iscoroutine, isgenerator
from typing import Any

from .exchange import Exchange
from .providers import Provider


class Scope:
    """Where `resolve` makes each dependency once, until `close` closes them, the last first."""

    def __init__(self, providers: Mapping[Any, Provider], exchange: Exchange) -> None:
        self._providers = providers
        self._made: dict[Any, Any] = {Exchange: exchange}
        self._stack: AsyncExitStack | None = None

    async def close(self, error: BaseException | None) -> None:
        """The call is over, and `error` is what ended it. Raises what a provider raises as it is closed."""
        if self._stack is not None:
            await self._stack.__aexit__(type(error) if error else None, error, error.__traceback__ if error else None)

    async def resolve(self, kind: Any) -> Any:
        """The one value for the annotation `kind`."""
        if kind not in self._made:
            self._made[kind] = await self._make(self._providers[kind])
        return self._made[kind]

    async def _make(self, provider: Provider) -> Any:
        needs = {name: await self.resolve(kind) for name, kind in provider.needs.items()}
        made = provider.make(**needs)
        if provider.is_generator and (isasyncgen(made) or isgenerator(made)):
            return await self._enter(made)
        # A decorator's plain function, or a lambda, may make the coroutine of an async def.
        return await made if provider.is_async or iscoroutine(made) else made

    async def _enter(self, made: Any) -> Any:
        if self._stack is None:
            self._stack = AsyncExitStack()
        if isasyncgen(made):
            return await self._stack.enter_async_context(asynccontextmanager(lambda: made)())
        return self._stack.enter_context(contextmanager(lambda: made)())

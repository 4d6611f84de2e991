"""Dependencies of one call: made on demand, shared within the call, closed when it ends."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from types import TracebackType
from typing import Any, Self

from .exchange import Exchange
from .providers import Provider


class Scope:
    """An async context within which `resolve` makes each dependency once. Leaving it closes them, the last first."""

    def __init__(self, providers: Mapping[Any, Provider], exchange: Exchange) -> None:
        self._providers = providers
        self._made: dict[Any, Any] = {Exchange: exchange}
        self._stack: AsyncExitStack | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._stack is not None:
            await self._stack.__aexit__(kind, error, traceback)

    async def resolve(self, kind: Any) -> Any:
        """The one value for the annotation `kind`."""
        if kind not in self._made:
            self._made[kind] = await self._make(self._providers[kind])
        return self._made[kind]

    async def _make(self, provider: Provider) -> Any:
        needs = {name: await self.resolve(kind) for name, kind in provider.needs.items()}
        if provider.is_generator:
            return await self._enter(provider, needs)
        made = provider.make(**needs)
        return await made if provider.is_async else made

    async def _enter(self, provider: Provider, needs: Mapping[str, Any]) -> Any:
        if self._stack is None:
            self._stack = AsyncExitStack()
        if provider.is_async:
            return await self._stack.enter_async_context(asynccontextmanager(provider.make)(**needs))
        return self._stack.enter_context(contextmanager(provider.make)(**needs))

"""What the clients have in common on trio."""

from __future__ import annotations

from types import TracebackType
from typing import Generic, Self, TypeVar

from mcp_sansio import ClientApi

from .loop import Loop

L = TypeVar("L", bound=Loop)


class Scoped(ClientApi, Generic[L]):
    """A client whose tasks are in a `_loop` of its own: it is used as ``async with``, and not otherwise."""

    _loop: L

    async def __aenter__(self) -> Self:
        await self._loop.__aenter__()
        try:
            return await super().__aenter__()
        except BaseException as error:
            await self._loop.__aexit__(type(error), error, error.__traceback__)
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await super().__aexit__(kind, error, trace)
        finally:
            await self._loop.__aexit__(kind, error, trace)

"""What the blocking clients share: their callers, their callbacks, and their end."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeVar

from mcp_sansio import BlockingApi, ClientApi
from mcp_sansio.stepping import run_outside

from ._keeper import Keeper

T = TypeVar("T")


def check_callbacks(options: Mapping[str, Any]) -> None:
    """Raises ``TypeError`` for a callback that is ``async``, which nothing here could run."""
    for name, value in options.items():
        if inspect.iscoroutinefunction(value):
            raise TypeError(f"{name} is async, and a blocking client has no event loop: give a plain function")


class KeptApi(ClientApi):
    """Coroutines that a keeper runs. Callbacks are called apart from it: they may block, and call the client."""

    def _call_back(self, callback: Callable[..., Any], *given: Any) -> Any:
        return run_outside(partial(callback, *given))


class BlockingClient(BlockingApi):
    """A client whose methods block their caller, and nobody else. Any thread may call them, and any may close it."""

    def __init__(self, keeper: Keeper, api: ClientApi) -> None:
        super().__init__(api)
        self._keeper = keeper

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._keeper.run(work)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End everything in flight, with `ConnectionLost`, and what the client holds. A second time does nothing."""
        self._run(self._api.close())
        self._keeper.stop()

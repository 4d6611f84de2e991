"""The methods of every client without their ``await``, written once over whatever runs a coroutine to its end."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from mcp_sansio.adapters.base import Adapter
from mcp_sansio.catalogue import ServerDescription
from mcp_sansio.changes import Change
from mcp_sansio.errors import CallAbandoned

from .api import ClientApi, Listening
from .known import Known

P = ParamSpec("P")
T = TypeVar("T")


def _blocking(
    method: Callable[Concatenate[ClientApi, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[BlockingApi, P], T]:
    @functools.wraps(method)
    def blocking(client: BlockingApi, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return client._run(method(client._api, *args, **kwargs))

    return blocking


class BlockingApi:
    """What `api` has, in methods that return when it is done. A subclass supplies `_run`.

    They have the names, the arguments, the results and the errors of `ClientApi`.
    """

    def __init__(self, api: ClientApi) -> None:
        self._api = api

    # What a binding supplies

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` to its end: what it returns, or raises."""
        raise NotImplementedError

    # What there is

    @property
    def adapter(self) -> Adapter | None:
        """See `ClientApi.adapter`."""
        return self._api.adapter

    @property
    def server(self) -> ServerDescription | None:
        """See `ClientApi.server`."""
        return self._api.server

    @property
    def known(self) -> Known | None:
        """See `ClientApi.known`."""
        return self._api.known

    initialize = _blocking(ClientApi.initialize)
    ping = _blocking(ClientApi.ping)
    set_log_level = _blocking(ClientApi.set_log_level)
    list_tools = _blocking(ClientApi.list_tools)
    list_resources = _blocking(ClientApi.list_resources)
    list_resource_templates = _blocking(ClientApi.list_resource_templates)
    list_prompts = _blocking(ClientApi.list_prompts)
    call_tool = _blocking(ClientApi.call_tool)
    read_resource = _blocking(ClientApi.read_resource)
    get_prompt = _blocking(ClientApi.get_prompt)
    complete = _blocking(ClientApi.complete)

    def listen(
        self, *, tools: bool = False, prompts: bool = False, resources: bool = False, uris: Iterable[str] = ()
    ) -> BlockingListening:
        """See `ClientApi.listen`: a plain context manager, and what it gives a plain iterator that waits."""
        listening = self._api.listen(tools=tools, prompts=prompts, resources=resources, uris=uris)
        return BlockingListening(self._run, listening)


class BlockingListening:
    """What `BlockingApi.listen` gives. One thread may iterate while another one closes it."""

    def __init__(self, run: Callable[[Coroutine[Any, Any, Any]], Any], listening: Listening) -> None:
        self._run = run
        self._listening = listening
        self._is_closed = False

    def __enter__(self) -> Self:
        self._run(self._listening.__aenter__())
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def close(self) -> None:
        """Listen no more: the iterator ends, for whoever waits for it as well."""
        self._is_closed = True
        self._run(self._listening.__aexit__(None, None, None))

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Change:
        try:
            change: Change = self._run(self._listening.__anext__())
        except StopAsyncIteration:
            raise StopIteration from None
        except CallAbandoned:
            if self._is_closed:
                raise StopIteration from None
            raise
        return change

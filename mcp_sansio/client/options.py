"""What every client takes, whatever its transport."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict

import attrs

from mcp_sansio.types import JSON, Implementation, LogLevel

from .config import ClientConfig
from .driver import OnAsk, OnChange, OnLog, OnProgress
from .known import Known

_CALLBACKS = ("on_ask", "on_progress", "on_log", "on_change")
#: What may be taken for an option, and is a limit.
_LIMITS = frozenset(field.name for field in attrs.fields(ClientConfig))
#: The methods whose callers give arguments to what the server runs.
_WITH_ARGUMENTS = frozenset({"call_tool", "get_prompt"})


class ClientOptions(TypedDict, total=False):
    """The options of a client. Each callback may be a plain function or an ``async`` one.

    `on_ask` answers the questions of the server. Without it, a question that rides in a result is the call's result.
    `on_progress` is told how calls go on that have no `on_progress` of their own, `on_log` gets the log messages of the
    server, of `log_level` and above, and `on_change` is told what changed at the server.

    `client_info` and `capabilities` are declared to the server; without `capabilities` that is whatever can be
    answered. `config` holds the limits, and `known` what an earlier client found out about the server.
    """

    on_ask: OnAsk | None
    on_progress: OnProgress | None
    on_log: OnLog | None
    on_change: OnChange | None
    client_info: Implementation | None
    capabilities: Mapping[str, JSON] | None
    log_level: LogLevel | None
    config: ClientConfig | None
    known: Known | None


class CallOptions(TypedDict, total=False):
    """What may be said of one call.

    `timeout` and `max_timeout` are in seconds, and those of `ClientConfig` where they are not given. `on_progress` is
    told how the call goes on. `headers` go with its HTTP requests. `input_responses` are the answers, by key, to the
    questions that an earlier call came back with, and `request_state` is what came with those.
    """

    timeout: float | None
    max_timeout: float | None
    on_progress: OnProgress | None
    headers: Mapping[str, str] | None
    input_responses: Mapping[str, JSON] | None
    request_state: str | None


def check_client_options(options: Mapping[str, Any]) -> None:
    """Raises ``TypeError`` for what is no option of `ClientOptions`, and for a callback that cannot be called."""
    for name in options.keys() - ClientOptions.__optional_keys__:
        if name in _LIMITS:
            raise TypeError(f"a client has no option {name!r}: limits are config=ClientConfig({name}=…)")
        known = ", ".join(ClientOptions.__annotations__)
        raise TypeError(f"a client has no option {name!r}; every client has {known}")
    for name in _CALLBACKS:
        callback = options.get(name)
        if callback is not None and not callable(callback):
            raise TypeError(f"{name} must be a function, not {callback!r}")


def fault_of_call_options(method: str, options: Mapping[str, Any]) -> TypeError | None:
    """What is wrong with the names of the `options` that `method` of a client was given, if anything is."""
    name = next((name for name in options if name not in CallOptions.__optional_keys__), None)
    if name is None:
        return None
    text = f"{method}() has no option {name!r}; there are {', '.join(CallOptions.__annotations__)}"
    if method in _WITH_ARGUMENTS:
        text += f". Arguments go into a dictionary: {method}(…, {{{name!r}: …}})"
    return TypeError(text)


def named_params(method: str, name: str, arguments: Mapping[str, JSON] | None) -> dict[str, JSON]:
    """The params of what has a `name` and takes `arguments`. Raises ``TypeError`` where those are no mapping."""
    try:
        return {"name": name, "arguments": dict(arguments or {})}
    except (TypeError, ValueError):
        text = f"{method}() takes the arguments as a dictionary, such as {{'name': …}}, not {arguments!r}"
        raise TypeError(text) from None


def callbacks_of(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a `ClientDriver`."""
    return {name: options[name] for name in _CALLBACKS if name in options}


def engine_options_of(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a `ClientEngine`. Raises as `check_client_options` does."""
    check_client_options(options)
    own = {name: value for name, value in options.items() if name not in _CALLBACKS}
    return {
        **own,
        "can_answer": options.get("on_ask") is not None,
        "wants_changes": options.get("on_change") is not None,
    }

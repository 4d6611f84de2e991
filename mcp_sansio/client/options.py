"""What every client takes, whatever its transport."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict

from mcp_sansio.types import JSON, Implementation, LogLevel

from .config import ClientConfig
from .driver import OnAsk, OnChange, OnLog, OnProgress
from .known import Known

_CALLBACKS = ("on_ask", "on_progress", "on_log", "on_change")


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


def callbacks_of(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a `ClientDriver`."""
    return {name: options[name] for name in _CALLBACKS if name in options}


def engine_options_of(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a `ClientEngine`."""
    own = {name: value for name, value in options.items() if name not in _CALLBACKS}
    return {
        **own,
        "can_answer": options.get("on_ask") is not None,
        "wants_changes": options.get("on_change") is not None,
    }

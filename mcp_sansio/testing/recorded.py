"""Client engines whose caller is written down, and the settings that make one again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import attrs

from mcp_sansio.adapters.base import Adapter
from mcp_sansio.adapters.selection import AdapterSet
from mcp_sansio.client.calls import OutgoingCall, Question
from mcp_sansio.client.config import ClientConfig
from mcp_sansio.client.connection import ClientConnection
from mcp_sansio.client.engine import ClientEngine, checked_reply
from mcp_sansio.client.events import ClientEvent
from mcp_sansio.client.http import HttpClientSession
from mcp_sansio.client.known import Known
from mcp_sansio.operation import Operation
from mcp_sansio.reading import from_wire
from mcp_sansio.runtime import Runtime
from mcp_sansio.server.config import Config
from mcp_sansio.server.server import Server
from mcp_sansio.types import JSON, Implementation, to_wire
from mcp_sansio.wire.json import decode, encode

from .diary import Diary
from .recorder import Recorder
from .transcript import STREAM_PATH

Over = Literal["channel", "http", "pair"]

_HOST = "http://server.example"
_URLS = {"http": f"{_HOST}/mcp", "pair": f"{_HOST}{STREAM_PATH}"}


class RecordedEngine(ClientEngine):
    """Tells a recorder what the caller says and hears."""

    recorder: Recorder
    diary: Diary

    def call(self, operation: Operation, params: Mapping[str, JSON] | None = None, **options: Any) -> OutgoingCall:
        """See `ClientEngine.call`."""
        call = super().call(operation, params, **options)
        self.recorder.noted(self.diary.called(call, operation.value, {"params": dict(params or {}), **options}))
        return call

    def listen(self, **wanted: Any) -> OutgoingCall:
        """See `ClientEngine.listen`."""
        call = super().listen(**wanted)
        self.recorder.noted(self.diary.called(call, "listen", wanted))
        return call

    def cancel(self, call: OutgoingCall, reason: str | None = None) -> None:
        """See `ClientEngine.cancel`."""
        if not call.ended:
            self.recorder.noted(self.diary.cancelled(call))
        super().cancel(call, reason)

    def answer(self, question: Question, reply: Mapping[str, JSON]) -> None:
        """See `ClientEngine.answer`."""
        self.recorder.noted(self.diary.answered(question, checked_reply(question, reply)))
        super().answer(question, reply)

    def fail(self, question: Question, message: str, cause: BaseException | None = None) -> None:
        """See `ClientEngine.fail`."""
        self.recorder.noted(self.diary.refused(question, message))
        super().fail(question, message, cause)

    def close(self) -> None:
        """See `ClientEngine.close`."""
        if not self.closed:
            self.recorder.noted("> close")
        super().close()

    def events(self) -> list[ClientEvent]:
        """See `ClientEngine.events`."""
        events = super().events()
        for event in events:
            self.recorder.noted(self.diary.heard(event))
        return events


class RecordedConnection(RecordedEngine, ClientConnection):
    """A channel's client, recorded."""


class RecordedSession(RecordedEngine, HttpClientSession):
    """A client of HTTP, recorded."""


def engine_of(over: Over, headers: Mapping[str, str], **options: Any) -> RecordedConnection | RecordedSession:
    """A client's engine for that kind of connection, with the options of every engine."""
    engine = (
        RecordedConnection(**options) if over == "channel" else RecordedSession(_URLS[over], headers=headers, **options)
    )
    engine.diary = Diary()
    return engine


# The settings of a transcript


def settings_of(client: Mapping[str, Any], server: Server) -> dict[str, str]:
    """What is unusual about the two sides. `client` are the arguments of `engine_of`, as JSON."""
    held = {name: _WRITTEN.get(name, _same)(value) for name, value in client.items() if value}
    versions = server.adapters.versions
    return {
        "config": ", ".join(f"{name}={value!r}" for name, value in _changed(server.config).items()),
        "revisions": ", ".join(versions) if versions != AdapterSet.default().versions else "",
        "client": encode(held).decode(),
    }


def engine_of_settings(settings: Mapping[str, str], runtime: Runtime) -> RecordedConnection | RecordedSession:
    """The engine that the settings of a transcript tell of. Raises ``ValueError`` where they tell of none."""
    if "client" not in settings:
        raise ValueError("the transcript does not say what its client is: it needs a setting `client:`")
    held = decode(settings["client"].encode())
    options = {name: _READ.get(name, _same)(value) for name, value in held.items()}
    return engine_of(options.pop("over"), options.pop("headers", {}), runtime=runtime, **options)


def _same(value: Any) -> Any:
    return value


def _changed(config: Config | ClientConfig) -> dict[str, Any]:
    return {
        field.name: getattr(config, field.name)
        for field in attrs.fields(type(config))
        if getattr(config, field.name) != field.default
    }


def _versions(adapters: Adapter | AdapterSet) -> list[str]:
    return [adapters.version] if isinstance(adapters, Adapter) else list(adapters.versions)


_WRITTEN: Mapping[str, Callable[[Any], JSON]] = {
    "adapters": _versions,
    "headers": dict,
    "client_info": to_wire,
    "capabilities": dict,
    "config": _changed,
    "known": Known.to_json,
}
_READ: Mapping[str, Callable[[Any], Any]] = {
    "adapters": lambda versions: AdapterSet.default().only(*versions),
    "client_info": lambda wire: from_wire(Implementation, wire, "client_info"),
    "config": lambda changed: ClientConfig(**changed),
    "known": Known.from_json,
}

"""What a client of one revision says, message by message, for checks that are about the messages themselves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import attrs

from mcp_sansio.adapters.base import Adapter
from mcp_sansio.immediate import LISTEN_FILTER
from mcp_sansio.operation import Operation
from mcp_sansio.types import JSON, Implementation, RequestId
from mcp_sansio.wire.json import encode
from mcp_sansio.wire.jsonrpc import encode_notification, encode_request, encode_result

CLIENT = Implementation(name="check", version="1.0")
CAPABILITIES: Mapping[str, JSON] = {"elicitation": {}}


@attrs.frozen
class Said:
    """A message: its bytes, the headers that its revision wants over HTTP, and the id of a request."""

    body: bytes
    headers: Mapping[str, str] = attrs.field(factory=dict)
    id: RequestId | None = None


class Speaker:
    """Makes the messages of a client of `adapter`'s revision."""

    def __init__(self, adapter: Adapter) -> None:
        self.adapter = adapter
        self._last_id = 0

    def handshake(self) -> tuple[Said, ...]:
        """What has to be said first, where there is something: a request, and the notification after its answer."""
        if not self.adapter.has_handshake:
            return ()
        params = self.adapter.client_handshake_params(CLIENT, CAPABILITIES)
        return self._request(Operation.DESCRIBE, params or {}), self._notification(Operation.HANDSHAKE_COMPLETE, {})

    def request(self, operation: Operation, params: Mapping[str, JSON] = {}, token: RequestId | None = None) -> Said:
        """A request. `token` asks for reports of its progress."""
        return self._request(
            operation, self.adapter.client_decorate_params(params, CLIENT, CAPABILITIES, progress_token=token)
        )

    def call(self, tool: str, token: RequestId | None = None, **arguments: JSON) -> Said:
        """A call of a tool."""
        return self.request(Operation.CALL_TOOL, {"name": tool, "arguments": arguments}, token)

    def repeated(self) -> Iterator[Said]:
        """Requests that an engine has seen the like of, but for the first of each: it answers them by a shorter way."""
        for _ in range(3):
            yield self.request(Operation.LIST_TOOLS)
            yield self.call("echo", text="the same again")
            yield self.call("mark", name="the same again")
            yield self.call("echo", text=0)

    def listen(self) -> Said | None:
        """What asks for the announcements of changes, where a request does."""
        if self.adapter.method_for(Operation.LISTEN) is None:
            return None
        return self.request(Operation.LISTEN, {"notifications": dict.fromkeys(LISTEN_FILTER, True)})

    def cancel(self, request_id: RequestId | None) -> Said:
        """What gives a request up, on a channel and in a session."""
        return self._notification(Operation.CANCEL, {"requestId": request_id})

    def answer(self, question: Mapping[str, JSON], reply: Mapping[str, JSON]) -> Said:
        """The answer to a question that was pushed."""
        return Said(encode_result(question["id"], encode(dict(reply))), self._headers(Operation.HANDSHAKE_COMPLETE, {}))

    def get(self) -> Said:
        """What a GET has instead of a message."""
        return Said(b"", self._headers(Operation.HANDSHAKE_COMPLETE, {}))

    def _headers(self, operation: Operation, params: Mapping[str, JSON]) -> dict[str, str]:
        return self.adapter.client_headers(self._method(operation), params)

    def _method(self, operation: Operation) -> str:
        method = self.adapter.method_for(operation)
        assert method is not None, f"{self.adapter} has no {operation}"
        return method

    def _request(self, operation: Operation, params: Mapping[str, JSON]) -> Said:
        self._last_id += 1
        body = encode_request(self._last_id, self._method(operation), params)
        return Said(body, self._headers(operation, params), self._last_id)

    def _notification(self, operation: Operation, params: Mapping[str, JSON]) -> Said:
        return Said(
            encode_notification(self._method(operation), dict(params) or None), self._headers(operation, params)
        )

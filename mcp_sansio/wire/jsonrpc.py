"""JSON-RPC 2.0 envelopes as MCP narrows them: what a message is, and the bytes of the messages that we send.

Source: basic, "Messages" (ids are strings or integers and never null, params are objects); JSON-RPC 2.0 sections 4-6.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, Final

import msgspec

from mcp_sansio.types import JSON, UNSET, RequestId

from .json import encode


class Shape(Enum):
    """What a message is. Members are compared by identity."""

    REQUEST = "request"
    NOTIFICATION = "notification"
    RESPONSE = "response"
    INVALID = "invalid"


_REQUEST, _RESPONSE = Shape.REQUEST, Shape.RESPONSE


class Envelope(msgspec.Struct, frozen=True):
    """One message, taken apart.

    A msgspec record and not an attrs one because it is made for each message, and this makes it in half the time.
    """

    shape: Shape
    id: RequestId | None = None
    """The id where it is a string or an integer, to answer to or to find the request that is answered; otherwise None,
    as in a response that reports an error about a message whose id the peer could not read."""
    method: str | None = None
    params: dict[str, Any] = {}
    """The params of a request or a notification; empty where absent, null or faulty."""
    result: JSON = None
    """The result of a response; meaningful only where `error` is None."""
    error: dict[str, Any] | None = None
    """The error of a response: an object with an integer ``code`` and a string ``message``."""
    fault: str | None = None
    """What makes the message INVALID, in words that may be sent to the peer."""
    fault_is_params: bool = False
    """Whether the only fault is the type of the params: to be answered with "invalid params", not "invalid request"."""
    replies: bool = False
    """Whether an INVALID message is due an error reply. Never set for a notification, nor for a response: an answer to
    a response would carry an id of the wrong direction, and could go back and forth without end."""


def classify(message: JSON) -> Envelope:
    """Take a decoded message apart. Never raises: what is no JSON-RPC message of MCP comes out as INVALID.

    A batch is not a message: the caller takes its members one by one where the revision has batches.
    """
    if type(message) is not dict:
        return Envelope(Shape.INVALID, fault="a message must be an object", replies=True)
    if "method" not in message:
        if "result" in message and "error" not in message and message.get("jsonrpc") == "2.0":
            id = message.get("id")  # noqa: A001
            if type(id) is int or type(id) is str:
                return Envelope(_RESPONSE, id, result=message["result"])
        return _other_response(message)
    if message.get("jsonrpc") == "2.0" and "result" not in message and "error" not in message:
        method = message["method"]
        id = message.get("id", UNSET)  # noqa: A001
        params = message.get("params")
        if params is None:
            params = {}
        if type(method) is str and type(params) is dict:
            if type(id) is str or type(id) is int:
                return Envelope(_REQUEST, id, method, params)
            if id is UNSET:
                return Envelope(Shape.NOTIFICATION, None, method, params)
    return _faulty_request(message)


def _usable_id(message: dict[str, Any]) -> RequestId | None:
    id = message.get("id")  # noqa: A001
    return id if type(id) is str or type(id) is int else None


_VERSION_FAULT: Final = "'jsonrpc' must be \"2.0\""
_ID_FAULT: Final = "'id' must be a string or an integer"


def _faulty_request(message: dict[str, Any]) -> Envelope:
    id = _usable_id(message)  # noqa: A001
    method = message["method"] if type(message["method"]) is str else None
    fault_is_params = False
    if message.get("jsonrpc") != "2.0":
        fault = _VERSION_FAULT
    elif method is None:
        fault = "'method' must be a string"
    elif "result" in message or "error" in message:
        fault = "a message with 'method' must have neither 'result' nor 'error'"
    elif id is None and "id" in message:
        fault = _ID_FAULT
    else:
        fault, fault_is_params = "'params' must be an object", True
    replies = method is None or "id" in message
    return Envelope(Shape.INVALID, id, method, fault=fault, fault_is_params=fault_is_params, replies=replies)


def _other_response(message: dict[str, Any]) -> Envelope:
    id = _usable_id(message)  # noqa: A001
    has_result, has_error = "result" in message, "error" in message
    if has_result == has_error:
        fault = "a response must not have both 'result' and 'error'" if has_error else "'method' is missing"
        return Envelope(
            Shape.INVALID, id, fault=_VERSION_FAULT if message.get("jsonrpc") != "2.0" else fault, replies=True
        )
    if message.get("jsonrpc") != "2.0":
        return Envelope(Shape.INVALID, id, fault=_VERSION_FAULT)
    if has_result:
        return Envelope(Shape.INVALID, fault=_ID_FAULT)
    error = message["error"]
    if type(error) is not dict or type(error.get("code")) is not int or type(error.get("message")) is not str:
        return Envelope(Shape.INVALID, id, fault="'error' must have an integer 'code' and a string 'message'")
    if id is None and message.get("id") is not None:
        return Envelope(Shape.INVALID, fault=_ID_FAULT)
    return Envelope(_RESPONSE, id, error=error)


# The messages are joined from pieces: a result that is encoded already is then copied once and never parsed again.


def encode_result(id: RequestId, result: bytes) -> bytes:  # noqa: A002
    """A response with a result, which is given as JSON text (of :func:`mcp_sansio.wire.json.encode`)."""
    return b"".join((b'{"jsonrpc":"2.0","id":', encode(id), b',"result":', result, b"}"))


def encode_response(id: RequestId, result: JSON) -> bytes:  # noqa: A002
    """A response with a result."""
    return encode({"jsonrpc": "2.0", "id": id, "result": result})


def encode_error(
    id: RequestId | None,  # noqa: A002
    code: int,
    message: str,
    data: JSON = UNSET,
    *,
    null_id: bool,
) -> bytes:
    """A response with an error. `data` of None is sent as null; without it the error has no ``data``.

    `id` is None where the request's could not be read. With `null_id` that is written as null, as JSON-RPC 2.0 section
    5 has it; without, the key is left out, as in the schema of the newest revision.
    """
    error = {"code": code, "message": message} if data is UNSET else {"code": code, "message": message, "data": data}
    if id is None and not null_id:
        return b"".join((b'{"jsonrpc":"2.0","error":', encode(error), b"}"))
    return b"".join((b'{"jsonrpc":"2.0","id":', encode(id), b',"error":', encode(error), b"}"))


def encode_notification(method: str, params: Mapping[str, JSON] | None) -> bytes:
    """A notification. `params` of None are left out."""
    message: dict[str, JSON] = {"jsonrpc": "2.0", "method": method}
    return encode(message if params is None else {**message, "params": dict(params)})


def encode_request(id: RequestId, method: str, params: Mapping[str, JSON] | None) -> bytes:  # noqa: A002
    """A request. `params` of None are left out."""
    message: dict[str, JSON] = {"jsonrpc": "2.0", "id": id, "method": method}
    if params is not None:
        message["params"] = params if isinstance(params, dict) else dict(params)
    return encode(message)


def encode_batch(messages: Sequence[bytes]) -> bytes:
    """A batch of encoded messages. Raises ValueError where there is none, since an empty batch is not JSON-RPC."""
    if not messages:
        raise ValueError("a batch must hold at least one message")
    return b"[" + b",".join(messages) + b"]"

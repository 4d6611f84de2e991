"""What the server says, held against the JSON Schema of its revision — where the schemas are at hand.

They are not part of this project: they are looked for beside the checkout (``../shared/spec/<revision>/schema.json``),
and where they or the jsonschema package are missing nothing is checked.
"""

from __future__ import annotations

import json
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

SPEC = Path(__file__).parents[3] / "shared" / "spec"

#: The definition of a request's result, where it is not named like the request.
_RESULTS = {
    "initialize": "InitializeResult",
    "server/discover": "DiscoverResult",
    "tools/list": "ListToolsResult",
    "tools/call": "CallToolResult",
    "resources/list": "ListResourcesResult",
    "resources/templates/list": "ListResourceTemplatesResult",
    "resources/read": "ReadResourceResult",
    "prompts/list": "ListPromptsResult",
    "prompts/get": "GetPromptResult",
    "completion/complete": "CompleteResult",
    "subscriptions/listen": "SubscriptionsListenResult",
}
#: The definitions of errors that have one of their own.
_ERRORS = {
    -32020: "HeaderMismatchError",
    -32021: "MissingRequiredClientCapabilityError",
    -32022: "UnsupportedProtocolVersionError",
}


@cache
def _definitions(version: str) -> dict[str, Any] | None:
    path = SPEC / version / "schema.json"
    if find_spec("jsonschema") is None or not path.is_file():
        return None
    return json.loads(path.read_text("utf-8"))  # type: ignore[no-any-return]


@cache
def _validator(version: str, name: str) -> Any:
    import jsonschema

    root = _definitions(version)
    assert root is not None
    key = "$defs" if "$defs" in root else "definitions"
    schema = {"$schema": root["$schema"], key: root[key], "$ref": f"#/{key}/{name}"}
    kind = jsonschema.Draft202012Validator if key == "$defs" else jsonschema.Draft7Validator
    return kind(schema)


@cache
def _named(version: str) -> dict[str, str]:
    """The definitions of requests and notifications, by method."""
    root = _definitions(version)
    assert root is not None
    found = {}
    for name, definition in (root.get("$defs") or root["definitions"]).items():
        method = definition.get("properties", {}).get("method", {}).get("const")
        if method is not None:
            found[method] = name
    return found


def _has(version: str, name: str) -> bool:
    root = _definitions(version)
    assert root is not None
    return name in (root.get("$defs") or root["definitions"])


def check(version: str, message: Any, *, answers: str | None = None) -> None:
    """Assert that a server of `version` may say `message` (a decoded one). `answers` is the method it responds to."""
    if _definitions(version) is None:
        return
    if isinstance(message, list):
        for one in message:
            check(version, one, answers=answers)
        return
    for name, value in _claims(version, message, answers):
        errors = [f"{error.json_path}: {error.message}" for error in _validator(version, name).iter_errors(value)]
        assert not errors, f"{version} {name}: {errors} in {message}"


def _claims(version: str, message: dict[str, Any], answers: str | None) -> list[tuple[str, Any]]:
    if "method" in message:
        return [(_named(version)[message["method"]], message)]
    if "error" in message:
        return _error_claims(version, message)
    name = "JSONRPCResultResponse" if _has(version, "JSONRPCResultResponse") else "JSONRPCResponse"
    result = message["result"]
    kind = _RESULTS.get(answers or "", "EmptyResult" if answers else "Result")
    if result.get("resultType") == "input_required":
        assert answers in ("tools/call", "resources/read", "prompts/get")
        kind = "InputRequiredResult"
    return [(name, message), (kind, result)]


def _error_claims(version: str, message: dict[str, Any]) -> list[tuple[str, Any]]:
    name = "JSONRPCErrorResponse" if _has(version, "JSONRPCErrorResponse") else "JSONRPCError"
    # Revisions whose schema demands an id have no form for "the id could not be read": JSON-RPC's is null, and the
    # text of their transports has errors without one.
    nameless = name == "JSONRPCError" and message.get("id") is None
    shown = {**message, "id": 0} if nameless else message
    special = _ERRORS.get(message["error"]["code"])
    return [(name, shown)] + ([(special, shown)] if special and _has(version, special) else [])

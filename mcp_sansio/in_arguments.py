"""Asking where the protocol cannot: the questions ride in a tool's result, the answers in its next call's arguments.

No revision defines this. It uses only what every client has, a tool call and somebody who reads its result: the text
says what finishes the call, as JSON to copy, and ``_meta`` repeats the questions for programs. The answers come back as
two ordinary arguments, which are taken out before the tool's own model sees them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from .asking import ELICIT, LIST_ROOTS, SAMPLE
from .call import Call
from .outcome import Failure, FailureKind, InputRequest, NeedsInput, Rejected
from .types import JSON, CallToolResult, TextContent

ANSWERS, STATE = "mcpAnswers", "mcpState"
#: What is taken out of a tool's arguments before its own model sees them.
RESERVED_ARGUMENTS = frozenset({ANSWERS, STATE})
#: The member of a result's ``_meta`` that repeats the questions, in the words of the revisions that have them.
META_KEY = "mcp-sansio/input-required"

_EXTRA_PROPERTIES: Mapping[str, JSON] = {
    ANSWERS: {
        "type": "object",
        "description": "Answers to questions that an earlier call of this tool returned, by key. Leave out at first.",
    },
    STATE: {"type": "string", "description": "The mcpState that came with those questions, unchanged."},
}


def with_answer_arguments(schema: Mapping[str, JSON]) -> dict[str, JSON]:
    """The input `schema` of a tool that asks in its arguments: the two properties added, neither required."""
    return {**schema, "properties": {**schema.get("properties", {}), **_EXTRA_PROPERTIES}}


def take_answers(call: Call) -> None:
    """Move the answers and the state out of the arguments of `call`. Raises `Rejected` for a wrong type."""
    if ANSWERS not in call.arguments and STATE not in call.arguments:
        return
    arguments = dict(call.arguments)
    answers, state = arguments.pop(ANSWERS, None), arguments.pop(STATE, None)
    if answers is not None and not isinstance(answers, Mapping):
        raise Rejected(Failure(FailureKind.INVALID_ARGUMENTS, f"$.{ANSWERS}: must be an object"))
    call.arguments = arguments
    call.answers = {**call.answers, **(answers or {})}
    call.request_state = call.request_state if state is None else state


def with_answers(arguments: Mapping[str, JSON], answers: Mapping[str, JSON], state: str | None) -> dict[str, JSON]:
    """The `arguments` of a call that answers the questions which an earlier call returned."""
    finished = {**arguments, ANSWERS: dict(answers)}
    return finished if state is None else {**finished, STATE: state}


def question_result(call: Call, needs: NeedsInput) -> CallToolResult:
    """The result that carries the questions of `needs`. It is no error: the call is unfinished, it did not fail."""
    finish: dict[str, Any] = {ANSWERS: {key: _blank(request) for key, request in needs.requests.items()}}
    if needs.request_state is not None:
        finish[STATE] = needs.request_state
    lines = ["This needs an answer before it can go on."]
    lines += [f"- {key}: {_wording(request)}" for key, request in needs.requests.items()]
    again = msgspec.json.encode({**call.arguments, **finish}).decode()
    lines += ["Call the tool again with these arguments, the answers filled in:", again]
    meta: dict[str, JSON] = {"inputRequests": dict(needs.requests)}
    if needs.request_state is not None:
        meta["requestState"] = needs.request_state
    return CallToolResult([TextContent("\n".join(lines))], meta={META_KEY: meta})


def _wording(request: InputRequest) -> str:
    params = request.get("params", {})
    if request["method"] != ELICIT:
        return f"{request['method']} {msgspec.json.encode(params).decode()}"
    text = str(params.get("message", ""))
    if "url" in params:
        return f"{text} (open {params['url']})"
    schema = params.get("requestedSchema", {})
    return f"{text} (content: {msgspec.json.encode(schema).decode()})" if schema.get("properties") else text


#: What an answer looks like to a question that has no form of its own to fill in.
_BLANKS: Mapping[str, JSON] = {
    SAMPLE: {"role": "assistant", "model": "…", "content": {"type": "text", "text": "…"}},
    LIST_ROOTS: {"roots": [{"uri": "file:///…"}]},
}


def _blank(request: InputRequest) -> JSON:
    if request["method"] != ELICIT:
        return _BLANKS[request["method"]]
    properties = request.get("params", {}).get("requestedSchema", {}).get("properties", {})
    return {"action": "accept", "content": {name: _example(schema) for name, schema in properties.items()}}


def _example(schema: Mapping[str, JSON]) -> JSON:
    blanks = {"string": "…", "integer": 0, "number": 0, "boolean": True, "array": []}
    return schema.get("default", blanks.get(schema.get("type", "string")))

"""Questions for the client and what comes back: `elicit`, `sample`, `list_roots` and `Answer`.

A question is the params of one of the three requests that a server may put to a client. How it travels is the adapter's
business (``can_ask``, ``can_push_ask``, ``asks_in_arguments``); what it says is the same on every revision.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

import attrs

from .forms import fault_of_content, fault_of_form
from .outcome import InputRequest
from .types import JSON, ContentBlock, TextContent, to_wire

ELICIT, SAMPLE, LIST_ROOTS = "elicitation/create", "sampling/createMessage", "roots/list"

#: The client capability that each question needs (client/elicitation, client/sampling, client/roots).
CAPABILITY_OF = {ELICIT: "elicitation", SAMPLE: "sampling", LIST_ROOTS: "roots"}


def elicit(
    message: str, schema: Mapping[str, JSON] | None = None, *, url: str | None = None, elicitation_id: str | None = None
) -> InputRequest:
    """Ask the user something.

    `message` is shown to them. `schema` is the JSON Schema of the form to fill in, flat and with primitive properties
    only; without it the user just agrees or does not. With `url` the user is sent to that address instead (URL mode);
    `elicitation_id` then names the interaction, and is made up where a revision needs one and none is given.

    Raises ``ValueError`` for a schema that is no such form. Source: client/elicitation.
    """
    if url is not None:
        params: dict[str, JSON] = {"mode": "url", "message": message, "url": url}
        if elicitation_id is not None:
            params["elicitationId"] = elicitation_id
        return {"method": ELICIT, "params": params}
    if not isinstance(schema, Mapping | None):
        raise TypeError(f"elicit: the schema must be a mapping, JSON Schema, not {schema!r}")
    fault = None if schema is None else fault_of_form(schema)
    if fault is not None:
        raise ValueError(f"elicit: {fault}")
    requested = {"type": "object", "properties": {}, **(schema or {})}  # the specification requires both members
    return {"method": ELICIT, "params": {"message": message, "requestedSchema": requested}}


def sample(
    messages: str | Sequence[Mapping[str, JSON]] | Sequence[tuple[str, str | ContentBlock]],
    *,
    max_tokens: int,
    system_prompt: str | None = None,
    temperature: float | None = None,
    stop_sequences: Sequence[str] | None = None,
    **params: JSON,
) -> InputRequest:
    """Ask the client's model for a message.

    `messages` is one user's text, or a sequence of ``(role, text or content)`` pairs or of ready JSON objects.
    `max_tokens` bounds the answer. Further params of the specification (``modelPreferences``, ``includeContext``,
    ``metadata``, ``tools``, ``toolChoice``) pass through by their own names.

    Source: client/sampling.
    """
    named = {
        "systemPrompt": system_prompt,
        "temperature": temperature,
        "stopSequences": None if stop_sequences is None else list(stop_sequences),
        **params,
    }
    pairs: Sequence[Any] = [("user", messages)] if isinstance(messages, str) else messages
    given = {key: value for key, value in named.items() if value is not None}
    wire = {"messages": [_message(pair) for pair in pairs], "maxTokens": max_tokens, **given}
    return {"method": SAMPLE, "params": wire}


def _message(message: Any) -> Mapping[str, JSON]:
    if isinstance(message, Mapping):
        return message
    role, content = message
    return {"role": role, "content": to_wire(TextContent(content) if isinstance(content, str) else content)}


def list_roots() -> InputRequest:
    """Ask which directories or URIs the client lets this server work on. Source: client/roots."""
    return {"method": LIST_ROOTS, "params": {}}


def elicit_accept(content: Mapping[str, JSON] | None = None) -> dict[str, JSON]:
    """The client's "yes", with the `content` of the form. Raises ``TypeError`` for content that is no mapping."""
    try:
        return {"action": "accept", "content": dict(content or {})}
    except (TypeError, ValueError):
        raise TypeError(f"what is accepted is a mapping, the fields of the form, not {content!r}") from None


def elicit_accept_defaults(request: InputRequest, content: Mapping[str, JSON] | None = None) -> dict[str, JSON]:
    """The client's "yes" to the elicitation `request`, with the form's own defaults where `content` says nothing.

    A server may put defaults into its form, and it is for the client to fill them in (client/elicitation, "Requested
    Schema"): a user is shown them, and a program that answers by itself sends them.
    """
    schema = request.get("params", {}).get("requestedSchema")
    fields = schema.get("properties") if isinstance(schema, Mapping) else None
    defaults = {
        name: field["default"]
        for name, field in (fields.items() if isinstance(fields, Mapping) else ())
        if isinstance(field, Mapping) and "default" in field
    }
    return elicit_accept({**defaults, **elicit_accept(content)["content"]})


def elicit_decline() -> dict[str, JSON]:
    """The client's "no": somebody said so."""
    return {"action": "decline"}


def elicit_cancel() -> dict[str, JSON]:
    """The client's silence: nobody answered."""
    return {"action": "cancel"}


class AnswerAction(StrEnum):
    """How a question ended (client/elicitation, "Response Actions")."""

    ACCEPT = "accept"
    DECLINE = "decline"
    CANCEL = "cancel"


#: A list, since what is looked for in it may be a value that has no hash.
_ACTIONS = list(AnswerAction)


@attrs.frozen
class Answer(Mapping[str, JSON]):
    """What came back for one question. It reads like the content that it carries.

    For an elicitation that is the filled form; for sampling the created message (``answer["content"]``); for roots
    ``answer["roots"]``. `action` is always :attr:`AnswerAction.ACCEPT` for the last two, which cannot be declined.

    It is neither true nor false, and raises ``TypeError`` where it is taken for either: a refusal is an answer, too.
    """

    action: AnswerAction
    content: Mapping[str, JSON] = attrs.field(factory=dict)

    @property
    def accepted(self) -> bool:
        """True only for :attr:`AnswerAction.ACCEPT`."""
        return self.action is AnswerAction.ACCEPT

    def __getitem__(self, key: str) -> JSON:
        return self.content[key]

    def __iter__(self) -> Any:
        return iter(self.content)

    def __len__(self) -> int:
        return len(self.content)

    def __bool__(self) -> bool:
        raise TypeError("an answer is neither true nor false: say answer.accepted, or answer.action for which it is")


def answer_of(request: InputRequest, reply: Mapping[str, JSON]) -> Answer:
    """The answer to `request` within a client's raw `reply`, in which `fault_of_answer` found nothing wrong."""
    if request["method"] != ELICIT:
        return Answer(AnswerAction.ACCEPT, reply)
    action = AnswerAction(reply["action"])
    # What was filled in and then not sent is nobody's business.
    return Answer(action, reply.get("content") or {} if action is AnswerAction.ACCEPT else {})


#: What is known of a question whose answer has an action: that it is an elicitation.
_AGREEMENT: InputRequest = {"method": ELICIT, "params": {}}


def question_of(reply: JSON) -> InputRequest:
    """What `reply` seems to answer, where the question itself is not at hand. What could be none needs an action."""
    if isinstance(reply, Mapping) and "action" not in reply:
        if "roots" in reply:
            return list_roots()
        if "role" in reply:
            return {"method": SAMPLE, "params": {}}
    return _AGREEMENT


def default_answer(request: InputRequest, default: JSON) -> Answer:
    """The answer of a handler that gives one in the client's place. To decline or to cancel fits every question.

    Raises ``ValueError`` for a `default` that no client could have answered.
    """
    bare = isinstance(default, Mapping) and "action" in default and request["method"] != ELICIT
    question = _AGREEMENT if bare else request
    fault = fault_of_answer(question, default)
    if fault is not None:
        raise ValueError(f"the default is no answer to this question: {fault}")
    return answer_of(question, default)


def fault_of_answer(request: InputRequest, reply: JSON) -> str | None:
    """What is wrong with a client's raw `reply` to `request`, or ``None``.

    The shapes are those of ElicitResult, CreateMessageResult and ListRootsResult in the schema. A wrong one is the
    client's error and never reaches a handler (basic/patterns/mrtr, "Error Handling").
    """
    if not isinstance(reply, Mapping):
        return "must be an object"
    return _FAULT_OF[request["method"]](request.get("params", {}), reply)


def _fault_of_elicit(params: Mapping[str, JSON], reply: Mapping[str, JSON]) -> str | None:
    if reply.get("action") not in _ACTIONS:
        return f"action must be one of {', '.join(_ACTIONS)}"
    content = reply.get("content")
    if not isinstance(content, Mapping | None):
        return "content must be an object"
    schema = params.get("requestedSchema")
    if schema is None or reply["action"] != AnswerAction.ACCEPT:
        return None
    fault = fault_of_content(schema, content or {})
    return None if fault is None else f"content.{fault}"


def _fault_of_sample(params: Mapping[str, JSON], reply: Mapping[str, JSON]) -> str | None:
    if reply.get("role") not in ("user", "assistant"):
        return "role must be user or assistant"
    if not isinstance(reply.get("model"), str):
        return "model must be a string"
    content = reply.get("content")
    faults = map(_fault_of_block, content if isinstance(content, list) else [content])
    return next(filter(None, faults), None) or _fault_of_members("", _SAMPLE, reply)


#: Members by name, whether they are required, and their types in Python and in words.
_Members = tuple[tuple[str, bool, type | tuple[type, ...], str], ...]
_SAMPLE: _Members = (("stopReason", False, str, "a string"), ("_meta", False, Mapping, "an object"))
_DATA: _Members = (("data", True, str, "a string"), ("mimeType", True, str, "a string"))
#: The content of a sampled message (schema, SamplingMessageContentBlock); a type that nobody knows is the handler's.
_BLOCKS: Mapping[str, _Members] = {
    "text": (("text", True, str, "a string"),),
    "image": _DATA,
    "audio": _DATA,
    "tool_use": (("id", True, str, "a string"), ("name", True, str, "a string"), ("input", True, Mapping, "an object")),
    "tool_result": (("toolUseId", True, str, "a string"), ("content", True, list, "a list")),
}
_ANY_BLOCK: _Members = (("annotations", False, Mapping, "an object"), ("_meta", False, Mapping, "an object"))
_ANNOTATIONS: _Members = (
    ("audience", False, list, "a list"),
    ("priority", False, (int, float), "a number"),
    ("lastModified", False, str, "a string"),
)


def _fault_of_block(block: JSON) -> str | None:
    if not isinstance(block, Mapping) or not isinstance(block.get("type"), str):
        return "content must be a content block"
    fault = _fault_of_members("content.", (*_BLOCKS.get(block["type"], ()), *_ANY_BLOCK), block)
    return fault or _fault_of_members("content.annotations.", _ANNOTATIONS, block.get("annotations") or {})


def _fault_of_members(at: str, members: _Members, value: Mapping[str, JSON]) -> str | None:
    for name, required, types, wanted in members:
        held = value.get(name)
        # A boolean is a number to Python alone.
        if (required or held is not None) and (not isinstance(held, types) or isinstance(held, bool)):
            return f"{at}{name} must be {wanted}"
    return None


def _fault_of_roots(params: Mapping[str, JSON], reply: Mapping[str, JSON]) -> str | None:
    roots = reply.get("roots")
    if not isinstance(roots, list):
        return "roots must be a list"
    if not all(isinstance(root, Mapping) and isinstance(root.get("uri"), str) for root in roots):
        return "roots must hold objects with a uri"
    return next(filter(None, (_fault_of_members("roots.", _ROOT, root) for root in roots)), None)


_ROOT: _Members = (("name", False, str, "a string"), ("_meta", False, Mapping, "an object"))


_FAULT_OF = {ELICIT: _fault_of_elicit, SAMPLE: _fault_of_sample, LIST_ROOTS: _fault_of_roots}

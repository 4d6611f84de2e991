"""What each operation's params must hold, where all revisions agree.

One table, checked before a call is built, so that everything behind it may index params without asking. A field that a
revision alone demands is checked by its adapter (`fault_of_request`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mcp_sansio.operation import Operation
from mcp_sansio.types import JSON, LOG_LEVELS

Check = type | Callable[[JSON], bool]
Field = tuple[str, bool, Check, str]
"""A member's name, whether it is required, its type or its check, and what it must be, in words."""


def _strings(value: JSON) -> bool:
    return isinstance(value, dict) and all(isinstance(item, str) for item in value.values())


def _level(value: JSON) -> bool:
    return value in LOG_LEVELS


def _reference(value: JSON) -> bool:
    kinds = {"ref/prompt": "name", "ref/resource": "uri"}
    return isinstance(value, dict) and isinstance(value.get(kinds.get(str(value.get("type")))), str)


def _argument(value: JSON) -> bool:
    return isinstance(value, dict) and isinstance(value.get("name"), str) and isinstance(value.get("value"), str)


def _context(value: JSON) -> bool:
    return isinstance(value, dict) and _strings(value.get("arguments", {}))


def _filter(value: JSON) -> bool:
    if not isinstance(value, dict):
        return False
    uris = value.get("resourceSubscriptions", [])
    return isinstance(uris, list) and all(isinstance(uri, str) for uri in uris)


_CURSOR: Field = ("cursor", False, str, "a string")
_URI: Field = ("uri", True, str, "a string")
_NAME: Field = ("name", True, str, "a string")

FIELDS: Mapping[Operation, tuple[Field, ...]] = {
    Operation.LIST_TOOLS: (_CURSOR,),
    Operation.LIST_RESOURCES: (_CURSOR,),
    Operation.LIST_RESOURCE_TEMPLATES: (_CURSOR,),
    Operation.LIST_PROMPTS: (_CURSOR,),
    Operation.CALL_TOOL: (_NAME, ("arguments", False, dict, "an object")),
    Operation.GET_PROMPT: (_NAME, ("arguments", False, _strings, "an object of strings")),
    Operation.READ_RESOURCE: (_URI,),
    Operation.SUBSCRIBE: (_URI,),
    Operation.UNSUBSCRIBE: (_URI,),
    Operation.SET_LOG_LEVEL: (("level", True, _level, "one of " + ", ".join(LOG_LEVELS)),),
    Operation.COMPLETE: (
        ("ref", True, _reference, "a reference to a prompt or a resource"),
        ("argument", True, _argument, "an object with the strings name and value"),
        ("context", False, _context, "an object whose arguments are strings"),
    ),
    Operation.LISTEN: (
        ("notifications", True, _filter, "a filter object, with resourceSubscriptions a list of strings"),
    ),
}

#: Where the thing that a call is about stands in its params.
TARGET = {
    Operation.CALL_TOOL: "name",
    Operation.GET_PROMPT: "name",
    Operation.READ_RESOURCE: "uri",
    Operation.SUBSCRIBE: "uri",
    Operation.UNSUBSCRIBE: "uri",
}


def fault_of_params(
    operation: Operation, params: Mapping[str, JSON], fields: Mapping[Operation, tuple[Field, ...]] = FIELDS
) -> str | None:
    """What is wrong with `params`, naming the member, or ``None``. An optional member may also be null."""
    for name, required, check, wanted in fields.get(operation, ()):
        value = params.get(name)
        if type(value) is check or (value is None and not required):
            continue
        if isinstance(check, type) or not check(value):
            return f"params.{name} must be {wanted}"
    return None

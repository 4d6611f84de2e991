"""What can be wrong with a declaration besides its signature: options, types, and what clients are to be shown."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from .binding import Bound
from .errors import DeclarationError
from .exchange import Exchange
from .providers import hints_of
from .specs import CompletionRequest, PromptSpec, ResourceSpec, ToolSpec
from .types import JSON, Annotations, Icon, ToolAnnotations, to_wire
from .wire.json import fault_of

#: How deep a declaration may nest; schemas have a limit of their own, which is less.
_MAX_DEPTH = 200
_REVISION = r"\d{4}-\d{2}-\d{2}"

# The options that each kind of declaration has.
_COMMON_OPTIONS = {"name", "title", "description", "icons", "meta", "since", "blocking"}
PROMPT_OPTIONS = frozenset(_COMMON_OPTIONS)
TOOL_OPTIONS = frozenset(
    {
        *_COMMON_OPTIONS,
        *("annotations", "input_schema", "output_schema", "streaming", "poll_after"),
        *("ask_in_arguments", "verbatim_schema"),
    }
)
COMPLETION_OPTIONS = frozenset({"prompt", "resource", "argument", "blocking"})

#: What the options of a declaration must be, and how to say it.
_TYPES: Mapping[str, tuple[type | tuple[type, ...], str]] = {
    "name": (str, "a string"),
    "title": (str, "a string"),
    "description": (str, "a string"),
    "mime_type": (str, "a string"),
    "size": (int, "a number of bytes"),
    "meta": (Mapping, "a mapping"),
    "poll_after": ((int, float), "a number of seconds"),
}


def check_options(what: str, options: Mapping[str, Any], known: Collection[str]) -> None:
    """Refuse an option that a declaration does not have, or one of a wrong type. Raises `DeclarationError`."""
    unknown = next((name for name in options if name not in known), None)
    if unknown is not None:
        raise DeclarationError(f"{what}: there is no option {unknown!r}; there are {', '.join(sorted(known))}")
    for name, (wanted, words) in _TYPES.items():
        value = options.get(name)
        if value is not None and not isinstance(value, wanted):
            raise DeclarationError(f"{what}: {name} must be {words}, not {value!r}")
    _check_records(what, options)
    since = options.get("since")
    if since is not None and not (isinstance(since, str) and re.fullmatch(_REVISION, since)):
        raise DeclarationError(f"{what}: since must be a revision's date, written as YYYY-MM-DD, not {since!r}")


def _check_records(what: str, options: Mapping[str, Any]) -> None:
    icons, annotations = options.get("icons"), options.get("annotations")
    if icons is not None and (isinstance(icons, str) or not all(isinstance(icon, Icon) for icon in icons)):
        raise DeclarationError(f"{what}: icons must be a list of Icon, as in [Icon(src=...)]")
    if annotations is not None and not isinstance(annotations, Annotations | ToolAnnotations):
        raise DeclarationError(f"{what}: annotations must be ToolAnnotations of a tool, or Annotations of a resource")


def check_function(what: str, fn: Any) -> None:
    """Refuse what is no function to decorate, a name in its place above all. Raises `DeclarationError`."""
    if isinstance(fn, str):
        raise DeclarationError(f"{what}: options are given by name, as in {what}(name={fn!r})")
    if not callable(fn):
        raise DeclarationError(f"{what} decorates a function, not {fn!r}")


def check_shown(what: str, spec: ToolSpec | ResourceSpec | PromptSpec, raw: Collection[str] = ()) -> None:
    """Refuse what clients cannot be shown as it is: it would spoil every list that it is in, not only itself.

    `raw` names the schemas that the application gave. The others are JSON, as which they were read. Raises
    `DeclarationError`.
    """
    annotations = None if isinstance(spec, PromptSpec) else spec.annotations
    shown: dict[str, JSON] = {
        "meta": None if spec.meta is None else dict(spec.meta),
        "icons": [to_wire(icon) for icon in spec.icons or ()],
        "annotations": None if annotations is None else to_wire(annotations),
        **{name: getattr(spec, name) for name in raw},
    }
    fault = fault_of(shown, max_depth=_MAX_DEPTH)
    if fault is not None:
        raise DeclarationError(f"{what}: not JSON: {fault}")


def completion_params(fn: Callable[..., Any]) -> tuple[str, str | None]:
    """A completion's parameter for the request, and the one for the Exchange, if any. Raises `DeclarationError`."""
    hints = hints_of(fn)
    exchange = next((name for name, hint in hints.items() if hint is Exchange), None)
    rest = [name for name in inspect.signature(fn).parameters if name != exchange]
    if len(rest) != 1 or hints.get(rest[0], CompletionRequest) is not CompletionRequest:
        raise DeclarationError(
            f"completion {getattr(fn, '__name__', fn)!r} must take one CompletionRequest, and may take an Exchange"
        )
    return rest[0], exchange


def check_variables(uri: str, names: Sequence[str], bound: Bound) -> None:
    """Hold the parameters of a resource's function to the variables of its URI. Raises `DeclarationError`."""
    schema = bound.input_schema
    missing = set(schema.get("required", ())) - set(names)
    unused = set(names) - set(schema.get("properties", {}))
    if missing:
        raise DeclarationError(f"resource {uri!r}: the parameter {min(missing)!r} is no variable of its URI")
    if unused:
        raise DeclarationError(f"resource {uri!r}: the function takes no parameter for {{{min(unused)}}}")

"""Questions of a server, put to a person line by line.

`answering` is a generator: it yields what to show before a line is read, takes the line that was typed (``None`` at the
end of the input), and returns the reply.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from typing import Any

from mcp_sansio.asking import ELICIT, LIST_ROOTS, SAMPLE, elicit_accept, elicit_cancel, elicit_decline
from mcp_sansio.errors import ToolError
from mcp_sansio.forms import fault_of_content, fault_of_form
from mcp_sansio.outcome import InputRequest
from mcp_sansio.types import JSON

from .describing import printable, words_of
from .words import WordFault, value_of

Dialogue = Generator[str, str | None, dict[str, JSON]]
_HELP = "[y]es, [n]o, or [c]ancel? "


def answering(request: InputRequest) -> Dialogue:
    """Put `request` to a person. Raises `ToolError` for a kind of question that nobody here knows."""
    put = _KINDS.get(request["method"])
    if put is None:
        raise ToolError(f"this client cannot be asked {request['method'][:100]!r}")
    return put(request["params"])


def _elicit(params: Mapping[str, Any]) -> Dialogue:
    """Source: client/elicitation."""
    message = f"\nThe server asks: {params.get('message')}\n"
    if "url" in params:
        message += f"It wants you to visit {params['url']}\nOpen it if you trust it. Was it done? "
        return (yield from _agreed(printable(message)))
    schema = params.get("requestedSchema")
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    if not isinstance(properties, Mapping) or not properties:
        return (yield from _agreed(printable(message)))
    agreed = yield from _agreed(printable(f"{message}It wants {', '.join(properties)}. Answer? "))
    if agreed["action"] != "accept":
        return agreed
    assert isinstance(schema, Mapping)
    required = schema.get("required", ())
    content: dict[str, JSON] = {}
    for name, field in properties.items():
        given = yield from _field(name, field, name in required)
        if given is _END:
            return elicit_cancel()
        if given is not _NOTHING:
            content[name] = given
    return elicit_accept(content)


def _agreed(message: str) -> Dialogue:
    line = yield f"{message}{_HELP}"
    while True:
        if line is None or line.strip().lower() in ("c", "cancel"):
            return elicit_cancel()
        if line.strip().lower() in ("y", "yes"):
            return elicit_accept({})
        if line.strip().lower() in ("n", "no"):
            return elicit_decline()
        line = yield _HELP


_END, _NOTHING = object(), object()


def _field(name: str, field: Any, required: bool) -> Generator[str, str | None, Any]:
    """One field of a form, asked for until it fits."""
    field = field if isinstance(field, Mapping) else {}
    about = ", ".join(filter(None, (words_of(field), "" if required else "may be left empty")))
    line = yield printable(f"{field.get('title') or name}{_described(field)} ({about}): ")
    while line is not None:
        if not line and "default" in field:
            return field["default"]
        if not line and not required:
            return _NOTHING
        try:
            value = value_of(line, field, name)
            fault = _fault_of(name, field, value) if line else "it is needed"
            if fault is None:
                return value
        except WordFault as error:
            fault = str(error)
        line = yield printable(f"  {fault}. Again: ")
    return _END


def _fault_of(name: str, field: Mapping[str, JSON], value: JSON) -> str | None:
    form = {"type": "object", "properties": {name: field}}
    return None if fault_of_form(form) else fault_of_content(form, {name: value})


def _described(field: Mapping[str, Any]) -> str:
    return f": {field['description']}" if isinstance(field.get("description"), str) else ""


def _sample(params: Mapping[str, Any]) -> Dialogue:
    """The person is the model. Source: client/sampling."""
    shown = [f"\nThe server asks your model for a message. {params.get('systemPrompt') or ''}".rstrip()]
    for message in params.get("messages", ()):
        content = message.get("content") if isinstance(message, Mapping) else None
        text = content.get("text", f"[{content.get('type')}]") if isinstance(content, Mapping) else str(content)
        shown.append(f"  {message.get('role')}: {text}" if isinstance(message, Mapping) else f"  {text}")
    line = yield printable("\n".join([*shown, "Your answer, in one line: "]))
    if line is None:
        raise ToolError("the user did not answer")
    content = {"type": "text", "text": line}
    return {"role": "assistant", "content": content, "model": "a person", "stopReason": "endTurn"}


def _list_roots(params: Mapping[str, Any]) -> Dialogue:
    """Source: client/roots."""
    roots: list[JSON] = []
    line = yield "\nThe server asks which folders it may work on. A file:// URI, or nothing to end: "
    while line:
        roots.append({"uri": line})
        line = yield "Another, or nothing to end: "
    return {"roots": roots}


_KINDS: Mapping[str, Callable[[Mapping[str, Any]], Dialogue]] = {
    ELICIT: _elicit,
    SAMPLE: _sample,
    LIST_ROOTS: _list_roots,
}

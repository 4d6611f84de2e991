"""The user, the model and the folders behind a client, for the server to ask."""

from __future__ import annotations

from typing import Any

from .expected import NAME_FORM

JSON = Any


class Answers:
    """A client's user, model and folders. It keeps what it was asked."""

    def __init__(self, *forms: JSON) -> None:
        self.asked: list[JSON] = []
        self._forms = list(forms)

    def __call__(self, method: str, params: JSON) -> JSON:
        self.asked.append({"method": method, "params": params})
        if method == "elicitation/create":
            return self._forms.pop(0)
        if method == "roots/list":
            return {"roots": [{"uri": "file:///home/ada", "name": "home"}, {"uri": "file:///tmp"}]}
        said = f"about {params['messages'][0]['content']['text']}"
        return {"role": "assistant", "model": "m-1", "content": {"type": "text", "text": said}, "stopReason": "endTurn"}


def accept(**content: JSON) -> JSON:
    return {"action": "accept", "content": content}


def form(message: str, schema: JSON = NAME_FORM) -> JSON:
    """The question for a form."""
    return {"method": "elicitation/create", "params": {"message": message, "requestedSchema": schema}}

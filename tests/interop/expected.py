"""What the server of these tests serves, as the schema of its newest revision spells it."""

from __future__ import annotations

from typing import Any

from .peers import Peer

JSON = Any

SERVER = {
    "name": "interop",
    "version": "7.1",
    "title": "Interoperability",
    "description": "Serves other people's clients",
    "websiteUrl": "https://interop.example/",
    "icons": [{"src": "https://interop.example/icon.png", "mimeType": "image/png", "sizes": ["48x48"]}],
}
DESCRIBED = {
    "serverInfo": SERVER,
    "capabilities": {
        "tools": {"listChanged": True},
        "prompts": {"listChanged": True},
        "resources": {"listChanged": True, "subscribe": True},
        "logging": {},
        "completions": {},
    },
    "instructions": "Call what you like.",
}
LIST_HINT = {"ttlMs": 60_000, "cacheScope": "private"}
READ_HINT = {"ttlMs": 0, "cacheScope": "private"}

TOOL_NAMES = [
    *("add", "echo", "forecast", "numbers", "gallery", "whole", "fail", "nearest"),
    *("report", "release", "log", "wait", "was_cancelled", "patient", "slow"),
    *("order", "confirm", "agree", "sign_in", "introduce", "summarise", "folders", "survey", "book"),
    *("count", "who", "change", "offer", "is_listening"),
]

DAY = {
    "title": "Day",
    "description": "One day of a forecast.",
    "type": "object",
    "properties": {
        "degrees": {"type": "number"},
        "sky": {"type": "string", "enum": ["clear", "clouds"], "default": "clear"},
    },
    "required": ["degrees"],
}


def tools(*, modern: bool) -> dict[str, JSON]:
    """Tools whose descriptions hold something that clients or revisions treat in their own way."""

    def described(name: str, text: str, properties: JSON, required: list[str], **more: JSON) -> JSON:
        schema = {"type": "object", "properties": properties, **({"required": required} if required else {})}
        return {"name": name, "description": text, "inputSchema": schema, **more}

    days = {"$ref": "#/$defs/Day"} if modern else DAY
    forecast: dict[str, JSON] = {
        "title": "Forecast",
        "description": "Some days of weather.",
        "type": "object",
        "properties": {
            "city": {"type": "string"},
            "days": {"type": "array", "items": days},
            "source": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
        },
        "required": ["city", "days"],
    }
    if modern:
        forecast["$defs"] = {"Day": DAY}

    def mirrored(name: str) -> JSON:
        return {"x-mcp-header": name} if modern else {}

    made = [
        described(
            "forecast",
            "Forecast the weather.",
            {
                "city": {"type": "string", "minLength": 1, "description": "Where"},
                "days": {"type": "integer", "minimum": 1, "maximum": 3, "default": 1},
            },
            ["city"],
            title="Weather",
            annotations={"readOnlyHint": True, "openWorldHint": False},
            icons=[{"src": "data:image/png;base64,iVBORw==", "mimeType": "image/png"}],
            _meta={"example.org/team": "weather"},
            outputSchema=forecast,
        ),
        described(
            "numbers",
            "Give a list, which is structured content of newer revisions only.",
            {},
            [],
            # Only an object can be structured content of a revision with a handshake.
            **({"outputSchema": {"type": "array", "items": {"type": "integer"}}} if modern else {}),
        ),
        described(
            "nearest",
            "Take arguments that HTTP mirrors in headers.",
            {
                "region": {"type": "string", **mirrored("Region")},
                "limit": {"type": "integer", "default": 1, **mirrored("Limit")},
            },
            ["region"],
        ),
        described(
            "book",
            "Ask in the arguments, for clients that cannot be asked otherwise.",
            {
                "seats": {"type": "integer"},
                "mcpAnswers": {
                    "type": "object",
                    "description": "Answers to questions that an earlier call of this tool returned, by key. "
                    "Leave out at first.",
                },
                "mcpState": {
                    "type": "string",
                    "description": "The mcpState that came with those questions, unchanged.",
                },
            },
            ["seats"],
        ),
    ]
    return {tool["name"]: tool for tool in made}


WELCOME = {"uri": "note://welcome", "mimeType": "text/plain"}
GALLERY = [
    {"type": "text", "text": "text", "annotations": {"audience": ["user"], "priority": 0.5}},
    {"type": "image", "data": "iVBORw==", "mimeType": "image/png"},
    {"type": "audio", "data": "UklGRg==", "mimeType": "audio/wav"},
    {"type": "resource", "resource": {**WELCOME, "text": "Welcome!"}},
    {"type": "resource", "resource": {"uri": "note://logo", "blob": "iVBORw==", "mimeType": "image/png"}},
    {"type": "resource_link", **WELCOME, "name": "welcome", "title": "Welcome", "size": 8},
]
RESOURCES = [
    {
        "uri": "note://welcome",
        "name": "welcome",
        "title": "Welcome",
        "description": "A greeting",
        "mimeType": "text/plain",
        "size": 8,
        "annotations": {
            "audience": ["user", "assistant"],
            "priority": 1.0,
            "lastModified": "2026-01-02T03:04:05Z",
        },
        "icons": [{"src": "https://interop.example/note.svg", "mimeType": "image/svg+xml", "sizes": ["any"]}],
        "_meta": {"example.org/kept": True},
    },
    {"uri": "note://logo", "name": "logo", "description": "The logo.", "mimeType": "image/png"},
    {"uri": "note://secret", "name": "secret", "description": "A note that asks who reads it."},
]
TEMPLATES = [
    {
        "uriTemplate": "city://{name}/weather",
        "name": "weather",
        "title": "Weather of a city",
        "description": "The weather of a city.",
        "mimeType": "text/plain",
    }
]
PROMPTS = [
    {
        "name": "greet",
        "title": "Greeting",
        "description": "Greet somebody.",
        "arguments": [{"name": "name", "required": True}, {"name": "style", "required": False}],
    },
    {"name": "interview", "description": "Ask the user while the prompt is made."},
]
NAME_FORM = {
    "type": "object",
    "properties": {"name": {"type": "string", "title": "Name", "minLength": 1}, "times": {"type": "integer"}},
    "required": ["name"],
}

ORDER_FORM = {
    "type": "object",
    "properties": {
        "email": {"type": "string", "format": "email", "title": "E-mail", "description": "For the receipt"},
        "loaves": {"type": "integer", "minimum": 1, "maximum": 9, "default": 1},
        "weight": {"type": "number"},
        "sliced": {"type": "boolean", "default": False},
        "size": {"type": "string", "enum": ["small", "large"]},
        "flour": {"type": "string", "oneOf": [{"const": "r", "title": "Rye"}, {"const": "w", "title": "Wheat"}]},
        "seeds": {"type": "array", "items": {"type": "string", "enum": ["poppy", "sesame"]}, "minItems": 1},
    },
    "required": ["email", "size", "seeds"],
}


def result(peer: Peer, body: JSON, hint: JSON = None) -> JSON:
    """What `peer` makes of a result: `body`, with what every result of its revision has."""
    if peer.revision < "2026-07-28":
        return body
    about = {"io.modelcontextprotocol/serverInfo": SERVER}
    # The TypeScript SDK takes the type of a result for itself.
    kind = {} if peer.name == "typescript" else {"resultType": "complete"}
    return {**body, **kind, **(hint or {}), "_meta": {**body.get("_meta", {}), **about}}


def text(peer: Peer, said: str) -> JSON:
    """A tool's result that is a text."""
    return result(peer, {"content": [{"type": "text", "text": said}]})

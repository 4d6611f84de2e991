"""The server that the official conformance suite is run against: every fixture that the suite calls, under one URL.

``python tests/conformance/everything_server.py --port 3001`` prints the URL and serves until it is interrupted; with
``--port 0`` the system picks the port. What each fixture has to do is laid down by the suite. The fixtures are an
application like any other: they name no revision, no method and no header, they are declared once for every revision,
and nothing in the library knows of them. They use no event loop either, so that each binding can serve the same ones.
"""

from __future__ import annotations

import argparse
import io
import socket
import wave
from base64 import b64decode
from collections.abc import Awaitable, Callable
from typing import Annotated, Any

from msgspec import Meta

from mcp_sansio import (
    AudioContent,
    CompletionRequest,
    Config,
    EmbeddedResource,
    Exchange,
    ImageContent,
    NeedInput,
    PromptMessage,
    Registry,
    TextContent,
    TextResourceContents,
    ToolError,
    elicit,
    list_roots,
    sample,
)

Pause = Callable[[float], Awaitable[Any]]
"""Lets the given seconds pass, on whichever event loop there is."""

PNG = b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")

#: Seconds between the reports of a tool that takes its time, and before a connection that can be resumed is let go.
STEP = 0.05

SCHEMA_2020_12 = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}

DEFAULTS_FORM = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "description": "User name", "default": "John Doe"},
        "age": {"type": "integer", "description": "User age", "default": 30},
        "score": {"type": "number", "description": "User score", "default": 95.5},
        "status": {
            "type": "string",
            "description": "User status",
            "enum": ["active", "inactive", "pending"],
            "default": "active",
        },
        "verified": {"type": "boolean", "description": "Verification status", "default": True},
    },
    "required": [],
}


def titled(*pairs: tuple[str, str]) -> list[dict[str, str]]:
    """The options of a choice whose values are shown under titles."""
    return [{"const": value, "title": title} for value, title in pairs]


CHOICES_FORM = {
    "type": "object",
    "properties": {
        "untitledSingle": {"type": "string", "enum": ["option1", "option2", "option3"]},
        "titledSingle": {
            "type": "string",
            "oneOf": titled(("value1", "First Option"), ("value2", "Second Option"), ("value3", "Third Option")),
        },
        "legacyEnum": {
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": ["option1", "option2", "option3"]}},
        "titledMulti": {
            "type": "array",
            "items": {
                "anyOf": titled(("value1", "First Choice"), ("value2", "Second Choice"), ("value3", "Third Choice"))
            },
        },
    },
    "required": [],
}


def form(**properties: str) -> dict[str, Any]:
    """A form whose fields, all of them required, are of the given types."""
    return {
        "type": "object",
        "properties": {name: {"type": kind} for name, kind in properties.items()},
        "required": list(properties),
    }


NAME = elicit("What is your name?", form(name="string"))
CONFIRM = elicit("Please confirm", form(ok="boolean"))
CAPITAL = sample("What is the capital of France?", max_tokens=100)
GREETING = sample("Generate a greeting", max_tokens=50)


def silence() -> bytes:
    """A tenth of a second of nothing, as a WAV file."""
    held = io.BytesIO()
    with wave.open(held, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(1)
        sound.setframerate(8000)
        sound.writeframes(b"\x80" * 800)
    return held.getvalue()


def build(pause: Pause) -> Registry:
    """Everything that the suite calls, on one registry."""
    registry = Registry("everything", "1.0", instructions="A server for the conformance suite.")
    add_content_tools(registry)
    add_reporting_tools(registry, pause)
    add_asking_tools(registry)
    add_rounds_tools(registry)
    add_changing_tools(registry)
    add_resources(registry)
    add_prompts(registry)
    return registry


# Tools


def add_content_tools(registry: Registry) -> None:
    """What a tool may give, and what it may take. The suite calls the first tool of the list without arguments."""

    @registry.tool
    def test_simple_text() -> str:
        """Give some text."""
        return "This is a simple text response for testing."

    @registry.tool
    def test_image_content() -> ImageContent:
        """Give a picture."""
        return ImageContent(PNG, "image/png")

    @registry.tool
    def test_audio_content() -> AudioContent:
        """Give a sound."""
        return AudioContent(silence(), "audio/wav")

    @registry.tool
    def test_embedded_resource() -> EmbeddedResource:
        """Give a resource."""
        text = "This is an embedded resource content."
        return EmbeddedResource(TextResourceContents("test://embedded-resource", text, "text/plain"))

    @registry.tool
    def test_multiple_content_types() -> list[TextContent | ImageContent | EmbeddedResource]:
        """Give text, a picture and a resource."""
        text = '{"test":"data","value":123}'
        return [
            TextContent("Multiple content types test:"),
            ImageContent(PNG, "image/png"),
            EmbeddedResource(TextResourceContents("test://mixed-content-resource", text, "application/json")),
        ]

    @registry.tool
    def test_error_handling() -> str:
        """Fail."""
        raise ToolError("This tool intentionally returns an error for testing")

    @registry.tool(input_schema=SCHEMA_2020_12, verbatim_schema=True)
    def json_schema_2020_12_tool(arguments: dict[str, Any]) -> str:
        """Tool with JSON Schema 2020-12 features"""
        return f"Called with {', '.join(sorted(arguments))}"

    @registry.tool
    def test_x_mcp_header(region: Annotated[str, Meta(extra_json_schema={"x-mcp-header": "Region"})] = "") -> str:
        """Take an argument that HTTP clients repeat in a header."""
        return f"Region: {region}"


def add_reporting_tools(registry: Registry, pause: Pause) -> None:
    """What a tool may send while it runs."""

    @registry.tool
    async def test_tool_with_logging(ex: Exchange) -> str:
        """Log three times."""
        for text in ("Tool execution started", "Tool processing data", "Tool execution completed"):
            await ex.log("info", text)
            await pause(STEP)
        return "Logged three times."

    @registry.tool
    async def test_tool_with_progress(ex: Exchange) -> str:
        """Report progress three times."""
        for done in (0, 50, 100):
            await ex.progress(done, 100)
            await pause(STEP)
        return "Progress reported."

    @registry.tool(streaming=True)
    async def test_logging_tool(ex: Exchange) -> str:
        """Log once, to those who want it."""
        await ex.log("info", "A message for those who asked for messages")
        return "Logged once."

    @registry.tool(poll_after=STEP)
    async def test_reconnection() -> str:
        """Take longer than a connection is held for."""
        await pause(4 * STEP)
        return "Reconnection test completed successfully."


def add_asking_tools(registry: Registry) -> None:
    """Tools that ask one question."""

    @registry.tool
    async def test_sampling(prompt: str, ex: Exchange) -> str:
        """Ask the client's model."""
        answer = await ex.ask("answer", sample(prompt, max_tokens=100))
        return f"LLM response: {answer['content']['text']}"

    @registry.tool
    async def test_elicitation(message: str, ex: Exchange) -> str:
        """Ask the user for a name and an address."""
        answer = await ex.ask("user", elicit(message, form(username="string", email="string")))
        return f"User response: action={answer.action}, content={answer.content}"

    @registry.tool
    async def test_elicitation_sep1034_defaults(ex: Exchange) -> str:
        """Ask the user to fill in a form that has defaults."""
        answer = await ex.ask("user", elicit("Please review and update the form", DEFAULTS_FORM))
        return f"Elicitation completed: action={answer.action}, content={answer.content}"

    @registry.tool
    async def test_elicitation_sep1330_enums(ex: Exchange) -> str:
        """Ask the user to choose, in every way that there is."""
        answer = await ex.ask("user", elicit("Please select options", CHOICES_FORM))
        return f"Elicitation completed: action={answer.action}, content={answer.content}"

    @registry.tool(streaming=True)
    async def test_streaming_elicitation(ex: Exchange) -> str:
        """Ask the user, on a reply that is a stream from the start."""
        answer = await ex.ask("confirm", CONFIRM)
        return f"Confirmed: {answer.action}"

    @registry.tool
    async def test_missing_capability(ex: Exchange) -> str:
        """Ask the client's model, which the suite's client does not say it has."""
        answer = await ex.ask("thought", sample("Anything", max_tokens=10))
        return f"LLM response: {answer['content']['text']}"


def add_rounds_tools(registry: Registry) -> None:
    """Tools whose calls take several rounds."""

    @registry.tool
    async def test_input_required_result_elicitation(ex: Exchange) -> str:
        """Ask the user for a name."""
        answer = await ex.ask("user_name", NAME)
        return f"Hello, {answer['name']}!" if answer.accepted else "Hello!"

    @registry.tool
    async def test_input_required_result_sampling(ex: Exchange) -> str:
        """Ask the client's model for a capital."""
        answer = await ex.ask("capital_question", CAPITAL)
        return f"LLM response: {answer['content']['text']}"

    @registry.tool
    async def test_input_required_result_list_roots(ex: Exchange) -> str:
        """Ask the client for its roots."""
        answer = await ex.ask("client_roots", list_roots())
        return "Roots: " + ", ".join(root["uri"] for root in answer["roots"])

    async def confirmed(ex: Exchange) -> str:
        if not ex.answered("confirm"):
            raise NeedInput({"confirm": CONFIRM}, state={"asked": "confirm"})
        answer = await ex.ask("confirm", CONFIRM)
        kept = "state-ok" if ex.state == {"asked": "confirm"} else "state-missing"
        return f"{kept}, action={answer.action}"

    @registry.tool
    async def test_input_required_result_request_state(ex: Exchange) -> str:
        """Ask for a confirmation and remember having asked."""
        return await confirmed(ex)

    @registry.tool
    async def test_input_required_result_tampered_state(ex: Exchange) -> str:
        """Ask for a confirmation and remember having asked; the suite's client changes what is remembered."""
        return await confirmed(ex)

    @registry.tool
    async def test_input_required_result_multiple_inputs(ex: Exchange) -> str:
        """Ask three things at once."""
        questions = {"user_name": NAME, "greeting": GREETING, "client_roots": list_roots()}
        missing = {key: question for key, question in questions.items() if not ex.answered(key)}
        if missing:
            raise NeedInput(missing, state={"asked": sorted(questions)})
        user, greeting, roots = [await ex.ask(key, question) for key, question in questions.items()]
        return f"{greeting['content']['text']} {user.get('name')}: {len(roots['roots'])} roots"

    @registry.tool
    async def test_input_required_result_multi_round(ex: Exchange) -> str:
        """Ask two things, one after the other."""
        first = elicit("Step 1: What is your name?", form(name="string"))
        if not ex.answered("step1"):
            raise NeedInput({"step1": first}, state={"rounds": 2})
        user = await ex.ask("step1", first)
        choice = await ex.ask("step2", elicit("Step 2: What is your favorite color?", form(color="string")))
        return f"{user.get('name')} likes {choice.get('color')}."

    @registry.tool
    async def test_input_required_result_capabilities(ex: Exchange) -> str:
        """Ask whatever this client can be asked."""
        questions = {"elicitation": ("user_name", NAME), "sampling": ("capital_question", CAPITAL)}
        possible = dict(pair for name, pair in questions.items() if name in ex.client_info.capabilities)
        missing = {key: question for key, question in possible.items() if not ex.answered(key)}
        if missing:
            raise NeedInput(missing)
        return f"Asked: {', '.join(possible) or 'nothing'}"


def add_changing_tools(registry: Registry) -> None:
    """Tools that change what is declared, while the server runs."""

    def changing() -> str:
        """Come and go."""
        return "I am here now."

    @registry.tool
    def test_trigger_tool_change() -> str:
        """Declare a tool, or take it away again."""
        if "test_changing_tool" in registry.tools:
            registry.remove_tool("test_changing_tool")
        else:
            registry.tool(name="test_changing_tool")(changing)
        return "The tools have changed."

    @registry.tool
    def test_trigger_prompt_change() -> str:
        """Declare a prompt, or take it away again."""
        if "test_changing_prompt" in registry.prompts:
            registry.remove_prompt("test_changing_prompt")
        else:
            registry.prompt(name="test_changing_prompt")(changing)
        return "The prompts have changed."


# Resources and prompts


def add_resources(registry: Registry) -> None:
    """Two resources that stand still, one to watch, and a template."""

    @registry.resource("test://static-text", name="Static text", mime_type="text/plain")
    def static_text() -> str:
        """A text that stays as it is."""
        return "This is the content of the static text resource."

    @registry.resource("test://static-binary", name="Static binary", mime_type="image/png")
    def static_binary() -> bytes:
        """A picture that stays as it is."""
        return PNG

    @registry.resource("test://watched-resource", name="Watched resource", mime_type="text/plain")
    def watched() -> str:
        """A text that clients subscribe to."""
        return "Watched resource content"

    @registry.resource("test://template/{id}/data", name="Template", mime_type="application/json")
    def data(id: str) -> dict[str, Any]:
        """The data of any id."""
        return {"id": id, "templateTest": True, "data": f"Data for ID: {id}"}


def add_prompts(registry: Registry) -> None:
    """Prompts of every content, one with arguments to complete, and one that asks."""

    @registry.prompt
    def test_simple_prompt() -> str:
        """Say one thing."""
        return "This is a simple prompt for testing."

    @registry.prompt
    def test_prompt_with_arguments(
        arg1: Annotated[str, "First test argument"], arg2: Annotated[str, "Second test argument"]
    ) -> str:
        """Say what the arguments are."""
        return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"

    @registry.completion(prompt="test_prompt_with_arguments")
    def complete(request: CompletionRequest) -> list[str]:
        return [word for word in ("test", "testing", "other") if word.startswith(request.value)]

    @registry.prompt
    def test_prompt_with_embedded_resource(
        resourceUri: Annotated[str, "URI of the resource to embed"],
    ) -> list[PromptMessage]:
        """Show a resource."""
        shown = TextResourceContents(resourceUri, "Embedded resource content for testing.", "text/plain")
        return [
            PromptMessage("user", EmbeddedResource(shown)),
            PromptMessage("user", TextContent("Please process the embedded resource above.")),
        ]

    @registry.prompt
    def test_prompt_with_image() -> list[PromptMessage]:
        """Show a picture."""
        return [
            PromptMessage("user", ImageContent(PNG, "image/png")),
            PromptMessage("user", TextContent("Please analyze the image above.")),
        ]

    @registry.prompt
    async def test_input_required_result_prompt(ex: Exchange) -> str:
        """Ask the user what to say."""
        answer = await ex.ask("user_context", elicit("What context should the prompt use?", form(context="string")))
        return f"Use this context: {answer.get('context')}"


# Serving


CONFIG = Config(deletable_sessions=True)


def serve_aiohttp(listener: socket.socket) -> None:
    """Serve ``/mcp`` on `listener` by the aiohttp binding, until interrupted."""
    import asyncio

    from aiohttp import web

    from mcp_sansio_aiohttp import Endpoint

    web.run_app(Endpoint(build(asyncio.sleep), config=CONFIG).app("/mcp"), sock=listener, print=None)


def serve_asgi(listener: socket.socket) -> None:
    """The same by the ASGI binding, under uvicorn."""
    import asyncio

    import uvicorn

    from mcp_sansio_asgi import Application

    app = Application(build(asyncio.sleep), config=CONFIG, path="/mcp")
    served = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1)
    uvicorn.Server(served).run(sockets=[listener])


def serve_trio(listener: socket.socket) -> None:
    """Serve ``/mcp`` on `listener` by the trio binding, until interrupted."""
    import trio

    from mcp_sansio_trio import Endpoint

    async def serve() -> None:
        listeners = [trio.SocketListener(trio.socket.from_stdlib_socket(listener))]
        await Endpoint(build(trio.sleep), "/mcp", config=CONFIG).serve_listeners(listeners)

    trio.run(serve)


def serve_sync(listener: socket.socket) -> None:
    """The same by the WSGI application, in a thread for each request, with a loop that is lent for what waits."""
    import asyncio
    import threading
    from socketserver import ThreadingMixIn
    from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

    from mcp_sansio_sync import Application

    class Server(ThreadingMixIn, WSGIServer):
        daemon_threads = True

    class Handler(WSGIRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True).start()
    server = Server(listener.getsockname(), Handler, bind_and_activate=False)
    server.socket = listener
    server.server_name, server.server_port = listener.getsockname()
    server.setup_environ()
    server.set_app(Application(build(asyncio.sleep), config=CONFIG, path="/mcp", announces_changes=True, loop=loop))
    server.serve_forever()


BINDINGS = {"aiohttp": serve_aiohttp, "asgi": serve_asgi, "sync": serve_sync, "trio": serve_trio}


def main() -> None:
    """Serve as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binding", choices=BINDINGS, default="aiohttp")
    parser.add_argument("--port", type=int, default=0, help="0 lets the system pick one")
    options = parser.parse_args()
    with socket.create_server(("127.0.0.1", options.port)) as listener:
        print(f"http://127.0.0.1:{listener.getsockname()[1]}/mcp", flush=True)
        BINDINGS[options.binding](listener)


if __name__ == "__main__":
    main()

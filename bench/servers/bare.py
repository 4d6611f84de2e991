"""The yardstick: bare handlers for aiohttp and ASGI, a bare loop over standard input; msgspec parses and prints.

They check nothing, keep nothing and know no more of the protocol than the shape of the answers, which are those that
mcp-sansio gives (the command compares them). What only depends on the declarations is bytes that wait to be sent.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import cache
from itertools import count
from typing import Any

import msgspec
import workload

Message = dict[str, Any]
decode, encode = msgspec.json.Decoder().decode, msgspec.json.Encoder().encode

META = "io.modelcontextprotocol/"
INFO = {"name": "bench", "version": "1.0"}
UNCACHED = {"ttlMs": 0, "cacheScope": "private"}
CAPABILITIES = {
    "logging": {},
    "prompts": {"listChanged": True},
    "resources": {"subscribe": True, "listChanged": True},
    "tools": {"listChanged": True},
}
ELICIT = {
    "method": "elicitation/create",
    "params": {"message": workload.QUESTION, "requestedSchema": workload.FORM},
}
IN_ARGUMENTS = (
    "This needs an answer before it can go on.\n"
    f"- name: {workload.QUESTION} (content: {encode(workload.FORM).decode()})\n"
    "Call the tool again with these arguments, the answers filled in:\n"
    '{"mcpAnswers":{"name":{"action":"accept","content":{"name":"…"}}}}'
)

question_ids = count(1)


class Asked:
    """In place of an answer: the client is asked with `question`, and what it answers comes in by itself."""

    def __init__(self, question: Message) -> None:
        self.question = question


def answer(message: Message) -> bytes | list[bytes] | Asked | None:
    """What a message is answered with: a message, several of them, a question that comes first, or nothing."""
    if isinstance(message, list):
        return b"".join((b"[", b",".join(map(answer, message)), b"]"))
    return METHODS[message["method"]](message["id"], message.get("params", {})) if "id" in message else None


def reply(message_id: Any, params: Message, body: Message, **hint: Any) -> bytes:
    """The response with `body`, and with what the newer revision adds to every result."""
    if META + "protocolVersion" in params.get("_meta", ()):
        body.setdefault("resultType", "complete")
        body["_meta"] = {META + "serverInfo": INFO}
        body.update(hint)
    return encode({"jsonrpc": "2.0", "id": message_id, "result": body})


def text(words: str) -> Message:
    """The result of a tool."""
    return {"content": [{"type": "text", "text": words}]}


def initialize(message_id: Any, params: Message) -> bytes:
    """The handshake."""
    body = {"protocolVersion": params["protocolVersion"], "capabilities": CAPABILITIES, "serverInfo": INFO}
    return reply(message_id, params, body)


def discover(message_id: Any, params: Message) -> bytes:
    """The description that a client may ask for in place of it."""
    versions = [params["_meta"][META + "protocolVersion"]]
    return reply(message_id, params, {"supportedVersions": versions, "capabilities": CAPABILITIES}, **UNCACHED)


def call(message_id: Any, params: Message) -> bytes | list[bytes] | Asked:
    """A tool is called."""
    return TOOLS[params["name"]](message_id, params, params["arguments"])


def add(message_id: Any, params: Message, arguments: Message) -> bytes:
    """Add two numbers."""
    return reply(message_id, params, text(str(arguments["a"] + arguments["b"])))


def report(message_id: Any, params: Message, arguments: Message) -> list[bytes]:
    """Report progress, and be done."""
    return [*steps(params["_meta"]["progressToken"]), reply(message_id, params, text("done"))]


def steps(token: Any) -> Iterator[bytes]:
    """The reports."""
    for step in range(1, workload.STEPS + 1):
        shown = {
            "progressToken": token,
            "progress": step,
            "total": workload.STEPS,
            "message": workload.message_of(step),
        }
        yield encode({"jsonrpc": "2.0", "method": "notifications/progress", "params": shown})


def ask(message_id: Any, params: Message, arguments: Message) -> bytes | Asked:
    """Ask for a name, in the way that the client understands."""
    answers = params.get("inputResponses") or arguments.get("mcpAnswers")
    if answers is not None:
        return reply(message_id, params, text(workload.greeting(answers["name"]["content"]["name"])))
    way = params.get("_meta", {}).get(workload.WAY)
    if way == "pushed":
        return Asked({"jsonrpc": "2.0", "id": f"ask-{next(question_ids)}", **ELICIT})
    questions = {"inputRequests": {"name": ELICIT}}
    if way == "arguments":
        return reply(message_id, params, {**text(IN_ARGUMENTS), "_meta": {"mcp-sansio/input-required": questions}})
    return reply(message_id, params, {"resultType": "input_required", **questions})


def greet(asked: Message, answered: Message) -> bytes:
    """What follows when the question is answered."""
    return reply(asked["id"], asked["params"], text(workload.greeting(answered["result"]["content"]["name"])))


def read(message_id: Any, params: Message) -> bytes:
    """The resource."""
    contents = {"uri": workload.URI, "text": workload.TEXT, "mimeType": "text/plain"}
    return reply(message_id, params, {"contents": [contents]}, **UNCACHED)


def list_tools(message_id: Any, params: Message) -> bytes:
    """The list, which is bytes already but for the id."""
    head, tail = listed(params.get("_meta", {}).get(META + "protocolVersion"))
    return b"".join((head, encode(message_id), tail))


@cache
def listed(version: str | None) -> tuple[bytes, bytes]:
    """The bytes that mcp-sansio has for its list of tools, before and after the id."""
    import sansio

    from mcp_sansio.testing import Simulation

    channel = Simulation(sansio.registry).channel()
    meta = {META + "clientInfo": INFO, META + "clientCapabilities": {}, META + "protocolVersion": version}
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": INFO}
    channel.send({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello})
    params = {} if version is None else {"_meta": meta}
    channel.send({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": params})
    head, _, tail = channel.sent[-1].partition(b'"id":1')
    return head + b'"id":', tail


METHODS = {
    "initialize": initialize,
    "server/discover": discover,
    "tools/call": call,
    "tools/list": list_tools,
    "resources/read": read,
}
TOOLS = {"add": add, "report": report, "ask": ask}


def http() -> None:
    """Serve /mcp: a stream where there is more than one message, with one write for each."""
    import asyncio

    from aiohttp import web
    from serving import serve_aiohttp

    waiting: dict[str, asyncio.Future[Message]] = {}

    async def handle(request: web.Request) -> web.StreamResponse:
        message = decode(await request.read())
        if "result" in message:
            waiting[message["id"]].set_result(message)
            return web.Response(status=202)
        given = answer(message)
        if type(given) is bytes:
            return web.Response(body=given, content_type="application/json")
        if given is None:
            return web.Response(status=202)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-cache"})
        await response.prepare(request)
        if isinstance(given, Asked):
            future = waiting[given.question["id"]] = asyncio.get_running_loop().create_future()
            await response.write(event(encode(given.question)))
            answered = await future
            del waiting[given.question["id"]]
            given = [greet(message, answered)]
        for one in given:
            await response.write(event(one))
        await response.write_eof()
        return response

    app = web.Application()
    app.router.add_post("/mcp", handle)
    serve_aiohttp(app)


async def application(scope: Message, receive: Any, send: Any) -> None:
    """The bare handler of an ASGI server, for calls: what asks and what streams is not compared there."""
    if scope["type"] == "lifespan":
        for step in ("startup", "shutdown"):
            await receive()
            await send({"type": f"lifespan.{step}.complete"})
        return
    body = b""
    more = True
    while more:
        part = await receive()
        body += part["body"]
        more = part["more_body"]
    given = answer(decode(body))
    status, said = (202, b"") if given is None else (200, given)
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(said))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": said})


def asgi() -> None:
    """Serve it under uvicorn."""
    from serving_asgi import serve_asgi

    serve_asgi(application)


def on_trio() -> None:
    """Serve it under hypercorn, with its worker for trio."""
    import trio
    from hypercorn.config import Config
    from hypercorn.trio import serve

    config = Config()
    config.bind = ["127.0.0.1:0"]
    config.loglevel = "ERROR"

    async def listen() -> None:
        async with trio.open_nursery() as nursery:
            (address,) = await nursery.start(serve, application, config)
            workload.announce(int(address.rpartition(":")[2]))

    trio.run(listen)


def event(message: bytes) -> bytes:
    """The message as an event of a stream."""
    return b"".join((b"event: message\ndata: ", message, b"\n\n"))


def stdio() -> None:
    """Serve the standard input and output."""
    asked: dict[str, Message] = {}
    write, flush = sys.stdout.buffer.write, sys.stdout.buffer.flush
    for line in sys.stdin.buffer:
        message = decode(line)
        if "result" in message:
            given: Any = greet(asked.pop(message["id"]), message)
        else:
            given = answer(message)
        if isinstance(given, Asked):
            asked[given.question["id"]] = message
            given = encode(given.question)
        for one in [given] if type(given) is bytes else given or ():
            write(one + b"\n")
        flush()


if __name__ == "__main__":
    workload.main(http=http, trio=on_trio, asgi=asgi, stdio=stdio)

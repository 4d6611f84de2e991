"""The official Python SDK's client, and FastMCP's, which has the former's session inside."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Mapping
from contextlib import asynccontextmanager
from typing import Any, ClassVar

import fastmcp
import mcp_types as types
from fastmcp.client.elicitation import ElicitResult
from fastmcp.client.transports import SSETransport, StdioTransport, StreamableHttpTransport
from mcp import Client, ClientSession, MCPError, StdioServerParameters
from mcp.client.sse import sse_client
from mcp.client.stdio import stdio_client
from mcp.client.subscriptions import Subscription, SubscriptionLost, listen

from .peers import JSON, Ask, Declined, Listening, Peer, Progress, Refused, Where, quietly

CLIENT = types.Implementation(name="tester", version="3")


def wire(model: Any) -> JSON:
    """The JSON of a model, without what was not set."""
    return model.model_dump(mode="json", by_alias=True, exclude_unset=True)


async def answer(request: Awaitable[Any]) -> JSON:
    """The JSON of what a request comes to. Raises `Refused`."""
    async with quietly():
        try:
            return wire(await request)
        except MCPError as error:
            raise Refused(wire(error.error)) from None


def reference(ref: JSON) -> Any:
    """A completion's reference."""
    kind = types.PromptReference if ref["type"] == "ref/prompt" else types.ResourceTemplateReference
    return kind.model_validate(ref)


class Sessioned(Peer):
    """What both clients leave to the session of the official SDK, or do in the same words."""

    client: Any

    @property
    def session(self) -> ClientSession:
        """The session inside."""
        return self.client.session

    async def hear(self, message: Any) -> None:
        """Keep a notification."""
        if isinstance(message, Exception):
            raise message
        self.heard.add(wire(message))

    @property
    def revision(self) -> str:
        return self.session.protocol_version or ""

    @property
    def server(self) -> JSON:
        session = self.session
        described = {"serverInfo": session.server_info, "capabilities": session.server_capabilities}
        return {name: wire(model) for name, model in described.items()} | {"instructions": session.instructions}

    async def ping(self) -> JSON:
        return await answer(self.session.send_ping())

    async def set_log_level(self, level: Any) -> JSON:
        async with quietly():
            return await answer(self.client.session.set_logging_level(level))

    async def subscribe(self, uri: str) -> JSON:
        async with quietly():
            return await answer(self.session.subscribe_resource(uri))

    async def unsubscribe(self, uri: str) -> JSON:
        async with quietly():
            return await answer(self.session.unsubscribe_resource(uri))

    async def roots_changed(self) -> None:
        async with quietly():
            await self.client.send_roots_list_changed()

    @asynccontextmanager
    async def listen(self, **notifications: JSON) -> AsyncIterator[Listening]:
        async with listen(self.session, **notifications) as subscription:
            ending = asyncio.create_task(ended(subscription))
            yield Listening(wire(subscription.honored), ending)
            ending.cancel()


async def ended(subscription: Subscription) -> Any:
    """How a subscription ended, as soon as it has. What it tells of meanwhile the message handler hears as well."""
    try:
        async for _ in subscription:
            pass
    except SubscriptionLost:
        return "remote"
    return "graceful"


class Official(Sessioned):
    """The official SDK's `Client`."""

    name: ClassVar[str] = "python"

    @classmethod
    @asynccontextmanager
    async def connect(cls, mode: str, where: Where, *, ask: Ask | None, log_level: Any) -> AsyncIterator[Official]:
        """A connected client. `mode` is the SDK's own."""
        peer = cls()

        async def elicitation(_: Any, params: Any) -> Any:
            try:
                return types.ElicitResult.model_validate(ask("elicitation/create", wire(params)))
            except Declined as declined:
                return types.ErrorData(code=types.INTERNAL_ERROR, message=str(declined))

        async def sampling(_: Any, params: Any) -> Any:
            return types.CreateMessageResult.model_validate(ask("sampling/createMessage", wire(params)))

        async def roots(_: Any) -> Any:
            return types.ListRootsResult.model_validate(ask("roots/list", {}))

        if where.transport == "http":
            server: Any = where.url
        elif where.transport == "sse":
            server = sse_client(where.url)
        else:
            command, *arguments = where.command
            server = stdio_client(StdioServerParameters(command=command, args=arguments), errlog=sys.stderr)
        callbacks: dict[str, Any] = {
            "elicitation_callback": elicitation,
            "sampling_callback": sampling,
            "list_roots_callback": roots,
        }
        peer.client = Client(
            server,
            mode=mode,
            client_info=CLIENT,
            message_handler=peer.hear,
            log_level=log_level,
            **(callbacks if ask else {}),
        )
        async with peer.client:
            yield peer

    async def page(self, kind: str, cursor: str | None) -> JSON:
        requests = {
            "tools": self.client.list_tools,
            "resources": self.client.list_resources,
            "resourceTemplates": self.client.list_resource_templates,
            "prompts": self.client.list_prompts,
        }
        return await answer(requests[kind](cursor=cursor))

    async def items(self, kind: str) -> list[JSON]:
        found, page = [], await self.page(kind, None)
        found += page[kind]
        while "nextCursor" in page:
            page = await self.page(kind, page["nextCursor"])
            found += page[kind]
        return found

    async def call(self, name: str, arguments: JSON = None, progress: Progress | None = None) -> JSON:
        return await answer(self.client.call_tool(name, arguments or {}, progress_callback=reporting(progress)))

    async def read(self, uri: str) -> JSON:
        return await answer(self.client.read_resource(uri))

    async def prompt(self, name: str, arguments: Mapping[str, str] | None = None) -> JSON:
        return await answer(self.client.get_prompt(name, dict(arguments or {})))

    async def complete(self, ref: JSON, argument: JSON, context: Mapping[str, str] | None = None) -> JSON:
        return await answer(self.client.complete(reference(ref), argument, dict(context) if context else None))


class FastMcp(Sessioned):
    """FastMCP's `Client`."""

    name: ClassVar[str] = "fastmcp"

    @classmethod
    @asynccontextmanager
    async def connect(cls, mode: str, where: Where, *, ask: Ask | None, log_level: Any) -> AsyncIterator[FastMcp]:
        """A connected client. `mode` is FastMCP's own; it always asks to hear everything."""
        peer = cls()

        async def elicitation(_: str, __: Any, params: Any, ___: Any) -> Any:
            made = ask("elicitation/create", wire(params))
            return ElicitResult(action=made["action"], content=made.get("content"))

        async def sampling(_: Any, params: Any, __: Any) -> Any:
            return types.CreateMessageResult.model_validate(ask("sampling/createMessage", wire(params)))

        async def roots(_: Any) -> Any:
            return [types.Root.model_validate(root) for root in ask("roots/list", {})["roots"]]

        async def logged(_: Any) -> None:
            """The message handler hears of it as well."""

        if where.transport == "http":
            transport: Any = StreamableHttpTransport(where.url)
        elif where.transport == "sse":
            transport = SSETransport(where.url)
        else:
            command, *arguments = where.command
            transport = StdioTransport(command, arguments, keep_alive=False)
        handlers: dict[str, Any] = {"elicitation_handler": elicitation, "sampling_handler": sampling, "roots": roots}
        peer.client = fastmcp.Client(
            transport,
            mode=mode,
            client_info=CLIENT,
            message_handler=peer.hear,
            log_handler=logged,
            **(handlers if ask else {}),
        )
        async with peer.client:
            yield peer

    async def page(self, kind: str, cursor: str | None) -> JSON:
        requests = {
            "tools": self.client.list_tools_mcp,
            "resources": self.client.list_resources_mcp,
            "resourceTemplates": self.client.list_resource_templates_mcp,
            "prompts": self.client.list_prompts_mcp,
        }
        return await answer(requests[kind](cursor=cursor))

    async def items(self, kind: str) -> list[JSON]:
        requests = {
            "tools": self.client.list_tools,
            "resources": self.client.list_resources,
            "resourceTemplates": self.client.list_resource_templates,
            "prompts": self.client.list_prompts,
        }
        return [wire(item) for item in await requests[kind]()]

    async def call(self, name: str, arguments: JSON = None, progress: Progress | None = None) -> JSON:
        return await answer(self.client.call_tool_mcp(name, arguments or {}, progress_handler=reporting(progress)))

    async def read(self, uri: str) -> JSON:
        return await answer(self.client.read_resource_mcp(uri))

    async def prompt(self, name: str, arguments: Mapping[str, str] | None = None) -> JSON:
        return await answer(self.client.get_prompt_mcp(name, dict(arguments or {})))

    async def complete(self, ref: JSON, argument: JSON, context: Mapping[str, str] | None = None) -> JSON:
        return await answer(self.client.complete_mcp(reference(ref), argument, dict(context) if context else None))

    async def ping(self) -> JSON:
        try:
            return {} if await self.client.ping() else {"ping": False}
        except MCPError as error:
            raise Refused(wire(error.error)) from None


def reporting(progress: Progress | None) -> Any:
    """The SDK's form of a progress callback."""
    if progress is None:
        return None

    async def report(done: float, total: float | None, message: str | None) -> None:
        progress(done, total, message)

    return report

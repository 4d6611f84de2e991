"""The official TypeScript SDK's client, in a process of its own; driver.mjs says what passes between."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, ClassVar

import support

from .peers import JSON, LISTS, Ask, Declined, Listening, NotSent, Peer, Progress, Refused, Where

DRIVER = str(Path(__file__).with_name("driver.mjs"))
#: Far more than a line of these tests has.
LONGEST = 2**26
FILTER = {
    "tools_list_changed": "toolsListChanged",
    "prompts_list_changed": "promptsListChanged",
    "resources_list_changed": "resourcesListChanged",
    "resource_subscriptions": "resourceSubscriptions",
}


class TypeScript(Peer):
    """The client of the package ``@modelcontextprotocol/client``."""

    name: ClassVar[str] = "typescript"

    def __init__(self, process: asyncio.subprocess.Process, ask: Ask | None, log_level: str | None) -> None:
        super().__init__()
        self._process = process
        self._ask = ask
        self._meta = {"_meta": {"io.modelcontextprotocol/logLevel": log_level}} if log_level else {}
        self._waiting: dict[int, asyncio.Future[JSON]] = {}
        self._progress: dict[int, Progress] = {}
        self._last = 0
        self._connected: JSON = {}

    @classmethod
    @asynccontextmanager
    async def connect(
        cls, era: str, where: Where, *, ask: Ask | None, log_level: str | None
    ) -> AsyncIterator[TypeScript]:
        """A connected client."""
        process = await asyncio.create_subprocess_exec(
            support.need_node(), DRIVER, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=LONGEST
        )
        peer = cls(process, ask, log_level)
        reading = asyncio.create_task(peer._read())
        mode = {"legacy": "legacy", "modern": "auto", "auto": "auto"}.get(era, {"pin": era})
        try:
            peer._connected = await peer._do(
                "connect", mode=mode, asks=ask is not None, kind=where.transport, url=where.url, command=where.command
            )
            yield peer
            await peer._do("close")
        finally:
            assert process.stdin is not None
            process.stdin.close()
            await process.wait()
            await reading

    async def _read(self) -> None:
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            message = json.loads(line)
            if "ask" in message:
                self._answer(message)
            elif "notification" in message:
                self.heard.add(message["notification"])
            elif "progress" in message:
                report = message["progress"]
                self._progress[message["id"]](report["progress"], report.get("total"), report.get("message"))
            elif (waiting := self._waiting.pop(message["id"], None)) and not waiting.done():
                waiting.set_result(message)

    def _answer(self, message: JSON) -> None:
        assert self._ask is not None
        try:
            answer = {"result": self._ask(message["method"], message["params"])}
        except Declined as declined:
            answer = {"refusal": str(declined)}
        self._say({"answer": message["ask"], **answer})

    def _say(self, message: JSON) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message).encode() + b"\n")

    async def _do(self, op: str, *, progress: Progress | None = None, **given: JSON) -> JSON:
        self._last = number = self._last + 1
        waiting = self._waiting[number] = asyncio.get_running_loop().create_future()
        if progress is not None:
            self._progress[number] = progress
        self._say({"id": number, "op": op, "reports": progress is not None, **given})
        try:
            message = await waiting
        except asyncio.CancelledError:
            self._say({"abort": number})
            raise
        if "error" not in message:
            return message["result"]
        error = message["error"]
        if isinstance(error["code"], int):
            raise Refused({key: error[key] for key in ("code", "message", "data") if key in error})
        if error["code"] == "METHOD_NOT_SUPPORTED_BY_PROTOCOL_VERSION":
            raise NotSent(error["message"])
        raise RuntimeError(error["stack"])

    @property
    def revision(self) -> str:
        return self._connected["revision"]

    @property
    def server(self) -> JSON:
        return self._connected["server"]

    async def items(self, kind: str) -> list[JSON]:
        return await self._do("items", kind=kind)

    async def page(self, kind: str, cursor: str | None) -> JSON:
        return await self._do("page", method=LISTS[kind], params={} if cursor is None else {"cursor": cursor})

    async def call(self, name: str, arguments: JSON = None, progress: Progress | None = None) -> JSON:
        params = {"name": name, "arguments": arguments or {}, **self._meta}
        return await self._do("call", params=params, progress=progress)

    async def read(self, uri: str) -> JSON:
        return await self._do("read", params={"uri": uri})

    async def prompt(self, name: str, arguments: Mapping[str, str] | None = None) -> JSON:
        return await self._do("prompt", params={"name": name, "arguments": dict(arguments or {})})

    async def complete(self, ref: JSON, argument: JSON, context: Mapping[str, str] | None = None) -> JSON:
        held = {"context": {"arguments": dict(context)}} if context else {}
        return await self._do("complete", params={"ref": ref, "argument": argument, **held})

    async def ping(self) -> JSON:
        return await self._do("ping")

    async def set_log_level(self, level: str) -> JSON:
        return await self._do("setLogLevel", level=level)

    async def subscribe(self, uri: str) -> JSON:
        return await self._do("subscribe", uri=uri)

    async def unsubscribe(self, uri: str) -> JSON:
        return await self._do("unsubscribe", uri=uri)

    @asynccontextmanager
    async def listen(self, **notifications: Any) -> AsyncIterator[Listening]:
        honored = await self._do("listen", filter={FILTER[name]: value for name, value in notifications.items()})
        yield Listening(honored, asyncio.create_task(self._do("ended")))
        await self._do("unlisten")

    async def roots_changed(self) -> None:
        await self._do("rootsChanged")

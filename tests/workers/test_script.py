"""A client cannot tell one worker from four: one script of exchanges, and all that comes back compared whole."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import speak
import support
from many_workers import ENGINES, Engines, Fleet, fleet, trio_fleet, without_chance
from mcp_sansio import elicit_accept, elicit_decline
from sockets import Client, PairClient, Stream

SEALED = [bytes(range(32)).hex()]
RYE, OAT = "bread://rye", "bread://oat"


class Talk:
    """A client, and the record of everything that was said to it."""

    def __init__(self, held: Fleet, version: str) -> None:
        self.fleet = held
        self.client: Client = held.client(version)
        self.said: list[str] = []

    def note(self, *what: object) -> None:
        self.said.append(" ".join(map(str, what)))

    async def send(self, method: str, message: Any = None, **options: Any) -> Any:
        """Send something, and note the whole response."""
        answer = await self.client.send(method, message, **options)
        self.note(answer.status, sorted(answer.headers.items()), answer.body.decode())
        if answer.headers.get("Mcp-Session-Id"):
            self.client.session = answer.headers["Mcp-Session-Id"]
        return answer.messages[-1] if answer.messages else None

    async def request(self, method: str, params: Any = None, **options: Any) -> Any:
        return await self.send("POST", self.client.message(method, params, **options))

    async def call(self, name: str, arguments: Any = None, *, token: Any = None, **more: Any) -> Any:
        return await self.request("tools/call", {"name": name, "arguments": arguments or {}, **more}, token=token)

    @asynccontextmanager
    async def stream(self, message: Any = None, **options: Any) -> AsyncIterator[Stream]:
        """A response that is read while it comes in; what is read of it is noted by `read`."""
        async with self.client.streaming(message, **options) as stream:
            self.note(stream.response.status, stream.response.headers["Content-Type"])
            yield stream

    async def read(self, stream: Stream, count: int | None = None) -> Any:
        """Read so many events, or all to the end; the last one's message."""
        message = None
        while count is None or count > 0:
            event = await stream.event()
            if event is None:
                self.note("the end")
                break
            self.note(event)
            if event.data:
                message = speak.decode(event.data)
                count = None if count is None else count - 1
        return message


Script = Callable[[Talk], Awaitable[None]]


async def handshake(talk: Talk) -> None:
    if talk.client.adapter.has_handshake:
        await talk.send("POST", talk.client.initialize(), headers={"MCP-Protocol-Version": None})
        await talk.send("POST", speak.notification("notifications/initialized"))
    else:
        await talk.request("server/discover")


async def lists(talk: Talk) -> None:
    for kind in ("tools", "resources", "prompts", "resources/templates"):
        await talk.request(f"{kind}/list")
    await talk.request("resources/read", {"uri": RYE})
    await talk.request("tools/call", {"name": "nothing", "arguments": {}})


async def sessions(talk: Talk) -> None:
    if talk.client.adapter.has_handshake:
        for _ in range(5):
            await talk.call("count")
    handle = (await talk.call("keep"))["result"]["content"][0]["text"].split()[0]
    for _ in range(3):
        await talk.call("keep", {"handle": handle})
    await talk.call("keep", {"handle": "0" * 32})


async def logging(talk: Talk) -> None:
    for level in ("debug", "error", "warning"):
        if talk.client.adapter.has_handshake:
            await talk.request("logging/setLevel", {"level": level})
        else:
            talk.client.log_level = level
        for _ in range(3):
            await talk.call("say")


async def asking(talk: Talk) -> None:
    """However the revision asks: pushed, in the result, in the arguments."""
    client = talk.client
    if client.adapter.can_push_ask:
        for action in (elicit_accept(), elicit_decline()):
            async with talk.stream(client.calling("order")) as stream:
                for _ in range(2):
                    question = await talk.read(stream, 1)
                    if question is None or "method" not in question:
                        break  # nobody can be asked here
                    await talk.send("POST", {"jsonrpc": "2.0", "id": question["id"], "result": action})
                await talk.read(stream)
        return
    for tool, arguments, key in (("order", {}, "rye"), ("refund", {"amount": 5}, "sure")):
        asked = (await talk.call(tool, arguments))["result"]
        while (needed := needed_in(asked)) is not None:
            key = next(iter(needed["inputRequests"]))
            answers, state = {key: elicit_accept()}, needed.get("requestState")
            if client.adapter.has_handshake:
                said = {"mcpAnswers": answers} | ({} if state is None else {"mcpState": state})
                asked = (await talk.call(tool, {**arguments, **said}))["result"]
            else:
                said = {"inputResponses": answers} | ({} if state is None else {"requestState": state})
                asked = (await talk.call(tool, arguments, **said))["result"]
            # What another call left is good for nothing here.
            wrong = {"mcpAnswers": answers, "mcpState": state} if client.adapter.has_handshake else {}
            more = {} if client.adapter.has_handshake else {"inputResponses": answers, "requestState": state}
            if state is not None:
                await talk.call("refund", {"amount": 6, **wrong}, **more)


def needed_in(result: Any) -> Any:
    """What a result asks for, or ``None``."""
    return result if "inputRequests" in result else result.get("_meta", {}).get("mcp-sansio/input-required")


async def changes(talk: Talk) -> None:
    client = talk.client
    if client.adapter.has_handshake:
        await talk.request("resources/subscribe", {"uri": RYE})
        async with talk.stream(method="GET") as stream:
            await talk.call("update")
            await talk.read(stream, 1)
            await talk.request("resources/subscribe", {"uri": OAT})
            await talk.call("update", {"uri": OAT})
            await talk.read(stream, 1)
            await talk.request("resources/unsubscribe", {"uri": RYE})
            await talk.call("update")
            await talk.call("change")
            await talk.read(stream, 1)
            stream.leave()
        return
    wanted = {"promptsListChanged": True, "resourceSubscriptions": [RYE]}
    async with talk.stream(client.message("subscriptions/listen", {"notifications": wanted}, id="L")) as stream:
        await talk.read(stream, 1)
        for tool in ("update", "change"):
            await talk.call(tool)
            await talk.read(stream, 1)
        stream.leave()


async def coming_back(talk: Talk) -> None:
    """The stream of a call is lost twice, and each time its client comes back for the rest."""
    client = talk.client
    async with talk.stream(client.calling("slow", token="t", at=client.version)) as stream:
        await talk.read(stream, 1)
        last = stream.last_id
        if client.adapter.resumes_streams:
            stream.leave()
        else:
            talk.fleet.open_gate(f"{client.version}-1")
            talk.fleet.open_gate(f"{client.version}-2")
            await talk.read(stream)
            return
    talk.fleet.open_gate(f"{client.version}-1")
    async with talk.stream(method="GET", headers={"Last-Event-ID": last}) as stream:
        await talk.read(stream, 1)
        last = stream.last_id
        stream.leave()
    talk.fleet.open_gate(f"{client.version}-2")
    for event_id in (last, last, f"{last}0"):
        async with talk.stream(method="GET", headers={"Last-Event-ID": event_id}) as stream:
            if stream.response.status == 200:
                await talk.read(stream)
            else:
                talk.note(await stream.response.text())


async def cancelling(talk: Talk) -> None:
    client = talk.client
    async with talk.stream(client.calling("slow", id="c", token="t", at="never")) as stream:
        await talk.read(stream, 1)
        if client.adapter.has_handshake:
            await talk.send("POST", speak.notification("notifications/cancelled", {"requestId": "c"}))
            await talk.read(stream)
        else:
            stream.leave()


async def the_end(talk: Talk) -> None:
    """A session's end is the end of its streams, wherever they are."""
    if not talk.client.adapter.has_handshake:
        return
    async with talk.stream(method="GET") as stream:
        await talk.send("DELETE")
        await talk.read(stream)
    await talk.request("tools/list")
    await talk.send("DELETE")


async def the_first_transport(talk: Talk) -> None:
    """A stream at one worker, and messages that come in anywhere."""
    if talk.client.version != speak.VERSIONS[-1]:
        return
    async with PairClient(talk.fleet.site).open() as client:
        for method in ("tools/list", "ping", "resources/list"):
            talk.note(await client.request(client.message(method)))
        asked = await client.call("refund", amount=5)
        talk.note(asked)
        needed = needed_in(asked["result"])
        answers = {"mcpAnswers": {"sure": elicit_accept()}, "mcpState": needed["requestState"]}
        talk.note(await client.call("refund", amount=5, **answers))
        async with talk.client.site.http.post(talk.client.site.url + client.where + "0", data=b"{}") as refused:
            talk.note(refused.status, await refused.text())


SCRIPTS: tuple[Script, ...] = (
    handshake, lists, sessions, logging, asking, changes, coming_back, cancelling, the_end, the_first_transport,
)  # fmt: skip


async def told(
    deployment: AbstractAsyncContextManager[Fleet], scripts: tuple[Script, ...] = SCRIPTS
) -> dict[str, list[str]]:
    """All that is said in the scripts to the workers of a deployment, by revision."""
    said = {}
    async with deployment as held:
        for version in speak.VERSIONS:
            talk = Talk(held, version)
            for script in scripts:
                talk.note(f"-- {script.__name__}")
                await script(talk)
            said[version] = without_chance("\n".join(talk.said)).splitlines()
        assert held.errors() == ""
    return said


@pytest.mark.parametrize("state", ["stored", "sealed"])
@pytest.mark.parametrize("engine", ENGINES)
async def test_a_client_cannot_tell_one_worker_from_four(
    engine: str, state: str, engines: Engines, tmp_path: Path
) -> None:
    sealed = {"sealed": SEALED} if state == "sealed" else {}
    one = await told(fleet(1, tmp_path / "one", **engines.options(engine) | sealed))
    four = await told(fleet(4, tmp_path / "four", **engines.options(engine) | sealed))
    assert_alike(one, four)


async def test_nor_on_trio(tmp_path: Path) -> None:
    """What they share is in memory: the libraries of the engines are asyncio's."""
    assert_alike(await told(trio_fleet(1, tmp_path / "one")), await told(trio_fleet(4, tmp_path / "four")))


SHARING_NOTHING: tuple[Script, ...] = (handshake, lists, logging, asking)


async def test_nor_where_they_share_a_key_and_nothing_else(tmp_path: Path) -> None:
    support.need("cryptography")
    config = {"opens_sessions": False, "announces_changes": False}
    options = {"engine": "memory", "sealed": SEALED, "config": config}
    one = await told(fleet(1, tmp_path / "one", **options), SHARING_NOTHING)
    assert_alike(one, await told(fleet(4, tmp_path / "four", **options), SHARING_NOTHING))


def assert_alike(one: dict[str, list[str]], four: dict[str, list[str]]) -> None:
    """Both are the same, and something."""
    for version in speak.VERSIONS:
        assert four[version] == one[version]
        assert len(one[version]) > 20

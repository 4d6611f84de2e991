"""What every client does with a server: list, call, read, prompt, complete, report, give up, and be refused."""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import quote

import pytest

from . import expected
from .conftest import Connect, Target, need_some_client
from .expected import LIST_HINT, READ_HINT, result, text
from .peers import NotSent, Peer, Refused

need_some_client()
JSON = Any


def is_modern(peer: Peer) -> bool:
    return peer.revision == "2026-07-28"


async def test_the_server_is_described(meet: Connect, target: Target) -> None:
    async with meet() as peer:
        assert peer.revision == ("2026-07-28" if target.era == "modern" else "2025-11-25")
        assert peer.server == expected.DESCRIBED


async def test_lists(meet: Connect) -> None:
    async with meet() as peer:
        tools = await peer.items("tools")
        assert [tool["name"] for tool in tools] == expected.TOOL_NAMES
        wanted = expected.tools(modern=is_modern(peer))
        assert {tool["name"]: tool for tool in tools if tool["name"] in wanted} == wanted
        assert await peer.items("resources") == expected.RESOURCES
        assert await peer.items("resourceTemplates") == expected.TEMPLATES
        assert await peer.items("prompts") == expected.PROMPTS


async def test_pages(meet: Connect) -> None:
    async with meet() as peer:
        pages = [await peer.page("tools", None)]
        while "nextCursor" in pages[-1]:
            pages.append(await peer.page("tools", pages[-1]["nextCursor"]))
        named = [[tool["name"] for tool in page.pop("tools")] for page in pages]
        assert named == [expected.TOOL_NAMES[at : at + 10] for at in (0, 10, 20)]
        cursors = [page.pop("nextCursor", None) for page in pages]
        assert [isinstance(cursor, str) for cursor in cursors] == [True, True, False]
        assert pages == [result(peer, {}, LIST_HINT)] * 3
        with pytest.raises(Refused) as refused:
            await peer.page("tools", "nonsense")
        assert refused.value.error == {"code": -32602, "message": "cursor was not given out by this server"}


async def test_calls(meet: Connect) -> None:
    async with meet() as peer:
        assert await peer.call("add", {"a": 2, "b": 40}) == text(peer, "42")
        days = [{"degrees": 20.5, "sky": "clear"}] * 2
        forecast = {"city": "Łódź", "days": days, "source": None}
        told = await peer.call("forecast", {"city": "Łódź", "days": 2})
        said = '{"city":"Łódź","days":[{"degrees":20.5,"sky":"clear"},{"degrees":20.5,"sky":"clear"}],"source":null}'
        content = [{"type": "text", "text": said}]
        assert told == result(peer, {"content": content, "structuredContent": forecast})
        structured = {"structuredContent": [1, 2, 3]} if is_modern(peer) else {}
        numbers = {"content": [{"type": "text", "text": "[1,2,3]"}], **structured}
        assert await peer.call("numbers") == result(peer, numbers)


async def test_content_of_every_kind(meet: Connect) -> None:
    async with meet() as peer:
        assert await peer.call("gallery") == result(peer, {"content": expected.GALLERY})
        whole = {"content": [{"type": "text", "text": "whole"}], "structuredContent": {"is": "whole"}}
        assert await peer.call("whole") == result(peer, {**whole, "_meta": {"example.org/mark": 1}})


async def test_large_and_foreign_text(meet: Connect, target: Target) -> None:
    async with meet() as peer:
        # The official Python client takes 1 MiB in one event of a stream at most; a reply in JSON may be larger.
        said = '\u2028\u0000\x7f"\\\n\r 𝄞 漢字 ' + "x" * (2**21 if target.transport == "http" else 2**19)
        assert await peer.call("echo", {"text": said}) == text(peer, said)


async def test_calls_at_the_same_time(meet: Connect) -> None:
    async with meet() as peer:
        results = await asyncio.gather(*(peer.call("add", {"a": number, "b": number}) for number in range(50)))
        assert results == [text(peer, str(2 * number)) for number in range(50)]


async def test_tools_that_fail(meet: Connect) -> None:
    async with meet() as peer:

        def failure(said: str) -> JSON:
            return result(peer, {"content": [{"type": "text", "text": said}], "isError": True})

        assert await peer.call("fail", {"how": "told"}) == failure("The oven is cold.")
        assert await peer.call("fail", {"how": "crashed"}) == failure("The tool failed because of an internal error.")
        wrong = await peer.call("add", {"a": "2"})
        assert wrong == failure("Invalid arguments: $.a: must be an integer, not a string; $.b: is required")


async def test_refusals(meet: Connect) -> None:
    async with meet() as peer:
        modern = is_modern(peer)
        with pytest.raises(Refused) as refused:
            await peer.call("nothing")
        assert refused.value.error == {"code": -32602, "message": "there is no tool named 'nothing'"}
        for uri in ("note://nowhere", "city://Atlantis/weather"):
            with pytest.raises(Refused) as refused:
                await peer.read(uri)
            # The TypeScript SDK shows the code of newer revisions, whichever of the two came in.
            code = -32602 if modern or peer.name == "typescript" else -32002
            assert refused.value.error == {"code": code, "message": "resource not found", "data": {"uri": uri}}
        with pytest.raises(Refused) as refused:
            await peer.prompt("nothing")
        assert refused.value.error == {"code": -32602, "message": "there is no prompt named 'nothing'"}
        with pytest.raises(Refused) as refused:
            await peer.prompt("greet")
        assert refused.value.error == {"code": -32602, "message": "Invalid arguments: $.name: is required"}


async def test_resources(meet: Connect) -> None:
    async with meet() as peer:
        contents = {"uri": "note://welcome", "mimeType": "text/plain", "text": "Welcome!"}
        assert await peer.read("note://welcome") == result(peer, {"contents": [contents]}, READ_HINT)
        contents = {"uri": "note://logo", "mimeType": "image/png", "blob": "iVBORw=="}
        assert await peer.read("note://logo") == result(peer, {"contents": [contents]}, READ_HINT)
        for city in ("Pau", "Łódź", "a%20b"):
            uri = f"city://{city}/weather"
            said = f"{city.replace('%20', ' ')}: clear"
            # FastMCP sends what pydantic's AnyUrl makes of a URI, and is answered for that.
            sent = f"city://{quote(city, safe='%')}/weather" if peer.name == "fastmcp" else uri
            contents = {"uri": sent, "mimeType": "text/plain", "text": said}
            assert await peer.read(uri) == result(peer, {"contents": [contents]}, READ_HINT)


async def test_prompts(meet: Connect) -> None:
    async with meet() as peer:
        for arguments, style in (({"name": "Ada"}, "formal"), ({"name": "Ada", "style": "casual"}, "casual")):
            asked = {"type": "text", "text": f"Greet Ada in a {style} way."}
            messages = [
                {"role": "user", "content": asked},
                {"role": "assistant", "content": {"type": "text", "text": "With pleasure."}},
            ]
            made = result(peer, {"description": "A greeting", "messages": messages})
            assert await peer.prompt("greet", arguments) == made


async def test_completion(meet: Connect) -> None:
    async with meet() as peer:
        greet = {"type": "ref/prompt", "name": "greet"}
        styles = await peer.complete(greet, {"name": "style", "value": "f"})
        assert styles == result(peer, {"completion": {"values": ["formal", "friendly"]}})
        names = await peer.complete(greet, {"name": "name", "value": "A"}, {"style": "casual"})
        assert names == result(peer, {"completion": {"values": ["A-casual"], "total": 7, "hasMore": True}})
        template = {"type": "ref/resource", "uri": "city://{name}/weather"}
        cities = await peer.complete(template, {"name": "name", "value": "Pa"})
        assert cities == result(peer, {"completion": {"values": ["Paris", "Pau"]}})


async def test_progress(meet: Connect, target: Target) -> None:
    async with meet() as peer:
        reports: list[JSON] = []
        complete = asyncio.Event()

        def report(*reported: JSON) -> None:
            reports.append(reported)
            if len(reports) == 3:
                complete.set()

        call = asyncio.create_task(peer.call("report", {"steps": 3, "name": str(target)}, report))
        await complete.wait()
        assert await peer.call("release", {"name": str(target)}) == text(peer, "released")
        assert await call == text(peer, "reported")
        assert reports == [(1, 3, "step 1"), (2, 3, "step 2"), (3, 3, "step 3")]


async def test_log_messages(meet: Connect) -> None:
    async with meet(log_level="info") as peer:
        if not is_modern(peer):
            assert await peer.set_log_level("info") == {}
        assert await peer.call("log") == text(peer, "logged")
        logged = await peer.heard.take("notifications/message")
        if peer.name == "fastmcp" and is_modern(peer):
            # It asks to hear everything, whatever it was told.
            assert logged["params"] == {"level": "debug", "data": "in detail"}
            logged = await peer.heard.take("notifications/message")
        params = {"level": "warning", "logger": "log", "data": {"steps": 1}}
        assert logged == {"method": "notifications/message", "params": params}


async def test_a_reply_that_takes_long(meet: Connect) -> None:
    async with meet() as peer:
        assert await peer.call("slow") == text(peer, "slow")


async def test_a_call_that_is_given_up(meet: Connect, target: Target) -> None:
    async with meet() as peer:
        waiting = asyncio.Event()
        call = asyncio.create_task(peer.call("wait", {"name": str(target)}, lambda *_: waiting.set()))
        await waiting.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert await peer.call("was_cancelled", {"name": str(target)}) == text(peer, "given up")


async def test_ping(meet: Connect) -> None:
    async with meet() as peer:
        if not is_modern(peer):
            assert await peer.ping() == {}
        elif peer.name == "typescript":
            with pytest.raises(NotSent):
                await peer.ping()
        else:
            with pytest.raises(Refused) as refused:
                await peer.ping()
            assert refused.value.error == {"code": -32601, "message": "unknown method: 'ping'"}


async def test_sessions(meet: Connect, target: Target) -> None:
    async with meet() as peer, meet() as other:
        counts = [await one.call("count") for one in (peer, peer, other, peer)]
        # A channel is its own session; what a handler keeps for one belongs to HTTP.
        has_session = target.transport == "http" and target.era == "legacy"
        said = ["1", "2", "1", "3"] if has_session else ["no session"] * 4
        assert counts == [text(peer, one) for one in said]
        assert await peer.call("who") == text(peer, "tester 3")


async def test_arguments_that_http_mirrors(meet: Connect, target: Target) -> None:
    async with meet() as peer:
        if peer.name == "fastmcp" and (target.transport, target.era) == ("http", "modern"):
            # It sends the headers of a tool that it has listed, and does not list it when it is told that they miss.
            with pytest.raises(Refused) as refused:
                await peer.call("nearest", {"region": "eu"})
            assert refused.value.error == {"code": -32020, "message": "the header Mcp-Param-Region is missing"}
        else:
            assert await peer.call("nearest", {"region": "Île-de-France"}) == text(peer, "1 in Île-de-France")
        assert len(await peer.items("tools")) == len(expected.TOOL_NAMES)
        for region in ("eu", " padded ", "漢", "=?base64?YQ==?="):
            nearest = await peer.call("nearest", {"region": region, "limit": 3})
            assert nearest == text(peer, f"3 in {region}")

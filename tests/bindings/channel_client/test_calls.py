"""A client that starts its server, and what it calls: every revision, many at once, servers that say odd things."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

import speak
from child_servers import text_of
from flags import Flag
from mcp_sansio import (
    AdapterSet,
    CallTimeout,
    Change,
    ChangeKind,
    ClientConfig,
    ConnectionLost,
    Known,
    NegotiationFailed,
    ServerError,
    elicit_accept,
    elicit_decline,
)
from worlds import CANCELLED, World

Make = Callable[..., Any]
NEWEST, HANDSHAKE = speak.VERSIONS[0], speak.HANDSHAKE[0]


def only(version: str) -> Any:
    """The adapter of a revision."""
    return AdapterSet.default().by_version[version]


@pytest.mark.parametrize("version", speak.VERSIONS)
class TestEachRevision:
    async def test_describes_lists_and_calls(self, program: Make, version: str) -> None:
        async with program(adapter=only(version)) as client:
            server = await client.initialize()
            assert (server.name, server.version, server.revision) == ("program", "1.0", version)
            assert server.instructions == "Größe — ★ 漢"
            tools = {tool.name: tool for tool in await client.list_tools()}
            assert tools["echo"].input_schema["required"] == ["text"]
            for tool in ("echo", "echo_plainly"):
                assert text_of(await client.call_tool(tool, {"text": "Größe — ★ 漢"})) == "Größe — ★ 漢"
            assert (await client.list_resources(), await client.list_prompts()) == ([], [])
            await client.ping()
            with pytest.raises(ServerError, match="nothing") as raised:
                await client.call_tool("nothing")
            assert raised.value.code == -32602

    async def test_asks_as_it_can(self, program: Make, version: str) -> None:
        asked = []

        def answer(request: Any) -> Any:
            asked.append(request["params"]["message"])
            return elicit_accept({})

        async with program(adapter=only(version), on_ask=answer) as client:
            assert text_of(await client.call_tool("order", {"loaves": 3})) == "ordered 3"
        assert asked == ["Order 3 loaves?"]

    async def test_is_told_no_as_well(self, program: Make, version: str) -> None:
        async def answer(request: Any) -> Any:
            return elicit_decline()

        async with program(adapter=only(version), on_ask=answer) as client:
            assert text_of(await client.call_tool("order", {"loaves": 3})) == "not ordered: decline"

    @pytest.mark.wants("cancel")
    async def test_a_call_that_is_given_up_is_given_up_there_too(
        self, program: Make, world: World, version: str
    ) -> None:
        begun = Flag()
        async with program(adapter=only(version), on_stderr=lambda text: begun.set()) as client:
            async with world.tasks() as tasks:
                waiting = tasks.start(client.call_tool, "wait")
                await begun.wait()
                waiting.cancel()
                assert await waiting.outcome() == CANCELLED
            assert text_of(await client.call_tool("echo", {"text": "next"})) == "next"

    async def test_logs_and_changes_reach_their_callbacks(self, program: Make, world: World, version: str) -> None:
        logged = Flag()
        said: list[Any] = []

        def on_log(level: str, data: Any, logger: str | None) -> None:
            said.append((level, data[:1]))
            logged.set()

        async with program(adapter=only(version), on_log=on_log, log_level="error") as client:
            assert text_of(await client.call_tool("complain")) == "complained"
            await logged.wait()
        assert said[0] == ("error", "x")


async def test_many_calls_are_in_flight_at_once(program: Make, world: World) -> None:
    async with program() as client:
        calls = [partial(client.call_tool, "echo", {"text": str(number)}) for number in range(300)]
        assert [text_of(result) for result in await world.gather(*calls)] == [str(number) for number in range(300)]


async def test_what_was_found_out_need_not_be_asked_again(program: Make) -> None:
    async with program() as client:
        await client.list_tools()
        known = client.known
    assert known == Known(NEWEST)
    async with program(known=Known.from_json(known.to_json())) as client:
        assert text_of(await client.call_tool("echo", {"text": "a"})) == "a"


async def test_a_line_of_five_megabytes_goes_both_ways(program: Make) -> None:
    large = "★" * (5 * 2**20 // 3)
    async with program() as client:
        assert text_of(await client.call_tool("echo", {"text": large})) == large


async def test_more_than_the_pipes_hold_goes_both_ways_at_once(program: Make, world: World) -> None:
    large = "x" * 100_000
    async with program() as client:
        calls = [partial(client.call_tool, "echo", {"text": f"{number} {large}"}) for number in range(60)]
        results = await world.gather(*calls)
        assert [text_of(result).partition(" ")[0] for result in results] == [str(number) for number in range(60)]


UTF_8 = 'text(request(), "Größe — ★ 漢 " + json.dumps(hear()["params"]["arguments"]["text"], ensure_ascii=False))'
LOCALES = [{"LC_ALL": "C"}, {"LC_ALL": "POSIX", "PYTHONIOENCODING": "cp932", "PYTHONUTF8": "0"}]


@pytest.mark.parametrize("locale", LOCALES, ids=str)
async def test_utf_8_whatever_the_locale(program: Make, locale: dict[str, str]) -> None:
    async with program(env={**locale, "PYTHONCOERCECLOCALE": "0"}) as client:
        assert text_of(await client.call_tool("echo", {"text": "né🌍漢\u2028\u0085"})) == "né🌍漢\u2028\u0085"


class TestWhatIsNoMessage:
    """What the server writes besides its messages is passed over, and told to those who debug."""

    @pytest.mark.parametrize(
        "line",
        [
            *(b"Server started", b"{", b"  x: 1", b"}", b"\x1b[32mok\x1b[0m", b"123", b'"str"', b"null", b"[]", b"{}"),
            *(b"\xff\xfe", b"[" * 10_000, b'{"jsonrpc":"2.0","id":"strange","result":{}}', b'{"jsonrpc":"2.0"}'),
        ],
        ids=lambda line: repr(line[:30]),
    )
    async def test_it_is_survived(self, script: Make, line: bytes) -> None:
        async with script(f"say({line!r})\nfirst = request()\nsay({line!r})\ntext(first, 'ok')\nhear()") as client:
            assert text_of(await client.call_tool("any")) == "ok"

    async def test_a_line_over_the_limit_is_skipped(self, script: Make) -> None:
        code = "first = request()\nsay(b'x' * 5000)\ntext(first, 'ok')\nhear()"
        async with script(code, config=ClientConfig(max_message=4096)) as client:
            assert text_of(await client.call_tool("any")) == "ok"

    async def test_crlf_ends_a_line_too(self, script: Make) -> None:
        code = (
            'first = request()\nsay(b\'{"jsonrpc":"2.0","id":%d,"result":{"content":[]}}\\r\' % first[\'id\'])\nhear()'
        )
        async with script(code) as client:
            assert (await client.call_tool("any")).content == []

    async def test_it_is_told_to_those_who_debug(self, script: Make, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level("DEBUG", "mcp_sansio.client")
        async with script("say('Server started')\ntext(request(), 'ok')\nhear()") as client:
            await client.call_tool("any")
        assert "the server sent something wrong: a message that is not JSON" in caplog.text

    async def test_a_flood_of_it_holds_nobody_up(self, script: Make) -> None:
        code = "first = request()\nfor _ in range(20000): say('x' * 100)\ntext(first, 'ok')\nhear()"
        async with script(code) as client:
            assert text_of(await client.call_tool("any")) == "ok"


class TestServersThatMeanHarm:
    async def test_questions_without_end_and_nobody_who_reads_the_answers(self, script: Make) -> None:
        """Neither side's memory fills up, and the call does not wait for its time."""
        code = (
            'request()\nping = b\'{"jsonrpc":"2.0","id":1,"method":"ping"}\\n\' * 1000\n'
            "while True: sys.stdout.buffer.write(ping)"
        )
        async with script(code, config=ClientConfig(max_message=100_000), adapter=only(HANDSHAKE), grace=0.2) as client:
            with pytest.raises(ConnectionLost, match="goes on asking"):
                await client.call_tool("any")

    async def test_a_revision_that_nobody_speaks_is_left(self, script: Make) -> None:
        code = (
            "message = hear()\nresult = {'protocolVersion': '1999-01-01', 'capabilities': {}, 'serverInfo': {}}\n"
            "say({'jsonrpc': '2.0', 'id': message['id'], 'result': result})\nsys.stdin.read()\nos.write(2, b'left')"
        )
        async with script(code, adapter=only(HANDSHAKE)) as client:
            with pytest.raises(NegotiationFailed, match="1999-01-01"):
                await client.initialize()
            with pytest.raises(ConnectionLost):
                await client.initialize()
        assert client.last_words == "left"


class TestTime:
    async def test_a_server_that_says_nothing(self, script: Make) -> None:
        async with script("hear(); hear(); hear(); hear()", config=ClientConfig(probe_timeout=0.05)) as client:
            with pytest.raises(CallTimeout):
                await client.call_tool("any", timeout=0.2)

    async def test_a_late_answer_is_dropped(self, script: Make) -> None:
        code = "first = request()\nsecond = request()\ntext(first, 'late')\ntext(second, 'in time')\nhear(); hear()"
        async with script(code) as client:
            await client.initialize()
            with pytest.raises(CallTimeout):
                await client.call_tool("any", timeout=0.05)
            assert text_of(await client.call_tool("any")) == "in time"

    async def test_a_server_that_is_slow_to_take_what_it_is_sent(self, script: Make, world: World) -> None:
        """The calls wait for it, and it for nothing."""
        code = "calls = [request() for _ in range(40)]\nfor call in calls: text(call, str(call['id']))\nhear()"
        async with script(code) as client:
            results = await world.gather(*[partial(client.call_tool, "any", {"text": "x" * 10_000}) for _ in range(40)])
            assert len({text_of(result) for result in results}) == 40


class TestChanges:
    async def test_are_heard_by_who_listens(self, script: Make) -> None:
        code = (
            "request_ = request()\nreply(request_)\n"
            'say({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": "a:b"}})\nhear()'
        )
        async with script(code) as client, client.listen(uris=["a:b"]) as changes:
            async for change in changes:
                assert change == Change(ChangeKind.RESOURCE_UPDATED, "a:b")
                break


class TestTheOrderOfThings:
    async def test_not_after_it_is_closed(self, program: Make) -> None:
        async with program() as client:
            pass
        with pytest.raises(ConnectionLost, match="closed"):
            await client.list_tools()
        await client.close()

    async def test_another_task_may_close_it(self, program: Make, world: World) -> None:
        """And several may be closed in any order."""
        async with program() as first, program() as second, world.tasks() as tasks:
            for client in (first, second):
                assert text_of(await client.call_tool("echo", {"text": "a"})) == "a"
            assert await tasks.start(first.close).outcome() is None
            assert text_of(await second.call_tool("echo", {"text": "b"})) == "b"
            assert await tasks.start(second.close).outcome() is None

    async def test_what_is_in_flight_ends_when_it_is_closed(self, program: Make, world: World) -> None:
        begun = Flag()
        async with program(on_stderr=lambda text: begun.set()) as client, world.tasks() as tasks:
            waiting = tasks.start(client.call_tool, "wait")
            await begun.wait()
            await client.close()
            lost = await waiting.outcome()
            assert (type(lost), str(lost)) == (ConnectionLost, "the client was closed")

"""Servers that a client starts and that babble, lie, flood or stall: a result, an error of the call, or a clear end."""

from __future__ import annotations

import base64
import json
import tracemalloc
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import speak
from flags import turn
from mcp_sansio import AdapterSet, CallTimeout, ClientConfig, ConnectionLost, Known, McpError, elicit_accept
from plugs import ChannelClient
from worlds import CANCELLED, World

Make = Callable[..., Any]

MIB = 2**20
EXAMPLES = settings(max_examples=150, suppress_health_check=list(HealthCheck))

#: Writes what `say` is called with, whatever it is, and answers everything else.
PARROT = """
import base64
while True:
    call = request()
    given = call.get("params", {}).get("arguments", {})
    if "say" in given:
        sys.stdout.buffer.write(base64.b64decode(given["say"]) + b"\\n")
        sys.stdout.buffer.flush()
    else:
        text(call, "ok") if call["method"] == "tools/call" else reply(call)
"""

IDS = st.one_of(st.integers(-1, 400), st.none(), st.text(max_size=3), st.floats(), st.booleans())
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=8), inner, max_size=3)),
    max_leaves=6,
)
METHODS = st.sampled_from(
    [
        *("ping", "roots/list", "sampling/createMessage", "elicitation/create", "server/discover", "initialize"),
        *(
            f"notifications/{name}"
            for name in ("message", "progress", "cancelled", "initialized", "elicitation/complete")
        ),
        *(f"notifications/{name}/list_changed" for name in ("tools", "prompts", "resources")),
        *("notifications/resources/updated", "notifications/subscriptions/acknowledged", "no/such"),
    ]
)
PARAMS = st.one_of(
    VALUES,
    st.fixed_dictionaries(
        {},
        optional={
            "progressToken": IDS,
            "progress": VALUES,
            "requestId": IDS,
            "level": VALUES,
            "data": VALUES,
            "message": VALUES,
            "requestedSchema": VALUES,
            "messages": VALUES,
            "uri": VALUES,
        },
    ),
)
MESSAGES = st.fixed_dictionaries(
    {"jsonrpc": st.sampled_from(["2.0", "1.0", 2])},
    optional={"id": IDS, "method": METHODS, "params": PARAMS, "result": VALUES, "error": VALUES},
)
LINES = st.one_of(
    st.binary(max_size=40),
    VALUES.map(lambda value: json.dumps(value).encode()),
    MESSAGES.map(lambda message: json.dumps(message).encode()),
    st.lists(MESSAGES, max_size=3).map(lambda batch: json.dumps(batch).encode()),
)


def outcome(result: Any) -> bool:
    """Whether that is how a call may end while the connection lives."""
    return not isinstance(result, BaseException) or (
        isinstance(result, McpError) and not isinstance(result, ConnectionLost | CallTimeout)
    )


def drawn(strategy: st.SearchStrategy[Any]) -> list[Any]:
    """What hypothesis makes of a strategy. The bodies of tests run on loops that it knows nothing of."""
    made: list[Any] = []

    @EXAMPLES
    @given(strategy)
    def take(value: Any) -> None:
        made.append(value)

    take()
    return made


@pytest.mark.parametrize("version", speak.VERSIONS)
@pytest.mark.wants("cancel")
async def test_any_lines_end_no_other_call(
    channel_client: ChannelClient, script: Make, world: World, version: str
) -> None:
    adapter = AdapterSet.default().by_version[version]
    heard = {"on_log": print, "on_progress": print, "on_change": print}
    known = None if adapter.has_handshake else Known(version)
    options = {"adapter": adapter, "known": known, "on_ask": lambda question: elicit_accept({}), **heard}
    async with script(PARROT, **options) as client:
        for lines in drawn(st.lists(LINES, max_size=6)):
            said = base64.b64encode(b"\n".join(lines)).decode()
            async with world.tasks() as tasks:
                odd = tasks.start(client.call_tool, "any", {"say": said})
                other = await tasks.start(client.call_tool, "any").outcome()
                odd.cancel()
                assert await odd.outcome() == CANCELLED or outcome(await odd.outcome()), lines
            assert outcome(other), (lines, other)
        assert (await client.call_tool("any")).content[0].text == "ok"


async def test_a_line_without_end_takes_no_memory_and_the_call_its_time(script: Make) -> None:
    code = "request()\nos.write(2, b'x')\nwhile True: os.write(1, b'x' * 65536)"
    async with script(code, config=ClientConfig(max_message=MIB), grace=0.2) as client:
        await client.initialize()
        tracemalloc.start()
        with pytest.raises(CallTimeout):
            await client.call_tool("any", timeout=0.5)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 8 * MIB


@pytest.mark.parametrize(
    "line",
    [
        b'{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":"x"}}',
        b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":3,"progress":1}}',
        b'{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}',
        b'{"jsonrpc":"2.0","id":99,"result":{}}',
        b"babble",
    ],
    ids=lambda line: line[17:60].decode(),
)
async def test_a_flood_of_anything_holds_no_other_call_up(script: Make, line: bytes) -> None:
    """The loop turns, callbacks that are slow hold nobody up, and memory stays."""
    code = f"first = request()\nsay(b'\\n'.join([{line!r}] * 10_000))\ntext(first, 'ok')\nhear(); hear()"
    seen = 0

    async def slow(*given: Any) -> None:
        nonlocal seen
        seen += 1
        await turn()

    callbacks = {"on_log": slow, "on_change": slow, "on_progress": slow}
    async with script(code, **callbacks, config=ClientConfig(max_message=MIB // 8)) as client:
        await client.initialize()
        tracemalloc.start()
        assert (await client.call_tool("any", timeout=60)).content[0].text == "ok"
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 4 * MIB


@pytest.mark.parametrize("text", ['{"jsonrpc":"2.0","id":3,"result":{"content":[{"type":"text","te', "", "\xff"])
async def test_a_server_that_dies_in_the_middle_of_a_line(script: Make, text: str) -> None:
    async with script(f"request()\nsys.stdout.write({text!r}); sys.stdout.flush(); os._exit(1)") as client:
        with pytest.raises(ConnectionLost, match="status 1"):
            await client.call_tool("any")


async def test_a_server_that_reads_nothing_holds_the_loop_up_no_moment(script: Make, world: World) -> None:
    """What waits to be written waits, and each call for its own time."""
    async with script("request()\ntime.sleep(60)", grace=0.2) as client:
        # The time in which the server starts is none of theirs.
        await client.initialize()
        calls = [partial(client.call_tool, "any", {"text": "x" * 100_000}, timeout=0.5) for _ in range(40)]
        results = await world.gather(*calls)
        assert [type(result) for result in results] == [CallTimeout] * 40

"""HTTP as mcp_sansio_trio speaks it by itself: every wait has its limit, whatever comes in however it is cut.

What peers may do to any server of HTTP is in tests/bindings/http_server. Here trio's clock jumps to the next deadline
whenever nobody has anything to do, so no limit is waited for, and connections are in memory.
"""

from __future__ import annotations

import gc
import logging
import math
import ssl
import tracemalloc
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

import speak
import support

trio = support.need("trio")
support.need("mcp_sansio_trio")

from trio.testing import MockClock, trio_test, wait_all_tasks_blocked  # noqa: E402

from mcp_sansio import Config  # noqa: E402
from mcp_sansio_trio import Endpoint, HttpLimits  # noqa: E402
from trio_wire import HEAD, Kitchen, Wire, connected, kitchen, peer, serving  # noqa: E402

ECHO = peer().calling("echo", text="hello")
OPENED = b"GET /sse HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n"


def jumping(test: Callable[..., Any]) -> Callable[..., None]:
    """Run a test on a clock that jumps to the next deadline when everybody waits."""

    def run() -> None:
        trio.run(test, clock=MockClock(autojump_threshold=0.01))

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run


def endpoint(made: Kitchen | None = None, **limits: float) -> Endpoint:
    """One whose times are not in each other's way."""
    times = {"head_timeout": 10.0, "idle_timeout": 100.0, "write_timeout": 1000.0, **limits}
    registry = (made or kitchen()).registry
    return Endpoint(registry, config=Config(receive_timeout=50.0, keep_alive=5000.0), limits=HttpLimits(**times))


async def ended(wire: Wire) -> tuple[bytes, float]:
    """What still comes, and how long that takes."""
    began = trio.current_time()
    return await wire.rest(), round(trio.current_time() - began)


# Limits


@jumping
async def test_a_connection_on_which_nothing_comes_ends() -> None:
    async with connected(endpoint()) as wire:
        assert await ended(wire) == (b"", 10)


@jumping
async def test_a_head_that_does_not_end_is_given_up() -> None:
    async with connected(endpoint()) as wire:
        await wire.send(HEAD)
        rest, seconds = await ended(wire)
    assert (rest.startswith(b"HTTP/1.1 408 "), seconds) == (True, 10)
    assert rest.endswith(b"408: the head took longer than 10 seconds to come in")


@jumping
async def test_a_head_that_trickles_has_no_more_time() -> None:
    async with connected(endpoint()) as wire, trio.open_nursery() as nursery:

        async def trickle() -> None:
            while True:
                await wire.send(b"X: y\r\n")
                await trio.sleep(1)

        await wire.send(HEAD)
        nursery.start_soon(trickle)
        rest, seconds = await ended(wire)
        nursery.cancel_scope.cancel()
    assert (rest.startswith(b"HTTP/1.1 408 "), seconds) == (True, 10)


@jumping
async def test_line_ends_before_a_request_buy_no_time() -> None:
    async with connected(endpoint()) as wire, trio.open_nursery() as nursery:

        async def trickle() -> None:
            while True:
                await wire.send(b"\r\n")
                await trio.sleep(1)

        nursery.start_soon(trickle)
        _, seconds = await ended(wire)
        nursery.cancel_scope.cancel()
    assert seconds <= 11


@jumping
async def test_a_connection_is_kept_for_its_next_request_and_not_for_ever() -> None:
    async with connected(endpoint()) as wire:
        for _ in range(3):
            await wire.send(ECHO)
            assert (await wire.response()).text == "hello"
            await trio.sleep(99)
        await wire.send(ECHO)
        assert (await wire.response()).text == "hello"
        assert await ended(wire) == (b"", 100)


@jumping
async def test_the_next_head_has_its_own_time() -> None:
    """From its first byte on, and from the answer before where it was there already."""
    for first, second in ((ECHO, b"P"), (ECHO + b"P", b"")):
        async with connected(endpoint()) as wire:
            await wire.send(first)
            assert (await wire.response()).text == "hello"
            await wire.send(second)
            rest, seconds = await ended(wire)
        assert (rest.startswith(b"HTTP/1.1 408 "), seconds) == (True, 10)


@jumping
async def test_a_body_that_does_not_come_is_given_up() -> None:
    async with connected(endpoint()) as wire:
        await wire.send(ECHO[:-10])
        rest, seconds = await ended(wire)
    assert (rest.startswith(b"HTTP/1.1 408 "), seconds) == (True, 50)
    assert b"the body took longer than 50 seconds to come in" in rest


@jumping
async def test_a_body_that_trickles_has_no_more_time() -> None:
    async with connected(endpoint()) as wire, trio.open_nursery() as nursery:

        async def trickle() -> None:
            while True:
                await wire.send(b" ")
                await trio.sleep(1)

        await wire.send(peer().post(b"", "X: y").replace(b"Content-Length: 0", b"Content-Length: 5000"))
        nursery.start_soon(trickle)
        rest, seconds = await ended(wire)
        nursery.cancel_scope.cancel()
    assert (rest.startswith(b"HTTP/1.1 408 "), seconds) == (True, 50)


@pytest.mark.parametrize("version", speak.ENVELOPE)
def test_a_client_that_does_not_read_is_given_up(version: str) -> None:
    """At a real socket, since one in memory takes everything. Here the call ends with its connection, too."""

    async def main() -> None:
        made = kitchen()
        async with serving(endpoint(made, write_timeout=0.1)) as site:
            wire = await site.connect(receive_buffer=4096)
            await wire.send(peer(version).calling("flood", token="t"))
            await made.flooding.wait()
            await site.gone()

    trio.run(main)


@jumping
async def test_a_response_that_is_slow_to_come_has_no_limit_of_http() -> None:
    made = kitchen()
    async with connected(endpoint(made)) as wire:
        await wire.send(peer().calling("wait"))
        await trio.sleep(3000)
        made.done.set()
        assert (await wire.response()).text == "served"


@jumping
async def test_no_limit_may_be_had() -> None:
    async with connected(endpoint(head_timeout=math.inf, idle_timeout=math.inf, write_timeout=math.inf)) as wire:
        await trio.sleep(1e6)
        await wire.send(ECHO)
        assert (await wire.response()).text == "hello"
        await trio.sleep(1e6)
        await wire.send(ECHO)
        assert (await wire.response()).text == "hello"


# However it is cut


REQUESTS = {
    "a call": ECHO,
    "a call with line ends before it": b"\r\n\r\n" + ECHO,
    "a body in chunks": (lambda head, body: head + b"%x;a=b\r\n%b\r\n0\r\nTrailer: x\r\n\r\n" % (len(body), body))(
        ECHO.partition(b"Content-Length")[0] + b"Transfer-Encoding: chunked\r\n\r\n", ECHO.partition(b"\r\n\r\n")[2]
    ),
    "a body that is asked for": ECHO.replace(b"\r\n\r\n", b"\r\nExpect: 100-continue\r\n\r\n", 1),
    "an upgrade": ECHO.replace(b"\r\n\r\n", b"\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n", 1),
}


@pytest.mark.parametrize("request_bytes", REQUESTS.values(), ids=REQUESTS)
def test_a_request_cut_at_every_byte_is_the_same_request(request_bytes: bytes) -> None:
    async def main() -> None:
        async with connected(endpoint()) as whole:
            await whole.send(request_bytes)
            expected = await whole.response()
            assert expected.text == "hello"
        served = endpoint()
        for at in range(1, len(request_bytes)):
            async with connected(served) as wire:
                await wire.send(request_bytes[:at])
                await wait_all_tasks_blocked()
                await wire.send(request_bytes[at:])
                answer = await wire.response()
                assert (answer.status, answer.body) == (expected.status, expected.body), at

    trio.run(main)


@trio_test
async def test_requests_byte_by_byte_on_one_connection() -> None:
    async with connected(endpoint()) as wire:
        for _ in range(2):
            for byte in ECHO:
                await wire.send(bytes([byte]))
            assert (await wire.response()).text == "hello"


@trio_test
async def test_pipelined_requests_are_answered_in_order_however_they_come() -> None:
    requests = b"".join(peer().calling("echo", text=str(number)) for number in range(20))
    for size in (1, 7, 100, 1000, len(requests)):
        async with connected(endpoint()) as wire, trio.open_nursery() as nursery:

            async def send(wire: Wire = wire, size: int = size) -> None:
                for at in range(0, len(requests), size):
                    await wire.send(requests[at : at + size])

            nursery.start_soon(send)
            assert [(await wire.response()).text for _ in range(20)] == [str(number) for number in range(20)]


@trio_test
async def test_requests_behind_a_call_wait_for_it_and_only_so_many_are_taken_in() -> None:
    made = kitchen()
    async with serving(endpoint(made)) as site:
        wire = await site.connect()
        await wire.send(peer().calling("wait"))
        await made.begun.wait()
        with trio.move_on_after(0.3) as stuck:
            while True:
                await wire.send(ECHO * 1000)
        assert stuck.cancelled_caught
        made.done.set()
        assert (await wire.response()).text == "served"
        assert (await wire.response()).text == "hello"


@trio_test
async def test_whoever_ends_its_half_behind_a_request_is_answered() -> None:
    for _ in range(20):
        async with connected(endpoint()) as wire:
            await wire.send(ECHO * 3)
            await wire.stream.send_eof()
            assert (await wire.rest()).count(b'"text":"hello"') == 3


LIES = {
    "a length and chunks": (b"Content-Length: 5\r\nTransfer-Encoding: chunked", 400),
    "a negative length": (b"Content-Length: -1", 400),
    "two lengths": (b"Content-Length: 5\r\nContent-Length: 6", 400),
    "a list of lengths": (b"Content-Length: 5, 6", 400),
    "an unknown coding": (b"Transfer-Encoding: rot13", 501),
    "another expectation": (b"Expect: the moon\r\nContent-Length: 0", 417),
}


@pytest.mark.parametrize(("lines", "status"), LIES.values(), ids=LIES)
def test_a_head_that_lies_is_answered_and_the_connection_ended(lines: bytes, status: int) -> None:
    async def main() -> None:
        async with connected(endpoint()) as wire:
            await wire.send(HEAD + lines + b"\r\n\r\n" + ECHO)
            rest = await wire.rest()
        assert rest.startswith(b"HTTP/1.1 %d " % status)
        assert rest.count(b"HTTP/1.1") == 1
        assert b"\r\nConnection: close\r\n" in rest

    trio.run(main)


SIZES = {
    "a line without an end": b"GET /" + b"a" * 200_000,
    "a header without an end": HEAD + b"X: " + b"x" * 200_000,
    "headers without an end": HEAD + b"".join(b"X-%d: y\r\n" % number for number in range(20_000)),
}


@pytest.mark.parametrize("head", SIZES.values(), ids=SIZES)
def test_a_head_that_is_too_large_is_refused_before_it_ends(head: bytes) -> None:
    async def main() -> None:
        async with serving(endpoint()) as site:
            wire = await site.connect()
            await wire.send(head)
            assert (await wire.rest()).startswith(b"HTTP/1.1 431 ")

    trio.run(main)


@trio_test
async def test_a_body_that_is_too_large_is_refused_and_the_answer_can_be_read() -> None:
    made = kitchen()
    async with serving(Endpoint(made.registry, config=Config(max_message=1000))) as site:
        for lines in (b"Content-Length: 4000000", b"Transfer-Encoding: chunked"):
            wire = await site.connect()
            await wire.send(HEAD + lines + b"\r\n\r\n" + (b"7a120\r\n" + b" " * 500_000 + b"\r\n") * 8)
            assert (await wire.rest()).startswith(b"HTTP/1.1 413 ")


@trio_test
async def test_what_a_method_gets() -> None:
    async with connected(endpoint()) as wire:
        for method, status in (("HEAD", 405), ("PUT", 405), ("BREW", 405), ("OPTIONS", 204)):
            await wire.send(f"{method} /mcp HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            answer = await wire.response(method)
            assert (answer.status, bool(answer.body)) == (status, status == 405 and method != "HEAD")
            assert "date" in answer.headers


# The first transport


@pytest.mark.skipif(not speak.HANDSHAKE, reason="no revision has that transport")
@trio_test
async def test_the_pair_of_addresses() -> None:
    client = peer(speak.HANDSHAKE[-1])
    made = kitchen()
    both = Endpoint(made.registry, None, sse_path="/sse", message_path="/in/messages")
    async with serving(both) as site:
        stream, messages = await site.connect(), await site.connect()
        await stream.send(OPENED)
        where = (await stream.until(b"\n\n")).split(b"data: ")[1].split()[0]
        assert where.startswith(b"/in/messages?session_id=")
        for message in (client.initialize(), {"jsonrpc": "2.0", "id": 7, "method": "ping"}):
            await messages.send(client.post(message).replace(b"/mcp", where, 1))
            assert (await messages.response()).status == 202
        await stream.until(b'"id":7')
        await messages.send(ECHO)
        assert (await messages.response()).status == 404
        both.shutdown()
        await site.ended.wait()


# TLS


@asynccontextmanager
async def secure(**options: Any) -> AsyncIterator[tuple[Any, ssl.SSLContext]]:
    """A server of HTTPS, and what a client needs to trust it."""
    trustme = support.need("trustme")
    authority = trustme.CA()
    server, client = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH), ssl.create_default_context()
    authority.issue_cert("localhost").configure_cert(server)
    authority.configure_trust(client)
    async with serving(endpoint(**options), ssl_context=server) as site:
        yield site, client


@trio_test
async def test_calls_and_streams_over_tls() -> None:
    async with secure() as (site, context):
        wire = await site.connect(context=context)
        for _ in range(2):
            await wire.send(ECHO)
            assert (await wire.response()).text == "hello"
        await wire.send(peer().calling("wait", token="t"))
        await wire.until(b"data: ")
        await wire.stream.aclose()
        await site.gone()


@trio_test
async def test_who_does_not_speak_tls_or_stops_in_the_middle_of_it_is_let_go() -> None:
    async with secure(head_timeout=0.1) as (site, context):
        for data in (ECHO, b"", bytes.fromhex("16030100f8010000f4"), b"\x00" * 100):
            wire = await site.connect()
            await wire.send(data)
            with trio.fail_after(5):
                assert b"HTTP" not in await wire.rest()
        untrusting = await site.connect(context=ssl.create_default_context())
        with pytest.raises(trio.BrokenResourceError):
            await untrusting.send(ECHO)
        wire = await site.connect(context=context)
        await wire.send(ECHO)
        assert (await wire.response()).text == "hello"


@trio_test
async def test_a_body_that_is_too_large_is_refused_over_tls() -> None:
    async with secure() as (site, context):
        wire = await site.connect(context=context)
        await wire.send(HEAD + b"Content-Length: 99999999999\r\n\r\n" + b" " * 1_000_000)
        assert (await wire.response()).status == 413


# What is left


VANISHING = {
    "before a byte": b"",
    "in the request line": ECHO[:7],
    "in the headers": ECHO[:90],
    "before the body": ECHO.partition(b"\r\n\r\n")[0] + b"\r\n\r\n",
    "in the body": ECHO[:-10],
    "before the answer": ECHO,
    "before the answers": ECHO * 20,
    "in a call": peer().calling("wait"),
    "in a stream": peer().calling("wait", token="t"),
    "in a flood": peer().calling("flood", token="t"),
    "behind garbage": b"\x00" * 50,
}


@pytest.mark.parametrize("data", VANISHING.values(), ids=VANISHING)
def test_nothing_is_left_of_clients_that_vanish(data: bytes, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with serving(endpoint()) as site:
            for end in ("close", "reset", "half"):
                for seconds in (0.0, 0.05):
                    wire = await site.connect()
                    await wire.send(data)
                    await trio.sleep(seconds)
                    await wire.vanish(end)
            await site.gone()
            wire = await site.connect()
            await wire.send(ECHO)
            assert (await wire.response()).text == "hello"

    with caplog.at_level(logging.WARNING):
        trio.run(main)
    assert caplog.records == []


@trio_test
async def test_five_hundred_connections_at_once() -> None:
    """Every one is answered, while half of them hold a call, and nothing is left of them."""
    made = kitchen()
    async with serving(endpoint(made)) as site:
        wires = [await site.connect() for _ in range(500)]

        async def call(number: int, wire: Wire) -> None:
            await wire.send(peer().calling("wait") if number % 2 else ECHO)
            if not number % 2:
                assert (await wire.response()).text == "hello"

        async with trio.open_nursery() as nursery:
            for number, wire in enumerate(wires):
                nursery.start_soon(call, number, wire)
        made.done.set()
        for wire in wires[1::2]:
            assert (await wire.response()).text == "served"
        for wire in wires:
            await wire.stream.aclose()
        await site.gone()


@trio_test
async def test_memory_does_not_grow_with_the_requests_of_a_connection() -> None:
    async with connected(endpoint()) as wire:

        async def call(times: int) -> int:
            for _ in range(times):
                await wire.send(ECHO)
                await wire.response()
            gc.collect()
            return tracemalloc.get_traced_memory()[0]

        tracemalloc.start()
        try:
            before = await call(300)
            assert (
                await call(2000) - before < 300_000
            )  # trio keeps what has no deadline any more for a thousand of them
        finally:
            tracemalloc.stop()


@trio_test
async def test_memory_does_not_grow_with_the_connections() -> None:
    async with serving(endpoint()) as site:

        async def come_and_go(times: int) -> int:
            for number in range(times):
                wire = await site.connect()
                site.wires.clear()
                await wire.send([ECHO, ECHO[:40], peer().calling("wait", token="t")][number % 3])
                await wire.vanish("close")
            await site.gone()
            gc.collect()
            return tracemalloc.get_traced_memory()[0]

        tracemalloc.start()
        try:
            before = await come_and_go(60)
            assert await come_and_go(200) - before < 100_000
        finally:
            tracemalloc.stop()

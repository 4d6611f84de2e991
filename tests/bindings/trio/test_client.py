"""The client of HTTP on trio: cancellation, nurseries, plain errors, and the connections that it has of its own."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from typing import Any

import pytest

import speak
import support
from by_hand import Accepted, Request, json_reply, listening, plain, result, serving_by_hand
from core_site import CoreSite, core_site
from flags import Flag
from mcp_sansio import (
    AdapterSet,
    CallTimeout,
    ClientConfig,
    ConnectionLost,
    Exchange,
    Known,
    LocalProtocolError,
    Registry,
    ServerError,
)
from on_trio import on_trio

trio = support.need("trio")
testing = support.need("trio.testing")
Client = support.need("mcp_sansio_trio").Client
NEWEST = speak.VERSIONS[0]
everyone = pytest.mark.parametrize("version", speak.VERSIONS)


def adapter(version: str) -> Any:
    return AdapterSet.default().by_version[version]


class Patience:
    """A server with a tool that waits for ever."""

    def __init__(self) -> None:
        self.begun, self.given_up = Flag(), Flag()

    def build(self, event: Callable[[], Any]) -> Registry:
        registry = Registry("patience", "1")

        @registry.tool
        async def wait() -> str:
            """Wait to be given up."""
            self.begun.set()
            try:
                await event().wait()
            finally:
                self.given_up.set()
            return "waited"

        @registry.tool
        def echo(text: str) -> str:
            """Give it back."""
            return text

        return registry


def url_of(site: CoreSite, version: str) -> str:
    return site.url + ("/sse" if version == speak.VERSIONS[-1] else "/mcp")


async def echoes(client: Any, text: str = "hello") -> bool:
    """Whether a call works."""
    return bool((await client.call_tool("echo", {"text": text})).content[0].text == text)


async def seen(flag: Flag) -> None:
    with trio.fail_after(5):
        await flag.wait()


class TestCancellation:
    @everyone
    @on_trio
    async def test_a_call_whose_scope_is_cancelled_is_given_up_and_no_other(self, version: str) -> None:
        server = Patience()
        with core_site(server.build) as site:
            async with Client(url_of(site, version), adapter(version)) as client, trio.open_nursery() as nursery:
                with trio.CancelScope() as scope:
                    nursery.start_soon(client.call_tool, "wait")
                    await seen(server.begun)
                    server.begun.clear()
                    nursery.start_soon(_cancel_when, server.begun, scope)
                    await client.call_tool("wait")
                await seen(server.given_up)
                assert scope.cancelled_caught
                assert await echoes(client)
                assert len(nursery.child_tasks) == 1, "the other call goes on"
                nursery.cancel_scope.cancel()

    @everyone
    @on_trio
    async def test_a_client_whose_scope_is_cancelled_has_given_its_call_up_before_it_is_left(
        self, version: str
    ) -> None:
        server = Patience()
        with core_site(server.build) as site:
            with trio.CancelScope() as scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(_cancel_when, server.begun, scope)
                    async with Client(url_of(site, version), adapter(version)) as client:
                        await client.call_tool("wait")
            await seen(server.given_up)
            assert scope.cancelled_caught

    @on_trio
    async def test_a_deadline_that_is_over_already_sends_nothing(self) -> None:
        asked: list[Request] = []
        with listening(lambda request, connection: asked.append(request)) as url:
            with trio.move_on_after(0) as scope:
                async with Client(url, adapter(NEWEST)) as client:
                    await trio.lowlevel.checkpoint()
                    await client.call_tool("echo")
            assert (scope.cancelled_caught, asked) == (True, [])

    @on_trio
    async def test_what_a_server_does_not_take_holds_nobody_up_for_long(self) -> None:
        """The goodbye is shielded from the cancellation, and bounded."""
        asked = Flag()

        def converse(connection: Accepted) -> None:
            while connection.request() is not None:
                asked.set()

        with serving_by_hand(converse) as url, trio.CancelScope() as scope:
            async with Client(url, adapter("2025-11-25")) as client, trio.open_nursery() as nursery:
                nursery.start_soon(client.call_tool, "wait")
                await seen(asked)
                begun = trio.current_time()
                scope.cancel()
        assert trio.current_time() - begun < 4

    @on_trio
    async def test_siblings_of_a_call_that_fails_are_cancelled_as_in_any_nursery(self) -> None:
        server = Patience()
        with core_site(server.build) as site:
            async with Client(site.url + "/mcp", adapter(NEWEST)) as client:

                async def both() -> None:
                    async with trio.open_nursery() as nursery:
                        nursery.start_soon(client.call_tool, "wait")
                        await seen(server.begun)
                        nursery.start_soon(client.call_tool, "nothing like that")

                with pytest.raises(BaseExceptionGroup) as raised:
                    await both()
                (error,) = raised.value.exceptions
                assert isinstance(error, ServerError)
                await seen(server.given_up)
                assert await echoes(client)


async def _cancel_when(flag: Flag, scope: Any) -> None:
    await seen(flag)
    scope.cancel()


class TestErrors:
    @pytest.mark.parametrize(
        "error", [ValueError("mine"), ExceptionGroup("mine", [ValueError("one")]), KeyboardInterrupt()]
    )
    @on_trio
    async def test_what_the_block_raises_comes_out_as_it_is(self, error: BaseException) -> None:
        with core_site(Patience().build) as site:

            async def fail() -> None:
                async with Client(site.url + "/mcp") as client:
                    await echoes(client)
                    raise error

            with pytest.raises(type(error)) as raised:
                await fail()
            assert raised.value is error

    @on_trio
    async def test_what_a_call_raises_comes_out_as_it_is(self) -> None:
        with core_site(Patience().build) as site, pytest.raises(ServerError, match="nothing like that"):
            async with Client(site.url + "/mcp") as client:
                await client.call_tool("nothing like that")

    @on_trio
    async def test_what_ends_the_program_comes_out_of_a_callback_as_it_is(self) -> None:
        def leave(level: str, data: Any, logger: str | None) -> None:
            raise SystemExit(3)

        def build(event: Any) -> Registry:
            registry = Patience().build(event)

            @registry.tool
            async def tell(ex: Exchange) -> str:
                """Log."""
                await ex.log("info", "told")
                return "told"

            return registry

        with core_site(build) as site, pytest.raises(SystemExit):
            async with Client(site.url + "/mcp", on_log=leave, log_level="debug") as client:
                await client.call_tool("tell")

    @on_trio
    async def test_a_server_that_is_not_there_is_said_so_in_one_line(self) -> None:
        async with Client("http://127.0.0.1:1/mcp") as client:
            with pytest.raises(ConnectionLost, match="Connection refused") as raised:
                await client.initialize()
        assert isinstance(raised.value.__cause__, OSError)

    @on_trio
    async def test_a_client_is_used_within_its_block(self) -> None:
        with core_site(Patience().build) as site:
            client = Client(site.url + "/mcp")
            with pytest.raises(LocalProtocolError, match="async with"):
                await client.initialize()
            async with client:
                pass
            with pytest.raises(ConnectionLost, match="closed"):
                await client.initialize()


class TestConnections:
    """They are used again where that is safe, and closed where it is not."""

    @staticmethod
    async def asked(answer: Callable[[Request, Accepted], None], times: int, **options: Any) -> int:
        """How many connections that many calls one after another take."""
        connections: list[Accepted] = []

        def converse(connection: Accepted) -> None:
            connections.append(connection)
            while connection.is_open and (request := connection.request()) is not None:
                answer(request, connection)

        with serving_by_hand(converse) as url:
            async with Client(url, adapter(NEWEST), known=Known(NEWEST), **options) as client:
                for _ in range(times):
                    await client.call_tool("echo")
        return len(connections)

    @on_trio
    async def test_one_after_another_they_take_one(self) -> None:
        assert await self.asked(lambda request, to: to.send(json_reply(result(request))), 20) == 1

    @on_trio
    async def test_one_that_the_server_closes_is_not_used_again(self) -> None:
        streams: list[Any] = []

        async def connect(host: str, port: int) -> Any:
            streams.append(await trio.open_tcp_stream(host, port))
            return streams[-1]

        def answer(request: Request, to: Accepted) -> None:
            to.send(json_reply(result(request)))
            to.close()

        with listening(answer) as url:
            async with Client(url, adapter(NEWEST), known=Known(NEWEST), connect=connect) as client:
                for number in range(1, 6):
                    await client.call_tool("echo")
                    assert len(streams) == number
                    if streams[-1].socket.fileno() >= 0:  # the end has not come yet
                        await trio.lowlevel.wait_readable(streams[-1].socket)

    @on_trio
    async def test_one_that_says_what_nobody_asked_for_is_not_used_again(self) -> None:
        assert await self.asked(lambda request, to: to.send(json_reply(result(request)) + b"HTTP/1.1 200"), 3) == 3

    @on_trio
    async def test_an_answer_that_comes_before_the_request_was_read_is_one(self) -> None:
        def converse(connection: Accepted) -> None:
            connection.until(b"\r\n\r\n")
            connection.send(plain(413, "Connection: close", body=b"too much"))
            gone.seen()

        gone = Flag()
        with serving_by_hand(converse) as url:
            async with Client(url, adapter(NEWEST), known=Known(NEWEST)) as client:
                with pytest.raises(ServerError, match="too much"):
                    await client.call_tool("echo", {"text": "x" * 10_000_000})
                gone.set()


class TestStreams:
    """Any stream of trio's will do, and any clock."""

    @on_trio
    async def test_a_stream_of_the_callers(self) -> None:
        asked: list[tuple[str, int]] = []
        with core_site(Patience().build) as site:
            port = int(site.url.rpartition(":")[2])

            async def connect(host: str, port_asked_for: int) -> Any:
                asked.append((host, port_asked_for))
                return trio.StapledStream(*[await trio.open_tcp_stream("127.0.0.1", port)] * 2)

            async with Client("http://nowhere.example/mcp", adapter(NEWEST), connect=connect) as client:
                assert await echoes(client)
                assert await echoes(client)
        assert set(asked) == {("nowhere.example", 80)}

    def test_the_deadlines_are_in_the_time_of_trios_clock(self) -> None:
        async def main() -> None:
            mine, theirs = testing.memory_stream_pair()

            async def connect(host: str, port: int) -> Any:
                return mine

            config = ClientConfig(timeout=3600)
            async with Client("http://silent.example/", adapter(NEWEST), connect=connect, config=config) as client:
                begun = trio.current_time()
                with pytest.raises(CallTimeout):
                    await client.call_tool("echo")
                assert 3600 <= trio.current_time() - begun < 3700
            await theirs.aclose()

        trio.run(main, clock=testing.MockClock(autojump_threshold=0))


@pytest.fixture(scope="module")
def authority() -> Any:
    return support.need("trustme").CA()


class TestTls:
    """https, with certificates of an authority that is made for the test."""

    async def outcome(self, authority: Any, name: str, trusted: bool) -> str:
        """What three calls come to, of a server with a certificate for `name`."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        authority.issue_cert(name).configure_cert(context)
        mine = ssl.create_default_context()
        if trusted:
            authority.configure_trust(mine)
        with core_site(Patience().build) as site:
            port = int(site.url.rpartition(":")[2])
            async with trio.open_nursery() as nursery:
                listeners = await nursery.start(
                    trio.serve_ssl_over_tcp, lambda stream: _carry(stream, port), 0, context
                )
                address = f"https://localhost:{listeners[0].transport_listener.socket.getsockname()[1]}/mcp"
                try:
                    async with Client(address, adapter(NEWEST), ssl_context=mine) as client:
                        return str([await echoes(client) for _ in range(3)])
                except ConnectionLost as error:
                    return str(error)
                finally:
                    nursery.cancel_scope.cancel()

    @on_trio
    async def test_a_server_that_is_who_it_says(self, authority: Any) -> None:
        assert await self.outcome(authority, "localhost", trusted=True) == "[True, True, True]"

    @pytest.mark.parametrize(("name", "trusted"), [("localhost", False), ("elsewhere.example", True)])
    @on_trio
    async def test_one_that_is_not_is_said_so(self, authority: Any, name: str, trusted: bool) -> None:
        assert "certificate verify failed" in await self.outcome(authority, name, trusted)


async def _carry(stream: Any, port: int) -> None:
    """Be the end of TLS in front of a server without it."""
    plain_stream = await trio.open_tcp_stream("127.0.0.1", port)

    async def pump(source: Any, sink: Any) -> None:
        try:
            async for data in source:
                await sink.send_all(data)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        nursery.cancel_scope.cancel()

    async with plain_stream, trio.open_nursery() as nursery:
        nursery.start_soon(pump, stream, plain_stream)
        nursery.start_soon(pump, plain_stream, stream)

"""What is trio's own about the server: its streams and listeners, how it ends, and that nothing outlives its scope."""

from __future__ import annotations

import errno
import logging
import socket
import threading
from pathlib import Path
from typing import Any

import pytest

import speak
import support

trio = support.need("trio")
support.need("mcp_sansio_trio")

from trio.testing import memory_stream_pair, open_stream_to_socket_listener, trio_test, wait_all_tasks_blocked  # noqa: E402

from mcp_sansio import AdapterSet, Config, Exchange, MemoryHub, Registry  # noqa: E402
from mcp_sansio_trio import Endpoint, HttpLimits, HttpRefusal, Request, serve_http  # noqa: E402
from trio_wire import HEAD, Wire, connected, kitchen, peer, serving  # noqa: E402

GONE_ON = tuple(version for version in speak.VERSIONS if AdapterSet.default().by_version[version].has_handshake)


# Where it listens


@trio_test
async def test_the_addresses_are_told_once_it_listens() -> None:
    async with serving(kitchen().registry) as site:
        assert (site.address[0], site.address[1] > 0) == ("127.0.0.1", True)
        wire = await site.connect()
        await wire.send(peer().calling("echo", text="hello"))
        assert (await wire.response()).text == "hello"
    with pytest.raises(OSError, match=r"refused|all attempts"):
        await site.connect()


@trio_test
async def test_an_address_that_is_taken_is_an_error_and_no_group() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        pytest.raises(OSError, match=f"Errno {errno.EADDRINUSE}"),
    ):
        await serve_http(kitchen().registry, "127.0.0.1", taken.getsockname()[1])


@trio_test
async def test_an_endpoint_brings_its_own_path() -> None:
    async with serving(Endpoint(kitchen().registry, "/kitchen/")) as site:
        wire = await site.connect()
        request = peer().calling("echo", text="hello")
        for path, status in (("/kitchen", 200), ("/kitchen/", 200), ("/kitchen?a=b", 200), ("/%6bitchen", 200)):
            await wire.send(request.replace(b"/mcp", path.encode(), 1))
            assert (await wire.response()).status == status
        await wire.send(request)
        assert (await wire.rest()).startswith(b"HTTP/1.1 404 ")


@trio_test
async def test_what_is_no_loopback_address_takes_any_name_for_a_host() -> None:
    """A unix socket, and a stream that is on no socket at all."""
    async with connected(Endpoint(kitchen().registry)) as wire:
        await wire.send(peer().calling("echo", text="hello").replace(b"localhost", b"kitchen.example", 1))
        assert (await wire.response()).text == "hello"


@trio_test
async def test_listeners_of_any_kind_are_served_and_closed(tmp_path: Path) -> None:
    bound = trio.socket.socket(trio.socket.AF_UNIX)
    await bound.bind(str(tmp_path / "socket"))
    bound.listen()
    listeners = [trio.SocketListener(bound), *await trio.open_tcp_listeners(0, host="127.0.0.1")]
    endpoint = Endpoint(kitchen().registry)
    async with trio.open_nursery() as nursery:
        assert [*await nursery.start(endpoint.serve_listeners, listeners)] == listeners
        unix = await trio.open_unix_socket(tmp_path / "socket")
        for stream in (unix, await open_stream_to_socket_listener(listeners[1])):
            await stream.send_all(peer().calling("echo", "Connection: close", text="hello"))
            assert b'"hello"' in await Wire(stream).rest()
            await stream.aclose()
        endpoint.shutdown()
    for listener in listeners:
        with pytest.raises(trio.ClosedResourceError):
            await listener.accept()


@trio_test
async def test_a_listener_that_fails_is_an_error_and_no_group() -> None:
    class Failing(trio.abc.Listener[trio.SocketStream]):
        async def accept(self) -> Any:
            raise OSError(errno.EINVAL, "no such thing")

        async def aclose(self) -> None:
            pass

    with pytest.raises(OSError, match="no such thing"):
        await Endpoint(kitchen().registry).serve_listeners([Failing()])


@pytest.mark.parametrize(
    ("path", "options", "fault"),
    [
        ("mcp", {}, "a path begins with a slash, which 'mcp' does not"),
        ("/mcp", {"sse_path": "sse"}, "a path begins with a slash, which 'sse' does not"),
        ("/mcp", {"sse_path": "/sse", "message_path": ""}, "a path begins with a slash, which '' does not"),
        ("/mcp", {"allowed_hosts": "mcp.example"}, "Config.allowed_hosts must be a collection of strings"),
        ("/mcp", {"allowed_origins": "https://a.example"}, "Config.allowed_origins must be a collection of strings"),
    ],
)
def test_what_cannot_be_meant_is_refused(path: str, options: dict[str, Any], fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        Endpoint(kitchen().registry, path, **options)


@pytest.mark.parametrize("name", ["head_timeout", "idle_timeout", "write_timeout"])
def test_a_limit_is_above_zero(name: str) -> None:
    with pytest.raises(ValueError, match=f"'{name}' must be > 0"):
        HttpLimits(**{name: 0})


# Who it is


def as_user(request: Request) -> str | None:
    """Believes a header, wants one, and fails at another."""
    if "x-crash" in request.headers:
        raise RuntimeError("the user database is gone")
    if "x-user" not in request.headers:
        raise HttpRefusal(401, "who are you?", {"WWW-Authenticate": "Bearer"})
    return {"7": 7}.get(request.headers["x-user"], request.headers["x-user"])  # type: ignore[return-value]


async def as_user_later(request: Request) -> str | None:
    await trio.lowlevel.checkpoint()
    return as_user(request)


@pytest.mark.parametrize("principal", [as_user, as_user_later])
def test_a_request_that_is_nobodys_is_refused(principal: Any) -> None:
    async def main() -> None:
        async with connected(Endpoint(kitchen().registry, principal=principal)) as wire:
            await wire.send(peer().calling("echo", "X-User: ada", text="hello"))
            assert (await wire.response()).text == "hello"
            await wire.send(peer().calling("echo", text="hello"))
            answer = await wire.response()
        assert (answer.status, answer.body, answer.headers["www-authenticate"]) == (401, b"401: who are you?", "Bearer")
        assert answer.headers["connection"] == "close"

    trio.run(main)


@pytest.mark.parametrize(
    ("refusal", "fault"),
    [
        ((204, "gone"), "a refusal has a status from 400 to 599, not 204"),
        ((1000, ""), "not 1000"),
        ((401, "", {"WWW-Authenticate": "Bearer\r\nX-Other: 1"}), "must be a string without line ends"),
        ((401, "", {"WWW-Authenticate": "realm=北"}), "a refusal cannot have the header WWW-Authenticate"),
        ((401, "", {"content-length": "3"}), "a refusal cannot have the header content-length"),
    ],
)
def test_a_refusal_that_cannot_be_sent_harms_its_request_alone(
    refusal: tuple[Any, ...], fault: str, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(request: Request) -> str | None:
        raise HttpRefusal(*refusal)

    async def main() -> None:
        async with connected(Endpoint(kitchen().registry, principal=refuse)) as wire:
            await wire.send(peer().calling("echo", text="hello"))
            answer = await wire.response()
        assert (answer.status, answer.body) == (500, b"500: Internal Server Error")

    trio.run(main)
    assert fault in caplog.text


@trio_test
async def test_the_text_of_a_refusal_may_be_any() -> None:
    def refuse(request: Request) -> str | None:
        raise HttpRefusal(403, "北 \ud800")

    async with connected(Endpoint(kitchen().registry, principal=refuse)) as wire:
        await wire.send(peer().calling("echo", text="hello"))
        assert (await wire.response()).body == "403: 北 ?".encode()


@trio_test
async def test_a_preflight_is_nobodys() -> None:
    endpoint = Endpoint(kitchen().registry, principal=as_user, allowed_origins=["https://app.example"])
    async with connected(endpoint) as wire:
        await wire.send(
            b"OPTIONS /mcp HTTP/1.1\r\nHost: localhost\r\nOrigin: https://app.example\r\n"
            b"Access-Control-Request-Method: POST\r\n\r\n"
        )
        answer = await wire.response("OPTIONS")
    assert (answer.status, answer.headers["access-control-allow-origin"]) == (204, "https://app.example")


@pytest.mark.parametrize(
    ("line", "logged"),
    [("X-Crash: 1", "the user database is gone"), ("X-User: 7", "a principal is a str or None, not int")],
)
def test_who_cannot_be_found_out_is_the_servers_fault(line: str, logged: str, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        endpoint = Endpoint(kitchen().registry, principal=as_user)
        async with connected(endpoint) as wire:
            await wire.send(peer().calling("echo", line, text="hello"))
            answer = await wire.response()
        assert (answer.status, answer.body) == (500, b"500: Internal Server Error")
        async with connected(endpoint) as wire:
            await wire.send(peer().calling("echo", "X-User: ada", text="again"))
            assert (await wire.response()).text == "again"

    trio.run(main)
    assert logged in caplog.text


@trio_test
async def test_a_handler_has_the_request_and_its_stream() -> None:
    seen: list[Request] = []
    registry = Registry("kitchen", "1.0")

    @registry.tool
    async def peek(ex: Exchange) -> str:
        """Look at it."""
        seen.append(ex.request)
        return "seen"

    async with connected(Endpoint(registry)) as wire:
        await wire.send(peer().calling("peek").replace(b"/mcp", b"/mcp?table=4", 1))
        assert (await wire.response()).text == "seen"
    [request] = seen
    assert (request.method, request.target, request.headers["HOST"]) == ("POST", "/mcp?table=4", "localhost")
    assert isinstance(request.stream, trio.StapledStream)


# What becomes of a handler


@pytest.mark.parametrize("name", ["drop", "leave"])
@pytest.mark.parametrize("version", speak.VERSIONS)
def test_a_handler_that_fails_ends_nothing_else(version: str, name: str, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with connected(Endpoint(kitchen().registry)) as wire:
            await wire.send(peer(version).calling(name))
            assert b'"isError":true' in (await wire.response()).body
            await wire.send(peer(version).calling("echo", text="still here"))
            assert (await wire.response()).text == "still here"

    trio.run(main)


@pytest.mark.parametrize("version", speak.VERSIONS)
def test_a_handler_that_panics_ends_nothing_else(version: str, caplog: pytest.LogCaptureFixture) -> None:
    """An extension module may raise what is no `Exception` for a fault of its own."""

    async def main() -> None:
        async with connected(Endpoint(kitchen().registry)) as wire:
            await wire.send(peer(version).calling("panic"))
            assert b"the call was interrupted" in (await wire.response()).body
            await wire.send(peer(version).calling("echo", text="still here"))
            assert (await wire.response()).text == "still here"

    trio.run(main)
    assert "Panic: at once" in caplog.text
    assert "Panic: later" in caplog.text


@pytest.mark.parametrize("version", speak.ENVELOPE)
def test_a_handler_that_fails_while_it_is_cancelled_ends_nothing_else(
    version: str, caplog: pytest.LogCaptureFixture
) -> None:
    """In a group with its cancellation, which the core leaves to the nursery it came from."""

    async def main() -> None:
        made = kitchen()
        endpoint = Endpoint(made.registry)
        async with serving(endpoint) as site:
            wire = await site.connect()
            await wire.send(peer(version).calling("burn"))
            await made.begun.wait()
            await wire.stream.aclose()
            wire = await site.connect()
            await wire.send(peer(version).calling("echo", text="still here"))
            assert (await wire.response()).text == "still here"
            endpoint.shutdown()
            await site.ended.wait()

    trio.run(main)
    assert "a call did not end as it should" in caplog.text


@pytest.mark.parametrize(("name", "error"), [("interrupt", KeyboardInterrupt), ("have_left", SystemExit)])
@trio_test
async def test_what_ends_a_server_in_a_handler_comes_out_as_it_is(name: str, error: type[BaseException]) -> None:
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    stream = await open_stream_to_socket_listener(listeners[0])
    await stream.send_all(peer().calling(name))
    with pytest.raises(error):
        await Endpoint(kitchen().registry).serve_listeners(listeners)
    await stream.aclose()


# How it ends


@trio_test
async def test_a_shutdown_ends_what_is_idle_at_once() -> None:
    endpoint = Endpoint(kitchen().registry)
    async with serving(endpoint) as site:
        silent, used = await site.connect(), await site.connect()
        await used.send(peer().calling("echo", text="hello"))
        assert (await used.response()).text == "hello"
        await wait_all_tasks_blocked()
        endpoint.shutdown()
        await site.ended.wait()
        assert (await silent.rest(), await used.rest()) == (b"", b"")


@pytest.mark.parametrize("version", speak.VERSIONS)
def test_a_shutdown_lets_calls_finish(version: str) -> None:
    async def main() -> None:
        made = kitchen()
        endpoint = Endpoint(made.registry)
        async with serving(endpoint) as site:
            wire = await site.connect()
            await wire.send(peer(version).calling("wait"))
            await made.begun.wait()
            endpoint.shutdown()
            endpoint.shutdown()  # a second time changes nothing
            await wait_all_tasks_blocked()
            assert not site.ended.is_set()
            made.done.set()
            answer = await wire.response()
            assert (answer.text, answer.headers["connection"]) == ("served", "close")
            await site.ended.wait()

    trio.run(main)


@pytest.mark.parametrize("version", speak.VERSIONS)
def test_a_call_that_outlasts_its_grace_is_cancelled(version: str) -> None:
    async def main() -> None:
        made = kitchen()
        endpoint = Endpoint(made.registry)
        async with serving(endpoint, grace=0.05) as site:
            wire = await site.connect()
            await wire.send(peer(version).calling("wait"))
            await made.begun.wait()
            endpoint.shutdown()
            await site.ended.wait()
            assert made.given_up.is_set()
            assert await wire.rest() == b""

    trio.run(main)


@pytest.mark.parametrize("version", speak.ENVELOPE)
def test_a_shutdown_ends_a_stream_as_its_revision_wants_it(version: str) -> None:
    async def main() -> None:
        endpoint = Endpoint(kitchen().registry)
        async with serving(endpoint) as site:
            wire, client = await site.connect(), peer(version)
            wanted = {"notifications": {"toolsListChanged": True}}
            await wire.send(client.post(client.message("subscriptions/listen", wanted, id=7)))
            await wire.until(b"acknowledged")
            endpoint.shutdown()
            assert b'"resultType":"complete"' in await wire.rest()
            await site.ended.wait()

    trio.run(main)


@trio_test
async def test_what_comes_after_a_shutdown_is_refused() -> None:
    """On a stream that somebody else has accepted: the endpoint's own listeners are closed by then."""
    endpoint = Endpoint(kitchen().registry)
    endpoint.shutdown()
    async with connected(endpoint) as wire:
        await wire.send(peer().calling("echo", text="hello"))
        answer = await wire.response()
    assert (answer.status, answer.headers["connection"]) == (503, "close")


@pytest.mark.parametrize("version", speak.VERSIONS)
def test_a_cancelled_server_is_gone_at_once_with_all_that_it_runs(version: str) -> None:
    async def main() -> None:
        made = kitchen()
        tasks = trio.lowlevel.current_statistics().tasks_living
        async with serving(Endpoint(made.registry)) as site:
            wires = [await site.connect() for _ in range(3)]
            await wires[0].send(peer(version).calling("wait"))
            await wires[1].send(peer(version).calling("wait", token="t"))
            await wires[2].send(HEAD)
            await made.begun.wait()
            await wires[1].until(b"data: ")
            site.nursery.cancel_scope.cancel()
        assert made.given_up.is_set()
        assert trio.lowlevel.current_statistics().tasks_living == tasks

    trio.run(main)


@pytest.mark.parametrize("version", GONE_ON)
def test_a_call_that_outlives_its_connection_lives_within_the_server(version: str) -> None:
    """The connection is closed, and what serves it returns once the call is over."""

    async def main() -> None:
        made = kitchen()
        ours, theirs = memory_stream_pair()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(Endpoint(made.registry).serve_stream, theirs)
            await ours.send_all(peer(version).calling("wait"))
            await made.begun.wait()
            await ours.send_eof()
            assert await ours.receive_some() == b""
            await wait_all_tasks_blocked()
            assert (len(nursery.child_tasks), made.given_up.is_set()) == (1, False)
            made.done.set()

    trio.run(main)


@pytest.mark.parametrize("version", GONE_ON)
def test_such_a_call_has_its_deadline(version: str) -> None:
    async def main() -> None:
        made = kitchen()
        async with connected(Endpoint(made.registry, config=Config(call_timeout=0.05))) as wire:
            await wire.send(peer(version).calling("wait"))
            await made.begun.wait()
            await wire.stream.aclose()
        assert made.given_up.is_set()

    trio.run(main)


@pytest.mark.parametrize("version", speak.ENVELOPE)
def test_a_call_ends_with_its_connection_where_its_revision_wants_that(version: str) -> None:
    async def main() -> None:
        made = kitchen()
        async with connected(Endpoint(made.registry)) as wire:
            await wire.send(peer(version).calling("wait"))
            await made.begun.wait()
            await wire.stream.aclose()
        assert made.given_up.is_set()

    trio.run(main)


# Threads


@trio_test
async def test_a_plain_function_runs_in_a_thread() -> None:
    async with connected(Endpoint(kitchen().registry)) as wire:
        await wire.send(peer().calling("shout", text="hello"))
        assert (await wire.response()).text == "HELLO"


@pytest.mark.parametrize("version", speak.ENVELOPE)
def test_a_change_that_a_thread_announces_is_heard_of(version: str) -> None:
    async def main() -> None:
        made, client = kitchen(), peer(version)
        endpoint = Endpoint(made.registry)
        async with connected(endpoint) as wire:
            wanted = {"notifications": {"toolsListChanged": True}}
            await wire.send(client.post(client.message("subscriptions/listen", wanted)))
            await wire.until(b"acknowledged")
            await trio.to_thread.run_sync(made.registry.remove_tool, "echo")
            await wire.until(b"notifications/tools/list_changed")

    trio.run(main)


@pytest.mark.parametrize("version", speak.ENVELOPE)
def test_a_thread_may_announce_a_change_to_other_workers_before_anybody_has_connected(version: str) -> None:
    async def main() -> None:
        hub, client = MemoryHub(event=trio.Event), peer(version)
        quiet, busy = kitchen(), kitchen()
        async with serving(Endpoint(quiet.registry, hub=hub)), serving(Endpoint(busy.registry, hub=hub)) as site:
            wire = await site.connect()
            wanted = {"notifications": {"toolsListChanged": True}}
            await wire.send(client.post(client.message("subscriptions/listen", wanted)))
            await wire.until(b"acknowledged")
            await trio.to_thread.run_sync(quiet.registry.remove_tool, "echo")
            await wire.until(b"notifications/tools/list_changed")

    trio.run(main)


def test_a_change_that_is_announced_when_nobody_serves_any_more() -> None:
    made = kitchen()

    async def main() -> None:
        async with connected(Endpoint(made.registry)) as wire:
            await wire.send(peer().calling("echo", text="hello"))
            await wire.response()

    trio.run(main)
    thread = threading.Thread(target=made.registry.resource_updated, args=("kitchen://oven",))
    thread.start()
    thread.join()


def test_nothing_is_logged_of_clients_that_come_and_go(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        for data in (b"", b"\x00", HEAD, peer().calling("echo", text="hello"), peer().calling("wait", token="t")):
            async with connected(Endpoint(kitchen().registry)) as wire:
                await wire.send(data)
                await wait_all_tasks_blocked()

    with caplog.at_level(logging.WARNING):
        trio.run(main)
    assert caplog.records == []

"""The WSGI application: in which thread handlers run, what they may wait for, where it is mounted, and gunicorn."""

from __future__ import annotations

import asyncio
import contextvars
import io
import logging
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from http import HTTPStatus
from typing import Any

import pytest

import speak
import support
from flags import PATIENCE
from mcp_sansio import AdapterSet, DeclarationError, Exchange, MemoryHub, Registry, ServerError
from mcp_sansio.wire.json import encode
from plugs import Settings
from plugs.wsgi_http import WsgiServer

support.need("urllib3")
sync = support.need("mcp_sansio_sync")

(NEWEST,) = speak.ENVELOPE
HANDSHAKE = speak.HANDSHAKE[0]
LINGERING = "asyncio"  # a name that no check can follow


def bakery() -> Registry:
    registry = Registry("bakery", "1.0")

    @registry.tool
    def thread() -> str:
        """Say where it runs."""
        return str(threading.get_ident())

    @registry.tool
    async def thread_of_async() -> str:
        """Say where it runs."""
        return str(threading.get_ident())

    @registry.tool
    async def waits() -> str:
        """Wait for a loop, in a way that nobody can see."""
        await __import__(LINGERING).sleep(0)
        return "waited"

    @registry.tool
    async def report(ex: Exchange) -> str:
        """Report."""
        for step in range(3):
            await ex.progress(step)
        return "done"

    @registry.tool
    def who(ex: Exchange) -> str:
        """Say who it is."""
        return str(ex.request.get("REMOTE_USER"))

    return registry


def send(app: Any, speaker: speak.Http, message: Any, *, path: str = "/mcp", **environ: Any) -> tuple[Any, Any]:
    """Send a message to `app`: the status and the headers, and the response while it comes."""
    body = encode(message)
    headers = {f"HTTP_{key.upper().replace('-', '_')}": value for key, value in speaker.headers(message).items()}
    given = {
        "REQUEST_METHOD": "POST",
        "SCRIPT_NAME": "",
        "PATH_INFO": path,
        "CONTENT_TYPE": "application/json",
        "CONTENT_LENGTH": str(len(body)),
        "HTTP_ACCEPT": "application/json, text/event-stream",
        "HTTP_HOST": "127.0.0.1",
        "REMOTE_ADDR": "127.0.0.1",
        "wsgi.input": io.BytesIO(body),
        **headers,
        **environ,
    }
    started: list[tuple[str, list[tuple[str, str]]]] = []
    response = app(given, lambda status, headers: started.append((status, headers)))
    return started[0], response


def call(app: Any, name: str, **given: Any) -> tuple[str, bytes, list[bytes]]:
    """Call a tool of `app`, by the newest revision: the status, the body, and the pieces that it came in."""
    speaker = speak.Http(NEWEST, Registry("x", "1"))
    message = speaker.message("tools/call", {"name": name, "arguments": {}}, token="p")
    (status, _), response = send(app, speaker, message, **given)
    with closing(response):
        pieces = list(response)
    return status, b"".join(pieces), pieces


def test_handlers_run_in_the_thread_of_their_request() -> None:
    app = sync.Application(bakery())
    for name in ("thread", "thread_of_async"):
        status, body, _ = call(app, name)
        assert (status, str(threading.get_ident()).encode() in body) == ("200 OK", True)


TABLE = contextvars.ContextVar("TABLE", default="none")


class Waiter:
    """A dependency."""


def waiter() -> Waiter:
    """Make it, and leave a trace in the context."""
    TABLE.set(f"{TABLE.get()}, seen by a dependency")
    return Waiter()


def test_a_handler_has_the_context_of_its_request_and_leaves_nothing_in_it() -> None:
    """The thread brings the requests of others, too."""
    registry = Registry("bakery", "1.0")
    registry.provide(Waiter, waiter)

    @registry.tool
    async def asynchronous() -> str:
        """Say what is there, and set it."""
        found = TABLE.get()
        TABLE.set("of somebody else")
        return found

    @registry.tool
    def plain() -> str:
        """Say what is there, and set it."""
        found = TABLE.get()
        TABLE.set("of somebody else")
        return found

    @registry.tool
    def served(waiter: Waiter) -> str:
        """Say what is there."""
        return TABLE.get()

    app = sync.Application(registry)

    def check() -> None:
        TABLE.set("of a middleware")
        for name in ("asynchronous", "plain", "asynchronous", "plain", "served", "served"):
            _, body, _ = call(app, name)
            found = b"of a middleware" + b", seen by a dependency" * (name == "served")
            assert b'"text":"%b"' % found in body
        assert TABLE.get() == "of a middleware"

    contextvars.copy_context().run(check)


def test_reports_are_sent_while_the_handler_runs() -> None:
    _, _, pieces = call(sync.Application(bakery()), "report")
    assert [b'"progress":' in piece for piece in pieces] == [True, True, True, False]


def test_a_handler_that_only_reports_to_nobody_holds_nobody_up() -> None:
    """It lets go of the lock, in whose thread soever it runs when its client has left."""
    registry = bakery()
    go_on = threading.Event()

    @registry.tool
    async def watch(ex: Exchange) -> None:
        """Report, until somebody else was served."""
        done = 0
        while not go_on.is_set():
            await ex.progress(done := done + 1)

    app, speaker = sync.Application(registry), speak.Http(HANDSHAKE, Registry("x", "1"))
    (_, headers), response = send(app, speaker, speaker.initialize())
    response.close()
    speaker.session = dict(headers)["Mcp-Session-Id"]
    message = speaker.message("tools/call", {"name": "watch", "arguments": {}}, token="t")
    _, response = send(app, speaker, message)
    assert b"progress" in next(iter(response))
    with ThreadPoolExecutor() as pool:
        left = pool.submit(response.close)
        assert call(app, "thread")[0] == "200 OK"
        assert not left.done()
        go_on.set()
        left.result(PATIENCE)


def test_what_is_seen_to_wait_for_a_loop_is_refused_at_once() -> None:
    registry = Registry("s", "1")

    @registry.tool
    async def nap() -> str:
        """Sleep."""
        await asyncio.sleep(1)
        return "awake"

    with pytest.raises(DeclarationError, match=r"^'nap' awaits asyncio.sleep\(1\), and there is no event loop here"):
        sync.Application(registry)
    with pytest.raises(ValueError, match="a hub has to be waited for"):
        sync.Application(Registry("s", "1"), hub=MemoryHub(event=asyncio.Event))


def test_what_is_not_seen_to_wait_fails_its_call_and_says_why(caplog: pytest.LogCaptureFixture) -> None:
    app = sync.Application(bakery())
    with caplog.at_level(logging.ERROR):
        status, body, _ = call(app, "waits")
    assert (status, b"The tool failed because of an internal error." in body) == ("200 OK", True)
    assert "this waits for what an event loop brings about, and there is none here" in caplog.text
    assert call(app, "thread")[0] == "200 OK"


@contextmanager
def lent() -> Iterator[asyncio.AbstractEventLoop]:
    """A loop in another thread."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield loop
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(PATIENCE)
        loop.close()


def test_a_loop_that_is_lent_runs_what_waits_and_plain_functions_keep_their_thread() -> None:
    with lent() as loop:
        app = sync.Application(bakery(), loop=loop)
        mine = str(threading.get_ident()).encode()
        assert b"waited" in call(app, "waits")[1]
        assert mine in call(app, "thread")[1]
        assert mine not in call(app, "thread_of_async")[1]
        assert [b'"progress":' in piece for piece in call(app, "report")[2]] == [True, True, True, False]


def test_it_is_served_where_it_is_mounted() -> None:
    assert call(sync.Application(bakery()), "thread", path="/anywhere", SCRIPT_NAME="/at")[0] == "200 OK"


def test_a_pair_of_endpoints_is_served_by_the_thread_of_its_stream() -> None:
    app, speaker = sync.Application(bakery(), sse_path="/sse"), speak.Http(HANDSHAKE, Registry("x", "1"))
    asked = {"REQUEST_METHOD": "GET", "CONTENT_LENGTH": "0", "HTTP_ACCEPT": "text/event-stream"}
    _, stream = send(app, speaker, None, path="/sse", **asked)
    with closing(stream):
        said = iter(stream)
        where = next(said).partition(b"data: ")[2].strip().decode()
        path, _, query = where.partition("?")
        (status, _), response = send(app, speaker, speaker.initialize(), path=path, QUERY_STRING=query)
        response.close()
        assert (path, status) == ("/messages", "202 Accepted")
        assert b'"serverInfo"' in next(said)


def test_a_pair_of_endpoints_needs_a_revision_that_has_it() -> None:
    with pytest.raises(ValueError, match=r"^the pair of endpoints needs a revision with a handshake$"):
        sync.Application(bakery(), sse_path="/sse", adapters=AdapterSet.default().only(NEWEST))


def test_the_environment_is_the_request_of_a_handler() -> None:
    assert b"anna" in call(sync.Application(bakery()), "who", REMOTE_USER="anna")[1]


def test_a_body_that_is_shorter_than_was_said_is_a_client_that_left() -> None:
    app = sync.Application(bakery())
    assert call(app, "thread", CONTENT_LENGTH="100000")[:2] == ("400 Bad Request", b"")


def test_a_length_of_which_python_makes_no_number_is_too_long() -> None:
    app = sync.Application(bakery(), path="/mcp")
    status, body, _ = call(app, "thread", CONTENT_LENGTH="9" * 5_000)
    assert (status, b"the body is larger than" in body) == (f"413 {HTTPStatus(413).phrase}", True)


class Broken(io.BytesIO):
    """A body that the WSGI server finds to be none, as cheroot says it of chunks."""

    def read(self, size: int | None = -1) -> bytes:
        raise ValueError("Bad chunked transfer size: b'zz'")


def test_a_body_that_the_wsgi_server_finds_broken_is_a_bad_request() -> None:
    app = sync.Application(bakery())
    broken: dict[str, Any] = {"wsgi.input": Broken(), "wsgi.input_terminated": True, "CONTENT_LENGTH": ""}
    assert call(app, "thread", **broken)[:2] == ("400 Bad Request", b"")
    assert call(app, "thread")[0] == "200 OK"


@pytest.mark.parametrize("version", speak.VERSIONS[:4])
def test_nothing_is_announced_unless_that_is_wanted(version: str) -> None:
    adapter = AdapterSet.default().by_version[version]
    announcing = WsgiServer().serve(bakery(), Settings())
    with announcing as place, sync.Client(f"http://{place.host}:{place.port}/mcp", adapter) as client:
        assert client.initialize().capabilities["tools"] == {"listChanged": True}
    with gunicorn() as url, sync.Client(url, adapter) as client:
        assert client.initialize().capabilities["tools"] == {}
        with pytest.raises(ServerError, match="this server announces no changes"), client.listen(uris=["a:b"]):
            pass
        assert client.call_tool("price", {"loaves": 2}).content[0].text == "6 euros"


@contextmanager
def gunicorn() -> Iterator[str]:
    """An application under gunicorn, with threads."""
    support.need("gunicorn")
    program = """
from mcp_sansio import Registry
from mcp_sansio_sync import Application
registry = Registry("bakery", "1.0")
@registry.tool
def price(loaves: int) -> str:
    return f"{loaves * 3} euros"
application = Application(registry, path="/mcp")
from gunicorn.app.wsgiapp import run
import sys
sys.modules["bakery"] = sys.modules["__main__"]
run()
"""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
        options = ["--threads", "8", "-b", f"fd://{listener.fileno()}", "--graceful-timeout", "1", "bakery:application"]
        server = subprocess.Popen(
            [sys.executable, "-c", program, *options], pass_fds=[listener.fileno()], stderr=subprocess.PIPE
        )
        try:
            yield url
        finally:
            server.terminate()
            _, errors = server.communicate(timeout=PATIENCE)
    assert b"Traceback" not in errors, errors.decode()

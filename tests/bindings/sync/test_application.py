"""The WSGI application: in which thread handlers run, what they may wait for, where it is mounted, and gunicorn."""

from __future__ import annotations

import asyncio
import contextlib
import io
import logging
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any

import pytest

import speak
import support
from flags import PATIENCE
from mcp_sansio import AdapterSet, DeclarationError, Exchange, MemoryHub, Registry, ServerError
from mcp_sansio.wire.json import encode
from plugs import Settings
from plugs.sync import SyncServer

support.need("urllib3")
sync = support.need("mcp_sansio_sync")

(NEWEST,) = speak.ENVELOPE
HANDSHAKE = speak.HANDSHAKE[0]
#: A revision whose streams begin with nothing.
QUIET = next(
    version
    for version in speak.HANDSHAKE
    if (adapter := AdapterSet.default().by_version[version]).resumes_streams and not adapter.primes_streams
)
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


def call(app: Any, name: str, *, path: str = "/mcp", **environ: Any) -> tuple[str, bytes, list[bytes]]:
    """Call a tool of `app`, by the newest revision: the status, the body, and the pieces that it came in."""
    speaker = speak.Http(NEWEST, Registry("x", "1"))
    message = speaker.message("tools/call", {"name": name, "arguments": {}}, token="p")
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
    started: list[str] = []
    response = app(given, lambda status, headers: started.append(status))
    pieces = list(response)
    if hasattr(response, "close"):
        response.close()
    return started[0], b"".join(pieces), pieces


def test_handlers_run_in_the_thread_of_their_request() -> None:
    app = sync.Application(bakery())
    for name in ("thread", "thread_of_async"):
        status, body, _ = call(app, name)
        assert (status, str(threading.get_ident()).encode() in body) == ("200 OK", True)


def test_reports_are_sent_while_the_handler_runs() -> None:
    _, _, pieces = call(sync.Application(bakery()), "report")
    assert [b'"progress":' in piece for piece in pieces] == [True, True, True, False]


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
    app = sync.Application(bakery(), path="/mcp")
    assert [call(app, "thread", path=path)[0] for path in ("/mcp", "/mcp/", "/", "/mcp/x")] == [
        "200 OK",
        "200 OK",
        "404 Not Found",
        "404 Not Found",
    ]
    assert call(sync.Application(bakery()), "thread", path="/anywhere", SCRIPT_NAME="/at")[0] == "200 OK"


def test_the_environment_is_the_request_of_a_handler() -> None:
    assert b"anna" in call(sync.Application(bakery()), "who", REMOTE_USER="anna")[1]


def test_a_body_that_is_shorter_than_was_said_is_a_client_that_left() -> None:
    app = sync.Application(bakery())
    assert call(app, "thread", CONTENT_LENGTH="100000")[:2] == ("400 Bad Request", b"")


@pytest.mark.parametrize("digits", [18, 5_000])
def test_a_body_that_nobody_has_is_refused_by_what_was_said_of_it(digits: int) -> None:
    app = sync.Application(bakery(), path="/mcp")
    status, body, _ = call(app, "thread", CONTENT_LENGTH="9" * digits)
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


def test_a_stream_that_has_nothing_to_say_yet_begins_with_a_comment() -> None:
    """A WSGI server sends no head before there is something of the body: a client would wait for it."""
    app = sync.Application(bakery(), announces_changes=True)
    speaker = speak.Http(QUIET, Registry("x", "1"))
    sent: list[tuple[str, dict[str, str]]] = []

    def ask(method: str, message: Any = None, **headers: str) -> Any:
        body = b"" if message is None else encode(message)
        given = {
            "REQUEST_METHOD": method,
            "PATH_INFO": "/mcp",
            "CONTENT_TYPE": "application/json",
            "CONTENT_LENGTH": str(len(body)),
            "HTTP_ACCEPT": "application/json, text/event-stream",
            "HTTP_HOST": "127.0.0.1",
            "REMOTE_ADDR": "127.0.0.1",
            "wsgi.input": io.BytesIO(body),
            **headers,
        }
        return app(given, lambda status, headers: sent.append((status, dict(headers))))

    with contextlib.closing(ask("POST", speaker.initialize())) as response:
        list(response)
    session = {"HTTP_MCP_SESSION_ID": sent[-1][1]["Mcp-Session-Id"], "HTTP_MCP_PROTOCOL_VERSION": QUIET}
    with contextlib.closing(ask("GET", **session)) as response:
        assert next(iter(response)) == b":\n\n"
    assert (sent[-1][0], sent[-1][1]["Content-Type"]) == ("200 OK", "text/event-stream")


def test_another_name_for_this_machine_is_refused() -> None:
    assert call(sync.Application(bakery()), "thread", HTTP_HOST="evil.example")[0] == "421 Misdirected Request"


@pytest.mark.parametrize("version", speak.VERSIONS[:4])
def test_nothing_is_announced_unless_that_is_wanted(version: str) -> None:
    adapter = AdapterSet.default().by_version[version]
    announcing = SyncServer().serve(bakery(), Settings())
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
from mcp_sansio import Exchange, Registry
from mcp_sansio_sync import Application
registry = Registry("bakery", "1.0")
@registry.tool
def price(loaves: int) -> str:
    return f"{loaves * 3} euros"
@registry.tool
async def bake(loaves: int, ex: Exchange) -> str:
    for done in range(loaves):
        await ex.progress(done + 1, loaves)
    return "baked"
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


def test_under_gunicorn_reports_are_heard() -> None:
    heard: list[float] = []
    with gunicorn() as url, sync.Client(url, AdapterSet.default().by_version[HANDSHAKE]) as client:
        result = client.call_tool("bake", {"loaves": 3}, on_progress=lambda done, *rest: heard.append(done))
        assert result.content[0].text == "baked"
    assert heard == [1, 2, 3]

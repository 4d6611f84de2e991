"""What of an `Endpoint` is aiohttp's: applications, middlewares, what it unpacks, unix sockets."""

from __future__ import annotations

import asyncio
import contextvars
import gzip
import threading
from pathlib import Path

import pytest

import speak
from mcp_sansio import AdapterSet, Config, Exchange, Registry
from mcp_sansio.wire.json import encode
from sockets import ACCEPT, Client, ClientSession, Endpoint, Site, UnixConnector, serving, text_of, web

NEWEST = speak.VERSIONS[0]


def bakery() -> Registry:
    registry = Registry("bakery", "1.0")

    @registry.tool
    async def price(loaves: int) -> str:
        """What that many loaves cost."""
        return f"{loaves * 3} euros"

    return registry


# Handlers


async def test_a_plain_function_runs_in_a_thread_with_the_requests_context() -> None:
    registry = Registry("bakery", "1.0")
    user = contextvars.ContextVar("user", default="nobody")

    @registry.tool
    def who(ex: Exchange) -> str:
        """Tell the user, and the thread."""
        assert ex.request.headers["X-User"] == "mo"
        return f"{user.get()} in the main thread: {threading.current_thread() is threading.main_thread()}"

    @web.middleware
    async def authenticate(request: web.Request, handler: web.Handler) -> web.StreamResponse:
        user.set(request.headers["X-User"])
        return await handler(request)

    app = web.Application(middlewares=[authenticate])
    Endpoint(registry).setup(app)
    async with serving(app) as site:
        client = Client(NEWEST, site)
        client.extra = {"X-User": "mo"}
        assert text_of(await client.call("who")) == "mo in the main thread: False"


# Where


@pytest.mark.parametrize(
    ("prefix", "path", "served"),
    [
        ("", "/mcp", ["/mcp", "/mcp/"]),
        ("", "/mcp/", ["/mcp", "/mcp/"]),
        ("", "/", ["/"]),
        ("", "/a/{tenant}/mcp", ["/a/b/mcp", "/a/c/mcp/"]),
        ("/api", "/mcp", ["/api/mcp", "/api/mcp/"]),
        ("/api", "/", ["/api", "/api/"]),
    ],
)
async def test_both_spellings_are_served_without_a_redirect(prefix: str, path: str, served: list[str]) -> None:
    app = Endpoint(bakery()).app(path)
    if prefix:
        outer = web.Application()
        outer.add_subapp(prefix, app)
        app = outer
    async with serving(app) as site:
        for where in served:
            client = Client(NEWEST, site, where)
            assert text_of(await client.call("price", loaves=1)) == "3 euros"
            assert (await client.send("OPTIONS")).status == 204
        assert (await Client(NEWEST, site, "/elsewhere").send("GET")).status == 404


async def test_two_endpoints_of_one_application() -> None:
    app = web.Application()
    Endpoint(bakery()).setup(app, "/a")
    Endpoint(bakery(), adapters=AdapterSet.default().only(NEWEST)).setup(app, "/b")
    async with serving(app) as site:
        statuses = [(await Client(NEWEST, site, path).send("GET")).headers["Allow"] for path in ("/a", "/b")]
    assert statuses == ["GET, POST, OPTIONS", "POST, OPTIONS"]


# Bodies


async def post_raw(site: Site, body: bytes, *headers: str) -> tuple[int, bytes, bool]:
    """POST without a client library's care: the status, the response, and whether the server let all of `body` in."""
    reader, writer = await asyncio.open_connection(*site.runner.addresses[0][:2])
    head = ["POST /mcp HTTP/1.1", "Host: localhost", f"Accept: {ACCEPT}", "Content-Type: application/json", *headers]
    writer.write("\r\n".join([*head, "", ""]).encode())
    reading = asyncio.create_task(reader.readuntil(b"\r\n\r\n"))
    let_in = True
    try:
        for start in range(0, len(body), 2**16):
            writer.write(body[start : start + 2**16])
            await writer.drain()
    except ConnectionError:
        let_in = False
    response = await reading
    if let_in and b"\r\nConnection: close\r\n" in response:
        response += await reader.read()
    writer.close()
    return int(response.split()[1]), response, let_in


async def test_aiohttps_own_limit_does_not_apply() -> None:
    """Its default of one MiB is no limit here: the core counts, by `Config.max_message`."""
    registry = Registry("bakery", "1.0")

    @registry.tool
    async def size(text: str) -> str:
        """How long a text is."""
        return str(len(text))

    async with serving(Endpoint(registry).app()) as site:
        assert text_of(await Client(NEWEST, site).call("size", text="x" * 2**21)) == str(2**21)


async def test_a_compressed_body_counts_by_what_it_holds() -> None:
    async with serving(Endpoint(bakery(), config=Config(max_message=2**20)).app()) as site:
        client = Client(NEWEST, site)
        small = gzip.compress(encode(client.calling("price", loaves=1)))
        headers = {**client.headers(client.calling("price")), "Content-Encoding": "gzip"}
        assert text_of((await client.post(small, headers=headers)).message) == "3 euros"
        bomb = gzip.compress(b" " * (50 * 2**20))
        status, *_ = await post_raw(site, bomb, f"Content-Length: {len(bomb)}", "Content-Encoding: gzip")
    # Some releases of aiohttp have a limit of their own for what is unpacked at once.
    assert status in (413, 400)


async def test_a_body_that_is_not_http_is_refused() -> None:
    async with serving(Endpoint(bakery()).app()) as site:
        status, response, _ = await post_raw(site, b"not gzip", "Content-Length: 8", "Content-Encoding: gzip")
        assert (status, b"\r\nConnection: close\r\n" in response) == (400, True)
        assert text_of(await Client(NEWEST, site).call("price", loaves=1)) == "3 euros"


# Hosts and origins


async def test_a_unix_socket_is_no_loopback_socket(tmp_path: Path) -> None:
    """No name is resolved to it, so that it needs no list of hosts."""
    path = str(tmp_path / "mcp.sock")
    runner = web.AppRunner(Endpoint(bakery()).app(), access_log=None)
    await runner.setup()
    await web.UnixSite(runner, path).start()
    try:
        async with ClientSession(connector=UnixConnector(path)) as http:
            client = Client(NEWEST, Site("http://mcp.example", http, runner))
            assert text_of(await client.call("price", loaves=1)) == "3 euros"
    finally:
        await runner.cleanup()

"""What an `Endpoint` serves and where: whole responses, paths, methods, limits, hosts and origins."""

from __future__ import annotations

import asyncio
import contextvars
import gzip
import logging
import threading
from pathlib import Path

import pytest

import speak
from mcp_sansio import AdapterSet, Config, Exchange, MemorySessionStore, Registry, Server
from mcp_sansio.wire.json import encode
from sockets import ACCEPT, Client, ClientSession, Endpoint, Site, UnixConnector, serving, text_of, web

NEWEST = speak.VERSIONS[0]
JSON_HEADERS = {"Content-Type": "application/json", "Accept": ACCEPT}


def bakery() -> Registry:
    registry = Registry("bakery", "1.0")

    @registry.tool
    async def price(loaves: int) -> str:
        """What that many loaves cost."""
        return f"{loaves * 3} euros"

    return registry


# Whole responses


@pytest.mark.parametrize("version", speak.VERSIONS)
async def test_a_call_is_answered_with_one_json_response(version: str) -> None:
    async with serving(Endpoint(bakery()).app()) as site:
        client = await Client(version, site).open()
        answer = await client.post(client.calling("price", loaves=2))
    assert text_of(answer.message) == "6 euros"
    assert (answer.status, dict(answer.headers)) == (
        200,
        {"Content-Type": "application/json", "Content-Length": str(len(answer.body))},
    )


async def test_what_has_no_body_says_nothing_of_one() -> None:
    async with serving(Endpoint(bakery()).app()) as site:
        client = Client(NEWEST, site)
        accepted = await client.post(speak.notification("notifications/initialized"))
        preflight = await client.send("OPTIONS", headers={"Content-Type": None})
    assert (accepted.status, dict(accepted.headers), accepted.body) == (202, {"Content-Length": "0"}, b"")
    assert (preflight.status, preflight.body) == (204, b"")
    assert set(preflight.headers) == {
        "Access-Control-Allow-Methods",
        "Access-Control-Allow-Headers",
        "Access-Control-Max-Age",
    }


@pytest.mark.parametrize("method", ["GET", "PUT", "PATCH", "DELETE", "HEAD"])
async def test_every_method_is_the_cores_to_answer(method: str) -> None:
    async with serving(Endpoint(bakery()).app()) as site:
        answer = await Client(NEWEST, site).send(method, headers={"Content-Type": None})
    assert (answer.status, answer.headers["Allow"]) == (405, "GET, POST, OPTIONS")
    assert (answer.body == b"") == (method == "HEAD")


@pytest.mark.parametrize("version", speak.VERSIONS)
async def test_a_hundred_calls_at_once(version: str) -> None:
    registry = bakery()
    all_here = asyncio.Event()
    waiting: list[int] = []

    @registry.tool
    async def meet(number: int) -> str:
        """Answer once all hundred are here."""
        waiting.append(number)
        if len(waiting) == 100:
            all_here.set()
        await all_here.wait()
        return str(number)

    async with serving(Endpoint(registry).app()) as site:
        client = await Client(version, site).open()
        answers = await asyncio.gather(*(client.call("meet", id=number, number=number) for number in range(100)))
    assert [(answer["id"], text_of(answer)) for answer in answers] == [(n, str(n)) for n in range(100)]


async def test_requests_of_one_connection_follow_each_other() -> None:
    """Keep-alive works after a call that never waited, one that did, and a stream."""
    registry = Registry("bakery", "1.0")
    ports = []

    @registry.tool
    async def visit(turns: int, ex: Exchange) -> str:
        """Wait for some turns of the loop, and report."""
        ports.append(ex.request.transport.get_extra_info("peername"))
        for turn in range(turns):
            await asyncio.sleep(0)
            await ex.progress(turn)
        return "done"

    async with serving(Endpoint(registry).app()) as site:
        client = Client(NEWEST, site)
        for turns, token in ((0, None), (5, None), (0, "t"), (5, "t")) * 2:
            assert text_of(await client.call("visit", turns=turns, token=token)) == "done"
    assert (len(ports), len(set(ports))) == (8, 1)


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


async def test_the_query_reaches_the_core() -> None:
    """A pin in the URL outranks what the request says of its revision."""
    oldest = speak.VERSIONS[-1]
    async with serving(Endpoint(bakery()).app()) as site:
        client = Client(oldest, site, f"/mcp?mcp={oldest}")
        answer = await client.post(client.initialize())
    assert answer.message["result"]["protocolVersion"] == oldest


async def test_two_endpoints_of_one_application() -> None:
    app = web.Application()
    Endpoint(bakery()).setup(app, "/a")
    Endpoint(bakery(), adapters=AdapterSet.default().only(NEWEST)).setup(app, "/b")
    async with serving(app) as site:
        statuses = [(await Client(NEWEST, site, path).send("GET")).headers["Allow"] for path in ("/a", "/b")]
    assert statuses == ["GET, POST, OPTIONS", "POST, OPTIONS"]


def test_what_an_endpoint_is_given_reaches_its_server() -> None:
    store = MemorySessionStore(clock=lambda: 0.0)
    adapters = AdapterSet.default().only(NEWEST)
    endpoint = Endpoint(
        bakery(),
        adapters=adapters,
        config=Config(max_message=17, allowed_hosts=["a.example"]),
        store=store,
        allowed_origins=["https://b.example"],
    )
    server = endpoint.server
    assert isinstance(server, Server)
    assert (server.adapters, server.store) == (adapters, store)
    assert server.config == Config(max_message=17, allowed_hosts=["a.example"], allowed_origins=["https://b.example"])


@pytest.mark.parametrize("name", ["allowed_origins", "allowed_hosts"])
def test_one_string_in_place_of_a_list_is_told(name: str) -> None:
    with pytest.raises(ValueError, match=f"Config.{name} must be a collection of strings, as in {name}="):
        Endpoint(bakery(), **{name: "https://app.example"})


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


def chunked(data: bytes) -> bytes:
    pieces = [data[start : start + 2**16] for start in range(0, len(data), 2**16)]
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


@pytest.mark.parametrize("form", ["chunked", "with a length"])
async def test_a_body_over_the_limit_is_refused_and_the_connection_ended(form: str) -> None:
    """A little over is read to its end, so that a client which writes first and reads then gets its answer."""
    body = b" " * (2**20 + 2**18)
    data = chunked(body) if form == "chunked" else body
    header = "Transfer-Encoding: chunked" if form == "chunked" else f"Content-Length: {len(body)}"
    async with serving(Endpoint(bakery(), config=Config(max_message=2**20)).app()) as site:
        status, response, let_in = await post_raw(site, data, header)
    assert (status, let_in) == (413, True)
    assert b"\r\nConnection: close\r\n" in response
    assert b"the body is larger than 1048576 bytes" in response


async def test_a_body_far_over_the_limit_is_not_read() -> None:
    async with serving(Endpoint(bakery(), config=Config(max_message=2**20)).app()) as site:
        status, _, let_in = await post_raw(site, chunked(b" " * (50 * 2**20)), "Transfer-Encoding: chunked")
    assert (status, let_in) == (413, False)


async def test_a_refused_request_ends_its_connection_only_where_the_body_is_not_there() -> None:
    async with serving(Endpoint(bakery()).app()) as site:
        client = Client(NEWEST, site)
        whole = await client.post(client.calling("price", loaves=1), headers={"Content-Type": "text/plain"})
        status, response, _ = await post_raw(site, b"", "Content-Length: 10", "Origin: https://evil.example")
    assert (whole.status, "Connection" in whole.headers) == (415, False)
    assert (status, b"\r\nConnection: close\r\n" in response) == (403, True)


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


async def test_a_client_that_leaves_within_its_body_leaves_nothing() -> None:
    async with serving(Endpoint(bakery()).app()) as site:
        _, writer = await asyncio.open_connection(*site.runner.addresses[0][:2])
        head = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
        writer.write(head.encode())
        await writer.drain()
        writer.close()
        assert text_of(await Client(NEWEST, site).call("price", loaves=1)) == "3 euros"


# Hosts and origins


async def test_on_a_loopback_socket_the_host_is_a_loopback_name_or_allowed() -> None:
    async with serving(Endpoint(bakery(), allowed_hosts=["mcp.example"]).app()) as site:
        client = Client(NEWEST, site)
        statuses = [
            (await client.post(client.calling("price", loaves=1), headers={"Host": host})).status
            for host in ("localhost:1", "127.0.0.1", "[::1]", "mcp.example", "evil.example")
        ]
    assert statuses == [200, 200, 200, 200, 421]


async def test_a_refused_host_is_logged_with_the_setting_that_allows_it(caplog: pytest.LogCaptureFixture) -> None:
    async with serving(Endpoint(bakery()).app()) as site:
        client = Client(NEWEST, site)
        with caplog.at_level(logging.WARNING, "mcp_sansio"):
            for _ in range(2):
                await client.post(client.calling("price", loaves=1), headers={"Host": "evil.example"})
    (record,) = [record for record in caplog.records if record.name == "mcp_sansio"]
    assert "'evil.example'; add it to allowed_hosts" in record.getMessage()


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


async def test_an_allowed_origin_may_read_the_response() -> None:
    origin = "https://app.example"
    async with serving(Endpoint(bakery(), allowed_origins=[origin]).app()) as site:
        client = Client(NEWEST, site)
        message = client.calling("price", loaves=1)
        plain = await client.post(message)
        allowed = await client.post(message, headers={"Origin": origin})
        refused = await client.post(message, headers={"Origin": "https://evil.example"})
        asked = {"Origin": origin, "Access-Control-Request-Headers": "x-one, x-two", "Content-Type": None}
        preflight = await client.send("OPTIONS", headers=asked)
    name = "Access-Control-Allow-Origin"
    assert [(answer.status, answer.headers.get(name)) for answer in (plain, allowed, refused, preflight)] == [
        (200, None),
        (200, origin),
        (403, None),
        (204, origin),
    ]
    assert preflight.headers["Access-Control-Allow-Headers"] == "x-one, x-two"

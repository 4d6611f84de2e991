"""An application inside of Starlette and FastAPI, under real servers, and over HTTP/2."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import speak
import support
from flags import Flag
from heard import text_of
from mcp_sansio import Config, Exchange, Registry
from mcp_sansio.wire.json import encode
from talk import Client, Connection

support.need("mcp_sansio_asgi")
support.need("uvicorn")
support.need("hypercorn")
support.need("starlette")
support.need("fastapi")

from fastapi import FastAPI  # noqa: E402
from starlette.applications import Starlette  # noqa: E402
from starlette.authentication import AuthCredentials, AuthenticationBackend, SimpleUser  # noqa: E402
from starlette.middleware import Middleware  # noqa: E402
from starlette.middleware.authentication import AuthenticationMiddleware  # noqa: E402
from starlette.middleware.base import BaseHTTPMiddleware  # noqa: E402
from starlette.requests import HTTPConnection, Request  # noqa: E402
from starlette.responses import Response  # noqa: E402
from starlette.routing import Mount, Route  # noqa: E402

from mcp_sansio_asgi import Application  # noqa: E402
from plugs.asgi_http import AsgiServer, Hypercorn, HypercornOnTrio, Uvicorn  # noqa: E402

NEWEST = speak.VERSIONS[0]
SERVERS = [Uvicorn(), Hypercorn(), HypercornOnTrio()]
under_each_server = pytest.mark.parametrize("under", SERVERS, ids=[server.name for server in SERVERS])


def bakery() -> Registry:
    registry = Registry("bakery", "1.0")

    @registry.tool
    async def bake(ex: Exchange, loaves: int) -> str:
        """Bake, and report."""
        for done in range(loaves):
            await ex.progress(done + 1)
        return f"{loaves} loaves"

    @registry.tool
    def price(loaves: int) -> str:
        """A plain function."""
        return f"{loaves * 3} euros"

    @registry.tool
    async def note(ex: Exchange) -> str:
        """Open a session by handle."""
        return (await ex.sessions.open()).handle

    @registry.tool
    async def reread(handle: str, ex: Exchange) -> str:
        """Whether the session of that handle is there for the one who asks."""
        return "there" if await ex.sessions.use(handle) else "not there"

    return registry


def a_route_of_starlette(mcp: Application) -> Any:
    return Starlette(routes=[Route("/at/mcp", mcp)], lifespan=mcp.lifespan)


def a_mount_of_starlette(mcp: Application) -> Any:
    return Starlette(routes=[Mount("/at", mcp)])


def a_mount_of_a_mount(mcp: Application) -> Any:
    return Starlette(routes=[Mount("/at", routes=[Mount("/", mcp)])])


def a_route_of_fastapi(mcp: Application) -> Any:
    app = FastAPI(lifespan=mcp.lifespan)
    app.add_route("/at/mcp", mcp)
    return app


def a_mount_of_fastapi(mcp: Application) -> Any:
    app = FastAPI()
    app.mount("/at", mcp)
    return app


def behind_a_middleware(mcp: Application) -> Any:
    """One that stands between an application and both what it receives and what it sends."""

    async def dispatch(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
        response = await call_next(request)
        response.headers["X-Seen"] = "yes"
        return response

    return Starlette(routes=[Mount("/at", mcp)], middleware=[Middleware(BaseHTTPMiddleware, dispatch=dispatch)])


PLACES = {
    a_route_of_starlette: None,
    a_mount_of_starlette: "/mcp",
    a_mount_of_a_mount: "/mcp",
    a_route_of_fastapi: None,
    a_mount_of_fastapi: "/mcp",
    behind_a_middleware: "/mcp",
}


@under_each_server
@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.__name__)
@pytest.mark.parametrize("version", speak.VERSIONS)
def test_it_serves_within(place: Callable[[Application], Any], version: str, under: AsgiServer) -> None:
    mcp = Application(bakery(), path=PLACES[place])
    with under.serve_app(place(mcp), mcp) as running:
        client = Client(version, running, path="/at/mcp").open()
        assert text_of(client.call("price", loaves=2)) == "6 euros"
        answer = client.post(client.calling("bake", token="t", loaves=2))
        assert [message.get("params", {}).get("progress") for message in answer.messages] == [1, 2, None]


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.__name__)
def test_a_client_that_leaves_gives_its_call_up(place: Callable[[Application], Any]) -> None:
    registry = bakery()
    started, ended = Flag(), Flag()

    @registry.tool
    async def wait(ex: Exchange) -> str:
        """Wait to be given up."""
        started.set()
        try:
            await Flag().wait()
        finally:
            ended.set()
        return "never"

    mcp = Application(registry, path=PLACES[place])
    with Uvicorn().serve_app(place(mcp), mcp) as running:
        client = Client(NEWEST, running, path="/at/mcp")
        connection = client.begin(client.calling("wait"))
        started.seen()
        connection.close()
        ended.seen()


class ByHeader(AuthenticationBackend):
    """Believes a header."""

    async def authenticate(self, conn: HTTPConnection) -> Any:
        name = conn.headers.get("X-User")
        return (AuthCredentials(), SimpleUser(name)) if name else None


def test_the_users_of_starlette_are_its_principals() -> None:
    mcp = Application(bakery())
    middleware = [Middleware(AuthenticationMiddleware, backend=ByHeader())]
    app = Starlette(routes=[Route("/mcp", mcp)], middleware=middleware)
    with Uvicorn().serve_app(app, mcp) as running:
        client = Client(NEWEST, running)

        def call(user: str | None, name: str, **arguments: str) -> str:
            headers = {"X-User": user} if user else {}
            return str(text_of(client.post(client.calling(name, **arguments), headers=headers).message))

        handle = call("mo", "note")
        found = [call(user, "reread", handle=handle) for user in ("mo", "li", None)]
    assert found == ["there", "not there", "not there"]


@pytest.mark.parametrize("under", SERVERS[1:], ids=[server.name for server in SERVERS[1:]])
def test_a_call_and_a_refusal_over_http_2(under: AsgiServer) -> None:
    """There, no header may speak of the connection."""
    mcp = Application(bakery(), path="/mcp", config=Config(max_message=1000))
    with under.serve_app(mcp, mcp) as running:
        client = Client(NEWEST, running)
        call = client.calling("bake", token="t", loaves=2)
        status, body = over_http_2(running, client.headers(call), encode(call))
        assert (status, body.count(b"data: "), b"2 loaves" in body) == ("200", 3, True)
        status, body = over_http_2(running, client.headers(call), b"x" * 5000, ends=False)
        assert (status, b"larger than" in body) == ("413", True)


def over_http_2(running: Any, given: Any, body: bytes, *, ends: bool = True) -> tuple[str, bytes]:
    """Send a POST, and read the response."""
    import h2.connection
    import h2.events

    with Connection(running.host, running.port) as connection:
        protocol = h2.connection.H2Connection()
        protocol.initiate_connection()
        pseudo = [(":method", "POST"), (":path", "/mcp"), (":scheme", "http"), (":authority", "localhost")]
        headers = {name.lower(): value for name, value in given.items()}
        protocol.send_headers(1, [*pseudo, *headers.items()])
        protocol.send_data(1, body, end_stream=ends)
        status, said = "", b""
        while True:
            connection.send(protocol.data_to_send())
            for event in protocol.receive_data(connection.receive()):
                if isinstance(event, h2.events.ResponseReceived):
                    status = dict(event.headers)[b":status"].decode()
                    assert b"connection" not in dict(event.headers)
                elif isinstance(event, h2.events.DataReceived):
                    said += event.data
                    protocol.acknowledge_received_data(event.flow_controlled_length, 1)
                elif isinstance(event, h2.events.StreamEnded):
                    return status, said
                else:
                    assert not isinstance(event, h2.events.StreamReset | h2.events.ConnectionTerminated), event
            if not ends and said:
                protocol.end_stream(1)
                ends = True

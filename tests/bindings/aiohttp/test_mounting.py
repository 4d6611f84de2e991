"""An `Endpoint` and an `SseEndpoint` wherever an application has them: the cases of the field about that."""

from __future__ import annotations

import pytest

import speak
from mcp_sansio import Registry
from sockets import Client, Endpoint, SseEndpoint, serving, text_of, web

PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
PONG = b'{"jsonrpc":"2.0","id":1,"result":{}}'


def shop() -> Registry:
    """What is served."""
    registry = Registry("shop", "1.0")

    @registry.tool
    async def echo(text: str) -> str:
        """Give the text back."""
        return text

    return registry


@pytest.mark.parametrize("mounted", ["sub-application", "routes alone"])
@pytest.mark.parametrize("version", speak.VERSIONS)
async def test_case_26_the_first_request_of_a_bare_mount_is_served(version: str, mounted: str) -> None:
    app = web.Application()
    endpoint = Endpoint(shop())
    if mounted == "routes alone":
        # Nothing of the endpoint's start-up or shutdown is wired.
        app.add_routes(endpoint.routes("/a/mcp"))
    else:
        app.add_subapp("/a", endpoint.app())
    async with serving(app) as site:
        client = await Client(version, site, "/a/mcp").open()
        assert text_of(await client.call("echo", text="a")) == "a"


@pytest.mark.parametrize("prefix", ["", "/a/b"])
async def test_case_40_the_endpoint_is_where_it_was_mounted(prefix: str) -> None:
    app = web.Application()
    endpoint = SseEndpoint(shop())
    if prefix:
        app.add_subapp(prefix, endpoint.app())
    else:
        endpoint.setup(app)
    async with serving(app) as site:
        client = Client(speak.HANDSHAKE[-1], site, f"{prefix}/sse")
        async with client.streaming(method="GET") as stream:
            event = await stream.event()
            assert event is not None
            where = event.data.decode()
            assert (event.event, where.partition("?")[0]) == ("endpoint", f"{prefix}/messages")
            headers = {"Content-Type": "application/json"}
            async with site.http.post(site.url + where, data=PING, headers=headers) as accepted:
                assert (accepted.status, await accepted.read()) == (202, b"")
            answered = await stream.event()
            assert answered is not None
            assert answered.data == PONG

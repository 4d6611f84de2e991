"""Who a request is from: what a middleware found out decides whose sessions and questions it may touch."""

from __future__ import annotations

import logging
from typing import Any

import pytest

import speak
from mcp_sansio import Exchange, Registry
from sockets import PRINCIPAL, Client, Endpoint, serving, web

NEWEST = speak.VERSIONS[0]


def notes() -> Registry:
    registry = Registry("notes", "1.0")

    @registry.tool
    async def note(ex: Exchange) -> str:
        """Open a session by handle."""
        return (await ex.sessions.open()).handle

    return registry


def authenticated(key: Any) -> web.Application:
    """An application whose middleware believes the header X-User."""

    @web.middleware
    async def authenticate(request: web.Request, handler: web.Handler) -> web.StreamResponse:
        if "X-User" in request.headers:
            request[key] = request.headers["X-User"]
        return await handler(request)

    app = web.Application(middlewares=[authenticate])
    Endpoint(notes()).setup(app)
    return app


def as_user(client: Client, name: str) -> Client:
    client.extra = {"X-User": name}
    return client


@pytest.mark.filterwarnings("ignore:It is recommended to use web.RequestKey")
@pytest.mark.parametrize("key", [PRINCIPAL, "principal"], ids=["PRINCIPAL", "a plain string"])
@pytest.mark.parametrize("version", speak.HANDSHAKE)
async def test_a_session_does_not_exist_for_another_principal(version: str, key: Any) -> None:
    async with serving(authenticated(key)) as site:
        client = await as_user(Client(version, site), "mo").open()
        lists = client.message("tools/list")
        own = await client.post(lists)
        others = await as_user(client, "li").post(lists)
        client.extra = {}
        nobodys = await client.post(lists)
    assert [own.status, others.status, nobodys.status] == [200, 404, 404]


async def test_a_principal_that_is_no_string_is_refused_as_the_servers_fault(caplog: pytest.LogCaptureFixture) -> None:
    """An object would be another one with each request: nobody could find their session again."""
    app = Endpoint(notes(), principal=lambda request: object()).app()  # type: ignore[arg-type, return-value]
    with caplog.at_level(logging.ERROR, "aiohttp.server"):
        async with serving(app) as site:
            client = Client(NEWEST, site)
            assert (await client.post(client.calling("note"))).status == 500
    assert "a principal is a str or None, not object" in caplog.text

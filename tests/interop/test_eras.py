"""Every era of a client in front of every era of a server (2026-07-28, basic/versioning, "Compatibility Matrix").

The servers are other people's, as far as they can be told an era, and ours, narrowed to windows of revisions. A cell is
what the two settle on, or nothing, where the specification's table says that they fail: then the error has to name what
our side speaks and, where the server said what it speaks, that too.
"""

from __future__ import annotations

import asyncio

import attrs
import pytest

import support
from mcp_sansio.errors import NegotiationFailed

from .conftest import Find
from .pantry import EVERYTHING, PANTRIES, PATIENCE, Project, Running, client
from .peers import Where

support.need("mcp_sansio_aiohttp")
support.need("mcp_sansio_stdio")

NEWEST, STABLE, FIRST = "2026-07-28", "2025-11-25", "2024-11-05"
CLIENTS = ("auto", "modern", "legacy", FIRST)

#: What the two settle on, by the server's era and then the client's.
OUTCOMES: dict[str, dict[str, str | None]] = {
    "modern": {"auto": NEWEST, "modern": NEWEST, "legacy": None, FIRST: None},
    "dual": {"auto": NEWEST, "modern": NEWEST, "legacy": STABLE, FIRST: FIRST},
    "legacy": {"auto": STABLE, "modern": None, "legacy": STABLE, FIRST: FIRST},
    FIRST: {"auto": FIRST, "modern": None, "legacy": FIRST, FIRST: FIRST},
}


@attrs.frozen
class Server:
    """A server of an era, over a transport; `project` is ``None`` for ours."""

    project: Project | None
    era: str
    transport: str

    def __str__(self) -> str:
        return f"{self.project.name if self.project else 'ours'}-{self.era}-{self.transport}"


#: A server of the first HTTP transport is older than the others only by its transport: it negotiates as a legacy one.
THEIRS = [
    Server(project, "legacy" if transport == "sse" else era, transport)
    for project in (*PANTRIES.values(), EVERYTHING)
    for era in project.eras
    for transport in project.transports
    if transport != "sse" or era == project.eras[0]
]
OURS = [Server(None, era, transport) for era in OUTCOMES for transport in ("http", "stdio")]
OURS += [Server(None, era, "sse") for era in ("legacy", FIRST)]
WINDOWS = {"modern": ("--since", NEWEST), "dual": (), "legacy": ("--until", STABLE), FIRST: ("--only", FIRST)}


@pytest.fixture(params=[*OURS, *THEIRS], ids=str)
def server(request: pytest.FixtureRequest) -> Server:
    return request.param


@pytest.fixture
def where(server: Server, programs: Running, where: Find) -> Where:
    if server.project is None:
        return where(server.transport, window=WINDOWS[server.era])
    era = server.project.eras[0] if server.transport == "sse" else server.era
    return programs.where(server.project, server.transport, era)


@pytest.mark.parametrize("era", CLIENTS)
async def test_the_compatibility_matrix(era: str, server: Server, where: Where) -> None:
    expected = OUTCOMES[server.era][era]
    ours = client(where, era)
    async with asyncio.timeout(PATIENCE):
        if expected is None:
            with pytest.raises(NegotiationFailed) as raised:
                async with ours:
                    await ours.list_tools()
            assert_it_helps(raised.value, era, server)
        else:
            async with ours:
                assert (await ours.initialize()).revision == expected
                assert await ours.list_tools()


def assert_it_helps(error: NegotiationFailed, era: str, server: Server) -> None:
    """It names what our side would have spoken, and what the server speaks, where the server says that."""
    assert {"modern": NEWEST, "legacy": STABLE, FIRST: FIRST}[era] in str(error)
    spoken = {"modern": {NEWEST}, "legacy": {STABLE, "2025-06-18", "2025-03-26", FIRST}, FIRST: {FIRST}}[server.era]
    assert spoken.issuperset(error.versions)
    if server.project is None and server.transport != "sse":  # which answers no POST
        assert spoken == set(error.versions)
    assert all(version in str(error) for version in error.versions)

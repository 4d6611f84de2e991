"""What is in front of workers and around them: the proxies of the page on deploying, as it has them, and gunicorn."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

import pages
import speak
import support
from many_workers import PATIENCE, Engines, Fleet, fleet, until
from mcp_sansio import AdapterSet, elicit_accept
from sockets import Client, ClientSession, ClientTimeout, Site, UnixConnector, text_of

PAGE = support.ROOT / "docs" / "deploying.md"
HERE = Path(__file__).parent
PUSHING = tuple(version for version in speak.VERSIONS if AdapterSet.default().by_version[version].can_push_ask)
#: What each proxy's configuration is on the page, what it wants around that, and how it is started with a file.
AROUND = {
    "nginx": (
        "nginx",
        "daemon off; master_process off; pid {folder}/pid; error_log stderr; events {{}} http {{ access_log off;"
        " client_body_temp_path {folder}/a; proxy_temp_path {folder}/b; fastcgi_temp_path {folder}/c;"
        " uwsgi_temp_path {folder}/d; scgi_temp_path {folder}/e; {page} }}",
        ["-c"],
    ),
    "haproxy": ("cfg", "{page}", ["-db", "-f"]),
}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def takes_connections(where: int | Path) -> bool:
    kind = socket.AF_INET if isinstance(where, int) else socket.AF_UNIX
    with socket.socket(kind) as probe:
        return probe.connect_ex(("127.0.0.1", where) if isinstance(where, int) else str(where)) == 0


@asynccontextmanager
async def started(where: int | Path, *words: str, **environment: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """A program that serves there."""
    process = await asyncio.create_subprocess_exec(
        *words, env={**os.environ, **environment}, stderr=asyncio.subprocess.PIPE
    )
    try:
        await until(lambda: process.returncode is not None or takes_connections(where), "it serves")
        assert process.returncode is None, (await process.communicate())[1].decode()
        yield process
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(PATIENCE):
            await process.communicate()


@asynccontextmanager
async def proxy(kind: str, held: Fleet) -> AsyncIterator[Site]:
    """That proxy in front of the workers, configured as the page says."""
    program = support.need_program(kind, Path("/usr/sbin"))
    info, around, words = AROUND[kind]
    (block,) = (block.source for block in pages.blocks(PAGE) if block.info == info)
    port = free_port()
    ports = {8080: port, 8001: held.workers[0].port, 8002: held.workers[1].port}
    for named, actual in ports.items():
        assert f"127.0.0.1:{named}" in block
        block = block.replace(f"127.0.0.1:{named}", f"127.0.0.1:{actual}")
    file = held.folder / f"{kind}.conf"
    file.write_text(around.format(folder=held.folder, page=block))
    async with started(port, program, *words, str(file)):
        yield Site(f"http://127.0.0.1:{port}", held.site.http, held.site.runner)


@pytest.mark.parametrize("kind", AROUND)
async def test_a_proxy_of_the_page_lets_each_event_through_at_once(kind: str, engines: Engines, tmp_path: Path) -> None:
    async with fleet(2, tmp_path / "fleet", **engines.options("sqlite")) as held, proxy(kind, held) as site:
        client = Client(PUSHING[0], site)
        client.extra = {"X-User": "ada"}
        await client.open()
        await client.post(client.message("resources/subscribe", {"uri": "bread://rye"}))
        async with client.listening() as listening, client.streaming(client.calling("order", id="order")) as asked:
            for _ in range(2):
                question = await asked.message()
                reply = {"jsonrpc": "2.0", "id": question["id"], "result": elicit_accept()}
                assert (await client.post(reply)).status == 202
            assert text_of(await asked.message()) == "accept accept"
            await client.call("update")
            assert (await listening.message())["method"] == "notifications/resources/updated"
            listening.leave()
        async with client.streaming(client.calling("slow", token="t", at="slow")) as stream:
            assert (await stream.message())["params"]["progress"] == 1  # while its handler waits for us
            held.open_gate("slow-1")
            assert (await stream.message())["params"]["progress"] == 2
            held.open_gate("slow-2")
            assert text_of(await stream.message()) == "done"
        # Who a client says it is, nobody heard: to a worker itself the session is nobody's.
        straight = held.at(held.workers[0], client)
        straight.extra = {}
        assert text_of(await straight.call("count")) == "1"


@pytest.mark.parametrize("preload", [(), ("--preload",)], ids=["", "preload"])
async def test_gunicorn(preload: tuple[str, ...], engines: Engines, tmp_path: Path) -> None:
    """With ``--preload`` its workers are copies of one process, and are several workers all the same."""
    support.need("gunicorn")
    support.need("mcp_sansio_sqlite")
    path = tmp_path / "gunicorn.sock"
    words = ["-m", "gunicorn", "gunicorn_app:app", "--worker-class", "aiohttp.GunicornWebWorker", "--workers", "2"]
    words += ["--bind", f"unix:{path}", "--chdir", str(HERE), "--graceful-timeout", "10", *preload]
    options = json.dumps({"folder": str(tmp_path), "where": str(tmp_path / "mcp.sqlite")})
    async with (
        started(path, sys.executable, *words, MCP_SANSIO_WORKER=options),
        ClientSession(connector=UnixConnector(str(path), force_close=True), timeout=ClientTimeout(PATIENCE)) as http,
    ):
        client = await Client(PUSHING[0], Site("http://127.0.0.1", http, None)).open()  # type: ignore[arg-type]
        processes = set()
        async with asyncio.timeout(PATIENCE):
            while len(processes) < 2:
                answers = await asyncio.gather(*(client.call("who") for _ in range(8)))
                processes |= {text_of(answer) for answer in answers}
        await client.post(client.message("resources/subscribe", {"uri": "bread://rye"}))
        async with client.listening() as listening:
            await asyncio.gather(*(client.call("update") for _ in range(20)))
            for _ in range(20):
                assert (await listening.message())["method"] == "notifications/resources/updated"
            listening.leave()
        counted = [text_of(answer) for answer in await asyncio.gather(*(client.call("count") for _ in range(8)))]
        assert sorted(counted, key=int) == [str(number) for number in range(1, 9)]

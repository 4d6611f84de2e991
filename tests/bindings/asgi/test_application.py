"""What is an application's own matter: where it is mounted, what it is told by its server, and what it may be given.

What it answers is tried with every other binding, in tests/bindings/http_server, under several servers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import asynccontextmanager
from typing import Any

import attrs
import pytest

import speak
import support
from flags import Flag, turn
from mcp_sansio import AdapterSet, Exchange, MemoryHub, Registry
from mcp_sansio.wire.json import decode, encode

support.need("mcp_sansio_asgi")

from mcp_sansio_asgi import Application  # noqa: E402

NEWEST = speak.VERSIONS[0]


#: What every request says of itself.
FORMS = ((b"content-type", b"application/json"), (b"accept", b"application/json, text/event-stream"))


class Peer(speak.Speaker):
    """Knows what a request has in it, and sends nothing."""

    session: str | None = None
    headers = speak.Http.headers


SPEAKER = Peer(NEWEST, Registry("a client", "1"))


def bakery() -> Registry:
    registry = Registry("bakery", "1.0")

    @registry.tool
    async def whoami(ex: Exchange) -> str:
        """Where a request came in, and from whom."""
        return f"{ex.request['root_path']}|{ex.request['path']}"

    @registry.tool
    async def nap() -> str:
        """Wait for a moment."""
        for _ in range(3):
            await turn()
        return "awake"

    @registry.tool
    async def wait(ex: Exchange) -> str:
        """Wait to be given up."""
        await ex.progress(1)
        await ex.wait_cancelled()
        return "late"

    @registry.tool
    async def note(ex: Exchange) -> str:
        """Open a session by handle."""
        return (await ex.sessions.open()).handle

    @registry.tool
    async def reread(handle: str, ex: Exchange) -> str:
        """Whether the session of that handle is there for the one who asks."""
        return "there" if await ex.sessions.use(handle) else "not there"

    return registry


def calling(name: str, *, token: Any = None, **arguments: Any) -> Any:
    return SPEAKER.message("tools/call", {"name": name, "arguments": arguments}, token=token)


@attrs.define
class Said:
    """What an application sent."""

    messages: list[Mapping[str, Any]] = attrs.field(factory=list)

    async def send(self, message: Mapping[str, Any]) -> None:
        """For an application."""
        self.messages.append(message)

    @property
    def status(self) -> int:
        """Of the response."""
        status: int = self.messages[0]["status"]
        return status

    @property
    def body(self) -> bytes:
        """Of the response."""
        return b"".join(message.get("body", b"") for message in self.messages[1:])

    @property
    def text(self) -> str:
        """Of the result."""
        text: str = decode(self.body)["result"]["content"][0]["text"]
        return text


def scope_of(message: Any, path: str = "/mcp", **given: Any) -> dict[str, Any]:
    headers = [(name.lower().encode(), value.encode()) for name, value in SPEAKER.headers(message).items()]
    return {
        "type": "http",
        "http_version": "1.1",
        "method": "POST",
        "path": path,
        "root_path": "",
        "query_string": b"",
        "headers": [(b"host", b"localhost"), *FORMS, *headers],
        **given,
    }


async def ask(app: Any, message: Any, path: str = "/mcp", **given: Any) -> Said:
    """Send a request that is here at once, and read all of the response."""
    said, incoming = Said(), asyncio.Queue[dict[str, Any]]()
    incoming.put_nowait({"type": "http.request", "body": encode(message)})
    await app(scope_of(message, path, **given), incoming.get, said.send)
    return said


class TestWhereItIsServed:
    @pytest.mark.parametrize("path", ["/", "/mcp", "/any/where"])
    async def test_at_whatever_is_routed_to_it(self, path: str) -> None:
        assert (await ask(Application(bakery()), calling("whoami"), path)).text == f"|{path}"

    @pytest.mark.parametrize(
        ("root", "path", "status"),
        [
            ("", "/mcp", 200),
            ("", "/mcp/", 200),
            ("", "/", 404),
            ("", "/mcp/mcp", 404),
            ("/api", "/api/mcp", 200),  # as frameworks have it, and newer servers
            ("/api", "/mcp", 200),  # as older servers have it
            ("/mcp", "/mcp", 404),  # the mount is the path's prefix, and nothing is left
            ("/mc", "/mcp", 200),  # no prefix, whatever the letters say
        ],
    )
    async def test_at_its_path_below_where_it_is_mounted(self, root: str, path: str, status: int) -> None:
        said = await ask(Application(bakery(), path="/mcp"), calling("whoami"), path, root_path=root)
        assert said.status == status

    @pytest.mark.parametrize("path", ["", "/"])
    async def test_at_its_own_root(self, path: str) -> None:
        app = Application(bakery(), path="/")
        assert (await ask(app, calling("whoami"), f"/mcp{path}", root_path="/mcp")).status == 200

    @pytest.mark.skipif(not speak.HANDSHAKE, reason="no revision has the pair of endpoints")
    async def test_the_pair_is_told_with_the_prefix_of_a_mount(self) -> None:
        app, incoming, said = Application(bakery(), sse_path="/sse"), asyncio.Queue[dict[str, Any]](), Said()
        scope = scope_of(None, "/old/sse", root_path="/old", method="GET")
        scope["headers"] = [(b"host", b"localhost"), (b"accept", b"text/event-stream")]
        serving = asyncio.ensure_future(app(scope, incoming.get, said.send))
        while not said.body:
            await asyncio.sleep(0)
        assert said.body.startswith(b"event: endpoint\ndata: /old/messages?session_id=")
        incoming.put_nowait({"type": "http.disconnect"})
        await serving

    def test_the_pair_needs_a_revision_with_a_handshake(self) -> None:
        revisions = [version for version in speak.VERSIONS if version not in speak.HANDSHAKE]
        with pytest.raises(ValueError, match="the pair of endpoints needs a revision with a handshake"):
            Application(bakery(), adapters=AdapterSet.default().only(*revisions), sse_path="/sse")

    async def test_nothing_of_a_websocket(self) -> None:
        said = Said()
        await Application(bakery())({"type": "websocket"}, asyncio.Queue().get, said.send)
        assert said.messages == [{"type": "websocket.close"}]

    async def test_nothing_that_it_does_not_know(self) -> None:
        with pytest.raises(ValueError, match="serves http and lifespan, not smtp"):
            await Application(bakery())({"type": "smtp"}, asyncio.Queue().get, Said().send)


class User:
    """As a middleware has it."""

    def __init__(self, identity: str | None, is_authenticated: bool = True) -> None:
        self.is_authenticated = is_authenticated
        if identity is not None:
            self.identity = identity


class TestWhoIsCalling:
    @pytest.mark.parametrize(
        ("owner", "other", "found"),
        [
            ("mo", "mo", "there"),
            ("mo", "li", "not there"),
            ("mo", None, "not there"),
            (User("mo"), User("mo"), "there"),
            (User("mo"), "mo", "there"),
            (User("mo"), User("mo", is_authenticated=False), "not there"),
            (User("", is_authenticated=False), None, "there"),
        ],
    )
    async def test_is_whom_a_middleware_found(self, owner: Any, other: Any, found: str) -> None:
        app = Application(bakery())
        handle = (await ask(app, calling("note"), user=owner)).text
        assert (await ask(app, calling("reread", handle=handle), user=other)).text == found

    @pytest.mark.parametrize("user", [User(None), object(), User(17)], ids=["no identity", "any object", "a number"])  # type: ignore[arg-type]
    async def test_has_to_be_a_string(self, user: Any) -> None:
        with pytest.raises(TypeError, match="principal=… takes a function"):
            await ask(Application(bakery()), calling("note"), user=user)

    async def test_may_be_found_by_a_function(self) -> None:
        app = Application(bakery(), principal=lambda scope: scope["state"]["user"])
        handle = (await ask(app, calling("note"), state={"user": "mo"})).text
        assert (await ask(app, calling("reread", handle=handle), state={"user": "li"})).text == "not there"


class TestWhereARequestCameIn:
    """On a loopback address, the Host has to be one as well."""

    @pytest.mark.parametrize(
        ("ends", "status"),
        [
            ({"server": ("127.0.0.1", 80), "client": ("127.0.0.1", 9)}, 421),
            ({"server": ["::1", 80]}, 421),
            ({"server": ("127.0.0.1", 80), "client": ("192.0.2.7", 9)}, 421),  # a header may have said so
            ({"server": ("192.0.2.1", 80), "client": ("192.0.2.7", 9)}, 200),
            ({"server": ("localhost", 80), "client": ("127.0.0.1", 9)}, 421),
            ({"server": ("/run/mcp.sock", None), "client": None}, 200),
            ({}, 200),
        ],
    )
    async def test_is_told_by_its_addresses(self, ends: dict[str, Any], status: int) -> None:
        message = calling("whoami")
        scope = scope_of(message, **ends)
        scope["headers"][0] = (b"host", b"rebound.example")
        said = Said()
        await Application(bakery())(scope, _whole(message), said.send)
        assert said.status == status


def _whole(message: Any) -> Any:
    incoming = asyncio.Queue[dict[str, Any]]()
    incoming.put_nowait({"type": "http.request", "body": encode(message)})
    return incoming.get


def _run_on_trio(body: Any) -> None:
    support.need("trio").run(body)


def _run_on_uvloop(body: Any) -> None:
    with asyncio.Runner(loop_factory=support.need("uvloop").new_event_loop) as runner:
        runner.run(body())


def _run_on_asyncio(body: Any) -> None:
    asyncio.run(body())


@pytest.mark.parametrize("run", [_run_on_asyncio, _run_on_uvloop, _run_on_trio])
class TestALookOutForTheClient:
    """It is a task, and another read."""

    def test_is_spared_a_call_that_waits_for_nothing(self, run: Any) -> None:
        """Its first step may be one of the loop's, which may shuffle them."""
        assert self.reads(run, "whoami") == 32

    def test_is_spared_a_call_that_waits_for_a_moment(self, run: Any) -> None:
        """On a machine that is slow now and then, not each of them."""
        assert 32 <= self.reads(run, "nap") < 64

    def reads(self, run: Any, name: str) -> int:
        """How often the client is read for 32 calls."""
        app, message, said = Application(bakery()), calling(name), Said()
        requests, reads = list[bytes](), list[int]()

        async def receive() -> dict[str, Any]:
            reads.append(len(requests))
            if not requests:
                await Flag().wait()
            return {"type": "http.request", "body": requests.pop()}

        async def serve() -> None:
            for _ in range(32):
                requests.append(encode(message))
                await app(scope_of(message), receive, said.send)

        run(serve)
        assert [sent["type"] for sent in said.messages] == ["http.response.start", "http.response.body"] * 32
        return len(reads)


async def test_headers_may_be_lists() -> None:
    """ASGI has each as two items of any iterable, and those of some servers are lists."""
    app, message = Application(bakery()), calling("whoami")
    headers = [[*pair] for pair in scope_of(message)["headers"]]
    for _ in range(2):
        assert (await ask(app, message, headers=headers)).text == "|/mcp"


class TestTheClient:
    async def test_leaves_and_the_call_is_given_up(self) -> None:
        app, incoming, said = Application(bakery()), asyncio.Queue[dict[str, Any]](), Said()
        message = calling("wait", token="t")
        incoming.put_nowait({"type": "http.request", "body": encode(message)})
        serving = asyncio.ensure_future(app(scope_of(message), incoming.get, said.send))
        while not said.body:
            await asyncio.sleep(0)
        incoming.put_nowait({"type": "http.disconnect"})
        await serving
        await _nothing_is_left()

    async def test_leaves_and_sending_fails(self) -> None:
        """As newer servers tell it."""
        app, message = Application(bakery()), calling("wait", token="t")

        async def send(message: Mapping[str, Any]) -> None:
            raise OSError("gone")

        await app(scope_of(message), _whole(message), send)
        await _nothing_is_left()

    async def test_leaves_and_sending_fails_what_was_there_at_once(self) -> None:
        app, message = Application(bakery()), calling("whoami")

        async def send(message: Mapping[str, Any]) -> None:
            raise BrokenPipeError("gone")

        for _ in range(2):
            assert (await ask(app, message)).text == "|/mcp"
        await app(scope_of(message), _whole(message), send)
        await _nothing_is_left()

    async def test_has_left_before_its_request_was_read_and_is_sent_nothing(self) -> None:
        app, said, incoming = Application(bakery()), Said(), asyncio.Queue[dict[str, Any]]()
        for _ in range(2):
            incoming.put_nowait({"type": "http.disconnect"})
            await app(scope_of(calling("whoami")), incoming.get, said.send)
        assert said.messages == []
        await _nothing_is_left()

    async def test_leaves_and_receiving_fails(self) -> None:
        app, message, said = Application(bakery()), calling("wait"), Said()

        async def receive() -> dict[str, Any]:
            raise ConnectionResetError("gone")

        await app(scope_of(message), receive, said.send)
        assert said.messages == []
        await _nothing_is_left()

    async def test_leaves_when_it_was_refused_and_sending_fails_at_the_end(self) -> None:
        """A refusal is sent at once, and its end when the rest of the body was read."""
        app, message, sent = Application(bakery()), calling("whoami"), list[str]()

        async def send(message: Mapping[str, Any]) -> None:
            sent.append(message["type"])
            if len(sent) == 3:
                raise OSError("gone")

        incoming = asyncio.Queue[dict[str, Any]]()
        incoming.put_nowait({"type": "http.request", "body": b"x" * 2**17, "more_body": True})
        incoming.put_nowait({"type": "http.request", "body": b"x"})
        scope = scope_of(message)
        scope["headers"].append((b"content-length", b"9" * 15))
        await app(scope, incoming.get, send)
        assert sent == ["http.response.start", "http.response.body", "http.response.body"]
        await _nothing_is_left()

    async def test_leaves_while_the_body_comes(self) -> None:
        app, incoming, said = Application(bakery()), asyncio.Queue[dict[str, Any]](), Said()
        incoming.put_nowait({"type": "http.request", "body": b"{", "more_body": True})
        incoming.put_nowait({"type": "http.disconnect"})
        await app(scope_of(calling("wait")), incoming.get, said.send)
        assert said.messages == []

    async def test_is_cut_off_by_a_server_that_cancels(self) -> None:
        app, said = Application(bakery()), Said()
        message = calling("wait", token="t")
        serving = asyncio.ensure_future(app(scope_of(message), _whole(message), said.send))
        while not said.body:
            await asyncio.sleep(0)
        serving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await serving
        await _nothing_is_left()


async def _nothing_is_left() -> None:
    for _ in range(10):
        await asyncio.sleep(0)
    assert asyncio.all_tasks() == {asyncio.current_task()}


class TestItsLife:
    async def test_is_its_servers(self) -> None:
        app, incoming, said = Application(bakery()), asyncio.Queue[dict[str, Any]](), Said()
        living = asyncio.ensure_future(app({"type": "lifespan"}, incoming.get, said.send))
        incoming.put_nowait({"type": "lifespan.startup"})
        while not said.messages:
            await asyncio.sleep(0)
        assert (await ask(app, calling("whoami"))).status == 200
        incoming.put_nowait({"type": "lifespan.shutdown"})
        await living
        assert said.messages == [{"type": "lifespan.startup.complete"}, {"type": "lifespan.shutdown.complete"}]
        assert (await ask(app, calling("whoami"))).status == 503

    @pytest.mark.parametrize("has_lifespan", [True, False])
    async def test_joins_the_workers_with_a_lifespan_or_without(self, has_lifespan: bool) -> None:
        hub = MemoryHub(event=asyncio.Event)
        workers = [(Application(registry, hub=hub), registry) for registry in (bakery(), bakery())]
        listen = SPEAKER.message("subscriptions/listen", {"notifications": {"toolsListChanged": True}}, id=7)
        said, leave = Said(), asyncio.Queue[dict[str, Any]]()
        leave.put_nowait({"type": "http.request", "body": encode(listen)})
        async with _lives(workers[0][0] if has_lifespan else None), _lives(workers[1][0] if has_lifespan else None):
            for app, _ in workers:
                await ask(app, calling("whoami"))
            serving = asyncio.ensure_future(workers[0][0](scope_of(listen), leave.get, said.send))
            while not said.body:
                await asyncio.sleep(0)
            workers[1][1].remove_tool("wait")
            while b"tools/list_changed" not in said.body:
                await asyncio.sleep(0)
            leave.put_nowait({"type": "http.disconnect"})
            await serving
        for app, _ in workers:
            await app.close()
        await _nothing_is_left()

    async def test_ends_with_a_shutdown_that_ends_its_streams(self) -> None:
        app, said = Application(bakery()), Said()
        listen = SPEAKER.message("subscriptions/listen", {"notifications": {"toolsListChanged": True}}, id=7)
        serving = asyncio.ensure_future(app(scope_of(listen), _whole(listen), said.send))
        while not said.body:
            await asyncio.sleep(0)
        app.shutdown()
        await serving
        assert said.messages[-1]["more_body"] is False
        assert b'"id":7' in said.body


@asynccontextmanager
async def _lives(app: Application | None) -> Any:
    if app is None:
        yield
        return
    async with app.lifespan():
        yield

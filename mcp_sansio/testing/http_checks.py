"""The checks that the author of an HTTP server's driver runs on it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from mcp_sansio.adapters.preamble import PIN
from mcp_sansio.adapters.selection import AdapterSet
from mcp_sansio.events import Head
from mcp_sansio.server.config import Config

from .checking import QUIET, SLOW, SMALL, Case, Open, has_long_reports, pushes, run_all, settled, shown
from .http_scene import SESSION, TARGET, HttpClient, HttpScene, ResponseReader
from .server_scene import ask_timeout, asked, in_flight, several_events, unread, woken
from .simulation import Simulation
from .speaker import Said, Speaker

#: What a server makes up: sessions, streams, questions.
_TOKEN = re.compile(rb"[0-9a-f]{32}")
_COMMENT = b":\n\n"
#: A sign of life in the middle of a response: a machine that is slow enough is silent for so long.
_SIGN = re.compile(b"(?m)^" + _COMMENT)


async def check_http(open_http: Open[HttpClient], *, adapters: AdapterSet | None = None, patience: float = 5.0) -> None:
    """Check the driver of an HTTP server against the rules of docs/write-a-transport.md.

    ``open_http(registry, config)`` is a context manager, with or without ``async``. It serves that registry within
    those limits at the path ``/mcp``, by a server and drivers of its own each time, and gives an `HttpClient` in front
    of them. The rest is as for `check_channel`.
    """
    await run_all(_CASES, HttpScene, lambda adapter: open_http, adapters, patience)


# What is checked


async def _conversation(scene: HttpScene) -> None:
    """What comes out is what the engine says."""
    simulation = Simulation(scene.subject.registry, config=scene.config)
    session: dict[str, str] = {}
    for method, said, query in _requests(scene.speaker, scene.config.max_message):
        target = f"{TARGET}?{query}" if query else TARGET
        name = f"{method} {target} of {shown(said.body)}"
        headers = {**scene.headers(said), **session}
        wanted = simulation.http(said.body, method=method, target=target, headers=headers)
        response = await scene.request(method, said, query)
        await response.end(4, f"{name} is not answered")
        _compare(scene, name, wanted.head, wanted.body, response)
        opened = wanted.header(SESSION)
        if opened is not None:
            session[SESSION], scene.session = opened, response.headers[SESSION]


def _requests(speaker: Speaker, most: int) -> Iterator[tuple[str, Said, str]]:
    """Methods, messages and queries."""
    posted = [
        *speaker.handshake(),
        *speaker.repeated(),
        speaker.call("echo", text="é" * 1000),
        speaker.call("plain", text="by a thread"),
        speaker.call("count", "token", to=100),
        speaker.call("echo", text="x" * (most - 2000)),
        *(Said(body) for body in (b"", b"{", b"\xff\xfe", b'"text"', b"x" * (most + 1))),
        Said(b"{}", {"content-type": "text/plain"}),
    ]
    yield from (("POST", said, "") for said in posted)
    yield "POST", speaker.call("echo", text="to no revision"), f"{PIN}=none"
    yield "PUT", Said(b""), ""
    yield "OPTIONS", Said(b""), ""
    yield "POST", speaker.call("echo", text="still here"), ""


def _compare(scene: HttpScene, name: str, head: Head | None, body: bytes, response: ResponseReader) -> None:
    """Hold a response against what the engine says. Headers that HTTP itself adds are nobody's business."""
    if head is None or response.head is None or head.status != response.head.status:
        scene.fail(3, f"{name} brings {shown(response.head)}, where the engine says {shown(head)}")
    for header, value in head.headers:
        found = response.headers.get(header.lower())
        if found is None or (found != value and header.lower() != SESSION):
            scene.fail(3, f"{name} has a response with the header {header}: {found}, where the engine says {value!r}")
    if _TOKEN.sub(b"...", body) != _TOKEN.sub(b"...", _SIGN.sub(b"", response.body)):
        rule = 6 if sorted(body) == sorted(response.body) else 3
        scene.fail(rule, f"{name} brings {shown(response.body)}, where the engine says {shown(body)}")


async def _cancelled(scene: HttpScene) -> None:
    """A call that is given up has its task cancelled."""
    await scene.open()
    await scene.give_up(await scene.stuck("stuck"))
    await scene.echo(5, "after a cancellation calls are not answered")


async def _disconnected(scene: HttpScene) -> None:
    """A connection that ends is no cancellation on the revisions that do not say so."""
    await scene.open()
    (hold,) = await scene.hold("hold")
    relay = await scene.relay("relay", "hold")
    await relay.response.disconnect()
    await settled(scene.client.wait(2 * QUIET))
    if "relay" not in scene.subject.running:
        scene.fail(8, "a client lost its connection, which gives nothing up on this revision, and its call was ended")
    await scene.give_up(hold)
    await scene.ended(4, "a client lost its connection, and the call that went on without it is over")


async def _kept_alive(scene: HttpScene) -> None:
    """A stream on which nothing happens says that it is alive, again and again."""
    await scene.open()
    (hold,) = await scene.hold("hold")
    relay = await scene.relay("relay", "hold")
    seconds, response = scene.config.keep_alive, relay.response
    while response.body.count(_COMMENT) < 3:
        await response.read(7, f"nothing happens for {seconds:g} seconds, and no comment says that the server is there")
    await scene.give_up(hold)
    await response.text(4, "relay is over", "after a while of silence, the reply of a call does not come")


async def _call_timeout(scene: HttpScene) -> None:
    """A call that takes too long is ended."""
    await scene.open()
    (hold,) = await scene.hold("hold")
    relay = await scene.relay("relay", "hold")
    for call in (hold, relay):
        failed = await call.response.message(7, f"a call may take {scene.config.call_timeout:g} seconds and takes more")
        if "error" not in failed:
            scene.fail(7, f"a call took too long, and ends with {shown(failed)}")
        await call.response.end(4, "a call has failed, and its response does not end")
    await scene.ended(5, "a call took too long and was ended")


async def _left_unread(scene: HttpScene) -> None:
    """A client that does not read may leave, too."""
    await scene.open()
    call = await scene.say(scene.speaker.call("flood", "token", name="flood"))
    await scene.started("flood")
    await settled(scene.client.wait(4 * QUIET))
    await call.disconnect()
    await scene.ended(6, "a client that reads nothing has left, which gives its call up")


async def _announced(scene: HttpScene) -> None:
    """A change that a plain function makes, in whatever thread, reaches the client."""
    await scene.open()
    stream = await scene.listen()
    call = await scene.say(scene.speaker.call("declare", name="further"))
    await call.text(4, "declared", "a plain function returned, and its reply does not come")
    otherwise = "a plain function declared a tool, and a stream that is open does not say so"
    changed = await stream.message(4, otherwise)
    if "list_changed" not in changed.get("method", ""):
        scene.fail(4, f"{otherwise}: {shown(changed)}")


async def _abandoned(scene: HttpScene) -> None:
    """With the driver, the calls in flight end, and those that go on without their connection."""
    await scene.open()
    await scene.stuck("stuck")
    stuck = await scene.stuck("also stuck")
    await stuck.response.disconnect()


async def _shut_down(scene: HttpScene) -> None:
    """Streams end, and nothing begins any more."""
    await scene.open()
    stream = await scene.listen()
    # By then its driver has nothing to do any more, so that it has to be woken.
    await scene.echo(4, "a stream is open, and a call beside it is not answered")
    await settled(scene.client.shutdown())
    await stream.end(9, "the server was shut down, and a stream that is open does not end")
    refused = await scene.say(scene.speaker.call("echo", text="too late"))
    await refused.end(9, "the server was shut down, and what comes then is not refused")
    if refused.head is None or refused.head.status == 200:
        scene.fail(9, f"the server was shut down, and what comes then is served: {shown(refused.body)}")


_CASES: tuple[Case[HttpScene], ...] = (
    Case("a whole conversation", _conversation, Config(max_message=SMALL)),
    Case("several events at once", several_events, applies=lambda adapter: adapter.allows_batch),
    Case("a handler that goes on by itself", woken, Config(max_unsent=1)),
    Case("many calls in flight", in_flight),
    Case("a call that is given up", _cancelled),
    Case("a connection that is lost", _disconnected, applies=lambda adapter: not adapter.disconnect_cancels),
    Case("a question that is pushed", asked, applies=pushes),
    Case("a question that nobody answers", ask_timeout, Config(ask_timeout=0.2), applies=pushes, once=True),
    Case("a stream on which nothing happens", _kept_alive, Config(keep_alive=0.1), once=True),
    Case("calls that take too long", _call_timeout, Config(call_timeout=0.4), once=True),
    Case("a client that does not read", unread, SLOW, applies=has_long_reports, once=True),
    Case(
        "a client that does not read and leaves",
        _left_unread,
        Config(max_unsent=SLOW.max_unsent),
        applies=lambda adapter: adapter.disconnect_cancels and has_long_reports(adapter),
        once=True,
    ),
    Case("a change of the registry", _announced),
    Case("a driver that ends", _abandoned),
    Case("a server that is shut down", _shut_down),
)

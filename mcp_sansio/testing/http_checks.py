"""The checks that the author of an HTTP server's driver runs on it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from mcp_sansio.adapters.preamble import PIN
from mcp_sansio.adapters.selection import AdapterSet
from mcp_sansio.asking import elicit_accept
from mcp_sansio.events import Head
from mcp_sansio.operation import Operation
from mcp_sansio.server.config import Config
from mcp_sansio.wire.jsonrpc import encode_batch

from .checking import MANY, QUIET, SLOW, SMALL, Case, Open, has_long_reports, pushes, run_all, settled, shown
from .http_scene import SESSION, TARGET, HttpClient, HttpScene, Reader
from .simulation import Simulation
from .speaker import Said, Speaker
from .subject import FLOOD

#: What a server makes up: sessions, streams, questions.
_TOKEN = re.compile(rb"[0-9a-f]{32}")
_COMMENT = b":\n\n"


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
        headers = scene.headers(said)
        wanted = simulation.http(said.body, method=method, target=target, headers={**headers, **session})
        response = await scene.request(method, headers, said.body, query)
        await response.end(4, f"{name} is not answered")
        _compare(scene, name, wanted.head, wanted.body, response)
        opened = wanted.header(SESSION)
        if opened is not None:
            session[SESSION], scene.session = opened, response.headers[SESSION]


def _requests(speaker: Speaker, most: int) -> Iterator[tuple[str, Said, str]]:
    """Methods, messages and queries."""
    posted = [
        *speaker.handshake(),
        speaker.request(Operation.LIST_TOOLS),
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


def _compare(scene: HttpScene, name: str, head: Head | None, body: bytes, response: Reader) -> None:
    """Hold a response against what the engine says. Headers that HTTP itself adds are nobody's business."""
    if head is None or response.head is None or head.status != response.head.status:
        scene.fail(3, f"{name} brings {shown(response.head)}, where the engine says {shown(head)}")
    for header, value in head.headers:
        found = response.headers.get(header.lower())
        if found is None or (found != value and header.lower() != SESSION):
            scene.fail(3, f"{name} has a response with the header {header}: {found}, where the engine says {value!r}")
    if _TOKEN.sub(b"...", body) != _TOKEN.sub(b"...", response.body):
        rule = 6 if sorted(body) == sorted(response.body) else 3
        scene.fail(rule, f"{name} brings {shown(response.body)}, where the engine says {shown(body)}")


async def _several_events(scene: HttpScene) -> None:
    """One request may bring several calls."""
    await scene.open()
    calls = [scene.speaker.call("echo", text=text) for text in "abc"]
    response = await scene.say(Said(encode_batch([b"{}", *(call.body for call in calls)])))
    otherwise = "a batch of several calls is not answered, as if only some of its events were seen"
    replies = await response.message(5, otherwise)
    if len(replies) != 1 + len(calls):
        scene.fail(5, f"a batch of {len(calls)} calls brings {shown(replies)}")


async def _woken(scene: HttpScene) -> None:
    """What a handler says while it runs comes out at once."""
    await scene.open()
    call = await scene.say(scene.speaker.call("count", "token", to=5))
    otherwise = "a handler goes on when what it said was taken, and what it says then does not come out"
    for number in range(1, 6):
        await call.progress(4, number, otherwise)
    await call.text(4, "counted to 5", otherwise)
    first, second = await scene.hold("first", "second")
    relay = await scene.relay("relay", "first", "second", token="token")
    otherwise = "a handler that waited has gone on and reports progress, and the report does not come out"
    await first.give_up()
    await relay.response.progress(4, 1, otherwise)
    await second.give_up()
    await relay.response.progress(4, 2, otherwise)
    otherwise = "a handler that waited has returned, and its reply does not come"
    await relay.response.text(4, "relay is over", otherwise)


async def _in_flight(scene: HttpScene) -> None:
    """Requests do not wait for each other."""
    await scene.open()
    names = [f"hold-{number}" for number in range(MANY)]
    holds = await scene.hold(*names)
    relays = [await scene.relay(f"relay-{number}", name) for number, name in enumerate(names)]
    await scene.echo(5, "a call is not answered while others are in flight")
    for number in reversed(range(MANY)):
        await holds[number].give_up()
        otherwise = f"call {number + 1} of {MANY} is over before the others, and its reply does not come"
        await relays[number].response.text(5, f"relay-{number} is over", otherwise)
    await scene.ended(5, "every call is over or was given up")


async def _cancelled(scene: HttpScene) -> None:
    """A call that is given up has its task cancelled."""
    await scene.open()
    call = await scene.stuck("stuck")
    await call.give_up()
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
    await hold.give_up()
    await scene.ended(4, "a client lost its connection, and the call that went on without it is over")


async def _asked(scene: HttpScene) -> None:
    """A question is pushed while the call is in flight, and its answer lets the call go on."""
    await scene.open()
    call = await scene.say(scene.speaker.call("ask", name="ask"))
    question = await call.message(4, "a handler asks the client, and the question does not come out")
    await scene.accepted(scene.speaker.answer(question, elicit_accept()))
    await call.text(4, "the user chose to accept", "the question is answered, and the call does not go on")


async def _ask_timeout(scene: HttpScene) -> None:
    """A question has a deadline that comes long before the others of its call."""
    await scene.open()
    call = await scene.say(scene.speaker.call("ask", name="ask"))
    await call.message(4, "a handler asks the client, and the question does not come out")
    seconds = scene.config.ask_timeout
    otherwise = f"nobody answers a question, which has {seconds:g} seconds, and it is not withdrawn"
    await call.message(7, f"{otherwise}: its deadline is earlier than the one before it")
    failed = await call.message(4, "a question was withdrawn, and its call does not fail")
    if "error" not in failed:
        scene.fail(7, f"a question was withdrawn, and then came {shown(failed)}")
    await call.end(4, "a call has failed, and its response does not end")


async def _kept_alive(scene: HttpScene) -> None:
    """A stream on which nothing happens says that it is alive, again and again."""
    await scene.open()
    (hold,) = await scene.hold("hold")
    relay = await scene.relay("relay", "hold")
    seconds, response = scene.config.keep_alive, relay.response
    while response.body.count(_COMMENT) < 3:
        await response.read(7, f"nothing happens for {seconds:g} seconds, and no comment says that the server is there")
    await hold.give_up()
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


async def _unread(scene: HttpScene) -> None:
    """A client that does not read costs no memory, and its calls end in time all the same."""
    await scene.open()
    call = await scene.say(scene.speaker.call("flood", "token", name="flood"))
    await scene.started("flood")
    await scene.ended(7, "a call took too long, and should have been ended although the client does not read")
    if scene.subject.flooded >= FLOOD / 2:
        scene.fail(6, f"a handler reported {scene.subject.flooded} bytes to a client that reads nothing")
    otherwise, done = "what waited for the client does not come when it reads", 0
    while "id" not in (message := await call.message(6, otherwise)):
        if message["params"]["progress"] != done:
            scene.fail(6, f"report {done} should come next, and what comes is {message['params']['progress']}")
        done += 1
    if "error" not in message:
        scene.fail(7, f"a call took too long, and ends with {shown(message)}")


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


_CASES = (
    Case("a whole conversation", _conversation, Config(max_message=SMALL)),
    Case("several events at once", _several_events, applies=lambda adapter: adapter.allows_batch),
    Case("a handler that goes on by itself", _woken, Config(max_unsent=1)),
    Case("many calls in flight", _in_flight),
    Case("a call that is given up", _cancelled),
    Case("a connection that is lost", _disconnected, applies=lambda adapter: not adapter.disconnect_cancels),
    Case("a question that is pushed", _asked, applies=pushes),
    Case("a question that nobody answers", _ask_timeout, Config(ask_timeout=0.2), applies=pushes, once=True),
    Case("a stream on which nothing happens", _kept_alive, Config(keep_alive=0.1), once=True),
    Case("calls that take too long", _call_timeout, Config(call_timeout=0.4), once=True),
    Case("a client that does not read", _unread, SLOW, applies=has_long_reports, once=True),
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

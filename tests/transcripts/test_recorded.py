"""Conversations between this library's client and its server, recorded: each side alone says the same again.

They are the files ``client-channel``, ``client-http`` and ``client-pair`` of each revision, and those of a client that
finds out what a server of that revision alone speaks. After a change that was meant: ``pytest tests/transcripts
--update-transcripts``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import bakery
import speak
import transcripts
from mcp_sansio import AdapterSet, ServerError, elicit_accept
from mcp_sansio.testing import PlainClient, Recorder, Simulation, connect, replay

WAYS = [(version, over) for version in speak.VERSIONS for over in ("channel", "http")]
#: The first HTTP transport is that of the first revision.
WAYS += [(version, "pair") for version in speak.HANDSHAKE if version == speak.VERSIONS[-1]]
RECORDED = [one for one in transcripts.playable() if one.has_client]


def converse(client: PlainClient) -> None:
    """A caller wants one thing after the other."""
    say = client.recorder.comment
    say("What is there? Nothing is known yet.")
    assert client.initialize().name == "bakery"
    tools = client.list_tools()
    assert "price" in [tool.name for tool in tools]
    say("A call, and one that fails.")
    client.call_tool("price", {"loaves": 2})
    with pytest.raises(ServerError):
        client.get_prompt("nothing")
    say("The user is asked.")
    client.call_tool("reserve", {"loaves": 2})
    say("It is said how the call goes on.")
    client.set_log_level("warning")
    client.call_tool("bake", on_progress=lambda *report: None)
    say("The caller gives up.")
    waiting = client.start(client.calls.call_tool("prove", on_progress=lambda *report: None))
    client.advance(20)
    waiting.cancel()
    client.simulation.settle()
    say("What changes is announced.")
    with client.listen(tools=True) as changes:
        client.call_tool("restock", {"what": "tools"})
        assert len(list(changes)) == 1
    say("The end.")


def find_out(client: PlainClient) -> None:
    """A caller wants one thing of a server that nobody knows."""
    client.recorder.comment("Nothing is known, and the server speaks one revision.")
    client.call_tool("price", {"loaves": 2})
    client.recorder.comment("Now it is known.")
    client.call_tool("price", {"loaves": 3})


def finding_out(version: str, over: Any) -> Recorder:
    """Both sides, joined, where the client does not know what the server speaks."""
    only = AdapterSet.default().only(version)
    simulation = Simulation(bakery.build(lambda: simulation.runtime.event()), adapters=only)
    with connect(simulation, over=over) as client:
        client.recorder.about = f"A client of every revision, and a bakery of {version}."
        find_out(client)
    return client.recorder


def conversation(version: str, over: Any) -> Recorder:
    """Both sides, joined."""
    simulation = Simulation(bakery.build(lambda: simulation.runtime.event()))

    def answer(request: Any) -> Any:
        return elicit_accept({"name": "Ada"})

    with connect(simulation, version, over=over, on_ask=answer, on_log=lambda *said: None) as client:
        client.recorder.about = f"A caller of this library's client, a client of {version}, and the bakery."
        converse(client)
    return client.recorder


@pytest.mark.parametrize(("kind", "record"), [("client", conversation), ("client-finding-out", finding_out)])
@pytest.mark.parametrize(("version", "over"), WAYS)
def test_both_sides_say_what_the_file_says(
    version: str, over: str, kind: str, record: Callable[[str, Any], Recorder], pytestconfig: pytest.Config
) -> None:
    path = transcripts.FOLDER / version / f"{kind}-{over}.txt"
    now = record(version, over).text()
    if pytestconfig.getoption("update_transcripts", default=False):
        path.write_text(now, "utf-8")
        return
    before = path.read_text("utf-8")
    if now != before:
        source = f"{version}/{path.stem}"
        pytest.fail(transcripts.difference(before.splitlines(), now.splitlines(), source), pytrace=False)


@pytest.mark.parametrize(
    ("version", "transcript"), [pytest.param(one.version, one, id=f"{one.version}-{one.name}") for one in RECORDED]
)
class TestEachSideAlone:
    def test_the_server(self, version: str, transcript: transcripts.Transcript) -> None:
        replay(transcript, transcripts.simulation_for(transcript))

    def test_the_client(self, version: str, transcript: transcripts.Transcript) -> None:
        replay(transcript)

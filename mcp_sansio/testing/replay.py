"""Transcripts that are run again, in either role."""

from __future__ import annotations

from mcp_sansio.registry import Registry

from .client_replay import play_client
from .server_replay import play_server
from .simulation import Simulation
from .transcript import Transcript, difference


def play(transcript: Transcript, server: Registry | Simulation | None = None) -> Transcript:
    """The transcript as it is now: see `replay`. Nothing is compared."""
    if server is None:
        return play_client(transcript)
    if isinstance(server, Registry):
        server = Simulation(server, config=transcript.config, adapters=transcript.adapters)
    return play_server(transcript.gathered(), server)[0]


def replay(transcript: Transcript | str, server: Registry | Simulation | None = None) -> None:
    """Run a transcript again. Raises ``AssertionError`` with the difference where it is not the same to the byte.

    With a `server`, a registry or a fresh `Simulation` of one, that server is told what the client said, and what it
    says now is compared. Without one, a client is made as the transcript's ``client:`` says, told what its caller and
    the server said, and what it says now is compared. Time passes where the transcript says so, and never waits.

    `transcript` is the text of one, as `Recorder` writes it, or what was parsed of it. Raises ``ValueError`` for what
    is no transcript.
    """
    before = Transcript.parse(transcript) if isinstance(transcript, str) else transcript
    wanted = before if server is None else before.gathered()
    now = play(before, server)
    if now.text() != wanted.text():
        raise AssertionError(difference(wanted.text().splitlines(), now.text().splitlines(), before.source))

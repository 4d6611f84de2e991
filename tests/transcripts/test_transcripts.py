"""Every transcript, played to the pure core: each byte is what the file says, and of the revision's schema.

The bindings' tests play them too. After a change that was meant: ``pytest tests/transcripts --update-transcripts``, and
read the difference that git shows.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import speak
import support
import transcripts
from mcp_sansio import AdapterSet, Operation
from mcp_sansio.testing import folding

PLAYABLE = transcripts.playable()


@pytest.mark.parametrize(
    ("version", "transcript"),
    [pytest.param(one.version, one, id=f"{one.version}-{one.name}") for one in PLAYABLE],
)
def test_transcript(version: str, transcript: transcripts.Transcript, pytestconfig: pytest.Config) -> None:
    now, _ = transcripts.play(transcript)
    before = transcript.path.read_text("utf-8")
    if pytestconfig.getoption("update_transcripts", default=False):
        transcript.path.write_text(now.text(), "utf-8")
        return
    if now.text() != before:
        path = f"{version}/{transcript.name}"
        pytest.fail(transcripts.difference(before.splitlines(), now.text().splitlines(), path), pytrace=False)


# What the transcripts show between them

EVERYWHERE = set(speak.VERSIONS)
NEWEST = "2026-07-28"
HANDSHAKE = EVERYWHERE - {NEWEST}
SESSIONS = HANDSHAKE - {"2024-11-05"}
STREAMABLE = EVERYWHERE - {"2024-11-05"}

#: What varies between the revisions: which of them have to show how they have it, or that they do not, and what is
#: found in every transcript that shows it.
CONCERNS: dict[str, tuple[set[str], str]] = {
    "server-description": (EVERYWHERE, '"capabilities": {'),
    "session": (EVERYWHERE, "session"),
    "get-stream": (STREAMABLE, "GET /mcp"),
    "version-header": (STREAMABLE, "MCP-Protocol-Version"),
    "method-header": (STREAMABLE, "Mcp-Method"),
    "name-header": (STREAMABLE, "Mcp-Name"),
    "param-headers": (EVERYWHERE, '"region"'),
    "batching": (EVERYWHERE, "> ["),
    "unknown-method": (EVERYWHERE, "-32601"),
    "header-mismatch": (STREAMABLE, "Mcp-Method"),
    "unsupported-version": (EVERYWHERE, "2031-01-01"),
    "missing-capability": (EVERYWHERE, "error"),
    "result-envelope": (EVERYWHERE, '"result"'),
    "asking": (EVERYWHERE, "reserve"),
    "ask-form": (EVERYWHERE, "In whose name?"),
    "ask-url": (EVERYWHERE, "pay"),
    "ask-sampling": (EVERYWHERE, "slogan"),
    "ask-roots": (EVERYWHERE, "recipes"),
    "cache-hints": (EVERYWHERE, '"result"'),
    "long-lived-notifications": (EVERYWHERE, "notifications/tools/list_changed"),
    "input-schema": (EVERYWHERE, "price"),
    "output-schema": (EVERYWHERE, "stock"),
    "title": (EVERYWHERE, '"rye"'),
    "resource-link": (EVERYWHERE, "show"),
    "logging": (EVERYWHERE, "notifications/message"),
    "progress": (EVERYWHERE, "notifications/progress"),
    "pagination": (EVERYWHERE, "nextCursor"),
    "cancellation": (EVERYWHERE, "prove"),
    "resource-not-found": (EVERYWHERE, "soup:/tomato"),
    "event-ids": (STREAMABLE, "Last-Event-ID"),
    "replay": (SESSIONS, "Last-Event-ID"),
    "priming": ({"2025-11-25"}, "retry: "),
    "ping": (EVERYWHERE, '"ping"'),
    "invalid-arguments": (EVERYWHERE, "Invalid arguments"),
    "unknown-tool": (EVERYWHERE, "bagel"),
    "limits": (EVERYWHERE, "call_timeout"),
    "refusals": (EVERYWHERE, "evil.example"),
    "delete-off": (STREAMABLE, "DELETE /mcp"),
    "delete-on": (SESSIONS, "DELETE /mcp"),
    # What the oldest has, or lacks, alone.
    "pair-endpoint": ({"2024-11-05"}, "event: endpoint"),
    "progress-without-message": ({"2024-11-05"}, "notifications/progress"),
    "no-annotations": ({"2024-11-05"}, '"price"'),
    "no-audio": ({"2024-11-05"}, "audio/wav"),
    "completions-capability": ({"2024-11-05"}, '"capabilities": {'),
}


@pytest.mark.parametrize("version", speak.VERSIONS)
def test_every_concern_is_shown(version: str) -> None:
    shown: set[str] = set().union(*(one.covers for one in transcripts.every() if one.version == version))
    wanted = {concern for concern, (versions, _) in CONCERNS.items() if version in versions}
    assert (wanted - shown, shown - wanted) == (set(), set())


def test_no_transcript_claims_what_it_lacks() -> None:
    claims = [(one, concern) for one in transcripts.every() for concern in one.covers]
    assert [(str(one.path), concern) for one, concern in claims if CONCERNS[concern][1] not in one.text()] == []


@pytest.mark.parametrize("kind", ["HTTP", "channel"])
@pytest.mark.parametrize("version", speak.VERSIONS)
def test_every_operation_is_asked_for(version: str, kind: str) -> None:
    methods = AdapterSet.default().by_version[version].methods
    asked: set[Operation] = set()
    for one in transcripts.every():
        if one.version == version and one.is_channel is (kind == "channel"):
            asked |= {methods[said] for said in one.methods() if said in methods}
    assert set(methods.values()) - asked == set()


def test_every_file_is_of_a_revision() -> None:
    """A file that nobody plays would be forgotten."""
    known = speak.VERSIONS if support.DELETED_REVISION is None else (*speak.VERSIONS, support.DELETED_REVISION)
    strangers = [one for one in transcripts.every() if one.version not in known]
    assert strangers == []
    assert {path.parent.name for path in transcripts.FOLDER.rglob("*.txt")} == set(known)


# The format


def written(tmp_path: Path, text: str) -> transcripts.Transcript:
    """The transcript in `text`."""
    path = tmp_path / speak.VERSIONS[0] / "made.txt"
    path.parent.mkdir()
    path.write_text(text, "utf-8")
    return transcripts.load(path)


BARE = "# Of nothing.\n\nC> PUT /mcp\n"


def test_what_the_server_says_is_written_after_what_it_answers(tmp_path: Path) -> None:
    made = written(tmp_path, BARE + "S> 200\n\n# And so on.\nC a> PUT /mcp\n")
    now, recording = transcripts.play(made)
    body = '{"jsonrpc":"2.0","error":{"code":-32600,"message":"PUT is not possible here"}}'
    head = ["405", "Content-Type: application/json", "Allow: GET, POST, OPTIONS", f"Content-Length: {len(body)}"]
    if not speak.HANDSHAKE:
        head[2] = "Allow: POST, OPTIONS"
    first = "".join(f"S> {line}\n" for line in head) + f"S>\nS> {body}\n"
    assert now.text() == BARE + first + "\n# And so on.\nC a> PUT /mcp\n" + first.replace("S>", "S a>")
    assert [len(outputs) for outputs in recording] == [1, 1]
    assert transcripts.difference(["a"], ["b"], "x") == "--- x (file)\n+++ now\n@@ -1 +1 @@\n-a\n+b"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("C> GET /mcp\nwhat\n", "made.txt:2: 'what' is no line of a transcript"),
        ("@ sideways\n", "made.txt:1: '@ sideways' moves nothing"),
        ("# a\nS> 200\n", "made.txt:2: what the server sends follows a step at once"),
        ("C> GET /mcp\n\nS> 200\n", "made.txt:3: what the server sends follows a step at once"),
    ],
)
def test_a_faulty_file_is_refused(tmp_path: Path, text: str, fault: str) -> None:
    with pytest.raises(ValueError, match=re.escape(fault)):
        written(tmp_path, text)


def test_a_name_that_stands_for_nothing_is_refused(tmp_path: Path) -> None:
    made = written(tmp_path, "C> GET /mcp\nC> Mcp-Session-Id: {{session}}\n")
    with pytest.raises(ValueError, match=re.escape("made.txt:1: {{session}} is not known yet")):
        transcripts.play(made)


def test_json_in_several_lines_stands_for_the_same_without_whitespace() -> None:
    long = '{"a":[' + ",".join(['"' + "x" * 60 + '"'] * 3) + '],"b":{},"c":1.0}'
    lines = folding.folded(long)
    assert [line[:12] for line in lines] == [
        "{",
        '  "a": [',
        *['    "xxxxxxx'] * 3,
        "  ],",
        '  "b": {},',
        '  "c": 1.0',
        "}",
    ]
    assert folding.unfolded(lines) == long.encode()
    for other in ("{" + " " * 200 + "}", "x" * 200, '{"a":1}'):
        assert folding.folded(other) == [other]
    assert folding.unfolded(["{", "x"]) == b"{\nx"

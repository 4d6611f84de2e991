"""What a client gives to the process that it starts, and keeps of what that says."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_sansio.child_process import LastWords, child_environment


def test_secrets_are_not_inherited() -> None:
    own = {"PATH": "/bin", "HOME": "/home/me", "LANG": "C", "API_TOKEN": "secret", "PYTHONPATH": "/mine", "path": "x"}
    assert child_environment(own, None) == {"PATH": "/bin", "HOME": "/home/me", "LANG": "C"}


def test_what_is_added_comes_on_top_and_changes_nothing_else() -> None:
    own, added = {"PATH": "/bin", "HOME": "/home/me"}, {"A": "1", "HOME": "/elsewhere"}
    assert child_environment(own, added) == {"PATH": "/bin", "HOME": "/elsewhere", "A": "1"}
    assert (own["HOME"], added) == ("/home/me", {"A": "1", "HOME": "/elsewhere"})


@given(st.lists(st.binary(max_size=5)))
def test_text_is_the_same_however_its_bytes_are_cut(pieces: list[bytes]) -> None:
    heard: list[str] = []
    words = LastWords(heard.append)
    for piece in [*filter(None, pieces), b""]:
        words.receive(piece)
    assert "".join(heard) == str(words) == b"".join(pieces).decode("utf-8", "replace")


def test_what_listens_may_fail(caplog: pytest.LogCaptureFixture) -> None:
    def fail(text: str) -> None:
        raise ValueError(text)

    words = LastWords(fail)
    words.receive(b"boom")
    words.receive(b"")
    assert (str(words), [record.getMessage() for record in caplog.records]) == (
        "boom",
        ["what is called with a server's errors failed"],
    )


def test_the_end_is_what_is_kept() -> None:
    words = LastWords()
    for _ in range(100):
        words.receive(b"x" * 1000)
    words.receive("…the end\n".encode())
    assert (len(str(words).encode()), str(words)[-9:]) == (8192, "…the end\n")
    assert len(words.after("the server exited")) < 2100


def test_what_has_happened_is_told_with_the_last_words() -> None:
    words = LastWords()
    assert words.after("the server exited with status 3") == "the server exited with status 3; it wrote no errors"
    words.receive(b"\nTraceback:\n  boom\n")
    assert words.after("the server exited with status 1") == (
        "the server exited with status 1; its error output ends with:\nTraceback:\n  boom"
    )

"""What a reference stands for, and which URLs are of one origin."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_sansio.wire.urls import Target, are_same_origin, origin_of, resolve, target_of

BASE = "https://host.example/a/sse?x=1#top"


@pytest.mark.parametrize(
    ("reference", "url"),
    [
        ("messages?x=1", "https://host.example/a/messages?x=1"),
        ("?x=1", "https://host.example/a/sse?x=1"),
        ("/m#f", "https://host.example/m"),
        ("", "https://host.example/a/sse?x=1"),
        ("../m", "https://host.example/m"),
        ("//other.example/x", "https://other.example/x"),
        ("http://host.example:8000/x", "http://host.example:8000/x"),
        ("HTTPS://HOST.example/x", "https://HOST.example/x"),
    ],
)
def test_a_reference_is_resolved_as_the_rfc_has_it(reference: str, url: str) -> None:
    assert resolve(BASE, reference) == url


@pytest.mark.parametrize(
    "reference",
    [
        "ftp://host.example/",
        "javascript:alert(1)",
        "data:,x",
        "http://",
        "http://[::1/",
        "https://host.example:99999/",
        "https://user:secret@host.example/",
        "//user@host.example/",
        "/\\evil.example/x",
        "https:\\\\evil.example",
        "/a b",
        "/a\r\nX: y",
        "\t//evil.example/",
        "/a\x00",
    ],
)
def test_what_two_readers_could_take_for_two_things_is_no_reference(reference: str) -> None:
    assert resolve(BASE, reference) is None


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("https://Host.example:443/x", ("https", "host.example", None)),
        ("http://host.example:443/", ("http", "host.example", 443)),
        ("http://user:pw@host.example", ("http", "host.example", None)),
        ("http://[0:0::1]:80/x?y#z", ("http", "[::1]", None)),
        ("host.example/x", None),
        ("http://", None),
        ("http://host.example:0/", None),
        ("ws://host.example/", None),
    ],
)
def test_an_origin_is_a_scheme_a_host_and_a_port(url: str, origin: object) -> None:
    assert origin_of(url) == origin


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("http://h/a", "http://H:80/b", True),
        ("http://h/a", "https://h/a", False),
        ("http://h/a", "http://h:8080/a", False),
        ("http://h/a", "http://i/a", False),
        ("x", "x", False),
    ],
)
def test_one_origin(one: str, other: str, same: bool) -> None:
    assert are_same_origin(one, other) is same


@given(st.text() | st.from_regex(r"[/?#a-z:@\\.\[\]]+"))
def test_any_text_is_a_url_or_none(reference: str) -> None:
    url = resolve(BASE, reference)
    assert url is None or origin_of(url) is not None


@pytest.mark.parametrize(
    ("url", "target"),
    [
        ("http://h", Target("http", "h", 80, "h", "/", None)),
        ("https://H.example:443/mcp#top", Target("https", "h.example", 443, "h.example", "/mcp", None)),
        ("http://h:8080/a%20b/ü?x=ü&y=1", Target("http", "h", 8080, "h:8080", "/a%20b/%C3%BC?x=%C3%BC&y=1", None)),
        ("http://[::1]:8080/a b", Target("http", "::1", 8080, "[::1]:8080", "/a%20b", None)),
        ("http://me:p%40ss@h/", Target("http", "h", 80, "h", "/", "Basic bWU6cEBzcw==")),
    ],
)
def test_a_url_is_taken_apart_for_a_request(url: str, target: Target) -> None:
    assert target_of(url) == target


@given(st.text() | st.from_regex(r"https?://[/?#a-z:@\\.\[\]]+"))
def test_what_is_taken_apart_fits_into_the_lines_of_a_request(url: str) -> None:
    try:
        target = target_of(url)
    except ValueError:
        return
    assert f"{target.authority}{target.path}{target.authorization}".isascii()
    assert not any(character.isspace() for character in target.authority + target.path)

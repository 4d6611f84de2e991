"""Hosts, origins and request targets."""

from __future__ import annotations

from ipaddress import IPv6Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_sansio.wire.hosts import parse_host, parse_origin, split_target

HOSTS: list[tuple[str, tuple[str, int | None] | None]] = [
    ("127.0.0.1", ("127.0.0.1", None)),
    ("127.0.0.1:8000", ("127.0.0.1", 8000)),
    ("localhost", ("localhost", None)),
    ("LOCALHOST:8000", ("localhost", 8000)),
    ("[::1]:8000", ("[::1]", 8000)),
    ("[::1]", ("[::1]", None)),
    ("[0:0:0:0:0:0:0:1]:65535", ("[::1]", 65535)),
    ("[FE80::A]", ("[fe80::a]", None)),
    ("[::ffff:127.0.0.1]", (f"[{IPv6Address('::ffff:7f00:1')}]", None)),  # Python 3.13 spells it with dots
    ("mcp.example.test", ("mcp.example.test", None)),
    ("localhost.evil.test", ("localhost.evil.test", None)),
    ("my_service-1:1", ("my_service-1", 1)),
    ("localhost.", ("localhost.", None)),
    *[
        (bad, None)
        for bad in (
            "",
            ":80",
            "a:",
            "a:0",
            "a:65536",
            "a:123456",
            "a:-1",
            "a:8o",
            "a:٣",
            "a:1:2",
            "::1",
            "[::1",
            "::1]",
            "[]",
            "[::g]",
            "[::1]a",
            "[fe80::1%25eth0]",
            "[1.2.3.4]",
            "a b",
            " a",
            "a\n",
            "a/b",
            "u@a",
            "a,b",
            "ä.test",
            "a%2eb",
            "*",
        )
    ],
]


@pytest.mark.parametrize(("value", "wanted"), HOSTS)
def test_parse_host(value: str, wanted: tuple[str, int | None] | None) -> None:
    assert parse_host(value) == wanted


ORIGINS: list[tuple[str, tuple[str, str, int | None] | None]] = [
    ("http://localhost:6274", ("http", "localhost", 6274)),
    ("https://evil.test", ("https", "evil.test", None)),
    ("HTTPS://Evil.TEST:443", ("https", "evil.test", None)),
    ("http://a:80", ("http", "a", None)),
    ("http://a:443", ("http", "a", 443)),
    ("http://[::1]:8000", ("http", "[::1]", 8000)),
    ("http://localhost.evil.test", ("http", "localhost.evil.test", None)),
    ("chrome-extension://abcdef", ("chrome-extension", "abcdef", None)),
    *[
        (bad, None)
        for bad in (
            "null",
            "",
            "localhost",
            "http:",
            "http://",
            "://a",
            "1http://a",
            "http://a/",
            "http://a/b",
            "http://a?b",
            "http://a#b",
            "http://u@a",
            "http://a http://b",
            "http://a, http://b",
            "http://a:0",
            " http://a",
            "http://a\n",
            "http//a",
            "*",
            "file://",
        )
    ],
]


@pytest.mark.parametrize(("value", "wanted"), ORIGINS)
def test_parse_origin(value: str, wanted: tuple[str, str, int | None] | None) -> None:
    assert parse_origin(value) == wanted


@given(st.text(st.characters(codec=None)) | st.text(alphabet="http:/[]::1.a@%"))
def test_hosts_and_origins_never_raise(text: str) -> None:
    host, origin = parse_host(text), parse_origin(f"http://{text}")
    assert (origin is None) == (host is None)
    if host is not None:
        name, port = host
        assert parse_host(name if port is None else f"{name}:{port}") == host


@pytest.mark.parametrize(
    ("target", "wanted"),
    [
        ("/mcp", ("/mcp", {})),
        ("/mcp?", ("/mcp", {})),
        ("/", ("/", {})),
        ("", ("", {})),
        ("*", ("*", {})),
        ("/messages/?session_id=a1&x=", ("/messages/", {"session_id": "a1", "x": ""})),
        ("/m?a=1&a=2&b", ("/m", {"a": "1", "b": ""})),
        ("/m?a=b?c=d&e=f=g", ("/m", {"a": "b?c=d", "e": "f=g"})),
        ("/%6Dcp", ("/mcp", {})),
        ("/%6Dcp/%C3%A4?k%20=v+w%2B", ("/mcp/ä", {"k ": "v w+"})),
        ("/%ff%zz%?a=%ff%", ("/\ufffd%zz%", {"a": "\ufffd%"})),
        ("/m#f?a=1", ("/m", {})),
        ("/m?a=1#b=2", ("/m", {"a": "1"})),
        ("http://host:80/mcp?a=1", ("/mcp", {"a": "1"})),
        ("http://host", ("/", {})),
        ("http://[bad?a=1", ("/", {"a": "1"})),
        ("//host/x", ("//host/x", {})),
        ("/a://b", ("/a://b", {})),
        ("/m?a;b=1", ("/m", {"a;b": "1"})),
    ],
)
def test_split_target(target: str, wanted: tuple[str, dict[str, str]]) -> None:
    assert split_target(target) == wanted


@given(st.text(st.characters(codec=None)) | st.text(alphabet="/?&=%a0:[]#;"))
def test_split_target_never_raises(target: str) -> None:
    split_target(target)

"""Header fields: look-up, mirrored values, media types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_sansio.wire.headers import (
    Headers,
    accepts,
    decode_value,
    encode_value,
    media_type,
)

PAIRS = [("Accept", "text/html"), ("X-Empty", ""), ("ACCEPT", "*/*"), ("accept", "a/b")]


@pytest.mark.parametrize("name", ["accept", "Accept", "ACCEPT"])
def test_look_up(name: str) -> None:
    headers = Headers(PAIRS)
    assert headers[name] == headers.get(name) == headers.get(name, "no") == "text/html, */*, a/b"
    assert name in headers


def test_what_is_not_there() -> None:
    headers: Mapping[Any, str] = Headers({"Host": "a"})
    assert (headers.get("Accept"), headers.get("accept", "x"), headers.get("a", 1)) == (None, "x", 1)
    assert "Accept" not in headers
    assert 5 not in headers
    with pytest.raises(KeyError, match=r"^'accept'$"):
        headers["Accept"]


def test_an_empty_value_is_there() -> None:
    headers = Headers(PAIRS)
    assert (headers["X-Empty"], headers.get("x-empty", "no"), "x-EMPTY" in headers) == ("", "", True)


def test_headers_are_a_mapping_of_lower_case_names() -> None:
    headers = Headers(PAIRS)
    assert (list(headers), len(headers)) == (["accept", "x-empty"], 2)
    assert headers == {"accept": "text/html, */*, a/b", "x-empty": ""}
    assert Headers({"A": "1", "a": "2"}) == {"a": "1, 2"}
    assert Headers() == {}
    assert isinstance(headers, Mapping)


def test_of_keeps_what_is_headers_already() -> None:
    headers = Headers(PAIRS)
    assert Headers.of(headers) is headers
    assert Headers.of(iter(PAIRS)) == Headers.of(PAIRS) == headers


def test_of_bytes_reads_what_came_over_the_wire() -> None:
    pairs = [(b"Accept", b"text/html"), (b"X-Name", b"J\xe4r"), (b"ACCEPT", b"*/*")]
    headers = Headers.of_bytes(pairs)
    assert dict(headers) == {"accept": "text/html, */*", "x-name": "Jär"}
    assert headers.size == len("acceptx-name") + len("text/html, */*Jär")


@pytest.mark.parametrize(
    "given",
    [[("Accept", "text/html")], {"Accept": "text/html"}, {b"Accept": b"text/html"}, [(b"Accept",)], [b"Accept"], [7]],
)
def test_of_bytes_refuses_what_is_no_pairs_of_bytes(given: Any) -> None:
    with pytest.raises(TypeError, match="header fields are pairs of bytes here, as they came over the wire"):
        Headers.of_bytes(given)


def test_of_bytes_reads_the_same_bytes_as_each_charset_has_them() -> None:
    pairs = [(b"Location", "/né".encode()), (b"X-Name", b"J\xe4r")]
    for _ in range(2):
        assert dict(Headers.of_bytes(pairs, "utf-8")) == {"location": "/né", "x-name": "J\udce4r"}
        assert dict(Headers.of_bytes(pairs)) == {"location": "/n\xc3\xa9", "x-name": "Jär"}


def test_of_bytes_reads_the_same_bytes_once() -> None:
    first, same = (Headers.of_bytes([(b"host", bytes([97, 98]))]) for _ in range(2))
    assert same is first
    others = [Headers.of_bytes([(b"host", b"%d" % number)]) for number in range(1000)]
    assert [headers["host"] for headers in others] == [str(number) for number in range(1000)]
    again = Headers.of_bytes([(b"host", bytes([97, 98]))])
    assert again is not first
    assert dict(again) == dict(first)


@pytest.mark.parametrize(
    "pair",
    [(b"Authorization", b"Bearer secret"), (b"proxy-authorization", b"a"), (b"COOKIE", b"a=b"), (b"x", b"y" * 4096)],
)
def test_of_bytes_keeps_no_secret_and_nothing_large(pair: tuple[bytes, bytes]) -> None:
    first, second = (Headers.of_bytes([(b"host", b"a"), pair]) for _ in range(2))
    assert second is not first
    assert dict(second) == dict(first) == {"host": "a", pair[0].decode().lower(): pair[1].decode()}


def test_of_bytes_keeps_none_of_many() -> None:
    """Each pair costs more than its characters."""
    pairs = [(b"%x" % number, b"") for number in range(1000)]
    first, second = (Headers.of_bytes(pairs) for _ in range(2))
    assert second is not first
    assert dict(second) == dict(first) == {f"{number:x}": "" for number in range(1000)}


def test_of_bytes_takes_lists() -> None:
    lists: Any = [[b"host", b"a"], [b"Accept", b"*/*"]]
    first, second = (Headers.of_bytes(lists) for _ in range(2))
    assert dict(first) == {"host": "a", "accept": "*/*"}
    assert second is first


def test_of_bytes_gives_each_its_own_credentials() -> None:
    host = (b"host", b"a")
    both = [Headers.of_bytes([(b"Authorization", token), host, (b"COOKIE", b"c")]) for token in (b"one", b"two")]
    assert [dict(headers) for headers in both] == [
        {"host": "a", "authorization": token, "cookie": "c"} for token in ("one", "two")
    ]
    assert dict(Headers.of_bytes([host])) == {"host": "a"}
    twice = Headers.of_bytes([(b"Cookie", b"a=b"), host, (b"cookie", b"c=d")])
    assert (dict(twice), twice.size) == ({"host": "a", "cookie": "a=b, c=d"}, len("hostacookiea=b, c=d"))


def test_headers_are_not_changed() -> None:
    source = {"A": "1"}
    headers: Any = Headers(source)
    source["A"] = "2"
    assert headers["a"] == "1"
    with pytest.raises(TypeError):
        headers["a"] = "3"
    with pytest.raises(AttributeError):
        headers.more = 1


def test_size_counts_names_and_values() -> None:
    assert (Headers().size, Headers({"Host": "example", "A": ""}).size) == (0, 12)


def test_repr_shows_no_value() -> None:
    assert repr(Headers({"Authorization": "Bearer secret", "Host": "a"})) == "<Headers authorization, host>"


ENCODED: list[tuple[str | int | bool, str]] = [
    ("us-west1", "us-west1"),
    ("a b", "a b"),
    ("", ""),
    ("~", "~"),
    ("file:///projects/myapp/config.json", "file:///projects/myapp/config.json"),
    (True, "true"),
    (False, "false"),
    (42, "42"),
    (-7, "-7"),
    (9007199254740993, "9007199254740993"),
    ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
    (" padded ", "=?base64?IHBhZGRlZCA=?="),
    (" a", "=?base64?IGE=?="),
    ("a ", "=?base64?YSA=?="),
    (" ", "=?base64?IA==?="),
    ("line1\nline2", "=?base64?bGluZTEKbGluZTI=?="),
    ("line\n", "=?base64?bGluZQo=?="),
    ("a\tb", "=?base64?YQli?="),
    ("\x7f", "=?base64?fw==?="),
    ("note:/ż/漢", "=?base64?bm90ZTovxbwv5ryi?="),
    ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
    ("=?base64?YQ==?=", "=?base64?PT9iYXNlNjQ/WVE9PT89?="),
    ("=?base64??=", "=?base64?PT9iYXNlNjQ/Pz0=?="),
    ("=?base64?=", "=?base64?PT9iYXNlNjQ/PQ==?="),
    ("=?base64?YQ==", "=?base64?YQ=="),
    ("=?BASE64?YQ==?=", "=?BASE64?YQ==?="),
    ("x=?base64?YQ==?=", "x=?base64?YQ==?="),
    ("a\ud800", "=?base64?Ye+/vQ==?="),
]


@pytest.mark.parametrize(("value", "header"), ENCODED)
def test_mirrored_values(value: str | int | bool, header: str) -> None:
    assert encode_value(value) == header
    if isinstance(value, str) and "\ud800" not in value:
        assert decode_value(header) == value
        assert decode_value(f" \t{header}\t ") == value


@pytest.mark.parametrize(
    ("header", "value"),
    [
        ("=?base64?SGVsbG8=", "=?base64?SGVsbG8="),  # no end marker: a literal
        ("SGVsbG8=?=", "SGVsbG8=?="),
        ("=?BASE64?SGVsbG8=?=", "=?BASE64?SGVsbG8=?="),
        ("=?Base64?SGVsbG8=?=", "=?Base64?SGVsbG8=?="),
        ("=?base64?=", "=?base64?="),
        ("=?base64??=", ""),
        ("=?base64?YQ==?=", "a"),
        ("=?base64?YQ=?=", None),
        ("=?base64?YQ?=", None),
        ("=?base64?YQ===?=", None),
        ("=?base64?YQ==YQ==?=", None),
        ("=?base64?YR==?=", None),  # bits are set where padding is
        ("=?base64?Y Q==?=", None),
        ("=?base64?Y\nQ==?=", None),
        ("=?base64? YQ==?=", None),
        ("=?base64?_-8=?=", None),  # the alphabet for URLs
        ("=?base64?!!!!?=", None),
        ("=?base64?é?=", None),
        ("=?base64?/w==?=", None),  # not UTF-8
        ("=?base64?7aCA?=", None),  # half a surrogate pair
        ("caf\xe9", None),
        ("a\tb", None),
        ("a\x00", None),
        ("a\x7f", None),
        ("a\r\nb", None),
        ("  a b  ", "a b"),
        ("XaX", "XaX"),
        ("\xa0a", None),
    ],
)
def test_decode_value(header: str, value: str | None) -> None:
    assert decode_value(header) == value


@given(st.text())
def test_every_text_can_be_mirrored(text: str) -> None:
    header = encode_value(text)
    assert header.isascii()
    assert header.isprintable()
    assert decode_value(header) == text


@given(st.text(st.characters(codec=None)) | st.text(alphabet="=?base64YQ/+ \t").map(lambda text: f"=?base64?{text}?="))
def test_decode_value_never_raises(text: str) -> None:
    value = decode_value(text)
    assert value is None or decode_value(encode_value(value)) == value


JSON_AND_STREAM = [
    # header, admits application/json, admits text/event-stream
    (None, True, True),
    ("", True, True),
    (" ", True, True),
    (",, ,", True, True),
    ("*/*", True, True),
    ("*", True, True),
    ("application/*, text/*", True, True),
    ("application/*", True, False),
    ("text/event-stream", False, True),
    ("application/json", True, False),
    ("Application/JSON;q=0.5 , TEXT/EVENT-STREAM", True, True),
    ("text/event-stream,application/json", True, True),
    ("text/html", False, False),
    ("application/json;q=0", False, False),
    ("application/json;q=0, */*", False, True),
    ("*/*, application/json;q=0", False, True),
    ("*/*;q=0, application/json", True, False),
    ("*/*;q=0.1, application/*; q=0", False, True),
    ("application/*;q=0, application/json;q=0.001", True, False),
    ("application/json;q=0, application/json;charset=utf-8", True, False),
    ("application/json; Q = 0.000 , text/event-stream;q=.5", False, True),
    ("application/json;q=0.", False, False),
    ("application/json;q=.0", False, False),
    ("application/json;q=1.000", True, False),
    ("application/json;q=00.10", True, False),
    ("application/json;q=", True, False),
    ("application/json;q=nan", True, False),
    ("application/json;q=0X", True, False),
    ("application/json;q=-1", True, False),
    ("application/json;freq=0", True, False),
    ('text/html;a="x,application/json", text/event-stream', False, True),
    ('text/html;a="x\\",application/json', False, False),
    ('text/html;a="x\\\n",application/json', True, False),
    ('text/html;a="\\\n,application/json"', False, False),
    ('text/html;a="b;q=0", application/json;a=";q=0"', True, False),
    ("application/jsonx, xapplication/json", False, False),
    ('application/json;q=0"a"', False, False),
    ("application", False, False),
    ("json", False, False),
    ("X", False, False),
]


@pytest.mark.parametrize(("accept", "as_json", "as_stream"), JSON_AND_STREAM)
def test_accepts(accept: str | None, as_json: bool, as_stream: bool) -> None:
    assert accepts(accept, "application/json") is as_json
    assert accepts(accept, "text/event-stream") is as_stream


@given(st.text())
def test_accepts_never_raises(accept: str) -> None:
    assert accepts(f"{accept}, application/json", "application/json") in (True, False)


@pytest.mark.parametrize("piece", [",", '"', '\\"', '"\\', "q=0;", '","', "a/b;q=", " ", "0"])
@pytest.mark.parametrize("start", ["", "a/b;q", "a/b;q=", "a/b;q=."])
def test_accepts_is_linear(start: str, piece: str) -> None:
    # A quadratic search would take minutes, which the suite counts as a failure.
    assert accepts(start + piece * 500_000 + 'x",text/event-stream', "application/json") in (True, False)


@pytest.mark.parametrize(
    ("content_type", "wanted"),
    [
        ("application/json", "application/json"),
        ("application/json; charset=utf-8", "application/json"),
        ("Application/JSON", "application/json"),
        ('application/json;charset="UTF-8"', "application/json"),
        (" application/json\t;", "application/json"),
        ("text/event-stream;charset=utf-8", "text/event-stream"),
        ("application/jsonx", "application/jsonx"),
        ("application/ld+json", "application/ld+json"),
        ("text/plain", "text/plain"),
        ("X/X", "x/x"),
        (None, None),
        ("", None),
        (";charset=utf-8", None),
        ("json", None),
        ("application/", None),
        ("/json", None),
        ("a/b/c", None),
        ("application/json, text/plain", None),
        ("application / json", None),
        ("application/json\n", None),
    ],
)
def test_media_type(content_type: str | None, wanted: str | None) -> None:
    assert media_type(content_type) == wanted

"""URI templates: which URIs they take, with which values, and what decoding must not bring back."""

from __future__ import annotations

import re
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_sansio.errors import DeclarationError
from mcp_sansio.uri_template import UriTemplate, is_template

MATCHES: list[tuple[str, str, dict[str, str] | None]] = [
    ("doc:/{name}", "doc:/a", {"name": "a"}),
    ("doc:/{name}", "doc:/", None),
    ("doc:/{name}", "doc:/a/b", None),
    ("doc:/{name}", "doc:/a?b", None),
    ("doc:/{name}", "doc:/a#b", None),
    ("doc:/{name}", "DOC:/a", None),
    ("doc:/{name}", "xdoc:/a", None),
    ("doc:/{name}", "doc:/a\nb", None),
    ("doc:/{name}", "doc:/%C5%BC%20x", {"name": "ż x"}),
    ("doc:/{name}", "doc:/ż", {"name": "ż"}),
    ("doc:/{name}", "doc:/a+b", {"name": "a+b"}),
    # Decoding brings back nothing that the template forbids, and happens once.
    ("doc:/{name}", "doc:/..%2F..%2Fetc%2Fpasswd", None),
    ("doc:/{name}", "doc:/%2e%2e", None),
    ("doc:/{name}", "doc:/..", None),
    ("doc:/{name}", "doc:/.", None),
    ("doc:/{name}", "doc:/...", {"name": "..."}),
    ("doc:/{name}", "doc:/a%00b", None),
    ("doc:/{name}", "doc:/a\\b", None),
    ("doc:/{name}", "doc:/a%5Cb", None),
    ("doc:/{name}", "doc:/%zz", None),
    ("doc:/{name}", "doc:/%2", None),
    ("doc:/{name}", "doc:/%ff", None),
    ("doc:/{name}", "doc:/%252e%252e", {"name": "%2e%2e"}),
    ("doc:/{name}", "doc:/a%7Fb", None),
    # A path.
    ("file:///{+path}", "file:///a/b.txt", {"path": "a/b.txt"}),
    ("file:///{+path}", "file:///a%2Fb", {"path": "a/b"}),
    ("file:///{+path}", "file:///a/../b", None),
    ("file:///{+path}", "file:///a/%2e%2E/b", None),
    ("file:///{+path}", "file:///..", None),
    ("file:///{+path}", "file:///a?x=1#y", {"path": "a?x=1#y"}),
    ("file:///{+path}", "file:///", None),
    # Several, and text that looks like a pattern.
    ("x:{a}/{ab}", "x:1/2", {"a": "1", "ab": "2"}),
    ("x:{a}-{b}", "x:1-2-3", {"a": "1-2", "b": "3"}),
    ("a.b:{x}(y)*", "a.b:1(y)*", {"x": "1"}),
    ("a.b:{x}", "aXb:1", None),
    ("{x}", "anything", {"x": "anything"}),
]


@pytest.mark.parametrize(("template", "uri", "values"), MATCHES)
def test_match(template: str, uri: str, values: dict[str, str] | None) -> None:
    assert UriTemplate.parse(template).match(uri) == values


def test_names() -> None:
    parsed = UriTemplate.parse("a:{x}/{+y_2}")
    assert (parsed.text, parsed.names) == ("a:{x}/{+y_2}", ("x", "y_2"))


@pytest.mark.parametrize(
    "text", ["a:{x*}", "a:{?x}", "a:{x,y}", "a:{}", "a:{x", "a:x}", "a:{1x}", "a:{x:3}", "a:{{x}}"]
)
def test_expressions_that_are_refused(text: str) -> None:
    assert is_template(text)
    with pytest.raises(DeclarationError) as caught:
        UriTemplate.parse(text)
    expected = f"the URI template {text!r} may only use {{name}} (one segment) and {{+name}} (a path)"
    assert str(caught.value) == expected


def test_a_variable_used_twice() -> None:
    with pytest.raises(DeclarationError, match=r"^the URI template 'a:\{x\}/\{\+x\}' uses \{x\} twice$"):
        UriTemplate.parse("a:{x}/{+x}")


@pytest.mark.parametrize(("uri", "expected"), [("a:b", False), ("a:{b}", True), ("a:}", True)])
def test_is_template(uri: str, expected: bool) -> None:
    assert is_template(uri) is expected


@given(st.text(min_size=1))
def test_what_is_quoted_comes_back_or_is_refused(value: str) -> None:
    try:
        uri = "doc:/" + quote(value, safe="")
    except UnicodeEncodeError:
        return
    found = UriTemplate.parse("doc:/{name}").match(uri)
    bad = (
        value in (".", "..") or "/" in value or "\\" in value or any(ord(char) < 32 or char == "\x7f" for char in value)
    )
    assert found == (None if bad else {"name": value})


PIECES = st.lists(st.sampled_from(["{a}", "{b}", "{+c}", "-", "/", "x", "-x"]), min_size=1, max_size=7)


@given(PIECES, st.text("-/x1", max_size=12))
def test_a_uri_is_divided_as_a_regular_expression_would(pieces: list[str], rest: str) -> None:
    once = [piece for number, piece in enumerate(pieces) if "{" not in piece or piece not in pieces[:number]]
    text = "p:" + "".join(once)
    if "{" not in text:
        return
    pattern = re.escape(text)
    for name, plus in (("a", ""), ("b", ""), ("c", "+")):
        group = ".+" if plus else "[^/?#]+"
        pattern = pattern.replace(re.escape(f"{{{plus}{name}}}"), f"(?P<{name}>{group})")
    found = re.fullmatch(pattern, "p:" + rest, re.DOTALL)
    assert UriTemplate.parse(text).match("p:" + rest) == (found.groupdict() if found else None)


def test_many_ways_to_divide_cost_no_more_than_one() -> None:
    template = UriTemplate.parse("pkg:{a}-{b}-{c}-{d}-{+e}-{f}")
    # As a regular expression this would go on for longer than anybody waits.
    assert template.match("pkg:" + "-" * 8000 + "/") is None
    assert template.match("pkg:" + "-" * 16_000_000) is None
    assert UriTemplate.parse("x:{a}").match("x:" + "y" * 8190) == {"a": "y" * 8190}
    assert UriTemplate.parse("x:{a}").match("x:" + "y" * 8191) is None


@given(st.text())
def test_no_value_leaves_its_segment(uri: str) -> None:
    found = UriTemplate.parse("doc:/{name}").match("doc:/" + uri)
    if found is not None:
        assert "/" not in found["name"]
        assert found["name"] not in (".", "..")

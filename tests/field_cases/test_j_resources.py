"""Cases 93 to 96: pages that end, and URIs that are compared as they are and never escape their template."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_sansio import Registry, ResourceNotFound

from .common import ENDS, ENVELOPE, EVERYWHERE, error, say

JSON = Any
LISTS = {
    "tools/list": "tools",
    "prompts/list": "prompts",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
}


def many(count: int, page_size: int = 2) -> Registry:
    """A registry with that many of everything."""
    registry = Registry("shop", "1.0", page_size=page_size)

    async def made() -> str:
        return "x"

    async def found(name: str) -> str:
        return name

    for number in range(count):
        registry.tool(name=f"t{number}")(made)
        registry.prompt(name=f"p{number}")(made)
        registry.resource(f"a:{number}")(made)
        registry.resource(f"b:{number}/{{name}}")(found)
    return registry


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 5])
@pytest.mark.parametrize(("end", "version"), EVERYWHERE)
def test_case_93_every_list_comes_to_its_end(end: str, version: str, count: int) -> None:
    client = ENDS[end](version, many(count))
    for method, member in LISTS.items():
        cursor, pages, seen = ..., 0, []
        while cursor is not None:
            params = {} if cursor is ... else {"cursor": cursor}
            (reply,) = say(client, client.message(method, params))
            body = reply["result"]
            seen += [entry["name"] + entry.get("uriTemplate", "") for entry in body[member]]
            # The last page has no cursor at all, not an empty one and not null.
            assert "nextCursor" not in body or (isinstance(body["nextCursor"], str) and body["nextCursor"])
            cursor, pages = body.get("nextCursor"), pages + 1
            assert pages <= count + 1
        assert pages == max(1, (count + 1) // 2)
        assert len(seen) == count


@pytest.mark.parametrize("cursor", ["", " ", "0x1", "-1", "nope", "1.0", "١", "9" * 30, "t1", "null"])
@pytest.mark.parametrize(("end", "version"), EVERYWHERE)
def test_case_94_a_cursor_that_was_not_given_out_never_starts_over(end: str, version: str, cursor: str) -> None:
    client = ENDS[end](version, many(3))
    for method in LISTS:
        (reply,) = say(client, client.message(method, {"cursor": cursor}))
        assert reply == error(1, -32602, "cursor was not given out by this server")
        for wrong in (5, True, [], {}):
            (reply,) = say(client, client.message(method, {"cursor": wrong}))
            assert reply == error(1, -32602, "params.cursor must be a string")
        (first,) = say(client, client.message(method))
        (null,) = say(client, client.message(method, {"cursor": None}))
        assert null == first


URIS = [
    "users/me",
    "note:Ä b",
    "x://HOST",
    "file:///a%2Fb",
    "data:,x",
    "urn:a:b",
    "http://h",
    "http://h/",
    "HTTP://h",
    "a b",
]
URIS += [
    "x:%c3%a9",
    "x:%C3%A9",
    "x:é",
    "x:e\u0301",
    "http://h:80",
    "http://h/./a/../b",
    "?q",
    "#f",
    "",
    "a\\b",
    "x:~",
    "x:%7E",
]


@pytest.mark.parametrize(("end", "version"), EVERYWHERE)
def test_case_95_a_uri_is_the_string_that_it_is(end: str, version: str) -> None:
    registry = Registry("shop", "1.0")
    for uri in URIS:

        def bind(uri: str) -> Any:
            async def held() -> str:
                return f"<{uri}>"

            return held

        registry.resource(uri, name="r")(bind(uri))
    client = ENDS[end](version, registry)
    (listed,) = say(client, client.message("resources/list"))
    assert [entry["uri"] for entry in listed["result"]["resources"]] == URIS
    for uri in URIS:
        (reply,) = say(client, client.message("resources/read", {"uri": uri}))
        assert reply["result"]["contents"] == [{"uri": uri, "text": f"<{uri}>"}]
    for near in (
        "users/me/",
        "/users/me",
        "x://host",
        "x://HOST/",
        "file:///a/b",
        "file:///a%2fb",
        "http://H",
        "note:%C3%84%20b",
    ):
        (reply,) = say(client, client.message("resources/read", {"uri": near}))
        assert reply == not_found(version, near)


def not_found(version: str, uri: str) -> JSON:
    """What a client of `version` is told where there is nothing at `uri`."""
    return error(1, -32602 if version in ENVELOPE else -32002, "resource not found", data={"uri": uri})


READS: list[tuple[str, JSON]] = [
    ("doc:/plain", {"name": "plain"}),
    ("doc:/a%20b", {"name": "a b"}),
    ("doc:/a b", {"name": "a b"}),
    ("doc:/%C5%BC", {"name": "ż"}),
    ("doc:/ż", {"name": "ż"}),
    ("doc:/a%252Fb", {"name": "a%2Fb"}),
    ("doc:/a.b", {"name": "a.b"}),
    ("doc:/...", {"name": "..."}),
    ("doc:/..a", {"name": "..a"}),
    ("doc:/..%2F..%2Fetc%2Fpasswd", None),
    ("doc:/..%2f", None),
    ("doc:/../etc/passwd", None),
    ("doc:/..", None),
    ("doc:/.", None),
    ("doc:/%2e%2e", None),
    ("doc:/%2E.", None),
    ("doc:/.%2e", None),
    ("doc:/a%2Fb", None),
    ("doc:/a/b", None),
    ("doc:/%2Fetc", None),
    ("doc:/a%00b", None),
    ("doc:/a\x00b", None),
    ("doc:/a%0Ab", None),
    ("doc:/a\\b", None),
    ("doc:/a%5Cb", None),
    ("doc:/..%5C..%5Cwin", None),
    ("doc:/%zz", None),
    ("doc:/%", None),
    ("doc:/%2", None),
    ("doc:/%C3", None),
    ("doc:/%ff", None),
    ("doc:/%c0%ae%c0%ae", None),
    ("doc:/", None),
    ("doc:/a?b", None),
    ("doc:/a#b", None),
    ("DOC:/a", None),
    ("a.b:/x", {"dotted": "x"}),
    ("aXb:/x", None),
    ("tree:/a/b/c", {"path": "a/b/c"}),
    ("tree:/a%2Fb", {"path": "a/b"}),
    ("tree:/a/../b", None),
    ("tree:/a/..%2Fb", None),
    ("tree:/a%2F..%2Fb", None),
    ("tree:/%2e%2e/b", None),
    ("tree:/a/./b", None),
    ("tree:/a%5C..%5Cb", None),
    ("two:/1/2", {"id": "1", "id_more": "2"}),
    ("two:/1%2F2/3", None),
    ("+(a)*:/x", {"odd": "x"}),
    ("aaa:/x", None),
]


@pytest.mark.parametrize(("uri", "values"), READS, ids=lambda value: ascii(value)[:40])
@pytest.mark.parametrize(("end", "version"), EVERYWHERE)
def test_case_96_what_a_template_forbids_no_encoding_brings_back(
    end: str, version: str, uri: str, values: JSON
) -> None:
    registry = Registry("shop", "1.0")
    opened: list[JSON] = []

    @registry.resource("doc:/{name}")
    async def doc(name: str) -> str:
        opened.append({"name": name})
        return "x"

    @registry.resource("a.b:/{dotted}")
    async def dot(dotted: str) -> str:
        opened.append({"dotted": dotted})
        return "x"

    @registry.resource("tree:/{+path}")
    async def tree(path: str) -> str:
        opened.append({"path": path})
        return "x"

    @registry.resource("two:/{id}/{id_more}")
    async def two(id: str, id_more: str) -> str:
        opened.append({"id": id, "id_more": id_more})
        return "x"

    @registry.resource("+(a)*:/{odd}")
    async def odd(odd: str) -> str:
        opened.append({"odd": odd})
        return "x"

    client = ENDS[end](version, registry)
    (reply,) = say(client, client.message("resources/read", {"uri": uri}))
    if values is None:
        assert (reply, opened) == (not_found(version, uri), [])
    else:
        assert (reply["result"]["contents"], opened) == ([{"uri": uri, "text": "x"}], [values])


@pytest.mark.parametrize(("end", "version"), EVERYWHERE)
def test_case_96_nothing_there_is_an_error_and_never_empty(end: str, version: str) -> None:
    registry = Registry("shop", "1.0")

    @registry.resource("row:/{number}")
    async def row(number: int) -> str:
        raise ResourceNotFound(f"no row {number}")

    @registry.resource("none:/{name}")
    async def none(name: str) -> None:
        return None

    client = ENDS[end](version, registry)
    for uri in ("row:/5", "row:/x", "row:/5.5"):
        assert say(client, client.message("resources/read", {"uri": uri})) == [not_found(version, uri)]
    (reply,) = say(client, client.message("resources/read", {"uri": "none:/a"}))
    assert reply == error(1, -32603, "The request failed because of an internal error.")

"""What a caller gives a client that is none of it: named, with what there is, where it was given."""

from __future__ import annotations

from typing import Any

import pytest

import speak
from mcp_sansio import ClientConfig, Registry, elicit_accept, elicit_accept_defaults
from mcp_sansio.testing import PlainClient, connect

CALL_OPTIONS = "timeout, max_timeout, on_progress, headers, input_responses, request_state"


def cinema() -> Registry:
    registry = Registry("cinema", "1.0")

    @registry.tool
    def book(film: str) -> str:
        """Book a seat."""
        return film

    return registry


def booked(client: Any) -> str:
    """What an ordinary call gives."""
    text: str = client.call_tool("book", {"film": "Alien"}).content[0].text
    return text


WRONG_CALLS = [
    (
        lambda client: client.call_tool("book", film="Alien"),
        f"call_tool() has no option 'film'; there are {CALL_OPTIONS}. "
        "Arguments go into a dictionary: call_tool(…, {'film': …})",
    ),
    (
        lambda client: client.call_tool("book", {"film": "Alien"}, params=1),
        f"call_tool() has no option 'params'; there are {CALL_OPTIONS}. "
        "Arguments go into a dictionary: call_tool(…, {'params': …})",
    ),
    (
        lambda client: client.call_tool("book", "Alien"),
        "call_tool() takes the arguments as a dictionary, such as {'name': …}, not 'Alien'",
    ),
    (
        lambda client: client.get_prompt("review", 5),
        "get_prompt() takes the arguments as a dictionary, such as {'name': …}, not 5",
    ),
    (
        lambda client: client.get_prompt("review", film="Alien"),
        f"get_prompt() has no option 'film'; there are {CALL_OPTIONS}. "
        "Arguments go into a dictionary: get_prompt(…, {'film': …})",
    ),
    (
        lambda client: client.read_resource("file:///a", film="Alien"),
        f"read_resource() has no option 'film'; there are {CALL_OPTIONS}",
    ),
]


@pytest.mark.parametrize(("wrong", "words"), WRONG_CALLS)
@pytest.mark.parametrize("version", speak.VERSIONS)
def test_what_is_no_argument_and_no_option_of_a_call_is_named(version: str, wrong: Any, words: str) -> None:
    with connect(cinema(), version) as client:
        with pytest.raises(TypeError) as raised:
            wrong(client)
        assert str(raised.value) == words
        assert booked(client) == "Alien"


WRONG_CLIENTS = [
    ({"timeout": 3}, "a client has no option 'timeout': limits are config=ClientConfig(timeout=…)"),
    (
        {"on_asked": print},
        "a client has no option 'on_asked'; every client has on_ask, on_progress, on_log, on_change, client_info, "
        "capabilities, log_level, config, known",
    ),
    ({"on_ask": True}, "on_ask must be a function, not True"),
    ({"on_change": "print"}, "on_change must be a function, not 'print'"),
]


@pytest.mark.parametrize(("options", "words"), WRONG_CLIENTS)
def test_what_is_no_option_of_a_client_is_named_where_it_is_given(options: Any, words: str) -> None:
    with pytest.raises(TypeError) as raised:
        connect(cinema(), **options)
    assert str(raised.value) == words


def test_an_option_that_is_none_is_as_good_as_none() -> None:
    with connect(cinema(), on_ask=None, config=ClientConfig(timeout=3)) as client:
        assert booked(client) == "Alien"


def test_a_callback_in_the_place_of_a_revision_is_named() -> None:
    def answer(request: Any) -> Any: ...

    wrong: Any = answer
    with pytest.raises(TypeError, match=r"revision is a name, an Adapter or an AdapterSet, not <function .*on_ask=…"):
        connect(cinema(), wrong)


def test_what_connect_gives_says_how_a_client_is_had() -> None:
    joined: Any = connect(cinema())
    for method in ("call_tool", "list_tools", "advance"):
        assert hasattr(PlainClient, method)
        with pytest.raises(AttributeError) as raised:
            getattr(joined, method)
        hint = "enter it for a client, as in `with connect(…) as client`"
        assert str(raised.value) == f"'Connection' object has no attribute {method!r}: {hint}"
    with pytest.raises(AttributeError, match=r"^'Connection' object has no attribute 'nonsense'$"):
        joined.nonsense  # noqa: B018


@pytest.mark.parametrize("content", [True, "yes", 5])
def test_what_is_accepted_is_a_mapping(content: Any) -> None:
    words = f"what is accepted is a mapping, the fields of the form, not {content!r}"
    for accept in (elicit_accept, lambda given: elicit_accept_defaults({"method": "elicitation/create"}, given)):
        with pytest.raises(TypeError) as raised:
            accept(content)
        assert str(raised.value) == words

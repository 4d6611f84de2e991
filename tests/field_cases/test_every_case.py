"""All hundred cases: which tests try each, or why there is nothing here to get wrong."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

HERE = Path(__file__).parent
A, B, C, D, E, F, G, H, I, J = (  # noqa: E741
    f"test_{name}"
    for name in (
        "a_negotiation",
        "b_sessions",
        "c_http",
        "d_event_streams",
        "e_lines",
        "f_values",
        "g_in_flight",
        "h_asking",
        "i_tools",
        "j_resources",
    )
)
#: Those that only sockets and processes show are in the suite of the bindings: every binding has them.
SUITE = HERE.parent / "bindings"
SOCKETS, PROCESSES = "http_server", "channel_server"
MOUNTS = "aiohttp"
HTTP_CLIENT, CLIENT_STREAMS = "test_http_client", "test_http_client_streams"
CHANNEL, CLIENT_SOCKETS, STDIO_CLIENT = "test_channel_client", "http_client", "channel_client"
CLIENT = "the client's alone: "

#: The files whose tests name the case's number, or the reason why there is nothing to get wrong here.
CASES: dict[int, tuple[str, ...] | str] = {
    1: (A, SOCKETS),
    2: (A, SOCKETS),
    3: (A,),
    4: (HTTP_CLIENT, CHANNEL),
    5: (HTTP_CLIENT,),
    6: (A,),
    7: (A, PROCESSES),
    8: (HTTP_CLIENT, CHANNEL),
    9: (A,),
    10: (A,),
    11: (A,),
    12: (HTTP_CLIENT,),
    13: (B, SOCKETS),
    14: (B,),
    15: (B, SOCKETS),
    16: (B,),
    17: (C, SOCKETS, HTTP_CLIENT),
    18: (C, SOCKETS, HTTP_CLIENT),
    19: (C, HTTP_CLIENT),
    20: (C, HTTP_CLIENT),
    21: (SOCKETS, HTTP_CLIENT, CLIENT_SOCKETS),
    22: (C, SOCKETS),
    23: (C, SOCKETS),
    24: (C, SOCKETS, HTTP_CLIENT),
    25: (C, HTTP_CLIENT),
    26: (MOUNTS,),
    27: (C, SOCKETS),
    28: (HTTP_CLIENT, CLIENT_SOCKETS),
    29: (C, SOCKETS),
    30: (D, CLIENT_STREAMS),
    31: (D, CLIENT_STREAMS),
    32: (D, E, CLIENT_STREAMS, STDIO_CLIENT),
    33: (D, CLIENT_STREAMS),
    34: (D, CLIENT_STREAMS),
    35: (D, CLIENT_STREAMS),
    36: (CLIENT_STREAMS, CLIENT_SOCKETS),
    37: (D, CLIENT_STREAMS),
    38: (D, SOCKETS),
    39: (HTTP_CLIENT,),
    40: (D, SOCKETS, MOUNTS, CLIENT_STREAMS),
    41: (CLIENT_STREAMS,),
    42: (D, CLIENT_STREAMS),
    43: (E, PROCESSES, STDIO_CLIENT),
    44: (PROCESSES, STDIO_CLIENT),
    45: (PROCESSES, CHANNEL, STDIO_CLIENT),
    46: (E, PROCESSES, STDIO_CLIENT),
    47: (E, STDIO_CLIENT),
    48: (PROCESSES, STDIO_CLIENT),
    49: (STDIO_CLIENT,),
    50: (STDIO_CLIENT,),
    51: (STDIO_CLIENT,),
    52: (E, PROCESSES),
    53: (F, CHANNEL),
    54: (F,),
    55: (F,),
    56: (F, SOCKETS),
    57: (F, CHANNEL),
    58: (F,),
    59: (F,),
    60: (F,),
    61: (F, CHANNEL),
    62: (F,),
    63: (F,),
    64: (F, CHANNEL),
    65: (F, CHANNEL),
    66: (F, CHANNEL),
    67: (F, CHANNEL),
    68: (G, CLIENT_STREAMS),
    69: (G, CLIENT_STREAMS),
    70: (CLIENT_STREAMS, CHANNEL, CLIENT_SOCKETS),
    71: (G, CLIENT_STREAMS, CHANNEL),
    72: (G, CLIENT_STREAMS, CHANNEL),
    73: (G, PROCESSES, CLIENT_STREAMS, CHANNEL),
    74: (G, SOCKETS, CLIENT_STREAMS),
    75: (CLIENT_SOCKETS, STDIO_CLIENT),
    76: (G, CLIENT_STREAMS),
    77: (H, CHANNEL),
    78: (H, CHANNEL),
    79: (CHANNEL,),
    80: (H,),
    81: (H, CHANNEL),
    82: (H,),
    83: (H, CHANNEL),
    84: (H,),
    85: (I,),
    86: (I,),
    87: (I, F, CHANNEL),
    88: (I,),
    89: (I,),
    90: (I, CHANNEL),
    91: (I,),
    92: (I,),
    93: (J, CHANNEL),
    94: (J, CHANNEL),
    95: (J, CHANNEL),
    96: (J,),
    97: CLIENT + "reading WWW-Authenticate; authorization is left to the application that serves",
    98: (HTTP_CLIENT, CLIENT_STREAMS),
    99: CLIENT + "the name of a resource in a token request",
    100: (HTTP_CLIENT, CLIENT_STREAMS),
}


@cache
def named() -> dict[tuple[str, int], list[str]]:
    """The tests of each file and case number."""
    found: dict[tuple[str, int], list[str]] = {}
    for path in files():
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                match = re.match(r"test_case_(\d+(?:_and_\d+)*)_\w", node.name)
                for number in match[1].split("_and_") if match else ():
                    found.setdefault((name_of(path), int(number)), []).append(node.name)
    return found


def files() -> list[Path]:
    """The files that are about cases, and nothing else."""
    return sorted(
        [*HERE.glob("test_*.py"), *SUITE.glob("*/test_field_cases.py"), SUITE / "aiohttp" / "test_mounting.py"]
    )


def name_of(path: Path) -> str:
    """What a file is called in `CASES`."""
    return path.stem if path.parent == HERE else path.parent.name


def test_all_hundred_are_accounted_for() -> None:
    assert list(CASES) == list(range(1, 101))


@pytest.mark.parametrize("number", CASES)
def test_what_is_said_to_be_tried_is_tried(number: int) -> None:
    held = CASES[number]
    tried = {file for file, case in named() if case == number}
    if isinstance(held, str):
        assert (tried, len(held) > len(CLIENT)) == (set(), True)
    else:
        assert tried == set(held)


def test_every_test_here_names_its_case() -> None:
    nameless = [
        f"{name_of(path)}: {node.name}"
        for path in files()
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
        and not node.name.startswith("test_case_")
    ]
    assert sorted(nameless) == [
        "test_every_case: test_all_hundred_are_accounted_for",
        "test_every_case: test_every_test_here_names_its_case",
        "test_every_case: test_what_is_said_to_be_tried_is_tried",
    ]

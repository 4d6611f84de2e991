"""Which behaviour holds on which binding: what the suite of the bindings writes down when it runs.

A behaviour is a test, and its name is the sentence that says it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from plugs import Plug

#: Words that a test's name can only have in lower case.
SPELT = {
    "json": "JSON",
    "http": "HTTP",
    "http_1_0": "HTTP/1.0",
    "url": "URL",
    "utf_8": "UTF-8",
    "crlf": "CRLF",
    "sigpipe": "SIGPIPE",
    "cores": "core's",
}


def plug_of(item: Any) -> Plug | None:
    """The binding that a test runs on, if it is one of the suite."""
    callspec = getattr(item, "callspec", None)
    values = callspec.params.values() if callspec else ()
    return next((value for value in values if isinstance(value, Plug)), None)


def sentence_of(item: Any) -> str:
    """The behaviour that a test shows, as a sentence, after what it is about where a class says that."""
    words = item.originalname.removeprefix("test_")
    for word, spelt in SPELT.items():
        words = re.sub(rf"(?<![^_]){word}(?![^_])", spelt.replace("_", " "), words)
    words = words.replace("_", " ")
    if item.cls is None:
        return str(words[0].upper() + words[1:])
    topic = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", item.cls.__name__.removeprefix("Test"))
    return f"{topic.capitalize()}: {words}"


YES, NO = "yes", "no"


class Record:
    """Gathers what became of each test, and writes it at the end: for each kind and behaviour, what each binding does.

    That is `YES`, `NO`, or the reason why it cannot. With ``--collect-only`` it is what every test should come to.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows: dict[tuple[str, str, str], str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A part of a test has ended."""
        for row in _rows_of(report.user_properties):
            if report.failed:
                self.rows[_key_of(row)] = NO
            elif report.when == "call" or "lacks" in row:
                self.rows.setdefault(_key_of(row), row.get("lacks", YES))

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """All tests are known."""
        if session.config.option.collectonly:
            for item in session.items:
                for row in _rows_of(item.user_properties):
                    self.rows[_key_of(row)] = row.get("lacks", YES)

    def pytest_sessionfinish(self) -> None:
        """Write it."""
        table: dict[str, dict[str, dict[str, str]]] = {}
        for (kind, behaviour, binding), held in sorted(self.rows.items()):
            table.setdefault(kind, {}).setdefault(behaviour, {})[binding] = held
        self.path.write_text(json.dumps(table, indent=1, ensure_ascii=False) + "\n", "utf-8")


def _rows_of(properties: list[tuple[str, object]]) -> Iterator[dict[str, str]]:
    for name, value in properties:
        if name == "behaviour":
            yield json.loads(str(value))


def _key_of(row: dict[str, str]) -> tuple[str, str, str]:
    return row["kind"], row["behaviour"], row["binding"]

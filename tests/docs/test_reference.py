"""The reference lists what is public, all of it and nothing else, and everything in it has a docstring to show."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import pydoc
import re
from types import ModuleType

import pytest

import mcp_sansio
import mcp_sansio.testing
import mcp_sansio.wire
import support

DIRECTIVE = re.compile(r"^\.\. (?:py:)?(currentmodule|data|auto\w+):: ([\w.]+)$", re.MULTILINE)
BINDINGS = sorted(folder.name for folder in (support.ROOT / "bindings").glob("mcp-sansio-*/mcp_sansio_*"))
#: Modules whose names are reached by the module: the codecs, and what drivers share.
CODECS = [f"mcp_sansio.wire.{module.name}" for module in pkgutil.iter_modules(mcp_sansio.wire.__path__)]
SHARED = [
    f"mcp_sansio.{name}"
    for name in (
        "driving",
        "stepping",
        "waits",
        "hosting",
        "storing",
        "stream_driver",
        "response_driver",
        "child_process",
        "inspecting",
    )
]


def listed() -> dict[str, list[str]]:
    """The names in docs/api.md, by the module that they are listed under; ``*`` is the whole module."""
    found: dict[str, list[str]] = {}
    module = ""
    for directive, name in DIRECTIVE.findall((support.ROOT / "docs" / "api.md").read_text("utf-8")):
        if directive == "currentmodule":
            module = name
        elif directive == "automodule":
            found.setdefault(name, []).append("*")
        else:
            found.setdefault(module, []).append(name)
    return found


def defined(module: ModuleType) -> list[str]:
    """The public classes and functions that a module without ``__all__`` defines itself."""
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__ and callable(value)
    ]


def test_every_public_name_is_listed_once() -> None:
    assert sorted(listed()["mcp_sansio"]) == sorted(mcp_sansio.__all__)


def test_the_tools_for_tests_are_listed() -> None:
    assert sorted(listed()["mcp_sansio.testing"]) == sorted(mcp_sansio.testing.__all__)


def test_every_codec_and_every_binding_is_listed_whole() -> None:
    whole = [module for module, names in listed().items() if names == ["*"]]
    assert sorted(whole) == sorted([*CODECS, *SHARED, *BINDINGS])


def test_nothing_else_is_listed() -> None:
    # `Runtime` takes these two, whose names are not the package's own.
    assert listed().pop("mcp_sansio.runtime") == ["Event", "RunSync"]
    assert set(listed()) == {"mcp_sansio", "mcp_sansio.testing", "mcp_sansio.runtime", *CODECS, *SHARED, *BINDINGS}


@pytest.mark.parametrize("name", ["mcp_sansio", "mcp_sansio.testing", *CODECS, *SHARED, *BINDINGS])
def test_what_is_listed_has_something_to_say(name: str) -> None:
    """Autodoc leaves out what has no docstring."""
    module = support.need(name) if name in BINDINGS else importlib.import_module(name)
    public = getattr(module, "__all__", None) or defined(module)
    values = {name: getattr(module, name) for name in public}
    silent = [
        name
        for name, value in values.items()
        if inspect.isroutine(value) or inspect.isclass(value)
        if not value.__doc__
    ]
    assert silent == []
    for value in values.values():
        if inspect.isroutine(value) or inspect.isclass(value):
            assert pydoc.render_doc(value)  # what ``help`` shows

"""Runs the examples of a Markdown page: every fenced ``python`` block, in order, in one namespace and one event loop.

``<!-- new -->`` above a block starts a fresh namespace, ``<!-- file NAME.py -->`` a module that later blocks may
import, and ``<!-- needs NAME -->`` anywhere says that the page needs a module that none of its examples imports.
``await``, ``async for`` and ``async with`` work at the top level, as in ``python -m asyncio``. There is no mark for "do
not run": what cannot run is not ``python`` but ``text``.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, ModuleType
from typing import NamedTuple

FENCE = re.compile(r"^(?P<indent> *)(?P<fence>`{3,}|~{3,})(?P<info>.*)$")
NEW = "<!-- new -->"
FILE = re.compile(r"<!-- file (\w+)\.py -->")
NEEDS = re.compile(r"^<!-- needs (\w+) -->$", re.MULTILINE)
# What a fence may say that shows Python without running it.
LOOKALIKE = re.compile(
    r"(py|python\d|python[\W_].*|pycon|ipython|doctest|\{(code-block|code|testcode|doctest)\}\s*py.*)$", re.IGNORECASE
)


class Block(NamedTuple):
    """A fenced block. `line` is that of its first line of content, counted from 1, and `file` the module that it is."""

    info: str
    source: str
    line: int
    fresh: bool
    file: str | None


def blocks(page: Path) -> Iterator[Block]:
    """Every fenced block of a page, of whatever language, nested ones as part of the outer one."""
    lines = page.read_text("utf-8").splitlines()
    number = 0
    above = ""
    while number < len(lines):
        opening = FENCE.match(lines[number])
        number += 1
        if opening is None:
            above = lines[number - 1].strip() or above
            continue
        start = number
        while number < len(lines) and not closes(lines[number], opening["fence"]):
            number += 1
        if number == len(lines):
            raise ValueError(f"{page.name}:{start}: a fenced block is never closed")
        source = textwrap.dedent("\n".join(lines[start:number]) + "\n")
        file = FILE.fullmatch(above)
        yield Block(opening["info"].strip(), source, start + 1, above == NEW or bool(file), file and file[1])
        above = ""
        number += 1


def closes(line: str, fence: str) -> bool:
    return line.strip().startswith(fence) and not line.strip().strip(fence[0])


def examples(page: Path) -> list[Block]:
    """The blocks that are run."""
    return [block for block in blocks(page) if block.info == "python"]


def imported(page: Path) -> set[str]:
    """The top-level modules that a page's examples import or need, to know whether they can be run here."""
    nodes = [node for block in examples(page) for node in ast.walk(ast.parse(block.source))]
    plain = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    named = {node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module}
    needed = set(NEEDS.findall(page.read_text("utf-8")))
    own = {block.file for block in examples(page)}
    return {name.partition(".")[0] for name in plain | named | needed} - own


def run(page: Path) -> None:
    """Run a page's examples. An exception's traceback points at the page and its line."""
    modules: list[ModuleType] = []
    before = dict(sys.modules)  # a page may have a module that is called as one of the tests' own is
    try:
        with asyncio.Runner() as runner:
            for block in examples(page):
                if block.fresh or not modules:
                    modules.append(_module(block.file or f"{page.stem.replace('-', '_')}_examples_{len(modules)}"))
                pending = eval(_compiled(block, page), modules[-1].__dict__)
                if inspect.iscoroutine(pending):
                    runner.run(pending)
    finally:
        for module in modules:
            sys.modules.pop(module.__name__, None)
            if module.__name__ in before:
                sys.modules[module.__name__] = before[module.__name__]


def _module(name: str) -> ModuleType:
    """A namespace that is a real module, since annotations are resolved through ``sys.modules``."""
    module = ModuleType(name)
    sys.modules[name] = module
    return module


def _compiled(block: Block, page: Path) -> CodeType:
    padded = "\n" * (block.line - 1) + block.source
    code: CodeType = compile(padded, str(page), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    return code

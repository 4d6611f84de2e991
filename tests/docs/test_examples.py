"""Every example of the README, of the documentation and of the bindings' READMEs runs."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import pages
import support

DOCS = support.ROOT / "docs"
READMES = [support.ROOT / "README.md", *sorted((support.ROOT / "bindings").glob("*/README.md"))]
PAGES = [*READMES, *sorted(path for path in DOCS.rglob("*.md") if "_build" not in path.parts)]
# Pages that would be of no use without an example.
TAUGHT = (
    *("getting-started", "handlers", "asking", "client", "testing", "write-a-transport"),
    *("aiohttp", "asgi", "stdio", "sync", "trio", "stores"),
)
TEACHING = ["README.md", *(f"docs/{name}.md" for name in TAUGHT)]


def name_of(page: Path) -> str:
    return page.relative_to(support.ROOT).as_posix()


@pytest.mark.parametrize("page", [page for page in PAGES if pages.examples(page)], ids=name_of)
def test_the_examples_run(page: Path) -> None:
    for module in sorted(pages.imported(page) - {"mcp_sansio", *sys.stdlib_module_names}):
        support.need(module)
    pages.run(page)


@pytest.mark.parametrize("name", TEACHING)
def test_a_page_that_teaches_has_examples(name: str) -> None:
    assert pages.examples(support.ROOT / name) != []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_no_python_is_shown_that_is_not_run(page: Path) -> None:
    shown = [f"{name_of(page)}:{block.line} {block.info}" for block in pages.blocks(page)]
    assert [line for line in shown if pages.LOOKALIKE.match(line.partition(" ")[2])] == []


def test_blocks_share_a_namespace_and_may_await(tmp_path: Path) -> None:
    """The runner itself: state carries over, ``new`` drops it, files are modules, await works, a fault has a line."""
    page = tmp_path / "page.md"
    page.write_text(
        "<!-- needs json -->\n\n```python\nimport asyncio\nx = 1\nqueue = asyncio.Queue()\n```\n\n"
        "- in a list\n\n  ```python\n  await queue.put(x + 1)\n  assert await queue.get() == 2\n  ```\n\n"
        "<!-- file of_a_page.py -->\n\n```python\ny = 2\n```\n\n"
        "<!-- new -->\n\n```python\nassert not {'x', 'y'} & set(globals())\nfrom of_a_page import y\n1 / 0\n```\n",
        "utf-8",
    )
    with pytest.raises(ZeroDivisionError) as raised:
        pages.run(page)
    last = raised.traceback[-1]
    assert (str(last.path), last.lineno + 1) == (str(page), 27)
    assert pages.imported(page) == {"asyncio", "json"}

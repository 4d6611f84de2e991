"""What is installed is what the distributions are meant to hold, and is what these tests run against."""

from __future__ import annotations

import re
import sysconfig
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

import support

DISTRIBUTIONS = {
    "mcp-sansio": (support.ROOT, {"attrs", "cattrs", "msgspec"}),
    **{
        f"mcp-sansio-{name}": (support.ROOT / "bindings" / f"mcp-sansio-{name}", {"mcp-sansio", *beside})
        for name, beside in {
            "aiohttp": ["aiohttp"],
            "asgi": [],
            "postgres": ["psycopg", "psycopg-pool"],
            "redis": ["redis"],
            "sqlite": ["aiosqlite"],
            "stdio": [],
            "sync": ["mcp-sansio-stdio", "urllib3"],
            "trio": ["mcp-sansio-stdio", "trio", "h11"],
        }.items()
    },
}


def package_of(distribution: str) -> Path:
    """The folder of the distribution's package, as `import` finds it."""
    module = support.need(distribution.replace("-", "_"))
    assert module.__file__ is not None
    return Path(module.__file__).parent


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
class TestEachDistribution:
    def test_carries_its_types(self, distribution: str) -> None:
        assert (package_of(distribution) / "py.typed").is_file()

    def test_is_of_the_version_and_licence_in_its_pyproject(self, distribution: str) -> None:
        package_of(distribution)
        project = tomllib.loads((DISTRIBUTIONS[distribution][0] / "pyproject.toml").read_text("utf-8"))["project"]
        installed = metadata.metadata(distribution)
        assert (installed["Version"], installed["License-Expression"]) == (project["version"], "Apache-2.0")

    def test_requires_no_more_than_it_says(self, distribution: str) -> None:
        package_of(distribution)
        required = metadata.requires(distribution) or []
        names = {re.match(r"[\w-]+", line)[0] for line in required if "extra ==" not in line}
        assert names == DISTRIBUTIONS[distribution][1]

    @pytest.mark.skipif("wheels" not in support.MUST_RUN, reason="only tox -e package installs wheels")
    def test_is_imported_from_its_wheel(self, distribution: str) -> None:
        package = package_of(distribution)
        assert package.parent == Path(sysconfig.get_path("purelib"))
        holds = {Path(file).parts[0] for file in metadata.files(distribution) or () if ".dist-info" not in str(file)}
        assert holds == {package.name}

"""What GitHub runs is what tox runs, on the Pythons that the distributions say they run on."""

from __future__ import annotations

import configparser
import re
import tomllib

import support

WORKFLOW = support.ROOT / ".github" / "workflows" / "ci.yml"
#: Run by hand: a comparison needs a quiet machine, and mutants take hours.
BY_HAND = {"bench", "mutation"}


def listed(key: str) -> list[list[str]]:
    """The lists in the workflow under that key."""
    found = re.findall(rf"^ *{key}: \[(.*)\]$", WORKFLOW.read_text("utf-8"), re.MULTILINE)
    return [[item.strip(' "') for item in one.split(",")] for one in found]


def test_it_runs_every_environment_once() -> None:
    tox = configparser.ConfigParser(interpolation=None)
    tox.read(support.ROOT / "tox.ini", "utf-8")
    environments = {name.removeprefix("testenv:") for name in tox.sections() if name.startswith("testenv:")}
    assert sorted(env for envs in listed("env") for env in envs) == sorted(environments - BY_HAND)


def test_it_runs_every_python() -> None:
    (versions,) = listed("python")
    for pyproject in (support.ROOT / "pyproject.toml", *sorted((support.ROOT / "bindings").glob("*/pyproject.toml"))):
        project = tomllib.loads(pyproject.read_text("utf-8"))["project"]
        prefix = "Programming Language :: Python :: 3."
        assert [
            f"3.{line.removeprefix(prefix)}" for line in project["classifiers"] if line.startswith(prefix)
        ] == versions

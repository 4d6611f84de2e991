"""What tests share: optional dependencies that skip here and fail there, the checkout's folders, and deleted revisions.

Tests import it as ``import support`` (pyproject.toml puts this folder, and only this one, on the path).
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import shutil
from pathlib import Path
from types import ModuleType
from typing import NoReturn

import pytest

ROOT = Path(__file__).parents[2]

#: Names (of modules and of programs) that this run is meant to have: set by tox.ini for each environment.
MUST_RUN = frozenset(os.environ.get("MCP_SANSIO_MUST_RUN", "").replace(",", " ").split())

#: The revision whose adapter the package under test lacks, when test_architecture.py runs the tests on such a copy.
DELETED_REVISION = os.environ.get("MCP_SANSIO_DELETED_REVISION")


def need(module: str) -> ModuleType:
    """Import an optional dependency at the top of a test module, or leave that module out.

    It skips where `module` is not installed, and fails where the environment is meant to have it. A module that is
    installed and breaks while it is imported raises, always.
    """
    if importlib.util.find_spec(module.partition(".")[0]) is None:
        _missing(module, f"{module} is not installed")
    return importlib.import_module(module)


def need_program(name: str, *folders: Path) -> str:
    """The path of a program, looked for in `folders` and then on the PATH; skips or fails like `need`."""
    path = os.pathsep.join([*(str(folder) for folder in folders), os.environ.get("PATH", os.defpath)])
    return shutil.which(name, path=path) or _missing(name, f"the program {name} is not on the PATH")


def need_npm(package: str) -> Path:
    """The folder of an npm package below ``$MCP_SANSIO_NPM/node_modules``; skips or fails like `need`."""
    prefix = os.environ.get("MCP_SANSIO_NPM")
    folder = Path(prefix, "node_modules", package) if prefix else None
    if folder is None or not folder.is_dir():
        _missing(package, f"the npm package {package} is not below MCP_SANSIO_NPM")
    return folder


def need_node() -> str:
    """The path of Node: the one that npm installed below ``$MCP_SANSIO_NPM`` first, then the PATH's."""
    prefix = os.environ.get("MCP_SANSIO_NPM")
    return need_program("node", *([Path(prefix, "node_modules", ".bin")] if prefix else []))


def _missing(name: str, reason: str) -> NoReturn:
    if name in MUST_RUN:
        pytest.fail(f"{reason}, and this environment is meant to run its tests", pytrace=False)
    pytest.skip(reason, allow_module_level=True)

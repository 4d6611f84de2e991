"""The environments: one for each contestant, made below `bench/.envs` and kept until it is out of date."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parent.parent
FOLDER = Path(__file__).parent / ".envs"

BINDINGS = ("aiohttp", "stdio", "trio", "asgi", "sync", "sqlite", "redis", "postgres")
#: What uvicorn's ``standard`` extra has for speed.
STANDARD = ("uvloop", "httptools")
#: What pip installs. A path is relative to the checkout, and installed editable.
REQUIREMENTS: dict[str, tuple[str, ...]] = {
    "sansio": (
        ".",
        *(f"bindings/mcp-sansio-{name}" for name in BINDINGS),
        "psycopg[binary]",
        "cryptography",
        "uvicorn",
        "hypercorn",
        *STANDARD,
    ),
    "tiny": ("aiohttp-tiny-mcp==0.5.8",),
    "official": ("mcp==2.3.0", *STANDARD),
    "fastmcp": ("fastmcp==4.2.3", *STANDARD),
}
#: What is shown of an environment's contents.
SHOWN = (
    "mcp-sansio",
    "aiohttp-tiny-mcp",
    "mcp",
    "fastmcp",
    "aiohttp",
    "msgspec",
    "attrs",
    "cattrs",
    "pydantic",
    "uvicorn",
    "uvloop",
    "httptools",
    "hypercorn",
    "trio",
    "h11",
    "aiosqlite",
    "redis",
    "psycopg",
    "cryptography",
)
_VERSIONS = """
import importlib.metadata, sys
for name in sys.argv[1:]:
    try: print(name, importlib.metadata.version(name))
    except importlib.metadata.PackageNotFoundError: pass
"""


def python_of(name: str) -> Path:
    """The interpreter of an environment, which is made first where it is missing or out of date."""
    folder = FOLDER / name
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    stamp = folder / "stamp"
    wanted = _wanted(name)
    if not (stamp.exists() and stamp.read_text() == wanted and python.exists()):
        print(f"making the environment of {name} ...", file=sys.stderr, flush=True)
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        subprocess.run([python, "-m", "pip", "install", "-qq", *_arguments(REQUIREMENTS[name])], check=True)
        stamp.write_text(wanted)
    return python


def versions_of(name: str) -> dict[str, str]:
    """What is installed there, as far as it matters here."""
    command = [python_of(name), "-c", _VERSIONS, *SHOWN]
    printed = subprocess.run(command, check=True, capture_output=True, text=True)
    return dict(line.split() for line in printed.stdout.splitlines())


def _arguments(requirements: Sequence[str]) -> list[str]:
    arguments: list[str] = []
    for requirement in requirements:
        is_path = (ROOT / requirement / "pyproject.toml").exists()
        arguments += ["--editable", str(ROOT / requirement)] if is_path else [requirement]
    return arguments


def _wanted(name: str) -> str:
    projects = [ROOT / requirement / "pyproject.toml" for requirement in REQUIREMENTS[name]]
    texts = [project.read_text() for project in projects if project.exists()]
    # An editable installation is one of this checkout, and of no other that has the folder.
    checkout = [str(ROOT)] if texts else []
    return "\n".join([sys.version, *REQUIREMENTS[name], *checkout, *texts])

"""The shape of the library, asserted: who may import whom, what the core may not touch, what a binding may not know.

The rules are section 1 of the design (docs/design.md says why each one exists). They are read off the source of the
package under test, the one that ``import mcp_sansio`` finds, and of the bindings in this checkout.
"""

from __future__ import annotations

import ast
import importlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import mcp_sansio
import support
from counting import code_lines

PACKAGE = Path(mcp_sansio.__file__).parent
BINDINGS = sorted((support.ROOT / "bindings").glob("mcp-sansio-*/mcp_sansio_*"))

# A module, or a folder of modules, and its ring. A module that is not here has no place yet, and fails.
RINGS = {
    "enums": 0,
    "limits": 0,
    "operation": 0,
    "call": 0,
    "outcome": 0,
    "types": 0,
    "catalogue": 0,
    "pieces": 0,
    "events": 0,
    "errors": 0,
    "asking": 0,
    "forms": 0,
    "changes": 0,
    "runtime": 0,
    "states": 0,
    "notices": 0,
    "reading": 0,
    "wire": 1,
    "nodes": 2,
    "schema": 2,
    "simplify": 2,
    "judge": 2,
    "wording": 2,
    "foreign": 2,
    "faults": 2,
    "typed": 2,
    "specs": 2,
    "signature": 2,
    "binding": 2,
    "registry": 2,
    "asker": 2,
    "providers": 2,
    "checks": 2,
    "exchange": 2,
    "attempts": 2,
    "raised": 2,
    "dispatcher": 2,
    "immediate": 2,
    "driving": 2,
    "stepping": 2,
    "waits": 2,
    "hosting": 2,
    "stream_driver": 2,
    "response_driver": 2,
    "child_process": 2,
    "storage": 2,
    "given": 2,
    "wire_log": 2,
    "storing": 2,
    "uri_template": 2,
    "dependencies": 2,
    "in_arguments": 2,
    "request_state": 2,
    "sealed_state": 2,
    "results": 2,
    "adapters": 3,
    "server": 4,
    "client": 4,
    "testing": 5,
    "inspecting": 5,
    "": 6,  # mcp_sansio/__init__.py: the public list
}
THIRD_PARTY = {"attr", "attrs", "cattr", "cattrs", "msgspec"}
# Extras: used where a declaration asks for them, so imported inside a function, and only in this module.
EXTRAS = {"jsonschema": "judge", "cryptography": "sealed_state"}
# What reaches for the outside: a loop, a thread, a socket, a clock, a source of chance, the operating system.
IMPURE = {
    "asyncio", "concurrent", "fcntl", "http", "multiprocessing", "os", "queue", "random", "sched",
    "secrets", "select", "selectors", "shutil", "signal", "socket", "socketserver", "ssl", "subprocess", "tempfile",
    "threading", "time", "_thread", "urllib.request",
}  # fmt: skip
# The same by names that need no import, or that come with a pure one.
IMPURE_CALLS = re.compile(r"open|input|print|(.*\.)?(urandom|uuid1|uuid4|utcnow|(date|datetime)\.(now|today))")
FUNCTION = ast.FunctionDef | ast.AsyncFunctionDef
REVISION = re.compile(r"20\d\d-\d\d-\d\d")
ERROR_CODE = re.compile(r"-\s*32_?\d\d\d")
MCP_HEADER = re.compile(r"\bmcp-(?!sansio)\w", re.IGNORECASE)
#: One carries an HTTP server, and one has a kind of server and of client more than others; every other has 600.
BUDGET = {"mcp_sansio_trio": 800, "mcp_sansio_sync": 750}


class Import(NamedTuple):
    """One imported name. `module` is absolute; `name` is ``None`` for a plain ``import module``."""

    module: str
    name: str | None
    line: int
    in_function: bool


class Module(NamedTuple):
    """A source file of the core: `name` is relative to the package (``wire.json``, "" for the package itself)."""

    name: str
    path: Path

    @property
    def dotted(self) -> str:
        return f"mcp_sansio.{self.name}".rstrip(".")

    @property
    def folder(self) -> str:
        return self.name.partition(".")[0]


def modules() -> list[Module]:
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        found.append(Module(".".join(part for part in parts if part != "__init__"), path))
    return found


MODULES = modules()


def imports(path: Path, package: str) -> Iterator[Import]:
    """Every import of a file, those inside functions and under TYPE_CHECKING too, relative ones made absolute."""
    tree = ast.parse(path.read_text("utf-8"), str(path))
    functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    lazy = {id(inner) for function in functions for inner in ast.walk(function)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(alias.name, None, node.lineno, id(node) in lazy)
        elif isinstance(node, ast.ImportFrom):
            base = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            for alias in node.names:
                yield Import(module, alias.name, node.lineno, id(node) in lazy)


def imports_of(module: Module) -> Iterator[Import]:
    is_package = module.path.name == "__init__.py"
    return imports(module.path, module.dotted if is_package else module.dotted.rpartition(".")[0])


def inner_imports(module: Module) -> Iterator[tuple[str, int]]:
    """The core's own modules that a module imports, as names relative to the package, each with its line."""
    known = {other.dotted for other in MODULES}
    for found in imports_of(module):
        if found.module.partition(".")[0] != "mcp_sansio":
            continue
        submodule = f"{found.module}.{found.name}"
        target = submodule if submodule in known else found.module
        yield target.removeprefix("mcp_sansio").lstrip("."), found.line


def where(path: Path, line: int, what: str) -> str:
    return f"{path.name}:{line} {what}"


def test_the_source_is_there() -> None:
    """Every rule below runs over files that it found: none may pass because a folder was moved."""
    folders = {module.folder for module in MODULES}
    assert {"wire", "adapters", "server", ""} <= folders
    assert {path.name for path in BINDINGS} >= {"mcp_sansio_aiohttp", "mcp_sansio_stdio"}
    assert all(list(path.glob("*.py")) for path in BINDINGS)
    assert len(list((PACKAGE / "adapters").glob("v*.py"))) == len(REVISIONS)


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.name or "__init__")
class TestEachModuleOfTheCore:
    def test_has_a_ring_and_imports_no_outer_one(self, module: Module) -> None:
        assert module.folder in RINGS, f"{module.name} has no ring: give it one in RINGS, and in the design"
        ring = RINGS[module.folder]
        outward = [
            where(module.path, line, f"imports {target or 'the package'}, ring {RINGS[target.partition('.')[0]]}")
            for target, line in inner_imports(module)
            if RINGS[target.partition(".")[0]] > ring
        ]
        assert outward == []

    def test_imports_nothing_beside_it_that_must_not_know_it(self, module: Module) -> None:
        """`server` and `client` are strangers, and so are two revisions."""
        strangers = {"server": "client", "client": "server"}.get(module.folder)
        is_revision = re.fullmatch(r"adapters\.v\w+", module.name)
        wrong = [
            where(module.path, line, f"imports {target}")
            for target, line in inner_imports(module)
            if target.partition(".")[0] == strangers
            or (is_revision and target != module.name and re.match(r"adapters\.v\d", target))
        ]
        assert wrong == []

    def test_touches_nothing_outside_the_process(self, module: Module) -> None:
        impure = [
            where(module.path, found.line, f"imports {found.module}")
            for found in imports_of(module)
            if found.module.partition(".")[0] in IMPURE or found.module in IMPURE
        ]
        assert impure + impure_calls(module.path) == []

    def test_depends_on_three_libraries_alone(self, module: Module) -> None:
        allowed = {*sys.stdlib_module_names, *THIRD_PARTY, "mcp_sansio"}
        foreign = [
            where(module.path, found.line, f"imports {found.module}")
            for found in imports_of(module)
            if (top := found.module.partition(".")[0]) not in allowed
            and not (found.in_function and EXTRAS.get(top) == module.name)
        ]
        assert foreign == []

    def test_says_what_it_is_for(self, module: Module) -> None:
        assert ast.get_docstring(ast.parse(module.path.read_text("utf-8"))), f"{module.path.name} has no docstring"


def impure_calls(path: Path) -> list[str]:
    """Calls that reach outside by a name that any import may carry: ``datetime.now()``, ``uuid4()``, ``open()``."""
    found = []
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if not isinstance(node, ast.Call):
            continue
        name = ast.unparse(node.func)
        if IMPURE_CALLS.fullmatch(name):
            found.append(where(path, node.lineno, f"calls {name}()"))
    return found


def test_a_fresh_interpreter_loads_no_loop_and_no_socket(tmp_path: Path) -> None:
    """Importing all of the core brings in nothing impure beyond what attrs, cattrs and msgspec bring in themselves."""
    never = {"asyncio", "concurrent.futures", "trio", "aiohttp", "h11", "pydantic", "selectors", "socket", "ssl"}
    names = [module.dotted for module in MODULES]
    code = f"""
import importlib, sys
import attrs, cattrs, cattrs.gen, msgspec, msgspec.json
before = set(sys.modules)
for name in {names!r}:
    importlib.import_module(name)
print(sorted((set(sys.modules) - before) & {IMPURE!r} | set(sys.modules) & {never!r}))
"""
    assert run_python(["-c", code], tmp_path) == "[]"


def test_a_server_loads_nothing_of_the_client(tmp_path: Path) -> None:
    """A server on stdio is started for each client, and each module costs it time before its first answer."""
    code = """
import sys
from mcp_sansio import Registry, Server, ServerConnection
print([name for name in sys.modules if name.startswith("mcp_sansio.client")])
from mcp_sansio import ClientConnection
print(ClientConnection.__name__, "mcp_sansio.client" in sys.modules)
"""
    assert run_python(["-c", code], tmp_path).split("\n") == ["[]", "ClientConnection True"]


def source_files() -> list[Path]:
    return [module.path for module in MODULES] + [path for folder in BINDINGS for path in sorted(folder.rglob("*.py"))]


def lines_matching(pattern: re.Pattern[str], path: Path) -> list[str]:
    lines = path.read_text("utf-8").splitlines()
    return [where(path, number, line.strip()) for number, line in enumerate(lines, 1) if pattern.search(line)]


@pytest.mark.parametrize("path", source_files(), ids=lambda path: f"{path.parent.name}/{path.name}")
def test_modules_and_functions_are_short(path: Path) -> None:
    """A module has one idea, and at most 400 lines; a function has 40, or a comment above it that says why not."""
    lines = path.read_text("utf-8").splitlines()
    assert len(lines) <= 400
    functions = [node for node in ast.walk(ast.parse("\n".join(lines))) if isinstance(node, FUNCTION)]
    long = [node for node in functions if (node.end_lineno or 0) - node.lineno >= 40]
    starts = {node.name: min([node.lineno, *(mark.lineno for mark in node.decorator_list)]) for node in long}
    assert [name for name, start in starts.items() if "# Over 40 lines" not in lines[start - 2]] == []


@pytest.mark.parametrize(
    "path",
    [path for path in source_files() if path.parent != PACKAGE / "adapters"],
    ids=lambda path: f"{path.parent.name}/{path.name}",
)
def test_no_revision_is_named_outside_the_adapters(path: Path) -> None:
    """Not in code, not in a docstring, not in a comment: what a reader greps for is in one folder."""
    assert lines_matching(REVISION, path) == []


@pytest.mark.parametrize("binding", BINDINGS, ids=lambda path: path.name)
class TestEachBinding:
    def test_imports_public_names_only(self, binding: Path) -> None:
        wrong = [
            where(path, found.line, problem)
            for path in sorted(binding.rglob("*.py"))
            for found in imports(path, ".".join([binding.name, *path.relative_to(binding).parts[:-1]]))
            if found.module.partition(".")[0] == "mcp_sansio" and (problem := not_public(found))
        ]
        assert wrong == []

    def test_knows_no_error_code_and_no_protocol_header(self, binding: Path) -> None:
        wrong = [
            line
            for path in sorted(binding.rglob("*.py"))
            for line in lines_matching(ERROR_CODE, path) + lines_matching(MCP_HEADER, path)
        ]
        assert wrong == []

    def test_stays_within_its_budget(self, binding: Path) -> None:
        counted = {path.name: code_lines(path.read_text("utf-8")) for path in sorted(binding.rglob("*.py"))}
        assert 0 < sum(counted.values()) <= BUDGET.get(binding.name, 600), counted


def not_public(found: Import) -> str | None:
    """What is wrong with an import of the core in a binding, or ``None``."""
    if found.name is None:
        return None if found.module == "mcp_sansio" else f"imports {found.module} whole: import its names"
    if any(part.startswith("_") for part in found.module.split(".")):
        return f"imports from {found.module}, which is private"
    public = getattr(importlib.import_module(found.module), "__all__", ())
    return None if found.name in public else f"imports {found.name}, which is not in {found.module}.__all__"


def test_code_lines_counts_code_alone() -> None:
    module = '"""Doc\n\nstring."""\n\n# comment\nx = """a\nb"""\n\n\n'
    function = 'def f():\n    "doc"\n    return (\n        1\n    )\n'
    assert code_lines(module + function) == 2 + 1 + 3


# The five adapters. Literal on purpose: the table in adapters/selection.py is what is checked against it.
REVISIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28")
# Each takes a minute or two. The newest of each family of adapters is tried always.
_HOW_LONG = dict.fromkeys(REVISIONS[:-2], pytest.mark.thorough)
# The tests that hold for whatever revisions are there.
OF_A_ROLE = {
    "server": ("adapters", "server"),
    "client": ("client/test_negotiation.py", "client/test_calls.py", "client/test_questions.py"),
}


@pytest.mark.skipif(support.DELETED_REVISION is not None, reason="this run is such a copy already")
@pytest.mark.parametrize("folders", OF_A_ROLE.values(), ids=OF_A_ROLE)
@pytest.mark.parametrize("revision", [pytest.param(date, marks=_HOW_LONG.get(date, ())) for date in REVISIONS])
def test_each_adapter_can_be_deleted(revision: str, folders: tuple[str, ...], tmp_path: Path) -> None:
    """Without any one of the five, the tests of the adapters and of both roles pass for the other four."""
    copy = tmp_path / "mcp_sansio"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    (copy / "adapters" / f"v{revision.replace('-', '_')}.py").unlink()
    selection = copy / "adapters" / "selection.py"
    lines = selection.read_text("utf-8").splitlines(keepends=True)
    kept = [line for line in lines if line.strip() not in (f'"{revision}",', f"'{revision}',")]
    assert len(lines) - len(kept) == 1, "adding or removing a revision is one line of the table in selection.py"
    selection.write_text("".join(kept), "utf-8")

    environment = {"PYTHONPATH": str(tmp_path), "MCP_SANSIO_DELETED_REVISION": revision}
    show = (
        "import mcp_sansio; from mcp_sansio.adapters.selection import AdapterSet as A; "
        "print(mcp_sansio.__file__, *sorted(A.default().versions))"
    )
    others = [date for date in REVISIONS if date != revision]
    assert run_python(["-c", show], tmp_path, environment).split() == [str(copy / "__init__.py"), *others]

    tests = support.ROOT / "tests"
    config = ["-c", str(support.ROOT / "pyproject.toml"), "--rootdir", str(support.ROOT), "-p", "no:cacheprovider"]
    paths = [str(tests / folder) for folder in folders]
    summary = run_python(["-m", "pytest", "-q", *config, *paths], tmp_path, environment)
    assert re.search(r"\b[1-9]\d* passed\b", summary), summary


def run_python(arguments: list[str], cwd: Path, environment: dict[str, str] | None = None) -> str:
    """What a new interpreter prints; its exit status must be 0, and `cwd` must not be where the checkout is."""
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env={**os.environ, **(environment or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout.strip()

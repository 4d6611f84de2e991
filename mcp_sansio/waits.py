"""Which handlers can be seen to wait for an event loop, before anybody calls them."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator
from types import CodeType, ModuleType
from typing import Any

from .errors import DeclarationError
from .given import check_kind
from .registry import Registry

__all__ = ["check_handlers"]

#: Libraries whose awaitables are brought about by an event loop.
_LOOPS = frozenset({"aiohttp", "anyio", "asyncio", "curio", "trio"})


def check_handlers(registry: Registry) -> None:
    """Raises `DeclarationError` for a handler that awaits what only an event loop brings about.

    That is seen where its source can be read, and names such a library: ``await asyncio.sleep(1)``. What is not seen is
    an error of the call.
    """
    check_kind("registry", registry, Registry)
    for name, fn in _handlers(registry):
        awaited = next(_awaited_of_loops(fn), None)
        if awaited is not None:
            raise DeclarationError(
                f"{name!r} awaits {awaited}, and there is no event loop here: make it a plain function that blocks, or "
                "lend a loop"
            )


def _handlers(registry: Registry) -> Iterator[tuple[str, Callable[..., Any]]]:
    tables = (registry.tools, registry.resources, registry.templates, registry.prompts)
    for spec in (spec for table in tables for spec in table.values()):
        yield spec.name, spec.bound.fn
    for completion in registry.completions.values():
        yield "a completion", completion.handler
    for provider in registry.providers.values():
        yield "a provider", provider.make


def _awaited_of_loops(fn: Callable[..., Any]) -> Iterator[str]:
    """What `fn` itself awaits or enters that is called by its name in one of those libraries."""
    fn = inspect.unwrap(fn)
    if not (inspect.iscoroutinefunction(fn) or inspect.isasyncgenfunction(fn)):
        return
    known, code = getattr(fn, "__globals__", {}), getattr(fn, "__code__", None)
    if code is None or not any(_is_loop(known.get(name)) for name in _names(code)):
        return  # as most: its source, which takes long to read, need not be looked at
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(fn)))
    except (OSError, TypeError, SyntaxError):
        return  # it was not read from a file
    for node in ast.walk(tree):
        held = [node.value] if isinstance(node, ast.Await) else []
        held += [item.context_expr for item in node.items] if isinstance(node, ast.AsyncWith) else []
        for call in held:
            if _is_loop(known.get(_first_name(call))):
                yield ast.unparse(call)


def _names(code: CodeType) -> Iterator[str]:
    """What `code`, and what is defined in it, looks up by name."""
    yield from code.co_names
    for held in code.co_consts:
        if isinstance(held, CodeType):
            yield from _names(held)


def _is_loop(value: object) -> bool:
    return isinstance(value, ModuleType) and value.__name__.partition(".")[0] in _LOOPS


def _first_name(node: ast.expr) -> str | None:
    """``a`` of ``a.b(c)``."""
    node = node.func if isinstance(node, ast.Call) else node
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None

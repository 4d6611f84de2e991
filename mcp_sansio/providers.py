"""What supplies the dependencies of handlers, as it was declared, and the annotations of a function as types."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, get_type_hints

import msgspec

from .errors import DeclarationError


class Provider(msgspec.Struct, frozen=True):
    """How to make a dependency: `make` takes keyword arguments by the annotations in `needs`.

    `is_generator` is said of what it decorates, where it decorates something.
    """

    make: Callable[..., Any]
    needs: Mapping[str, Any]
    is_async: bool
    is_generator: bool


def provider_of(kind: str, source: Any, provided: Collection[Any]) -> Provider:
    """How `source` supplies `kind`, where `provided` are what is supplied already. Raises `DeclarationError`."""
    if not callable(source):
        return Provider(lambda: source, {}, is_async=False, is_generator=False)
    hints, needs = hints_of(source), {}
    for param in _parameters(source):
        wanted = hints.get(param.name)
        if any(wanted is held or wanted == held for held in provided):
            needs[param.name] = wanted
        elif param.default is param.empty and param.kind not in (param.VAR_POSITIONAL, param.VAR_KEYWORD):
            raise DeclarationError(
                f"what provides {kind!r} takes a parameter {param.name!r} that nothing provides; provide that first"
            )
    is_async, decorated = inspect.iscoroutinefunction(source), inspect.unwrap(source)
    is_generator = inspect.isgeneratorfunction(decorated) or inspect.isasyncgenfunction(decorated)
    return Provider(source, needs, is_async=is_async, is_generator=is_generator)


def _parameters(fn: Callable[..., Any]) -> Iterable[inspect.Parameter]:
    try:
        return inspect.signature(fn).parameters.values()
    except ValueError:  # some that are written in C say nothing
        return ()


def hints_of(fn: Callable[..., Any]) -> dict[str, Any]:
    """The annotations of `fn`, resolved. Raises `DeclarationError` for one that cannot be."""
    holder: Any = fn
    target = holder.__init__ if inspect.isclass(fn) else fn if inspect.isroutine(fn) else holder.__call__
    try:
        return get_type_hints(target)
    except NameError as error:
        name = getattr(fn, "__name__", repr(fn))
        raise DeclarationError(
            f"{name}: the annotation {error.name!r} cannot be resolved; define it at module level"
        ) from error

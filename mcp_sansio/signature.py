"""What a callable says of itself: its name, its docstring, and each parameter with its annotation.

Annotations are read where a handler may stand: in a partial, a method, a callable object, or a function that is nested
in another and names the classes of that one.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from opcode import opmap
from types import FunctionType, MethodType
from typing import Any, NamedTuple, get_type_hints

import msgspec

from .errors import DeclarationError

#: What stands for an annotation or a default that is not there.
EMPTY: Any = inspect.Parameter.empty
_YIELD = opmap["YIELD_VALUE"]


class Param(NamedTuple):
    """One parameter. `type` and `default` are `EMPTY` where there is none."""

    name: str
    type: Any
    default: Any


class Signature(msgspec.Struct, frozen=True):
    """What a callable says of itself. `returns` is the annotation of its result, or `EMPTY`.

    `may_wait` is false for an ``async def`` without ``await``, ``async for`` and ``async with``: its coroutine ends
    with its first step.
    """

    name: str
    description: str | None
    is_async: bool
    may_wait: bool
    params: Sequence[Param]
    returns: Any

    @classmethod
    def of(cls, fn: Callable[..., Any], exchange_type: type) -> Signature:
        """Read `fn`. Raises `DeclarationError` for a parameter that could not be filled, or an unknown name."""
        target, fixed = _target_of(fn)
        owner = _owner_of(target)
        name = (owner or target).__name__
        if inspect.isgeneratorfunction(target) or inspect.isasyncgenfunction(target):
            raise DeclarationError(f"{name}: a handler must return its result; a generator yields")
        hints = _hints_of(target, name, exchange_type)
        params = [
            _param(name, param, hints) for param in inspect.signature(fn).parameters.values() if param.name not in fixed
        ]
        is_async = inspect.iscoroutinefunction(target)
        # Asked for its own docstring alone: an undocumented __call__ would answer with object's.
        description = inspect.getdoc(owner if owner and not target.__doc__ else target)
        may_wait = not is_async or _yields(fn)
        return cls(name, description or None, is_async, may_wait, params, hints.get("return", EMPTY))


def _yields(fn: Any) -> bool:
    """Whether the coroutines of `fn` may wait, as far as can be seen. To wait, each has to yield to its loop.

    What only looks like a function (a proxy, as of a decorator, or one that was compiled) shows code that it does not
    run, or not all that it does.
    """
    while type(fn) is functools.partial:
        fn = fn.func
    if not inspect.isroutine(fn):
        fn = fn.__call__
    while type(fn) is MethodType:
        fn = fn.__func__
    if type(fn) is not FunctionType or not fn.__code__.co_flags & inspect.CO_COROUTINE:
        return True
    return _YIELD in fn.__code__.co_code[::2]  # every other byte is an argument


def _target_of(fn: Callable[..., Any]) -> tuple[Any, set[str]]:
    """The function or method behind a callable, and the parameters that a partial has filled by name."""
    fixed: set[str] = set()
    target: Any = fn
    while isinstance(target, functools.partial):
        fixed |= set(target.keywords)
        target = target.func
    return (target if inspect.isroutine(target) else target.__call__), fixed


def _owner_of(target: Any) -> Any:
    """The class of a callable object, which has the name that its ``__call__`` has not, or ``None``."""
    return type(target.__self__) if target.__name__ == "__call__" and hasattr(target, "__self__") else None


def _hints_of(target: Any, name: str, exchange_type: type) -> dict[str, Any]:
    nearby = _locals_around(target)
    try:
        try:
            return get_type_hints(target, localns=nearby or None, include_extras=True)
        except NameError:
            # A handler may import the exchange under TYPE_CHECKING alone: there is no doubt about what the name means.
            known = {exchange_type.__name__: exchange_type, **nearby}
            return get_type_hints(target, localns=known, include_extras=True)
    except NameError as error:
        raise DeclarationError(
            f"{name}: an annotation names {error.name!r}, which cannot be found; define or import it at module level, "
            "and not under TYPE_CHECKING"
        ) from error
    except (TypeError, SyntaxError) as error:
        raise DeclarationError(f"{name}: its annotations cannot be read: {error}") from error


def _locals_around(target: Any) -> dict[str, Any]:
    """The variables of the function that is just defining `target`: its classes are in no module, but may be named."""
    outer, inside, _ = getattr(target, "__qualname__", "").rpartition(".<locals>.")
    code = getattr(inspect.unwrap(target), "__code__", None)
    frame = sys._getframe(1) if inside else None
    while frame is not None:
        if frame.f_code.co_qualname == outer and code is not None and frame.f_code.co_filename == code.co_filename:
            return dict(frame.f_locals)
        frame = frame.f_back
    return {}


def _param(handler: str, param: inspect.Parameter, hints: Mapping[str, Any]) -> Param:
    if param.kind in (param.VAR_POSITIONAL, param.VAR_KEYWORD):
        raise DeclarationError(
            f"{handler}: {param} cannot be published; name each parameter, or take one mapping and give an input_schema"
        )
    if param.kind is param.POSITIONAL_ONLY:
        raise DeclarationError(f"{handler}: parameter {param.name!r} is positional-only; arguments come by name")
    return Param(param.name, hints.get(param.name, EMPTY), param.default)


def sorted_parameters(
    signature: Signature, exchange_type: type, provided: Callable[[Any], bool]
) -> tuple[str | None, dict[str, Any], list[Param]]:
    """The exchange's parameter, the dependencies' annotations, and the arguments. Raises `DeclarationError`."""
    exchanges = [param.name for param in signature.params if param.type is exchange_type]
    if len(exchanges) > 1:
        raise DeclarationError(
            f"{signature.name}: {exchanges[0]!r} and {exchanges[1]!r} are both the exchange; keep one"
        )
    rest = [param for param in signature.params if param.name not in exchanges]
    dependencies = {param.name: param.type for param in rest if _is_provided(param.type, provided)}
    arguments = [param for param in rest if param.name not in dependencies]
    return (exchanges[0] if exchanges else None), dependencies, arguments


def _is_provided(annotation: Any, provided: Callable[[Any], bool]) -> bool:
    try:
        return annotation is not EMPTY and provided(annotation)
    except TypeError:  # an annotation that cannot be hashed is in nobody's table
        return False

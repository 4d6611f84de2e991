"""What an application gives to a server, looked at when it is given, so that no client has to find the mistake."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache, partial
from typing import Any, TypeVar

T = TypeVar("T")

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def check_kind(name: str, value: object, kind: type) -> None:
    """Raises ``TypeError``, which begins with `name`, unless `value` is an object of `kind`."""
    if not isinstance(value, kind):
        raise TypeError(f"{name} must be an object of class {kind.__name__}, not {_kind(value)}")


def checked(name: str, given: T, protocol: type) -> T:
    """`given`, which has every method of `protocol`, and takes there what it will be given.

    Whether a method that is no ``async def`` gives something to await is not seen before it is called: it is looked at
    then. Raises ``TypeError``, which begins with `name`, for a method that is missing or takes something else.
    """
    wanted = _methods(protocol)
    if isinstance(given, type):
        raise TypeError(f"{name} must be a {protocol.__name__} object, not {_kind(given)}")
    missing = [method for method in wanted if not callable(getattr(given, method, None))]
    if missing:
        text = f"{_kind(given)}, which has no {', '.join(missing)}"
        raise TypeError(f"{name} must be a {protocol.__name__} object, not {text}")
    for method, signature in wanted.items():
        _check_signature(f"{name}: {type(given).__name__}.{method}", getattr(given, method), signature)
    awaited = [method for method in wanted if inspect.iscoroutinefunction(getattr(protocol, method))]
    plain = [method for method in awaited if not inspect.iscoroutinefunction(getattr(given, method))]
    return _Awaited(name, given, frozenset(plain)) if plain and not isinstance(given, _Awaited) else given  # type: ignore[return-value]


@cache
def _methods(protocol: type) -> dict[str, inspect.Signature]:
    """The methods of a protocol, and what each takes beside its object."""
    found = {}
    for name, value in vars(protocol).items():
        if inspect.isfunction(value) and not name.startswith("_"):
            _, *params = inspect.signature(value).parameters.values()
            found[name] = inspect.Signature([param.replace(annotation=param.empty) for param in params])
    return found


def _check_signature(name: str, method: Callable[..., Any], wanted: inspect.Signature) -> None:
    try:
        # What a decorator has wrapped may take something else than it does itself.
        taken = inspect.signature(method, follow_wrapped=False)
    except (TypeError, ValueError):
        return  # it cannot be seen
    params = wanted.parameters.values()
    positional = [param.name for param in params if param.kind in _POSITIONAL]
    named = {param.name: None for param in params if param.kind is param.KEYWORD_ONLY}
    try:
        taken.bind(*positional, **named)
    except TypeError as error:
        raise TypeError(f"{name} must take {wanted}: {error}") from None


class _Awaited:
    """What was given for a protocol, with an eye on those of its methods that are no ``async def``."""

    def __init__(self, name: str, given: object, plain: frozenset[str]) -> None:
        self._name = name
        self._given = given
        self._plain = plain

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._given, name)
        return (
            partial(_call, f"{self._name}: {type(self._given).__name__}.{name}", found)
            if name in self._plain
            else found
        )


def _call(name: str, method: Callable[..., Any], *args: Any, **named: Any) -> Any:
    made = method(*args, **named)
    if not inspect.isawaitable(made):
        raise TypeError(f"{name} must be async def: it gave {_kind(made)}, which cannot be awaited")
    return made


def _kind(value: object) -> str:
    """What `value` is, and not what it says: the address of an engine may have a password in it."""
    if isinstance(value, type):
        return f"the class {value.__name__} itself"
    return "None" if value is None else type(value).__name__

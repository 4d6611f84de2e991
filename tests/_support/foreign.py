"""What a handler may meet of other people's: a decorator around it, and an extension module that it calls."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any


class Panic(BaseException):
    """What an extension module raises for a fault of its own, which is no `Exception`."""


def timed(function: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator as most are: a plain ``def``, whatever it decorates."""

    @functools.wraps(function)
    def decorated(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return decorated

"""What a limit of either role may be, in sizes, times and counts."""

from __future__ import annotations


def check_limit(name: str, value: object) -> None:
    """Raises ``ValueError``, which begins with `name`, unless `value` is a number above zero."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        raise ValueError(f"{name} must be a number above zero, not {value!r}")

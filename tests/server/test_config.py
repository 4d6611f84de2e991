"""What an operator may not set: the error names the setting, what it must be, and what it was."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from mcp_sansio import Config

LIMITS = [field.name for field in attrs.fields(Config) if type(field.default) in (int, float)]


@pytest.mark.parametrize("name", LIMITS)
@pytest.mark.parametrize("value", [0, -1, "16MB", None, True, float("nan")])
def test_a_limit_is_a_number_above_zero(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"^Config.{name} must be a number above zero, not ") as refused:
        Config(**{name: value})
    assert str(refused.value).endswith(repr(value))


@pytest.mark.parametrize("name", ["allowed_origins", "allowed_hosts"])
@pytest.mark.parametrize("value", ["https://app.example", "*", b"x", 5, [5]])
def test_one_string_is_no_collection_of_names(name: str, value: Any) -> None:
    """It would be compared letter by letter, or let in whatever is a part of it."""
    with pytest.raises(ValueError, match=f"^Config.{name} must be a collection of strings") as refused:
        Config(**{name: value})
    assert str(refused.value).endswith(repr(value))


def test_what_may_be_set() -> None:
    config = Config(max_message=1, keep_alive=0.5, allowed_hosts=["a"], allowed_origins={"https://a"})
    assert (config.max_message, config.keep_alive, config.allowed_hosts) == (1, 0.5, ["a"])

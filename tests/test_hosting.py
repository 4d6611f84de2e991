"""What hosts share: who a request is from, where it came in, and a line to the other workers that is kept up."""

from __future__ import annotations

import logging
from typing import Any

import attrs
import pytest

from mcp_sansio import Config, StoreUnavailable
from mcp_sansio.hosting import checked_principal, found_principal, is_loopback, keep_up


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        (("127.0.0.1", 80), True),
        (("127.8.8.8", 80), True),
        (("::1", 80, 0, 0), True),
        (("::ffff:127.0.0.1", 80, 0, 0), True),
        (("10.0.0.1", 80), False),
        (("::ffff:10.0.0.1", 80, 0, 0), False),
        (("0.0.0.0", 80), False),
        (("fe80::1%eth0", 80, 0, 2), False),
        (("localhost", 80), False),
        ("/run/socket", False),
        ("", False),
        ((), False),
        (None, False),
    ],
)
def test_an_address_is_loopback_or_not(address: Any, expected: bool) -> None:
    assert is_loopback(address) is expected


@pytest.mark.parametrize("principal", [None, "", "ada"])
def test_a_principal(principal: str | None) -> None:
    assert checked_principal(principal) is principal


@pytest.mark.parametrize("principal", [7, b"ada", object(), ["ada"]])
def test_what_is_no_principal(principal: Any) -> None:
    with pytest.raises(TypeError, match=f"^a principal is a str or None, not {type(principal).__name__}: "):
        checked_principal(principal)


async def test_a_principal_that_is_found_sooner_or_later() -> None:
    async def later(principal: Any) -> Any:
        return principal

    assert [await found_principal("ada"), await found_principal(later("ada"))] == ["ada", "ada"]
    assert [await found_principal(None), await found_principal(later(None))] == [None, None]
    for found in (7, later(7)):
        with pytest.raises(TypeError, match=r"^a principal is a str or None, not int: "):
            await found_principal(found)


def test_a_config_with_what_is_given_in_place() -> None:
    assert Config.of(None, allowed_hosts=None) == Config()
    assert Config.of(None, allowed_hosts=["a"], allowed_origins=None) == Config(allowed_hosts=["a"])
    own = Config(max_message=5, allowed_hosts=["b"])
    assert Config.of(own, allowed_hosts=["a"]) == attrs.evolve(own, allowed_hosts=["a"])
    with pytest.raises(ValueError, match="allowed_hosts must be a collection of strings"):
        Config.of(own, allowed_hosts="a")


def test_a_line_is_kept_up(caplog: pytest.LogCaptureFixture) -> None:
    """After a failure, and after an end that nobody expected; what is no failure of the hub ends it."""
    failures = [OSError("gone"), None, StoreUnavailable("again")]
    happens: list[BaseException | None] = [*failures, KeyboardInterrupt()]
    slept: list[float] = []

    async def line() -> None:
        happened = happens.pop(0)
        if happened is not None:
            raise happened

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    with pytest.raises(KeyboardInterrupt):
        keep_up(line, sleep, logging.getLogger("a_binding")).send(None)
    assert slept == [1.0, 1.0, 1.0]
    told = [(record.name, record.getMessage(), record.exc_info is not None) for record in caplog.records]
    assert told == [
        ("a_binding", "the hub failed; it is tried again in 1 s", True),
        ("a_binding", "the hub failed; it is tried again in 1 s: again", False),
    ]

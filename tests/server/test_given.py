"""What is given to a server is looked at when it is given: the mistake is named, and no client has to find it."""

from __future__ import annotations

import functools
import logging
from collections.abc import Awaitable, Callable
from typing import Any
from unittest.mock import AsyncMock, create_autospec

import pytest

import support
from mcp_sansio import (
    AdapterSet,
    Config,
    Exchange,
    Hub,
    MemoryHub,
    MemorySessionStore,
    Registry,
    SealedState,
    SessionStore,
    StateCodec,
    StoredState,
)
from mcp_sansio.testing import FakeClock, SimulatedHttp, Simulation
from mcp_sansio.waits import check_handlers
from speak import HANDSHAKE, Http


class NoTake(MemorySessionStore):
    take = None  # type: ignore[assignment]


class OldGet(MemorySessionStore):
    async def get(self, key: str) -> Any:  # type: ignore[override]
        return None


class NoPosition:
    async def publish(self, topic: str, data: bytes) -> None:
        pass

    async def poll(self, topic: str, cursor: int) -> list[Any]:
        return []

    async def delete(self, topic: str) -> None:
        pass


class OldLend(StoredState):
    def lend(self, runtime: Any) -> None:  # type: ignore[override]
        pass


STORE = "store must be a SessionStore object, not"
FAULTS: dict[str, tuple[dict[str, Any], str]] = {
    "a path": (
        {"store": "/var/lib/bakery.json"}, f"{STORE} str, which has no create, get, save, touch, delete, take"
    ),
    "a class of a store": ({"store": MemorySessionStore}, f"{STORE} the class MemorySessionStore itself"),
    "a store without a method": ({"store": NoTake(clock=FakeClock())}, f"{STORE} NoTake, which has no take"),
    "a method that takes less": (
        {"store": OldGet(clock=FakeClock())},
        "store: OldGet.get must take (key, *, ttl=None): got an unexpected keyword argument 'ttl'",
    ),
    "a hub without a method": (
        {"hub": NoPosition()}, "hub must be a Hub object, not NoPosition, which has no position"
    ),
    "a store as a hub": (
        {"hub": MemorySessionStore(clock=FakeClock())},
        "hub must be a Hub object, not MemorySessionStore, which has no publish, position, poll",
    ),
    "keys as states": (
        {"states": [b"x" * 32]}, "states must be a StateCodec object, not list, which has no lend, seal, open, put_back"
    ),
    "a class of states": (
        {"states": SealedState}, "states must be a StateCodec object, not the class SealedState itself"
    ),
    "states that take less": (
        {"states": OldLend(MemorySessionStore(clock=FakeClock()))},
        "states: OldLend.lend must take (runtime, *, ttl, max_state): got an unexpected keyword argument 'ttl'",
    ),
    "a dict of settings": (
        {"config": {"max_calls": 5}}, "config must be an object of class Config, not dict"
    ),
    "no settings": ({"config": {}}, "config must be an object of class Config, not dict"),
    "a class of settings": (
        {"config": Config}, "config must be an object of class Config, not the class Config itself"
    ),
    "a name of a revision": ({"adapters": "2099-01-01"}, "adapters must be an object of class AdapterSet, not str"),
}  # fmt: skip
REGISTRIES = {
    "a name": ("bakery", "registry must be an object of class Registry, not str"),
    "the class": (Registry, "registry must be an object of class Registry, not the class Registry itself"),
    "nothing": (None, "registry must be an object of class Registry, not None"),
}
#: Every way to a server over HTTP, by the module and the class of the binding.
WAYS = {
    "mcp_sansio_aiohttp": "Endpoint",
    "mcp_sansio_asgi": "Application",
    "mcp_sansio_sync": "Application",
    "mcp_sansio_trio": "Endpoint",
}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_is_no_part_of_a_server(fault: str) -> None:
    given, text = FAULTS[fault]
    with pytest.raises(TypeError) as refused:
        Simulation(Registry("s", "1"), **given)
    assert str(refused.value) == text


@pytest.mark.parametrize("fault", REGISTRIES)
def test_what_is_no_registry(fault: str) -> None:
    given, text = REGISTRIES[fault]
    for way in (Simulation, check_handlers):
        with pytest.raises(TypeError) as refused:
            way(given)
        assert str(refused.value) == text


@pytest.mark.parametrize("module", WAYS)
def test_every_binding_says_so(module: str) -> None:
    way = getattr(support.need(module), WAYS[module])
    for given, text in REGISTRIES.values():
        with pytest.raises(TypeError) as refused:
            way(given)
        assert str(refused.value) == text
    for given, text in FAULTS.values():
        if "hub" not in given:  # which one of them takes only beside an event loop
            with pytest.raises(TypeError) as refused:
                way(Registry("s", "1"), **given)
            assert str(refused.value) == text


def test_a_store_of_stored_state_is_one() -> None:
    with pytest.raises(
        TypeError, match=r"^store must be a SessionStore object, not the class MemorySessionStore itself$"
    ):
        StoredState(MemorySessionStore)  # type: ignore[arg-type]


# What is one, although it is no `async def` ---------------------------------------------------------------------------


def traced(method: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    @functools.wraps(method)
    def call(*args: Any, **named: Any) -> Awaitable[Any]:
        return method(*args, **named)

    return call


class Decorated(MemorySessionStore):
    create = traced(MemorySessionStore.create)  # type: ignore[assignment]
    get = traced(MemorySessionStore.get)  # type: ignore[assignment]
    take = traced(MemorySessionStore.take)  # type: ignore[assignment]


class Passing:
    """It has every method by what it passes it to."""

    answers_at_once = True

    def __init__(self, to: Any) -> None:
        self._to = to

    def __getattr__(self, name: str) -> Any:
        return lambda *args, **named: getattr(self._to, name)(*args, **named)


@pytest.mark.parametrize("wrap", [lambda store: store, Passing], ids=["decorated", "passed on"])
@pytest.mark.parametrize("version", HANDSHAKE)
def test_methods_that_give_something_to_await(version: str, wrap: Callable[[Any], Any]) -> None:
    registry = Registry("s", "1")

    @registry.tool
    async def count(ex: Exchange) -> int:
        """Count."""
        assert ex.session is not None
        await ex.session.set("n", ex.session.get("n", 0) + 1)
        return int(ex.session.get("n"))

    speaker = Http(version, Simulation(registry, store=wrap(Decorated(clock=FakeClock()))))
    counted = [speaker.call("count").messages[0]["result"]["content"][0]["text"] for _ in range(2)]
    assert counted == ["1", "2"]


def test_a_double_of_a_test_is_taken() -> None:
    for store in (AsyncMock(), create_autospec(SessionStore, instance=True)):
        Simulation(Registry("s", "1"), store=store)
    Simulation(Registry("s", "1"), hub=AsyncMock(spec=Hub), states=create_autospec(StateCodec, instance=True))
    Simulation(Registry("s", "1"), hub=MemoryHub(event=lambda: None), adapters=AdapterSet.default(), config=Config())  # type: ignore[arg-type,return-value]


# What gives nothing to await ------------------------------------------------------------------------------------------


class Plain:
    """A store of plain functions."""

    answers_at_once = True

    def __init__(self) -> None:
        self.held: dict[str, Any] = {}

    def create(self, key: str, data: Any, *, ttl: float) -> bool:
        self.held[key] = data
        return True

    def get(self, key: str, *, ttl: float | None = None) -> Any:
        return self.held.get(key)

    def save(self, key: str, data: Any, *, expected: int, ttl: float) -> bool:
        return False

    def touch(self, key: str, *, ttl: float) -> bool:
        return False

    def delete(self, key: str) -> None:
        pass

    def take(self, key: str) -> Any:
        return self.held.pop(key, None)


class Knocking(Http):
    """A client whose handshake may be refused."""

    def open(self) -> SimulatedHttp:
        self.opened = self.post(self.initialize())
        return self.opened


@pytest.mark.parametrize("at_once", [True, False])
@pytest.mark.parametrize("version", HANDSHAKE)
def test_a_plain_method_is_named_when_it_is_called(
    version: str, at_once: bool, caplog: pytest.LogCaptureFixture
) -> None:
    simulation = Simulation(Registry("s", "1"), store=Plain(), config=Config(asks_store_at_once=at_once))
    with caplog.at_level(logging.ERROR, "mcp_sansio"):
        refused = Knocking(version, simulation).opened
    assert refused.status == 503
    assert "store: Plain.create must be async def: it gave bool, which cannot be awaited" in caplog.text

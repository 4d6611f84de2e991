"""`check_store`: whether a session store does what the library's own do, whatever engine is behind it."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NoReturn, TypeAlias

from mcp_sansio.given import checked
from mcp_sansio.runtime import given_now
from mcp_sansio.storage import SessionRecord, SessionStore
from mcp_sansio.types import JSON
from mcp_sansio.wire.json import encode

from .checking import Maybe, settled, shown

#: ``asyncio.gather``, or what does the same.
Gather: TypeAlias = Callable[..., Awaitable[Sequence[Any]]]

#: Seconds that a record lives which is not to expire.
_LONG = 600.0
#: How many try for the same thing at once.
_CROWD = 20
_KEYS = ("", "a", "A", "a ", "a:b/c.d*e?[f]{g}%h_i", "'\"`;--\\", "\0a\0", "żółć 🥖", "k" * 500)
_DATA: tuple[dict[str, JSON], ...] = (
    {},
    {"kinds": [None, True, False, "", [], {}], "": {"": {"": []}}},
    {"integers": [0, -1, 2**53 + 1, 2**63, -(2**63) - 1, 10**40], "floats": [0.1, -0.0, 1.0, 5e-324, 1e300]},
    {"text": "\0\b\f\n\r\t\"\\/ żółć 🥖 \u2028\x7f\uffff", "order": {"b": 1, "a": 2}, "large": "0123456789" * 6000},
)  # fmt: skip


async def check_store(
    make: Callable[[], Maybe[SessionStore]],
    *,
    pass_time: Callable[[float], Maybe[object]] | None = None,
    ttl: float = 50.0,
    gather: Gather | None = None,
) -> None:
    """Check a session store against what `SessionStore` says of each method.

    ``make()`` gives a store, to be awaited or not. It is called twice, and gives what two workers have: two stores on
    the same records, or the same one for both where it is in memory. The check uses keys of its own, ``check_store``
    and what begins with that and a colon, and forgets what it finds and leaves under them.

    ``pass_time(seconds)``, to be awaited or not, has so many seconds pass for what expires. It advances a clock that
    the store was given, or it is ``asyncio.sleep``; records live for `ttl` seconds then, and almost twice as many are
    passed in all. Without it nothing is seen of expiry. `gather` is ``asyncio.gather``, or what else awaits several
    things at once and gives a list of what they came to. Without it nobody comes at the same moment as others.

    Raises ``AssertionError`` for the first rule that is broken. It needs no event loop of its own.
    """
    pair = _Pair([_store(await settled(make())) for _ in range(2)])
    await _check_records(pair)
    await _check_take(pair)
    await _check_keys(pair)
    await _check_data(pair)
    if gather is not None:
        await _check_crowds(pair, gather)
    if pass_time is not None:
        await _check_expiry(pair, ttl, pass_time)


def _store(made: Any) -> SessionStore:
    try:
        store: SessionStore = checked("what make() gives", made, SessionStore)
    except TypeError as error:
        raise AssertionError(str(error)) from None
    return store


def _fail(method: str, what: str) -> NoReturn:
    rule = inspect.getdoc(getattr(SessionStore, method))
    raise AssertionError(f"{what}.\nSessionStore.{method}: {rule}")


class _Pair:
    """The stores of two workers on the same records, which take turns."""

    def __init__(self, stores: Sequence[SessionStore]) -> None:
        self._stores = stores
        self._asked = 0

    def ask(self, method: str, *args: Any, **named: Any) -> Awaitable[Any]:
        """Ask one of them, and the other one next."""
        self._asked += 1
        asked: Awaitable[Any] = getattr(self._stores[self._asked % 2], method)(*args, **named)
        return asked

    async def expect(self, wanted: object, when: str, method: str, *args: Any, **named: Any) -> Any:
        """What one of them gives, which must be `wanted`."""
        call = f"{method}({', '.join([*map(shown, args), *(f'{name}={shown(item)}' for name, item in named.items())])})"
        try:
            work = self.ask(method, *args, **named)
            at_once = getattr(self._stores[self._asked % 2], "answers_at_once", False)
            given = given_now(work) if at_once else await work
        except Exception as error:
            raise AssertionError(f"{when}, {call} raises {error!r}") from error
        if given != wanted:
            _fail(method, f"{when}, {call} gives {shown(given)}, and not {shown(wanted)}")
        return given

    async def put(self, key: str, data: JSON, *, ttl: float = _LONG) -> None:
        """Keep a record under a key, whatever was there."""
        await self.expect(None, "at any time", "delete", key)
        await self.expect(True, "where nothing is kept", "create", key, data, ttl=ttl)

    async def expect_nothing(self, when: str, key: str, ttl: float = _LONG) -> None:
        """There must be no record under a key, for any method."""
        await self.expect(None, when, "get", key)
        await self.expect(None, when, "get", key, ttl=ttl)
        await self.expect(False, when, "touch", key, ttl=ttl)
        await self.expect(False, when, "save", key, {}, expected=1, ttl=ttl)
        await self.expect(None, when, "take", key)


# What is checked

_KEY = "check_store"


async def _check_records(pair: _Pair) -> None:
    await pair.put(_KEY, {"a": 1})
    when = "after create"
    await pair.expect(False, "where a record is there", "create", _KEY, {"a": 2}, ttl=_LONG)
    await pair.expect(SessionRecord({"a": 1}, 1), when, "get", _KEY)
    await pair.expect(False, when, "save", _KEY, {"a": 3}, expected=2, ttl=_LONG)
    await pair.expect(True, when, "save", _KEY, {"a": 3}, expected=1, ttl=_LONG)
    when = "after one save"
    await pair.expect(False, when, "save", _KEY, {"a": 4}, expected=1, ttl=_LONG)
    await pair.expect(SessionRecord({"a": 3}, 2), when, "get", _KEY, ttl=_LONG)
    await pair.expect(True, when, "touch", _KEY, ttl=_LONG)
    await pair.expect(SessionRecord({"a": 3}, 2), "after touch", "get", _KEY)
    await pair.expect(None, when, "delete", _KEY)
    await pair.expect(None, "where nothing is kept", "delete", _KEY)
    await pair.expect_nothing("after delete", _KEY)
    given: JSON = {"list": [1]}
    await pair.put(_KEY, given)
    given["list"].append(2)
    held = await pair.expect(SessionRecord({"list": [1]}, 1), "when the data that create had has changed", "get", _KEY)
    held.data["list"].append(3)
    await pair.expect(SessionRecord({"list": [1]}, 1), "when the data that get gave has changed", "get", _KEY)


async def _check_take(pair: _Pair) -> None:
    await pair.put(_KEY, {"a": 1})
    await pair.put(f"{_KEY}:beside", {"a": 2})
    await pair.expect(True, "after create", "save", _KEY, {"a": 3}, expected=1, ttl=_LONG)
    await pair.expect(SessionRecord({"a": 3}, 2), "after one save", "take", _KEY)
    await pair.expect_nothing("after take", _KEY)
    await pair.expect(SessionRecord({"a": 2}, 1), "after take of another key", "take", f"{_KEY}:beside")
    await pair.expect(True, "after take", "create", _KEY, {"a": 4}, ttl=_LONG)
    await pair.expect(SessionRecord({"a": 4}, 1), "after take and create", "take", _KEY)


async def _check_keys(pair: _Pair) -> None:
    keys = {f"{_KEY}:{key}": SessionRecord({"key": number}, 1) for number, key in enumerate(_KEYS)}
    for key, record in keys.items():
        await pair.put(key, record.data)
    for key, record in keys.items():
        await pair.expect(record, "beside keys that are almost the same", "get", key)
        await pair.expect(record, "beside keys that are almost the same", "take", key)


async def _check_data(pair: _Pair) -> None:
    for data in _DATA:
        await pair.put(_KEY, data)
        for method in ("get", "take"):
            when, version = ("after create", 1) if method == "get" else ("after save", 2)
            held = await pair.expect(SessionRecord(data, version), when, method, _KEY)
            if encode(held.data) != encode(data):  # which tells kinds of numbers, the sign of zero and the order
                _fail(method, f"{when}, the data that was {shown(data)} has become {shown(held.data)}")
            if method == "get":
                await pair.expect(True, "after create", "save", _KEY, data, expected=1, ttl=_LONG)


async def _check_crowds(pair: _Pair, gather: Gather) -> None:
    await pair.expect(None, "at any time", "delete", _KEY)
    crowd = range(_CROWD)
    created = await gather(*(pair.ask("create", _KEY, {"by": number}, ttl=_LONG) for number in crowd))
    _check_one("create", created)
    await pair.expect(SessionRecord({"by": created.index(True)}, 1), f"after create by {_CROWD} at once", "get", _KEY)
    saved = await gather(*(pair.ask("save", _KEY, {"by": number}, expected=1, ttl=_LONG) for number in crowd))
    _check_one("save", saved)
    wanted = SessionRecord({"by": saved.index(True)}, 2)
    await pair.expect(wanted, f"after save by {_CROWD} at once", "get", _KEY)
    taken = await gather(*(pair.ask("take", _KEY) for _ in crowd))
    _check_one("take", [record == wanted for record in taken if record is not None])


def _check_one(method: str, won: Sequence[object]) -> None:
    if won.count(True) != 1:
        _fail(method, f"of {_CROWD} who call {method} at once, {won.count(True)} are told that it was they")


async def _check_expiry(pair: _Pair, ttl: float, pass_time: Callable[[float], Maybe[object]]) -> None:
    read, got, touched, saved, long = (f"{_KEY}:{name}" for name in ("read", "got", "touched", "saved", "long"))
    for key in (read, got, touched, saved):
        await pair.put(key, {}, ttl=ttl)
    await pair.put(long, {}, ttl=10 * ttl)
    await settled(pass_time(0.6 * ttl))
    when = "within its lifetime"
    await pair.expect(SessionRecord({}, 1), when, "get", read)
    await pair.expect(SessionRecord({}, 1), when, "get", got, ttl=ttl)
    await pair.expect(True, when, "touch", touched, ttl=ttl)
    await pair.expect(True, when, "save", saved, {}, expected=1, ttl=ttl)
    await settled(pass_time(0.6 * ttl))
    await pair.expect_nothing("after its lifetime", read, ttl)
    await pair.expect(True, "after its lifetime", "create", read, {"again": 1}, ttl=10 * ttl)
    for key, method, version in ((got, "get with a ttl", 1), (touched, "touch", 1), (saved, "save", 2)):
        await pair.expect(SessionRecord({}, version), f"within the lifetime that {method} has renewed", "get", key)
    await settled(pass_time(0.6 * ttl))
    for key in (got, touched, saved):
        await pair.expect_nothing("after the lifetime that was renewed once", key, ttl)
    await pair.expect(SessionRecord({}, 1), "within its lifetime", "take", long)
    await pair.expect(SessionRecord({"again": 1}, 1), "within its lifetime", "take", read)

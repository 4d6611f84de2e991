"""State that travels sealed: no worker keeps it, each goes on with it, and every fault of it gives one refusal."""

from __future__ import annotations

import string
import struct
import sys
from base64 import b64encode, urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Coroutine
from hashlib import sha256
from typing import Any, NoReturn, TypeVar

import pytest

import support
from mcp_sansio import (
    Call,
    ClientInfo,
    Exchange,
    Operation,
    Registry,
    Rejected,
    Runtime,
    SealedState,
    Server,
    elicit,
)
from mcp_sansio.testing import FakeClock, Simulation
from speak import ENVELOPE
from stateful import ANSWERS, CARRIERS, KEY, Caller, registry, simulation

support.need("cryptography")

T = TypeVar("T")
OTHER = bytes(32)
ALPHABET = string.ascii_uppercase + string.ascii_lowercase + string.digits + "-_"


def caller_of(version: str, *keys: bytes, **options: Any) -> Caller:
    """A client of a worker of its own, which has these keys."""
    return Caller(version, Simulation(registry(), states=SealedState(keys or [KEY])), **options)


def data_of(token: str) -> bytes:
    return urlsafe_b64decode(token + "=" * (-len(token) % 4))


def text_of(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()


class NoStore:
    """A store that must not be asked."""

    answers_at_once = True

    async def _asked(self, *args: Any, **named: Any) -> NoReturn:
        raise AssertionError("the store was asked")

    create = get = save = touch = delete = take = _asked


@pytest.mark.parametrize("version", ENVELOPE)
def test_no_store_is_needed_and_any_worker_goes_on(version: str) -> None:
    first, second = (Caller(version, simulation("sealed", store=NoStore())) for _ in range(2))
    second.simulation.advance(890)  # another process, whose clock says something else within the token's life
    second.assert_done(second.call("one", {"x": 1}, state=first.first("one", {"x": 1})))


@pytest.mark.parametrize("version", CARRIERS)
def test_a_token_is_not_spent(version: str) -> None:
    """What it cannot do, as its documentation says: only somebody who remembers could refuse the second."""
    caller = caller_of(version)
    token = caller.first()
    for _ in range(2):
        caller.assert_done(caller.call("one", {}, state=token))


@pytest.mark.parametrize("version", CARRIERS)
def test_a_token_shows_nothing_and_no_two_are_alike(version: str) -> None:
    caller = caller_of(version)
    tokens = [caller.first() for _ in range(10)]
    assert len(set(tokens)) == 10
    assert set("".join(tokens)) <= set(ALPHABET)
    assert all(b'"n"' not in data_of(token) for token in tokens)
    ids, nonces = {data_of(token)[:8] for token in tokens}, {data_of(token)[8:20] for token in tokens}
    assert (len(ids), len(nonces)) == (1, 10)


def assert_all_refused(caller: Caller, tokens: list[Any], good: str) -> None:
    """Each of `tokens` is refused, with the same bytes; the good one works before and after."""
    caller.assert_done(caller.call("one", {}, state=good))
    assert good not in tokens
    for token in tokens:
        refused = caller.call("one", {}, state=token)
        caller.assert_refused(refused)
        caller.speaker.simulation.remove(refused)  # or each is asked again and again whether it has something
    caller.assert_done(caller.call("one", {}, state=good))


@pytest.mark.parametrize("version", CARRIERS)
def test_truncated_and_extended(version: str) -> None:
    caller = caller_of(version)
    token = caller.first()
    cuts = [token[:at] for at in range(len(token))] + [token[at:] for at in range(1, len(token))]
    data = data_of(token)
    cuts += [text_of(data[:at]) for at in range(len(data))]
    longer = [token + more for more in ("A", "AA", "AAAA", token)]
    assert_all_refused(caller, cuts + longer, token)


@pytest.mark.parametrize("version", CARRIERS)
def test_every_bit_counts(version: str) -> None:
    caller = caller_of(version)
    token = caller.first()
    data = data_of(token)
    flipped = [bytes(byte ^ (1 << bit) * (at == place) for place, byte in enumerate(data))
               for at in range(len(data)) for bit in range(8)]  # fmt: skip
    assert_all_refused(caller, [text_of(changed) for changed in flipped], token)


@pytest.mark.parametrize("version", CARRIERS)
def test_encoded_anew(version: str) -> None:
    """Texts that a lenient reader takes for the same bytes."""
    caller = caller_of(version)
    # Two in three lengths leave bits over in the last digit.
    token = next(made for made in iter(caller.first, None) if len(data_of(made)) % 3)
    data = data_of(token)
    same_bytes = [token[:-1] + digit for digit in ALPHABET if digit != token[-1]]
    same_bytes = [text for text in same_bytes if data_of(text) == data]
    assert same_bytes
    padded = [token + "=" * count for count in range(1, 5)] + ["=" + token, token[:8] + "=" + token[8:]]
    spaced = [token + end for end in (" ", "\n", "\r\n", "\0", "\u00a0")] + [" " + token, token[:9] + "\n" + token[9:]]
    wide = [token.replace(digit, chr(ord(digit) + 0xFEE0), 1) for digit in token[:1]]
    other = [b64encode(data).decode(), b64encode(data).rstrip(b"=").decode(), data.hex(), text_of(token.encode())]
    other = [text for text in other if text != token]
    escaped = [f"%{ord(token[0]):02x}" + token[1:], token[:9] + "!" + token[9:], f'"{token}"']
    assert_all_refused(caller, same_bytes + padded + spaced + wide + other + escaped, token)


@pytest.mark.parametrize("version", CARRIERS)
@pytest.mark.parametrize("swap", [str.swapcase, str.upper, str.lower])
def test_of_another_case(version: str, swap: Any) -> None:
    caller = caller_of(version)
    token = caller.first()
    assert_all_refused(caller, [swap(token)], token)


@pytest.mark.parametrize("version", CARRIERS)
def test_empty_and_huge(version: str) -> None:
    caller = caller_of(version)
    token = caller.first()
    strange: list[Any] = [
        "",
        "A",
        "A" * 48,
        "A" * 2**20,
        token * 1000,
        "é" * 60,
        5,
        0,
        1.5,
        True,
        False,
        [],
        {},
        [token],
    ]
    strange += [text_of(bytes(size)) for size in (0, 7, 8, 19, 20, 43, 44, 45)]
    strange += [text_of(data_of(token)[:8] + bytes(2**17))]
    assert_all_refused(caller, strange, token)


@pytest.mark.parametrize("version", CARRIERS)
def test_of_a_foreign_key(version: str) -> None:
    caller, foreign = caller_of(version), caller_of(version, OTHER)
    token, other = caller.first(), foreign.first()
    # With the id of a key that is known here, and the other way round, too.
    swapped = [text_of(data_of(token)[:8] + data_of(other)[8:]), text_of(data_of(other)[:8] + data_of(token)[8:])]
    assert_all_refused(caller, [other, *swapped], token)


@pytest.mark.parametrize("version", CARRIERS)
def test_with_the_id_of_another_key_that_is_known(version: str) -> None:
    both = caller_of(version, KEY, OTHER)
    token, other = both.first(), caller_of(version, OTHER).first()
    assert_all_refused(both, [text_of(data_of(other)[:8] + data_of(token)[8:])], token)
    both.assert_done(both.call("one", {}, state=other))


@pytest.mark.parametrize("version", CARRIERS)
def test_keys_change_without_losing_a_call(version: str) -> None:
    """``[old]``, ``[old, new]``, ``[new, old]``, ``[new]``: each opens what the one before and the one after seal."""
    generations = [caller_of(version, *keys) for keys in ([KEY], [KEY, OTHER], [OTHER, KEY], [OTHER])]
    sealed = [generation.first() for generation in generations]
    for at, generation in enumerate(generations):
        for token in sealed[max(0, at - 1) : at + 2]:
            generation.assert_done(generation.call("one", {}, state=token))
    generations[3].assert_refused(generations[3].call("one", {}, state=sealed[0]))


@pytest.mark.parametrize("version", CARRIERS)
def test_all_faults_look_alike(version: str) -> None:
    held = simulation("sealed")
    caller, bob = Caller(version, held, principal="ada"), Caller(version, held, principal="bob")
    token = caller.first()
    faulty = {
        "another call": caller.call("two", {}, state=token),
        "other arguments": caller.call("one", {"x": 3}, state=token),
        "another principal": bob.call("one", {}, state=token),
        "an unknown key": caller.call("one", {}, state=caller_of(version, OTHER, principal="ada").first()),
        "no token": caller.call("one", {}, state=5),
        "an empty one": caller.call("one", {}, state=""),
        "a huge one": caller.call("one", {}, state="A" * 2**20),
        "cut": caller.call("one", {}, state=token[:-1]),
        "padded": caller.call("one", {}, state=token + "="),
    }
    held.advance(900)
    faulty["expired"] = caller.call("one", {}, state=token)
    assert {(exchange.head, exchange.body) for exchange in faulty.values()} == {
        (faulty["cut"].head, faulty["cut"].body)
    }
    caller.assert_refused(faulty["cut"])


@pytest.mark.parametrize("version", CARRIERS)
def test_the_answers_of_earlier_rounds_are_in_it(version: str) -> None:
    """Nobody else could have kept them."""
    made = Registry("s", "1")

    @made.tool
    async def three(ex: Exchange) -> str:
        """Ask three times."""
        return " ".join([(await ex.ask(key, elicit(key))).action for key in "qrs"])

    def round_of(state: Any, answers: Any) -> Any:
        result = caller.call("three", {}, state=state, answers=answers).messages[0]["result"]
        return result if caller.modern else result.get("_meta", {}).get("mcp-sansio/input-required", result)

    caller = Caller(version, Simulation(made, states=SealedState([KEY])))
    result = round_of(None, {})
    for key in "qrs":
        assert list(result["inputRequests"]) == [key]
        result = round_of(result.get("requestState"), {key: ANSWERS["q"]})
    assert result["content"][0]["text"] == "accept accept accept"


# By itself ------------------------------------------------------------------------------------------------------------


def now(work: Coroutine[Any, Any, T]) -> T:
    """What `work` gives, which waits for nothing."""
    with pytest.raises(StopIteration) as done:
        work.send(None)
    value: T = done.value.value
    return value


def call_of(**arguments: Any) -> Call:
    return Call(Operation.CALL_TOOL, 1, "one", arguments, {}, ClientInfo(), adapter=None)


class Worker:
    """A codec in a process of its own, which was started at another time."""

    def __init__(self, wall_clock: FakeClock, started: float, *keys: bytes) -> None:
        self.codec = SealedState(keys or [KEY])
        runtime = Runtime(now=FakeClock(started), token_bytes=bytes, event=NoStore, wall_clock=wall_clock)
        self.codec.lend(runtime, ttl=900, max_state=100)


def test_a_token_expires_at_every_worker_at_the_same_time() -> None:
    clock = FakeClock(1e9)
    old, young = Worker(clock, started=1e6), Worker(clock, started=1)
    token = now(old.codec.seal(call_of(), None, "x"))
    clock.advance(899.5)
    assert [now(worker.codec.open(call_of(), None, token)) for worker in (old, young)] == ["x", "x"]
    clock.advance(0.5)
    for worker in (old, young):
        with pytest.raises(Rejected):
            worker.codec.open(call_of(), None, token).send(None)


@pytest.mark.parametrize(
    "state", [None, 0, -1, 1.5, 2**80, "", "é😀\0", [], {}, {"a": [None, {"": True}]}, [1e300, 5e-324]]
)
def test_a_state_survives_exactly(state: Any) -> None:
    worker = Worker(FakeClock(1e9), 0)
    opened = now(worker.codec.open(call_of(x=1), "ada", now(worker.codec.seal(call_of(x=1), "ada", state))))
    assert (opened, type(opened)) == (state, type(state))


def test_what_a_token_is_made_of() -> None:
    """As the module says, by another way: who has the key can write a reader in another language."""
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    from mcp_sansio.request_state import binding_of

    token = now(Worker(FakeClock(1e9), 0).codec.seal(call_of(), "ada", {"n": [1]}))
    data, bound = data_of(token), f"mcp-sansio requestState {binding_of(call_of(), 'ada')}".encode()
    assert data[:8] == sha256(b"mcp-sansio key id " + KEY).digest()[:8]
    plain = AESGCM(KEY).decrypt(data[8:20], data[20:], bound)
    assert (struct.unpack(">d", plain[:8]), plain[8:]) == ((1e9 + 900,), b'{"n":[1]}')


def test_the_largest_state_that_is_allowed_is_opened() -> None:
    worker = Worker(FakeClock(1e9), 0)
    for size in range(90, 99):  # within quotes
        state = "x" * size
        assert now(worker.codec.open(call_of(), None, now(worker.codec.seal(call_of(), None, state)))) == state
    with pytest.raises(Rejected):
        worker.codec.open(call_of(), None, now(worker.codec.seal(call_of(), None, "x" * 103))).send(None)


@pytest.mark.parametrize(
    "keys", [[], [b"short"], [KEY, b""], ["x" * 32], KEY, [KEY + b"x"], [bytearray(KEY)], [None]], ids=repr
)
def test_what_is_no_key_is_said_without_showing_it(keys: Any) -> None:
    with pytest.raises(ValueError, match=r"^SealedState: keys must be one or more of 32 bytes each, as secrets\.token"):
        SealedState(keys)


def test_a_key_is_not_shown() -> None:
    ids = [sha256(b"mcp-sansio key id " + key).hexdigest()[:16] for key in (KEY, OTHER)]
    assert repr(SealedState([KEY, OTHER])) == f"SealedState(<{ids[0]}, {ids[1]}>)"


def test_a_runtime_without_a_wall_clock_is_refused_at_once() -> None:
    runtime = Runtime(now=FakeClock(), token_bytes=bytes, event=NoStore)
    with pytest.raises(ValueError, match=r"SealedState needs Runtime\.wall_clock"):
        Server(registry(), runtime=runtime, states=SealedState([KEY]))


def test_without_the_package_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.ciphers.aead", None)
    with pytest.raises(ImportError, match=r"needs the cryptography package; install mcp-sansio\[sealed\]"):
        SealedState([KEY])

"""The JSON codec: strict on what comes in, never failing on text that goes out, exact about what is no JSON."""

from __future__ import annotations

import collections
import enum
import json as stdlib_json
import math
import re
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_sansio.wire.json import JsonError, TooDeep, decode, encode, fault_of, mend

ACCEPTED: dict[str, tuple[bytes, Any]] = {
    "object": (b' {"a": [1, -2.5, true, null, "x"]} \r\n', {"a": [1, -2.5, True, None, "x"]}),
    "scalar": (b"0", 0),
    "last of equal keys": (b'{"a":1,"a":2}', {"a": 2}),
    "beyond 64 bits": (b"18446744073709551617", 18446744073709551617),
    "beyond 53 bits": (b"9007199254740993", 9007199254740993),
    "400 digits": (b"1" * 400, int("1" * 400)),
    "fraction that underflows": (b"1e-400", 0.0),
    "pair of surrogate escapes": (rb'"\ud83c\udf78"', "\U0001f378"),
    "raw separators": ('"a\u2028b\u2029c\u0085"'.encode(), "a\u2028b\u2029c\u0085"),
    "escaped backslash before u": (rb'"\\ud800"', r"\ud800"),
    "brackets in strings": (b'["' + b"[{" * 500 + b'","]"]', ["[{" * 500, "]"]),
    "escaped quotes": (rb'["\"[[\\\"[[\\"]', ['"[[\\"[[\\']),
}

REFUSED: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "the JSON text ends too early (byte 0)"),
    "unfinished": (b'{"a":', "the JSON text ends too early (byte 5)"),
    "NaN": (b"[NaN]", "JSON is malformed: invalid character (byte 1)"),
    "Infinity": (b"Infinity", "JSON is malformed: invalid character (byte 0)"),
    "number out of range": (b'{"1e999":[1, -1e400]}', "number out of range (byte 13)"),
    "too many digits": (b"[12," + b"1" * 4301 + b"]", "number out of range (byte 4)"),
    "too many digits with the sign": (b"[-" + b"1" * 4300 + b"]", "number out of range (byte 1)"),
    "the longest and one too many": (b"[" + b"1" * 4300 + b",1e400]", "number out of range (byte 4302)"),
    "the longest with its sign and one too many": (b"[-" + b"1" * 4299 + b",1e400]", "number out of range (byte 4302)"),
    "one that fits and one that does not": (b"[1.5,1e400]", "number out of range (byte 5)"),
    "out of range and malformed": (b"1e400.5e", "number out of range (byte 0)"),
    "lone high half": (rb'["\ud83d"]', "escape of half a surrogate pair (byte 2)"),
    "lone high half before a letter": (rb'"\\\ud800\u0041"', "escape of half a surrogate pair (byte 3)"),
    "lone low half": (rb'"\ud83c\udf78\uDC00"', "escape of half a surrogate pair (byte 13)"),
    "half a character": ("é".encode()[:1], "not UTF-8 (byte 0)"),
    "bad UTF-8": (b'{"secret":"\xff"}', "not UTF-8 (byte 11)"),
    "surrogate in UTF-8": (b'"\xed\xa0\x80"', "not UTF-8 (byte 1)"),
    "byte order mark": (b"\xef\xbb\xbf{}", "a byte order mark is not allowed (byte 0)"),
    "trailing data": (b"{} {}", "JSON is malformed: trailing characters (byte 4)"),
    "trailing comma": (b"[1,]", "JSON is malformed: trailing comma in array (byte 3)"),
    "raw newline in a string": (b'"a\nb"', "JSON is malformed: invalid character (byte 2)"),
    "key that is no string": (b"{1:2}", "JSON is malformed: object keys must be strings (byte 1)"),
}


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
@pytest.mark.parametrize("name", ACCEPTED)
def test_decode(name: str, kind: Any) -> None:
    text, value = ACCEPTED[name]
    assert decode(kind(text)) == value


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
@pytest.mark.parametrize("name", REFUSED)
def test_decode_names_the_fault_and_the_place(name: str, kind: Any) -> None:
    text, reason = REFUSED[name]
    with pytest.raises(JsonError) as caught:
        decode(kind(text))
    assert (type(caught.value), str(caught.value)) == (JsonError, reason)


def test_the_interpreter_may_take_fewer_digits() -> None:
    limit = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(1000)
    try:
        with pytest.raises(JsonError, match=r"^number out of range$"):
            decode(b"1" * 1001)
    finally:
        sys.set_int_max_str_digits(limit)


def nested(depth: int, opening: bytes = b"[", closing: bytes = b"]", core: bytes = b"") -> bytes:
    return opening * depth + core + closing * depth


@pytest.mark.parametrize("wrap", [b"%b", b'[%b,"]]]]"]', b'{"\\"]}":"]}\\\\","k":%b}'])
@pytest.mark.parametrize(
    ("opening", "closing", "core"), [(b"[", b"]", b""), (b'{"a":', b"}", b"1"), (b"[\n", b" ]", b"{}")]
)
def test_depth_limit_is_exact(wrap: bytes, opening: bytes, closing: bytes, core: bytes) -> None:
    around = (wrap != b"%b") + (core == b"{}")
    decode(wrap % nested(10 - around, opening, closing, core), max_depth=10)
    with pytest.raises(TooDeep, match=r"^nested deeper than 10 levels$"):
        decode(wrap % nested(11 - around, opening, closing, core), max_depth=10)


def test_wide_is_not_deep() -> None:
    wide = b"[" + b",".join([b'{"a":[]}'] * 1000) + b"]"
    assert decode(wide, max_depth=3) == [{"a": []}] * 1000
    with pytest.raises(TooDeep):
        decode(wide, max_depth=2)


@pytest.mark.parametrize(
    "text",
    [b"[" * 1_000_000, b'{"a":' * 1_000_000, b'["]",' * 1_000_000, b"[{}," * 1_000_000, nested(1_000_000)],
    ids=["arrays", "objects", "behind strings", "behind objects", "closed"],
)
def test_hostile_depth_costs_little(text: bytes) -> None:
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(1_000_000)  # the interpreter's own guard would no longer protect its stack
    try:
        with pytest.raises(TooDeep):
            decode(text)
    finally:
        sys.setrecursionlimit(limit)


def test_a_limit_above_what_the_interpreter_can_follow() -> None:
    with pytest.raises(TooDeep, match=r"^nested deeper than this reader can follow$"):
        decode(nested(90_000), max_depth=100_000)


@given(st.binary() | st.text(alphabet='[]{}",:\\u0dD8cC1e9.-nNtf \ufeff\u2028é').map(str.encode))
def test_any_bytes_decode_or_raise_json_error(data: bytes) -> None:
    try:
        value = decode(data, max_depth=4)
    except TooDeep:
        return
    except JsonError as error:
        reason: str | None = str(error)
        value = None
    else:
        reason = None
        assert fault_of(value, max_depth=4) is None
    assert (value, reason is None) == strict_stdlib(data)
    assert reason is None or re.search(r"\(byte \d+\)$", reason)


def strict_stdlib(data: bytes) -> tuple[Any, bool]:
    """The value by Python's own decoder and True, or None and False also for what that one lets pass."""
    try:
        value = stdlib_json.loads(data.decode())
        stdlib_json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
    except ValueError:
        return None, False
    return value, True


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda children: st.lists(children) | st.dictionaries(st.text(), children),
)


@given(json_values)
def test_round_trip(value: Any) -> None:
    text = encode(value)
    assert decode(text) == value
    assert b"\n" not in text
    assert b"\r" not in text
    assert fault_of(value) is None


@given(
    st.recursive(st.text(st.characters(codec=None)), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner))
)
def test_encode_never_fails_on_text(value: Any) -> None:
    decode(encode(value))


class Colour(enum.StrEnum):
    RED = "red"


class Text(str):
    def __str__(self) -> str:
        return "not this"


class Number(int): ...


class Real(float): ...


Pair = collections.namedtuple("Pair", "a b")

ENCODED: dict[str, tuple[Any, bytes]] = {
    "newlines": ({"a\r\n": "b\n"}, rb'{"a\r\n":"b\n"}'),
    "separators raw": ("\u2028", '"\u2028"'.encode()),
    "half a pair": ("a\ud800b", '"a\ufffdb"'.encode()),
    "half a pair in a key": (
        {"k": [{"\udfff": ("\ud800", 1, None, 2.5)}]},
        '{"k":[{"\ufffd":["\ufffd",1,null,2.5]}]}'.encode(),
    ),
    "two halves that belong together": ("\ud83c\udf78\ud83c", '"\U0001f378\ufffd"'.encode()),
    "tuple": ((1, ()), b"[1,[]]"),
    "big integer": (2**70, b"1180591620717411303424"),
    "subclasses": (
        [Colour.RED, Text("x"), Number(3), Real(1.5), Pair(1, 2), collections.OrderedDict(a=1), {Text("k"): 1}],
        b'["red","x",3,1.5,[1,2],{"a":1},{"k":1}]',
    ),
    "subclass with half a pair": ([Text("\ud800"), Number(1)], '["\ufffd",1]'.encode()),
}


@pytest.mark.parametrize("name", ENCODED)
def test_encode(name: str) -> None:
    value, text = ENCODED[name]
    assert encode(value) == text
    assert fault_of(value) is None


def test_encode_refuses_what_has_no_json_form() -> None:
    with pytest.raises(TypeError, match=r"^a value of type object is not JSON$"):
        encode([object()])


@given(st.text(st.characters(codec=None)))
def test_mend_changes_nothing_but_surrogates(text: str) -> None:
    assert re.sub("[\U00010000-\U0010ffff]|[\ud800-\udfff]|\ufffd", "", mend(text)) == re.sub(
        "[\U00010000-\U0010ffff]|[\ud800-\udfff]|\ufffd", "", text
    )
    assert mend(mend(text)) == mend(text)
    mend(text).encode()


def in_itself() -> list[Any]:
    value: list[Any] = [1]
    value += [value, value]
    return value


def chain(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth - 1):
        value = [value]
    return value


FAULTY: dict[str, tuple[Any, str]] = {
    "NaN": ({"m": [1, 2.0, math.nan]}, "$.m[2]: a number that is not finite"),
    "infinity": (-math.inf, "$: a number that is not finite"),
    "subclass of float": ([Real("inf")], "$[0]: a number that is not finite"),
    "key": ({"a": {"b": 1, 2: 3}}, "$.a: a key of type int, not a string"),
    "None as key": ({None: 3}, "$: a key of type NoneType, not a string"),
    "bytes": ({"a b": {"c'": b"x"}}, "$['a b'][\"c'\"]: a value of type bytes"),
    "set": (({1},), "$[0]: a value of type set"),
    "the first of two": ([[1, [object()]], b""], "$[0][1][0]: a value of type object"),
    "after containers": ({"a": {"b": [{}]}, "c": [[], ()], "d": 0j}, "$.d: a value of type complex"),
    "long": ([10**4300], "$[0]: an integer of more than 4300 characters"),
    "longer": ([10**4301], "$[0]: an integer of more than 4300 characters"),
    "just as long with its sign": ([-(10**4299)], "$[0]: an integer of more than 4300 characters"),
    "longer and negative": ([-(10**4300)], "$[0]: an integer of more than 4300 characters"),
    "long and negative": ([Number(-(10**4299))], "$[0]: an integer of more than 4300 characters"),
}


@pytest.mark.parametrize("name", FAULTY)
def test_fault_of(name: str) -> None:
    value, fault = FAULTY[name]
    assert fault_of(value) == fault


def test_what_has_no_fault_can_be_encoded_and_read_back() -> None:
    value = {"limit": [10**4300 - 1, 1 - 10**4299], "deep": chain(127)}
    assert fault_of(value) is None
    assert decode(encode(value)) == value


def test_fault_of_depth() -> None:
    assert fault_of(chain(4), max_depth=4) is None
    assert fault_of(chain(5), max_depth=4) == "$[0][0][0][0]: nested deeper than 4 levels, or holds itself"
    assert fault_of({"a": "x"}, max_depth=1) is None
    assert fault_of(in_itself(), max_depth=2) == "$[1][1]: nested deeper than 2 levels, or holds itself"
    assert fault_of(chain(100_000)) == "$" + "[0]" * 128 + ": nested deeper than 128 levels, or holds itself"

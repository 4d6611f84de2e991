"""Handlers' signatures: what becomes of each parameter, what a call's arguments may be, and what may be returned.

The properties at the end hold the published schema and the validation together, with the jsonschema package as judge.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import decimal
import enum
import functools
import re
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator, Callable, Mapping
from types import MethodType
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, NotRequired, Required, TypedDict

import attrs
import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mcp_sansio.binding import ArgumentsInvalid, Bound, ResultInvalid
from mcp_sansio.errors import DeclarationError
from mcp_sansio.types import CallToolResult, EmbeddedResource, ImageContent, PromptMessage, TextContent

if TYPE_CHECKING:
    from nowhere import Missing


class Exchange:
    """Stands for the exchange: binding recognises whatever class it is told."""


class Database:
    """A dependency."""


def bind(fn: Callable[..., Any], **options: Any) -> Bound:
    return Bound.of(fn, exchange_type=Exchange, provided=lambda annotation: annotation is Database, **options)


def faults(bound: Bound, arguments: Any) -> list[tuple[str, str]]:
    with pytest.raises(ArgumentsInvalid) as caught:
        bound.parse(arguments)
    assert str(caught.value) == "; ".join(f"{path}: {message}" for path, message in caught.value.faults)
    return caught.value.faults


class Waiter:
    """Handlers that are no plain functions."""

    async def returns(self) -> str:
        return "soup"

    async def waits(self) -> str:
        return await self.returns()

    async def __call__(self) -> str:
        return "soup"


async def _returns() -> str:
    return "soup"


async def _only_defines() -> str:
    async def waits() -> str:
        return await _returns()

    return waits.__name__


async def _awaits() -> str:
    return await _returns()


async def _may_await(wanted: bool = False) -> str:
    return await _returns() if wanted else ""


async def _iterates() -> list[int]:
    async def numbers() -> AsyncIterator[int]:
        yield 1

    return [number async for number in numbers()]


async def _enters() -> None:
    async with contextlib.AsyncExitStack():
        pass


async def _takes_an_exchange(ex: Exchange) -> str:
    return "soup"


async def _depends(database: Database) -> str:
    return "soup"


def _wraps(fn: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(fn)
    async def wrapper(*args: Any, **kwargs: Any) -> Any:
        return await fn(*args, **kwargs)

    return wrapper


class _Proxy:
    """What some libraries' decorators make: it shows itself as the function, and awaits something before that."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        return type(self._function)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._function, name)

    async def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return await self._function(*args, **kwargs)


class _Partial(functools.partial[Any]):
    async def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        return await super().__call__(*args, **kwargs)


async def _takes(text: str, more: str = "") -> str:
    return text + more


@pytest.mark.parametrize(
    ("fn", "never_waits"),
    [
        (_returns, True),
        (_only_defines, True),
        (_takes, True),
        (functools.partial(_takes, more="more"), True),
        (Waiter().returns, True),
        (Waiter(), True),
        (_awaits, False),
        (_may_await, False),
        (_iterates, False),
        (_enters, False),
        (Waiter().waits, False),
        (_wraps(_returns), False),
        (_Proxy(_returns), False),
        (MethodType(_Proxy(Waiter.returns), Waiter()), False),
        (functools.partial(_Proxy(_takes), more="more"), False),
        (_Partial(_takes, more="more"), False),
        (_takes_an_exchange, False),
        (_depends, False),
        (lambda: "soup", False),
    ],
)
def test_a_coroutine_function_without_await_never_waits(fn: Callable[..., Any], never_waits: bool) -> None:
    assert bind(fn).never_waits is never_waits


class Colour(enum.StrEnum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Loose(enum.Enum):
    KNOWN = "known"

    @classmethod
    def _missing_(cls, value: object) -> Loose:
        return cls.KNOWN


@attrs.define
class Item:
    name: Annotated[str, msgspec.Meta(min_length=1, max_length=5)]
    price: Annotated[float, msgspec.Meta(ge=0)]
    tags: list[str] = attrs.Factory(list)


@attrs.define
class Order:
    items: list[Item]
    by: dict[str, Item] = attrs.Factory(dict)

    def __attrs_post_init__(self) -> None:
        if not self.items:
            raise ValueError("an order needs items")


@attrs.define
class Moment:
    at: datetime.datetime


@attrs.define
class Account:
    email: str
    age: int = attrs.field(default=1, validator=[attrs.validators.instance_of(int), attrs.validators.lt(200)])


@dataclasses.dataclass
class Window:
    low: int
    high: int

    def __post_init__(self) -> None:
        if self.high < self.low:
            raise ValueError("high must not be below low")


@dataclasses.dataclass
class Measured:
    """A result: what its constructor does not take is sent all the same."""

    low: int
    high: int
    width: int = dataclasses.field(default=0, init=False)

    def __post_init__(self) -> None:
        self.width = self.high - self.low


class Query(TypedDict, total=False):
    text: Required[str]
    limit: int


class Settings(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    max_size: int
    dry_run: bool = False


class Cat(msgspec.Struct, tag=True):
    lives: int


class Dog(msgspec.Struct, tag=True):
    name: str


class Span(NamedTuple):
    low: int
    high: int = 9


@attrs.define
class Tree:
    value: int
    children: list[Tree] = attrs.Factory(list)


@attrs.define
class Everything:
    count: Annotated[int, msgspec.Meta(ge=-5, le=5)]
    ratio: Annotated[float, msgspec.Meta(gt=0, lt=2)]
    name: Annotated[str, msgspec.Meta(min_length=1, max_length=4)]
    on: bool
    colour: Colour
    level: Level
    either: int | str
    numbers: Annotated[list[int], msgspec.Meta(max_length=3)]
    item: Item
    maybe: Item | None = None
    choice: Literal["x", "y"] = "x"
    table: dict[str, Annotated[int, msgspec.Meta(multiple_of=3)]] = attrs.Factory(dict)
    unique: Annotated[set[int], msgspec.Meta(min_length=1)] = attrs.Factory(lambda: {1})
    pair: tuple[int, str] = (1, "a")
    span: Span = attrs.Factory(lambda: Span(1))
    keyed: dict[Colour, bool] = attrs.Factory(dict)
    tree: Tree | None = None
    animal: Cat | Dog | None = None
    anything: Any = None


def everything(arguments: Everything) -> None: ...


@attrs.define
class Plain:
    """Only what msgspec converts as its shape says, so that calls take the fast path."""

    count: Annotated[int, msgspec.Meta(ge=-5, le=5, multiple_of=2)]
    item: Item
    level: Level
    name: Annotated[str, msgspec.Meta(pattern="^[a-c]*$", max_length=3)]
    choice: Literal["x", "y"] = "x"
    numbers: Annotated[tuple[float, ...], msgspec.Meta(min_length=1, max_length=3)] = (1.0,)
    table: dict[Annotated[str, msgspec.Meta(max_length=2)], int | None] = attrs.Factory(dict)
    number: int | float | None = None
    closed: Settings | None = None
    tree: Tree | None = None


@attrs.define
class Tally:
    seen: dict[str, Any]


class TestParameters:
    def test_the_exchange_and_dependencies_are_no_arguments(self) -> None:
        async def search(ex: Exchange, text: str, *, database: Database, limit: int = 10) -> str:
            """Search.

            In everything.
            """
            return ""

        bound = bind(search)
        assert (bound.fn, bound.name, bound.description) == (search, "search", "Search.\n\nIn everything.")
        assert (bound.is_async, bound.takes_exchange, bound.exchange_param) == (True, True, "ex")
        assert bound.dependencies == {"database": Database}
        assert bound.input_schema == {
            "type": "object",
            "properties": {"text": {"type": "string"}, "limit": {"type": "integer", "default": 10}},
            "required": ["text"],
        }
        assert bound.output_schema is None
        assert bound.parse({"text": "a", "further": 1}) == {"text": "a", "limit": 10}

    def test_none(self) -> None:
        def now() -> None: ...

        bound = bind(now)
        assert (bound.is_async, bound.takes_exchange, bound.description) == (False, False, None)
        assert bound.input_schema == {"type": "object", "properties": {}}
        assert bound.parse({}) == {} == bound.parse({"further": 1})

    @pytest.mark.parametrize(
        ("annotation", "given"),
        [
            (Any, [{"b": 1}]),
            (dict, {"a": {"b": 1}}),
            (dict[str, Any], {"a": {"b": 1}}),
            (list[Any] | None, [[1]]),
            (list[list[int]], [[1]]),
            (Tally, {"seen": {"a": [1]}}),
        ],
        ids=str,
    )
    def test_what_a_handler_is_given_is_its_own(self, annotation: Any, given: Any) -> None:
        def spoil(value: Any) -> None:
            for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
                spoil(part)
            if isinstance(value, dict | list):
                value.clear()

        def count(x: Any) -> None: ...

        count.__annotations__["x"] = annotation
        arguments = {"x": given} if annotation is not Tally else given
        before = msgspec.json.encode(arguments)
        read = bind(count).parse(arguments)["x"]
        spoil(read.seen if annotation is Tally else read)
        assert msgspec.json.encode(arguments) == before

    def test_one_model_is_the_arguments(self) -> None:
        def order(ex: Exchange, what: Order) -> None: ...

        bound = bind(order)
        assert list(bound.input_schema["properties"]) == ["items", "by"]
        assert bound.parse({"items": [{"name": "a", "price": 1}]}) == {"what": Order([Item("a", 1.0)])}

    @pytest.mark.parametrize(
        ("model", "arguments", "value"),
        [
            (Order, {"items": [{"name": "a", "price": 1}]}, Order([Item("a", 1.0)])),
            (Window, {"low": 1, "high": 3.0}, Window(1, 3)),
            (Query, {"text": "a", "further": 1}, {"text": "a"}),
            (Settings, {"maxSize": 3}, Settings(3)),
            (Annotated[Settings, msgspec.Meta(description="d")], {"maxSize": 3}, Settings(3)),
            (Annotated[Settings, "d"], {"maxSize": 3.0}, Settings(3)),
            (Cat, {"type": "Cat", "lives": 9}, Cat(9)),
            (Account, {"email": "a@b"}, Account("a@b")),
        ],
        ids=str,
    )
    def test_each_form_of_a_model(self, model: Any, arguments: Any, value: Any) -> None:
        def handler(model: Any) -> None: ...

        handler.__annotations__["model"] = model
        assert bind(handler).parse(arguments) == {"model": value}

    def test_two_models_are_two_arguments(self) -> None:
        def compare(left: Item, right: Item | None = None) -> None: ...

        bound = bind(compare)
        assert bound.input_schema["properties"] == {
            "left": {"$ref": "#/$defs/Item"},
            "right": {"anyOf": [{"$ref": "#/$defs/Item"}, {"type": "null"}], "default": None},
        }
        assert bound.parse({"left": {"name": "a", "price": 1}}) == {"left": Item("a", 1.0), "right": None}

    def test_descriptions_and_headers(self) -> None:
        region = msgspec.Meta(description="Where.", extra_json_schema={"x-mcp-header": "Region"})

        def run(query: Annotated[str, "What to look for."], where: Annotated[str, region] = "eu") -> None: ...

        assert bind(run).input_schema["properties"] == {
            "query": {"type": "string", "description": "What to look for."},
            "where": {"type": "string", "description": "Where.", "x-mcp-header": "Region", "default": "eu"},
        }

    def test_a_default_is_the_functions_own_object(self) -> None:
        shared: list[int] = [1]
        marker = object()

        def run(a: list[int] = shared, b: int = marker, c: int = None) -> None: ...  # type: ignore[assignment]  # noqa: RUF013

        bound = bind(run)
        assert bound.input_schema["properties"] == {
            "a": {"type": "array", "items": {"type": "integer"}, "default": [1]},
            "b": {"type": "integer"},
            "c": {"type": "integer"},
        }
        parsed = bound.parse({})
        assert parsed["a"] is shared
        assert parsed["b"] is marker
        assert faults(bound, {"c": None}) == [("$.c", "must be an integer, not null")]

    @pytest.mark.parametrize(
        ("annotation", "default", "text"),
        [
            (int, "two", "'two' does not fit its type: must be an integer, not a string"),
            (int, 1.5, "1.5 does not fit its type: must be an integer, not a number"),
            (str, 5, "5 does not fit its type: must be a string, not an integer"),
            (list[int], {}, "{} does not fit its type: must be an array, not an object"),
            (Item, [], "[] does not fit its type: must be an object, not an array"),
            (int | None, "two", "'two' does not fit its type: must be an integer or null, not a string"),
            (Annotated[int, msgspec.Meta(ge=1)], "", "'' does not fit its type: must be an integer, not a string"),
            (Literal[1, 2], "1", "'1' does not fit its type: must be one of 1, 2"),
            (datetime.date, 0, "0 does not fit its type: must be a string, not an integer"),
        ],
    )
    def test_a_default_of_another_kind_is_a_mistake(self, annotation: Any, default: Any, text: str) -> None:
        def run(a: str, n: Any = default) -> None: ...

        run.__annotations__["n"] = annotation
        for lax in (False, True):
            if lax and annotation in (list[int], Item):
                continue
            with pytest.raises(DeclarationError) as refused:
                bind(run, lax_strings=lax)
            assert str(refused.value) == f"run, parameter 'n': the default {text}"

    @pytest.mark.parametrize(
        ("annotation", "default"),
        [
            (Annotated[int, msgspec.Meta(ge=1)], 0),
            (Literal["rye", "wheat"], ""),
            (datetime.date, ""),
            (int, None),
            (int, False),
            (str, False),
            (int, next(iter(Colour))),
        ],
    )
    def test_a_default_that_stands_for_nothing_is_the_functions_own_affair(self, annotation: Any, default: Any) -> None:
        def run(n: Any = default, m: int = 1) -> None: ...

        run.__annotations__["n"] = annotation
        bound = bind(run)
        assert "default" not in bound.input_schema["properties"]["n"]
        assert bound.parse({})["n"] is default

    def test_classes_of_the_function_around_are_found(self) -> None:
        @attrs.define
        class Local:
            x: int

        def run(local: Local) -> Local:
            return local

        bound = bind(run)
        assert bound.parse({"x": 1}) == {"local": Local(1)}
        assert bound.output_schema == {
            "title": "Local",
            "type": "object",
            "properties": {"x": {"type": "integer"}},
            "required": ["x"],
        }

    def test_other_callables(self) -> None:
        class Handler:
            """A handler."""

            async def __call__(self, a: int) -> None: ...

            def method(self, a: int) -> None:
                """A method."""

        def function(a: int, b: int, c: int = 3) -> None: ...

        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> None: ...

        instance = bind(Handler())
        assert (instance.name, instance.is_async, instance.description) == ("Handler", True, "A handler.")
        assert (bind(Handler().method).name, bind(Handler().method).description) == ("method", "A method.")
        assert list(bind(wrapped).input_schema["properties"]) == ["a", "b", "c"]
        partial = bind(functools.partial(function, 1, c=5))
        assert (partial.name, list(partial.input_schema["properties"])) == ("function", ["b"])

    def test_the_exchange_may_be_imported_for_type_checking_only(self) -> None:
        def run(ex: ForTyping, a: int) -> None: ...  # type: ignore[name-defined]  # noqa: F821

        bound = Bound.of(run, exchange_type=type("ForTyping", (), {}), provided=lambda annotation: False)
        assert bound.exchange_param == "ex"


def _args(*a: int) -> None: ...
def _kwargs(**a: int) -> None: ...
def _positional(a: int, /) -> None: ...
def _bare(a) -> None: ...  # type: ignore[no-untyped-def]
def _method(self, a: int) -> None: ...  # type: ignore[no-untyped-def]
def _twice(a: Exchange, b: Exchange) -> None: ...
def _missing(a: Missing) -> None: ...
def _broken(a: "1 +") -> None: ...  # type: ignore[valid-type]  # noqa: F722
def _complex(a: int, size: complex) -> None: ...
def _nested(a: list[dict[str, complex]]) -> None: ...
def _generator(a: int) -> Any:
    yield a


async def _async_generator(a: int) -> Any:
    yield a


def _header(a: Annotated[float, msgspec.Meta(extra_json_schema={"x-mcp-header": "A"})]) -> None: ...
def _returns_complex(a: int) -> complex:
    return 1j


class TestDeclarations:
    @pytest.mark.parametrize(
        ("fn", "hint"),
        [
            (_args, r"\*a.*name each parameter"),
            (_kwargs, r"\*\*a.*name each parameter"),
            (_positional, "'a' is positional-only"),
            (_bare, "'a' has no annotation.*a: Exchange for the context"),
            (_method, "'self' has no annotation.*by its object"),
            (_twice, "'a' and 'b' are both the exchange"),
            (_missing, "'Missing', which cannot be found"),
            (_broken, "cannot be read"),
            (_complex, "_complex, parameter 'size': complex.*Allowed are"),
            (_nested, "parameter 'a': complex.*provide"),
            (_generator, "generator"),
            (_async_generator, "generator"),
            (_header, "x-mcp-header"),
            (_returns_complex, "_returns_complex, return value: complex"),
        ],
    )
    def test_what_cannot_work_is_refused_with_a_way_out(self, fn: Any, hint: str) -> None:
        with pytest.raises(DeclarationError, match=hint):
            bind(fn)

    def test_without_jsonschema_a_raw_schema_says_what_to_install(self) -> None:
        code = (
            "import sys; sys.modules['jsonschema'] = None\n"
            "from mcp_sansio.binding import Bound\n"
            "def run(arguments: dict): ...\n"
            "try: Bound.of(run, exchange_type=int, input_schema={'type': 'object'})\n"
            "except ValueError as error: print(error)\n"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert "install mcp-sansio[jsonschema]" in done.stdout


class TestFaults:
    def test_every_fault_of_a_call_with_its_path(self) -> None:
        def order(what: Order) -> None: ...

        arguments = {
            "items": [{"name": 1, "price": -1}, {"price": "2", "tags": ["a", 2]}, 3],
            "by": {"a b": {"name": "", "price": True}, "c": {"name": "toolong", "price": None}},
        }
        assert faults(bind(order), arguments) == [
            ("$.items[0].name", "must be a string, not an integer"),
            ("$.items[0].price", "must be at least 0"),
            ("$.items[1].name", "is required"),
            ("$.items[1].price", "must be a number, not a string"),
            ("$.items[1].tags[1]", "must be a string, not an integer"),
            ("$.items[2]", "must be an object, not an integer"),
            ('$.by["a b"].name', "must have at least 1 characters"),
            ('$.by["a b"].price', "must be a number, not a boolean"),
            ("$.by.c.name", "must have at most 5 characters"),
            ("$.by.c.price", "must be a number, not null"),
        ]

    def test_strict_types(self) -> None:
        def add(a: int, b: int) -> None: ...

        bound = bind(add)
        assert faults(bound, {"a": "2", "b": 2.5}) == [
            ("$.a", "must be an integer, not a string"),
            ("$.b", "must be an integer, not a number"),
        ]
        assert faults(bound, {"a": True}) == [("$.a", "must be an integer, not a boolean"), ("$.b", "is required")]
        assert faults(bound, {"a": None, "b": [1]}) == [
            ("$.a", "must be an integer, not null"),
            ("$.b", "must be an integer, not an array"),
        ]

    def test_integral_floats_and_large_integers(self) -> None:
        def add(a: int, b: Annotated[int, msgspec.Meta(ge=1)], c: Level = Level.LOW) -> None: ...

        parsed = bind(add).parse({"a": 1e2, "b": 9007199254740993, "c": 2.0})
        assert parsed == {"a": 100, "b": 9007199254740993, "c": Level.HIGH}
        assert {name: type(value) for name, value in parsed.items()} == {"a": int, "b": int, "c": Level}
        assert bind(add).parse({"a": 10**30, "b": 2**64})["a"] == 10**30

    def test_text_is_never_decoded_into_something_else(self) -> None:
        def run(xs: list[int], s: str, either: str | dict[str, Any]) -> None: ...

        assert faults(bind(run), {"xs": "[1,2]", "s": '{"a":1}', "either": '{"a":1}'}) == [
            ("$.xs", "must be an array, not a string")
        ]

    @pytest.mark.parametrize(
        ("tp", "value", "fault"),
        [
            (
                Annotated[int, msgspec.Meta(gt=1, multiple_of=2)],
                1,
                ["must be greater than 1", "must be a multiple of 2"],
            ),
            (Annotated[float, msgspec.Meta(lt=1)], 1, ["must be less than 1"]),
            (Annotated[str, msgspec.Meta(pattern="^a")], "b", ["must match the pattern ^a"]),
            (Annotated[list[int], msgspec.Meta(min_length=2)], [1], ["must have at least 2 items"]),
            (Annotated[dict[str, int], msgspec.Meta(max_length=0)], {"a": 1}, ["must have at most 0 properties"]),
            (float, 10**400, ["is out of the range of a floating-point number"]),
            (set[int], [1, 1.0], ["must not hold an item twice"]),
            (Colour, "green", ['must be one of "red", "blue"']),
            (Colour, ["red"], ['must be one of "red", "blue"']),
            (Level, True, ["must be one of 1, 2"]),
            (Loose, "unknown", ['must be "known"']),
            (Literal[1], "1", ["must be 1"]),
            (int | None, "a", ["must be an integer or null, not a string"]),
            (str | Literal[3] | None, [], ["must be a string or an integer or null, not an array"]),
            (
                dict[Annotated[str, msgspec.Meta(max_length=1)], int],
                {"ab": 1},
                ["its key must have at most 1 characters"],
            ),
            (dict[Colour, int], {"green": 1}, ['its key must be one of "red", "blue"']),
            (tuple[int, str], [1], ["must have at least 2 items"]),
            (Span, [1, 2, 3], ["must have at most 2 items"]),
            (datetime.datetime, "1999-12-31T12:00:00", ["must be a date and time, like 1999-12-31T12:00:00Z"]),
            (datetime.datetime, "1999-12-31 12:00:00Z", ["must be a date and time, like 1999-12-31T12:00:00Z"]),
            (
                Annotated[datetime.datetime, msgspec.Meta(tz=False)],
                "1999-12-31T12:00:00Z",
                ["must be a date and time, like 1999-12-31T12:00:00"],
            ),
            (datetime.datetime, 5, ["must be a string, not an integer"]),
            (datetime.date, "2030-02-30", ["must be a date, like 1999-12-31"]),
            (datetime.time, "25:00:00", ["must be a time, like 12:00:00"]),
            (datetime.timedelta, "1 day", ["must be a duration, like P1DT12H30M"]),
            (
                uuid.UUID,
                "123e4567e89b12d3a456426614174000",
                ["must be a UUID, like 123e4567-e89b-12d3-a456-426614174000"],
            ),
            (decimal.Decimal, 1.5, ["must be a string, not a number"]),
            (decimal.Decimal, "NaN", ["must be a decimal number as text, like 12.50"]),
            (bytes, "a", ["must be base64 text"]),
        ],
        ids=str,
    )
    def test_each_rule(self, tp: Any, value: Any, fault: list[str]) -> None:
        def handler(x: Any, other: int = 0) -> None: ...

        handler.__annotations__["x"] = tp
        found = faults(bind(handler), {"x": value})
        assert [message for _, message in found] == fault

    @pytest.mark.parametrize(
        ("tp", "value", "made"),
        [
            (Annotated[float, msgspec.Meta(multiple_of=2)], 4, 4.0),
            (Literal["a"] | str, "b", "b"),
            (int | Any, "b", "b"),
            (Any | None, None, None),
            (set[int | bool], [1, True, 2.0], {1, 2}),
            (int | float, 1.0, 1.0),
            (int | float, 1, 1),
            (float, 2, 2.0),
            (set[int], [1, 2], {1, 2}),
            (frozenset[str], ["a"], frozenset({"a"})),
            (tuple[int, str], [1, "a"], (1, "a")),
            (Span, [1], Span(1)),
            (dict[Colour, int], {"red": 1}, {Colour.RED: 1}),
            (Cat | Dog, {"type": "Dog", "name": "Rex"}, Dog("Rex")),
            (datetime.datetime, "1999-12-31T12:00:00Z", datetime.datetime(1999, 12, 31, 12, tzinfo=datetime.UTC)),
            (
                Annotated[datetime.datetime, msgspec.Meta(tz=False)],
                "1999-12-31T12:00:00",
                datetime.datetime(1999, 12, 31, 12),
            ),
            (datetime.time, "12:30:00.5", datetime.time(12, 30, 0, 500_000)),
            (datetime.timedelta, "-P1DT2H", -datetime.timedelta(days=1, hours=2)),
            (decimal.Decimal, "12.50", decimal.Decimal("12.50")),
            (uuid.UUID, str(uuid.UUID(int=5)), uuid.UUID(int=5)),
            (bytes, "YQ==", b"a"),
            (Any, {"a": [1.0]}, {"a": [1.0]}),
        ],
        ids=str,
    )
    def test_each_conversion(self, tp: Any, value: Any, made: Any) -> None:
        def handler(x: Any, other: int = 0) -> None: ...

        handler.__annotations__["x"] = tp
        parsed = bind(handler).parse({"x": value})["x"]
        assert (parsed, type(parsed)) == (made, type(made))

    def test_a_tag_that_nobody_has(self) -> None:
        def pet(animal: Cat | Dog, other: int) -> None: ...

        bound = bind(pet)
        assert faults(bound, {"animal": {"type": "Cow"}, "other": 1}) == [
            ("$.animal.type", 'must be one of "Cat", "Dog"')
        ]
        assert faults(bound, {"animal": {"type": "Dog", "name": 1}, "other": 1}) == [
            ("$.animal.name", "must be a string, not an integer")
        ]
        assert faults(bind(lambda_cat), {"lives": 9}) == [("$.type", 'must be "Cat"')]

    def test_validators_have_their_say(self) -> None:
        def order(what: Order) -> None: ...
        def window(what: Window, why: str) -> None: ...
        def account(what: Account) -> None: ...

        assert faults(bind(order), {"items": []}) == [("$", "an order needs items")]
        assert faults(bind(window), {"what": {"low": 2, "high": 1}, "why": 3}) == [
            ("$.what", "high must not be below low"),
            ("$.why", "must be a string, not an integer"),
        ]
        assert faults(bind(account), {"email": "b", "age": 300}) == [("$", "'age' must be < 200: 300")]

    def test_unknown_properties_of_a_closed_struct(self) -> None:
        def configure(settings: Settings) -> None: ...

        assert faults(bind(configure), {"maxSize": 1, "max_size": 1, "q": 2}) == [
            ("$.max_size", "is not a known property"),
            ("$.q", "is not a known property"),
        ]

    def test_nothing_huge_is_echoed(self) -> None:
        def run(a: list[int], b: Colour) -> None: ...

        many = faults(bind(run), {"a": ["x" * 10_000] * 10_000, "b": "y" * 10_000, "z" * 10_000: 1})
        assert len(many) == 100
        looked_at: list[int] = []

        class Counted(msgspec.Struct):
            n: int

            def __post_init__(self) -> None:
                looked_at.append(self.n)

        def count(items: list[Counted]) -> None: ...

        # After so many faults, the rest of what may be huge is not looked at any more.
        assert len(faults(bind(count), {"items": [{}] * 100 + [{"n": 1}] * 1000})) == 100
        assert looked_at == []
        assert max(len(path) + len(message) for path, message in many) < 100

        def table(a: dict[str, int], b: int = 0) -> None: ...

        ((path, _),) = faults(bind(table), {"a": {"k" * 10_000: "x"}})
        assert len(path) < 300

    def test_too_deep_for_a_recursive_type(self) -> None:
        value: dict[str, Any] = {"value": 1}
        for _ in range(100_000):
            value = {"value": 1, "children": [value]}

        def plant(tree: Tree) -> None: ...

        assert faults(bind(plant), value) == [("$", "is nested too deeply")]

    def test_a_choice_beside_text_is_no_fault_of_its_own(self) -> None:
        def run(x: Literal["a"] | str, y: Literal["a"] | Literal["b"], z: int | Any, n: int) -> None: ...

        given = {"x": "other", "y": "b", "z": {}, "n": "1"}
        assert faults(bind(run), given) == [("$.n", "must be an integer, not a string")]

    def test_a_datetime_of_a_model_has_an_offset_or_not(self) -> None:
        def run(what: Moment) -> None: ...

        bound = bind(run)
        assert bound.input_schema["properties"] == {"at": {"type": "string"}}
        assert bound.parse({"at": "1999-12-31T12:00:00Z"}) == {"what": Moment(NOON)}
        assert bound.parse({"at": "1999-12-31T12:00:00"}) == {"what": Moment(NOON.replace(tzinfo=None))}
        assert faults(bound, {"at": "noon"}) == [("$.at", "must be a date and time, like 1999-12-31T12:00:00")]


def lambda_cat(cat: Cat) -> None: ...


class TestRawSchema:
    SCHEMA: Mapping[str, Any] = {
        "type": "object",
        "properties": {
            "n": {"type": "integer", "minimum": 1},
            "s": {"type": ["string", "null"], "maxLength": 3},
            "e": {"enum": ["a", "b"]},
            "l": {"type": "array", "items": {"$ref": "#/$defs/i"}},
            "u": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
        },
        "required": ["n"],
        "additionalProperties": False,
        "$defs": {"i": {"type": "integer"}},
    }

    @pytest.fixture(autouse=True)
    def _needs_jsonschema(self) -> None:
        pytest.importorskip("jsonschema")

    def test_the_whole_object_goes_to_one_parameter(self) -> None:
        async def run(arguments: dict[str, Any], ex: Exchange) -> str:
            return ""

        bound = bind(run, input_schema=self.SCHEMA)
        assert bound.input_schema == self.SCHEMA
        assert bound.input_schema is not self.SCHEMA
        assert bound.parse({"n": 1.0, "s": None}) == {"arguments": {"n": 1.0, "s": None}}
        assert faults(bound, {"n": 0, "s": "long", "e": "c", "l": [1, "a" * 10_000], "u": None, "x": 1}) == [
            ("$", "has properties that are not allowed"),
            ("$.e", 'must be one of ["a", "b"]'),
            ("$.l[1]", "must be of type integer"),
            ("$.n", "must be at least 1"),
            ("$.s", "must have at most 3 characters"),
            ("$.u", "fits none of the alternatives"),
        ]
        assert faults(bound, {}) == [("$", "'n' is a required property")]

    @pytest.mark.parametrize("annotation", ["dict", "dict[str, Any]", "Mapping[str, Any]", "Any", "Query"])
    def test_what_the_parameter_may_be(self, annotation: str) -> None:
        def run(arguments: Any) -> None: ...

        run.__annotations__["arguments"] = annotation
        assert bind(run, input_schema={"type": "object"}).parse({"a": 1}) == {"arguments": {"a": 1}}

    def test_the_dialect_is_respected(self) -> None:
        def run(arguments: dict[str, Any]) -> None: ...

        tuples = {"type": "object", "properties": {"a": {"items": [{"type": "integer"}]}}}
        old = bind(run, input_schema={"$schema": "http://json-schema.org/draft-07/schema#", **tuples})
        assert faults(old, {"a": ["x"]}) == [("$.a[0]", "must be of type integer")]
        with pytest.raises(DeclarationError, match="run: the schema is not valid at #/properties/a/items"):
            bind(run, input_schema=tuples)
        with pytest.raises(DeclarationError, match=r"dialect 'https://no\.example/s' is not supported"):
            bind(run, input_schema={"$schema": "https://no.example/s", "type": "object"})

    @pytest.mark.parametrize(
        ("schema", "hint"),
        [
            ({"type": "string"}, "run: the root"),
            ({"type": "object", "$ref": "https://json-schema.org/draft/2020-12/schema"}, "leaves the schema"),
            ({"type": "object", "minProperties": "x"}, "not valid at #/minProperties"),
        ],
    )
    def test_bad_schemas(self, schema: Any, hint: str) -> None:
        def run(arguments: dict[str, Any]) -> None: ...

        with pytest.raises(DeclarationError, match=hint):
            bind(run, input_schema=schema)

    def test_other_parameters_are_refused(self) -> None:
        def typed(a: int) -> None: ...
        def two(a: dict[str, Any], b: dict[str, Any]) -> None: ...

        for fn in (typed, two):
            with pytest.raises(DeclarationError, match="one parameter of type dict"):
                bind(fn, input_schema={"type": "object"})

    def test_results_are_held_to_a_raw_output_schema(self) -> None:
        def run() -> Any: ...

        bound = bind(run, output_schema={"type": "array", "items": {"type": "integer"}})
        assert bound.output_schema == {"type": "array", "items": {"type": "integer"}}
        assert bound.structured((1, 2)) == (1, 2)
        with pytest.raises(ResultInvalid, match=r"run: .*\$\[1\] must be of type integer"):
            bound.structured([1, "a"])


class TestPydantic:
    @pytest.fixture
    def model(self) -> Any:
        pydantic = pytest.importorskip("pydantic")
        part = pydantic.create_model("Part", size=(int, ...), colour=(Colour, Colour.RED))
        return pydantic.create_model("Machine", parts=(list[part], ...), made=(datetime.date | None, None))

    def test_a_model_is_the_arguments(self, model: Any) -> None:
        def build(machine: model) -> model: ...

        bound = bind(build)
        assert bound.input_schema["properties"]["parts"] == {
            "items": {"$ref": "#/$defs/Part"},
            "title": "Parts",
            "type": "array",
        }
        good = {"parts": [{"size": 2.0, "colour": "blue"}], "made": "1999-12-31"}
        machine = bound.parse(good)["machine"]
        assert machine == model.model_validate(good)
        assert bound.structured(machine) == {"parts": [{"size": 2, "colour": "blue"}], "made": "1999-12-31"}
        assert bound.structured({"parts": []}) == {"parts": [], "made": None}
        secret = "s" * 500
        assert faults(bound, {"parts": [{"size": secret}, {}]}) == [
            ("$.parts[0].size", "Input should be a valid integer"),
            ("$.parts[1].size", "Field required"),
        ]

    def test_a_model_beside_other_arguments_and_in_results(self, model: Any) -> None:
        def build(machine: model, count: int = 1) -> list[model]: ...

        bound = bind(build)
        assert set(bound.input_schema["$defs"]) == {"Machine.Part", "Machine.Colour"}
        assert bound.parse({"machine": {"parts": []}}) == {"machine": model(parts=[]), "count": 1}
        assert faults(bound, {"machine": {"parts": 1}, "count": "1"}) == [
            ("$.machine.parts", "Input should be a valid array"),
            ("$.count", "must be an integer, not a string"),
        ]
        assert bound.structured([model(parts=[])]) == [{"parts": [], "made": None}]

    def test_a_model_need_not_be_an_object(self) -> None:
        pydantic = pytest.importorskip("pydantic")

        class Sizes(pydantic.RootModel[list[int]]):  # type: ignore[name-defined, misc]
            pass

        def run(sizes: Sizes, count: int = 1) -> Sizes: ...

        bound = bind(run)
        assert bound.parse({"sizes": [1, 2.0]}) == {"sizes": Sizes([1, 2]), "count": 1}
        assert faults(bound, {"sizes": 1}) == [("$.sizes", "Input should be a valid array")]
        assert bound.structured(Sizes([1])) == [1]

    def test_a_prompts_model_reads_text(self) -> None:
        pydantic = pytest.importorskip("pydantic")
        model = pydantic.create_model("Ask", topic=(str, ...), count=(int, 1))

        def prompt(ask: Annotated[model, "What to ask."]) -> str:
            return ""

        bound = bind(prompt, lax_strings=True)
        assert bound.parse({"topic": "5", "count": "5"}) == {"ask": model(topic="5", count=5)}
        assert [path for path, _ in faults(bound, {"count": "x"})] == ["$.topic", "$.count"]


@attrs.define
class Weather:
    degrees: float
    at: datetime.date
    tags: tuple[str, ...] = ()
    by_hour: dict[int, float] = attrs.Factory(dict)
    _cache: int = 0


@attrs.define
class Hidden:
    _secret: str


class Reply(TypedDict):
    text: str
    more: NotRequired[list[int]]


NOON = datetime.datetime(1999, 12, 31, 12, tzinfo=datetime.UTC)
WEATHER = Weather(1.5, datetime.date(1999, 12, 31), ("a",), {5: 1.0})


class TestResults:
    @pytest.mark.parametrize(
        "annotation",
        [
            *(None, str, bytes, Any, object, dict, list, str | None, list[Any], str | dict[str, int]),
            *(TextContent, list[TextContent], list[TextContent | ImageContent], CallToolResult, EmbeddedResource),
            *(Weather | CallToolResult, list[PromptMessage], Annotated[str, "text"], list[tuple[str, TextContent]]),
        ],
        ids=str,
    )
    def test_text_and_content_have_no_schema(self, annotation: Any) -> None:
        def run() -> Any: ...

        run.__annotations__["return"] = annotation
        assert bind(run).output_schema is None

    @pytest.mark.parametrize(
        ("annotation", "schema_type", "value", "wire"),
        [
            (datetime.datetime, "string", NOON, "1999-12-31T12:00:00Z"),
            (int, "integer", 1, 1),
            (bool, "boolean", True, True),
            (list[str], "array", ["a"], ["a"]),
            (dict[str, int], "object", {"a": 1}, {"a": 1}),
            (dict[int, int], "object", {1: 1}, {"1": 1}),
            (set[int], "array", {1}, [1]),
            (Colour, "string", Colour.RED, "red"),
            (Reply, "object", {"text": "a", "more": [1]}, {"text": "a", "more": [1]}),
            (Settings, "object", Settings(1), {"maxSize": 1, "dryRun": False}),
            (Measured, "object", Measured(1, 3), {"low": 1, "high": 3, "width": 2}),
            (
                Weather,
                "object",
                WEATHER,
                {"degrees": 1.5, "at": "1999-12-31", "tags": ("a",), "by_hour": {"5": 1.0}},
            ),
            (list[Weather], "array", [], []),
            (Order, "object", {"items": [], "by": {}}, {"items": [], "by": {}}),
        ],
        ids=str,
    )
    def test_values(self, annotation: Any, schema_type: str, value: Any, wire: Any) -> None:
        def run() -> Any: ...

        run.__annotations__["return"] = annotation
        bound = bind(run)
        assert bound.output_schema is not None
        assert bound.output_schema["type"] == schema_type
        assert bound.structured(value) == wire

    def test_a_field_that_is_not_sent_must_not_be_required(self) -> None:
        def run() -> Hidden: ...

        with pytest.raises(DeclarationError, match="run, return value: the field '_secret' of Hidden"):
            bind(run)

    @pytest.mark.parametrize(
        ("annotation", "value", "message"),
        [
            (Weather, {"degrees": "hot"}, r"run: .*\$\.degrees must be a number, not a string; \$\.at is required"),
            (Weather, None, "must be an object, not null"),
            (int, "1", "must be an integer"),
            (datetime.datetime, NOON.replace(tzinfo=None), "must be a date and time, like 1999-12-31T12:00:00Z"),
            (list[int], [1, None], r"\$\[1\] must be an integer"),
        ],
    )
    def test_a_value_that_breaks_the_schema_is_the_handlers_fault(
        self, annotation: Any, value: Any, message: str
    ) -> None:
        def run() -> Any: ...

        run.__annotations__["return"] = annotation
        with pytest.raises(ResultInvalid, match=message):
            bind(run).structured(value)

    def test_a_result_is_not_made_a_second_time(self) -> None:
        made = []

        @attrs.define
        class Counted:
            x: int

            def __attrs_post_init__(self) -> None:
                made.append(self.x)

        def run() -> Counted: ...

        assert bind(run).structured(Counted(1)) == {"x": 1}
        assert made == [1]

    def test_without_a_schema_a_value_only_becomes_json(self) -> None:
        def run() -> Any: ...

        assert bind(run).structured(WEATHER)["at"] == "1999-12-31"
        with pytest.raises(TypeError, match="a value of type object has no form in JSON"):
            bind(run).structured(object())


class TestTextArguments:
    def test_numbers_and_booleans_are_read_from_text(self) -> None:
        def prompt(
            topic: Annotated[str, "What about."],
            count: Annotated[int, msgspec.Meta(ge=1)],
            ratio: float = 1.5,
            loud: bool = False,
            colour: Colour = Colour.RED,
            level: Literal[1, 2] = 1,
            limit: int | None = None,
        ) -> list[tuple[str, TextContent]]: ...

        bound = bind(prompt, lax_strings=True)
        assert bound.output_schema is None
        assert bound.parse(
            {
                "topic": "5",
                "count": "5",
                "ratio": "2",
                "loud": "True",
                "colour": "blue",
                "level": "2",
                "limit": "7",
                "further": "x",
            }
        ) == {"topic": "5", "count": 5, "ratio": 2.0, "loud": True, "colour": Colour.BLUE, "level": 2, "limit": 7}
        assert bound.parse({"topic": "a", "count": 3}) == {
            "topic": "a",
            "count": 3,
            "ratio": 1.5,
            "loud": False,
            "colour": Colour.RED,
            "level": 1,
            "limit": None,
        }
        assert faults(bound, {"topic": "a", "count": "0", "ratio": "x", "loud": "1", "level": "nan"}) == [
            ("$.count", "must be at least 1"),
            ("$.ratio", "must be a number, not a string"),
            ("$.loud", "must be a boolean, not an integer"),
            ("$.level", "must be one of 1, 2"),
        ]
        assert bound.prompt_arguments() == [
            {"name": "topic", "description": "What about.", "required": True},
            {"name": "count", "required": True},
            *({"name": name, "required": False} for name in ("ratio", "loud", "colour", "level", "limit")),
        ]

    @pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, "9" * 5000, "1e999", "\0", ""])
    def test_text_that_spells_no_number(self, text: str) -> None:
        def prompt(count: int) -> str: ...

        bound = bind(prompt, lax_strings=True)
        assert faults(bound, {"count": text}) == [("$.count", "must be an integer, not a string")]

    def test_a_model_of_texts(self) -> None:
        @attrs.define
        class Ask:
            topic: str
            count: int = 1

        def prompt(ask: Ask) -> str:
            return ""

        bound = bind(prompt, lax_strings=True)
        assert bound.parse({"topic": "5", "count": "5"}) == {"ask": Ask("5", 5)}
        assert [argument["name"] for argument in bound.prompt_arguments()] == ["topic", "count"]

    def test_what_text_cannot_spell_is_refused(self) -> None:
        def prompt(a: str, b: list[int]) -> str:
            return ""

        with pytest.raises(DeclarationError, match="'b' comes as text"):
            bind(prompt, lax_strings=True)


# Properties


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-8, 8)
    | st.sampled_from([1.0, 2.0, 0.5, -3.0, 1e2, 2**64])
    | st.sampled_from(["", "a", "abc", "x", "red", "Cat", "toolong", "5"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "x", "5", "type"]), inner, max_size=3)
    ),
    max_leaves=5,
)


def valid(schema: Any, root: Any, depth: int = 0) -> st.SearchStrategy[Any]:
    """Values that fit `schema`, for the part of JSON Schema that types become."""
    if "$ref" in schema:
        return valid(root["$defs"][schema["$ref"].removeprefix("#/$defs/")], root, depth + 1)
    if "anyOf" in schema:
        branches = [branch for branch in schema["anyOf"] if depth < 4 or "$ref" not in branch]
        return st.one_of([st.deferred(lambda branch=branch: valid(branch, root, depth + 1)) for branch in branches])
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    return VALID[schema.get("type")](schema, root, depth)


def _integers(schema: Any, root: Any, depth: int) -> st.SearchStrategy[Any]:
    step = schema.get("multipleOf", 1)
    low, high = schema.get("minimum", -100), schema.get("maximum", 100)
    whole = st.integers(-(-low // step), high // step).map(lambda number: number * step)
    return whole | whole.map(float)


def _numbers(schema: Any, root: Any, depth: int) -> st.SearchStrategy[Any]:
    low = schema.get("minimum", schema.get("exclusiveMinimum", -100))
    high = schema.get("exclusiveMaximum", 100)
    return st.floats(low, high, exclude_min="exclusiveMinimum" in schema, exclude_max="exclusiveMaximum" in schema)


def _strings(schema: Any, root: Any, depth: int) -> st.SearchStrategy[Any]:
    letters = "abc" if "pattern" in schema else "abcż漢😀"
    return st.text(letters, min_size=schema.get("minLength", 0), max_size=schema.get("maxLength", 8))


def _arrays(schema: Any, root: Any, depth: int) -> st.SearchStrategy[Any]:
    if "prefixItems" in schema:
        items = [valid(item, root, depth + 1) for item in schema["prefixItems"]]
        return st.integers(schema["minItems"], schema["maxItems"]).flatmap(
            lambda size: st.tuples(*items[:size]).map(list)
        )
    size = {"min_size": schema.get("minItems", 0), "max_size": schema.get("maxItems", 4) if depth < 4 else 0}
    return st.lists(
        valid(schema["items"], root, depth + 1) if depth < 4 else st.nothing(),
        unique=schema.get("uniqueItems", False),
        **size,
    )


def _objects(schema: Any, root: Any, depth: int) -> st.SearchStrategy[Any]:
    if "properties" not in schema:
        names = schema.get("propertyNames", {})
        keys = valid(names, root) if "$ref" in names else st.text("ab", max_size=names.get("maxLength", 4))
        return st.dictionaries(keys, valid(schema["additionalProperties"], root, depth + 1), max_size=3)
    parts = {name: valid(part, root, depth + 1) for name, part in schema["properties"].items()}
    required = schema.get("required", [])
    optional = {name: part for name, part in parts.items() if name not in required}
    return st.fixed_dictionaries({name: parts[name] for name in required}, optional=optional)


VALID: dict[str | None, Callable[[Any, Any, int], st.SearchStrategy[Any]]] = {
    None: lambda schema, root, depth: JSON,
    "null": lambda schema, root, depth: st.none(),
    "boolean": lambda schema, root, depth: st.booleans(),
    "integer": _integers,
    "number": _numbers,
    "string": _strings,
    "array": _arrays,
    "object": _objects,
}


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of every part of a JSON value."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, part in inner for place in places(part, (*path, key)))]


def put(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    """`value` with `new` at `path`."""
    if not path:
        return new
    key, *rest = path
    part = put(value[key], tuple(rest), new)
    if isinstance(value, dict):
        return {**value, key: part}
    return [*value[:key], part, *value[key + 1 :]]


@st.composite
def nearly_valid(draw: st.DrawFn, bound: Bound) -> Any:
    """A valid value with one part replaced or one property gone, which is where mistakes are."""
    value = draw(valid(bound.input_schema, bound.input_schema))
    path = draw(st.sampled_from(places(value)[1:] or [()]))
    if path and isinstance(path[-1], str) and draw(st.booleans()):
        parent = functools.reduce(lambda part, key: part[key], path[:-1], value)
        return put(value, path[:-1], {key: part for key, part in parent.items() if key != path[-1]})
    new = draw(JSON)
    return put(value, path, new) if path else value


def plain(arguments: Plain) -> None: ...
def apart(
    a: Annotated[int, msgspec.Meta(ge=0)], b: Item, c: list[Level] | None = None, d: bool = False, e: float = 1.0
) -> None: ...


BOUNDS = [bind(plain), bind(everything), bind(apart)]
PROPERTY = settings(max_examples=75, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])


def accepts(bound: Bound, value: Any) -> bool:
    try:
        bound.parse(value)
    except ArgumentsInvalid:
        return False
    return True


DATE, TIME = (
    r"[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])",
    r"([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]+)?",
)
OFFSET = r"(Z|[+-][0-9]{2}:[0-9]{2})"
FORMATS = {
    "date": DATE,
    "date-time": f"{DATE}T{TIME}{OFFSET}",
    "time": f"{TIME}{OFFSET}",
    "duration": r"-?P(?=.)([0-9]+D)?(T(?=.)([0-9]+H)?([0-9]+M)?([0-9]+(\.[0-9]+)?S)?)?",
    "uuid": "[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}",
    "decimal": r"[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?",
}
BASE64 = r"([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?"


@functools.cache
def judge() -> Any:
    """The jsonschema package's validator, with the formats and the encoding that it takes for mere notes."""
    jsonschema = pytest.importorskip("jsonschema")
    formats = jsonschema.FormatChecker(formats=())
    for name, pattern in FORMATS.items():
        formats.checks(name)(
            lambda value, pattern=pattern: not isinstance(value, str) or re.fullmatch(pattern, value) is not None
        )

    def encoded(validator: Any, encoding: str, value: Any, schema: Any) -> Any:
        if isinstance(value, str) and not re.fullmatch(BASE64, value):
            yield jsonschema.ValidationError(f"no {encoding}")

    dialect = jsonschema.validators.extend(jsonschema.Draft202012Validator, {"contentEncoding": encoded})
    return lambda bound, value: dialect(bound.input_schema, format_checker=formats).is_valid(value)


@pytest.mark.parametrize("bound", BOUNDS, ids=lambda bound: bound.name)
class TestSchemaAndValidationAgree:
    @PROPERTY
    @given(data=st.data())
    def test_what_is_drawn_from_the_schema_is_accepted(self, bound: Bound, data: st.DataObject) -> None:
        value = data.draw(valid(bound.input_schema, bound.input_schema))
        bound.parse(value)

    @PROPERTY
    @given(data=st.data())
    def test_what_lacks_a_required_property_is_not(self, bound: Bound, data: st.DataObject) -> None:
        value = data.draw(valid(bound.input_schema, bound.input_schema))
        name = data.draw(st.sampled_from(bound.input_schema["required"]))
        assert (f"$.{name}", "is required") in faults(bound, {key: part for key, part in value.items() if key != name})

    @PROPERTY
    @given(data=st.data())
    def test_jsonschema_agrees_on_what_is_nearly_valid(self, bound: Bound, data: st.DataObject) -> None:
        value = data.draw(nearly_valid(bound))
        assert accepts(bound, value) == judge()(bound, value)

    @PROPERTY
    @given(
        value=st.dictionaries(st.sampled_from(["a", "b", "count", "item", "name", "level", "type"]), JSON, max_size=5)
    )
    def test_jsonschema_agrees_on_anything(self, bound: Bound, value: dict[str, Any]) -> None:
        assert accepts(bound, value) == judge()(bound, value)


SCALARS = [
    *(int, float, str, bool, None, Colour, Level, Literal[1, 2], int | str, int | float, float | None, list[int]),
    *(Literal[True, 2, "a"], Literal["a"] | str, Literal[1] | None, int | bool, Colour | int, int | Any, Loose),
    *(set[float], set[int | bool], frozenset[int | str], tuple[int, str], Span, dict[str, int], dict[Colour, int]),
    *(Cat | Dog, Cat | None, Cat | Dog | int, Item | str, Query, Settings | None),
    *(datetime.datetime, datetime.date, datetime.timedelta, uuid.UUID, decimal.Decimal, decimal.Decimal | int, bytes),
    *(
        Annotated[datetime.time, msgspec.Meta(tz=True)],
        Annotated[int, msgspec.Meta(gt=-2, lt=3)],
        Annotated[int, msgspec.Meta(multiple_of=2)] | None,
        Annotated[int, msgspec.Meta(ge=1)] | Any | frozenset[int],
        Annotated[float, msgspec.Meta(multiple_of=2)],
        Annotated[str, msgspec.Meta(pattern="a")],
        Annotated[list[Any], msgspec.Meta(min_length=1)],
        Annotated[dict[str, Any], msgspec.Meta(max_length=1)],
    ),
]
TEXTS = [
    *("12:00:00", "24:00:00", "12:00:00Z", "12:00:00.5+01:00", "12:00:00+0100", "P1D", "P", "PT", "p1d", "P1.5D"),
    *("-P1DT2H", "1.50", "1_0", " 1", "NaN", "1e5", "YQ==", "YQ", "YQ==\r", "1999-12-31", "1999-12-32", "19991231"),
    *("1999-12-31T12:00:00Z", "1999-12-31 12:00:00Z", "1999-12-31T12:00:00", "1999-12-31T12:00:00+0100"),
    *("123e4567-e89b-12d3-a456-426614174000", "123e4567e89b12d3a456426614174000", "known", "blue"),
]


@pytest.mark.parametrize("tp", SCALARS, ids=str)
@PROPERTY
@given(value=JSON | st.sampled_from(TEXTS))
def test_jsonschema_agrees_on_each_type(tp: Any, value: Any) -> None:
    def handler(x: Any, other: int = 0) -> None: ...

    handler.__annotations__["x"] = tp
    bound = bind(handler)
    assert accepts(bound, {"x": value}) == judge()(bound, {"x": value})

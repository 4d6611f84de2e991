"""JSON Schemas: what types become, what a declaration may say, which arguments HTTP mirrors, and the simple form."""

from __future__ import annotations

import copy
import dataclasses
import datetime
import decimal
import enum
import uuid
from collections.abc import Mapping
from typing import Annotated, Any, Generic, Literal, NamedTuple, NewType, Optional, TypedDict, TypeVar

import attrs
import msgspec
import pytest

from mcp_sansio.errors import DeclarationError
from mcp_sansio.schema import (
    HeaderParam,
    check_input_schema,
    check_schema,
    header_plan,
    is_object_schema,
    schema_of,
)
from mcp_sansio.simplify import simplified, stripped

T = TypeVar("T")
UserId = NewType("UserId", int)


class Colour(enum.StrEnum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


@attrs.define
class Point:
    """A place."""

    x: int
    y: Annotated[int, msgspec.Meta(ge=0, description="up")] = 0


@attrs.define
class Line:
    start: Point
    end: Point
    label: str | None = None


@attrs.define
class Tree:
    children: list[Tree] = attrs.Factory(list)


@attrs.define
class Left:
    right: Optional[Right] = None  # noqa: UP045 - the old spelling is a case of its own


@attrs.define
class Right:
    left: Left | None = None


@dataclasses.dataclass
class Pair:
    a: int
    b: int = dataclasses.field(default=1, init=False)


class Options(TypedDict, total=False):
    deep: bool


class Span(NamedTuple):
    low: int
    high: int = 9


class Closed(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    some_name: str


class Cat(msgspec.Struct, tag=True):
    lives: int


class Dog(msgspec.Struct, tag=True):
    name: str


@attrs.define
class Box(Generic[T]):
    value: T


@attrs.define
class Aliased:
    _hidden: int


@attrs.define
class Converted:
    name: str = attrs.field(converter=str.lower)


@dataclasses.dataclass(init=False)
class Handmade:
    name: str


POINT = {
    "title": "Point",
    "description": "A place.",
    "type": "object",
    "properties": {"x": {"type": "integer"}, "y": {"type": "integer", "minimum": 0, "description": "up", "default": 0}},
    "required": ["x"],
}

COLOUR = {"title": "Colour", "type": "string", "enum": ["blue", "red"]}
TREE = {
    "title": "Tree",
    "type": "object",
    "properties": {"children": {"type": "array", "items": {"$ref": "#/$defs/Tree"}, "default": []}},
    "required": [],
}

TYPES: list[tuple[Any, dict[str, Any]]] = [
    (int, {"type": "integer"}),
    (float, {"type": "number"}),
    (str, {"type": "string"}),
    (bool, {"type": "boolean"}),
    (None, {"type": "null"}),
    (Any, {}),
    (UserId, {"type": "integer"}),
    (bytes, {"contentEncoding": "base64"}),
    (datetime.datetime, {"type": "string", "format": "date-time"}),
    (Annotated[datetime.datetime, "When."], {"description": "When.", "type": "string", "format": "date-time"}),
    (Annotated[datetime.datetime, msgspec.Meta(tz=False)], {"type": "string"}),
    (
        datetime.datetime | None,
        {"anyOf": [{"type": "string", "format": "date-time"}, {"type": "null"}]},
    ),
    (datetime.date, {"type": "string", "format": "date"}),
    (datetime.timedelta, {"type": "string", "format": "duration"}),
    (decimal.Decimal, {"type": "string", "format": "decimal"}),
    (uuid.UUID, {"type": "string", "format": "uuid"}),
    (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}),
    (Literal[1, "b"], {"enum": [1, "b"]}),
    (Colour, COLOUR),
    (Level, {"title": "Level", "type": "integer", "enum": [1, 2]}),
    (int | None, {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
    (list, {"type": "array"}),
    (list[int], {"type": "array", "items": {"type": "integer"}}),
    (set[str], {"type": "array", "items": {"type": "string"}, "uniqueItems": True}),
    (
        tuple[int, str],
        {
            "type": "array",
            "prefixItems": [{"type": "integer"}, {"type": "string"}],
            "items": False,
            "minItems": 2,
            "maxItems": 2,
        },
    ),
    (tuple[int, ...], {"type": "array", "items": {"type": "integer"}}),
    (
        Span,
        {
            "title": "Span",
            "type": "array",
            "prefixItems": [{"type": "integer"}, {"type": "integer", "default": 9}],
            "minItems": 1,
            "maxItems": 2,
        },
    ),
    (dict, {"type": "object"}),
    (dict[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}),
    (Mapping[str, Any], {"type": "object"}),
    (
        dict[Colour, Any],
        {"type": "object", "propertyNames": {"$ref": "#/$defs/Colour"}, "$defs": {"Colour": COLOUR}},
    ),
    (
        Annotated[int, msgspec.Meta(gt=0, lt=9, multiple_of=2)],
        {
            "type": "integer",
            "exclusiveMinimum": 0,
            "exclusiveMaximum": 9,
            "multipleOf": 2,
        },
    ),
    (
        Annotated[str, msgspec.Meta(min_length=1, max_length=3, pattern="^a", examples=["abc"])],
        {"type": "string", "minLength": 1, "maxLength": 3, "pattern": "^a", "examples": ["abc"]},
    ),
    (Annotated[list[int], msgspec.Meta(max_length=3)], {"type": "array", "items": {"type": "integer"}, "maxItems": 3}),
    (
        Annotated[str, msgspec.Meta(extra_json_schema={"x-mcp-header": "Region"})],
        {"type": "string", "x-mcp-header": "Region"},
    ),
    (
        Annotated[Literal["eu", "us"], msgspec.Meta(extra_json_schema={"x-mcp-header": "Region"})],
        {"type": "string", "x-mcp-header": "Region", "enum": ["eu", "us"]},
    ),
    (Point, POINT),
    (Annotated[Point, "Another place."], {**POINT, "description": "Another place."}),
    (
        Line,
        {
            "title": "Line",
            "type": "object",
            "properties": {
                "start": {"$ref": "#/$defs/Point"},
                "end": {"$ref": "#/$defs/Point"},
                "label": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
            },
            "required": ["start", "end"],
            "$defs": {"Point": POINT},
        },
    ),
    (list[Point], {"type": "array", "items": {"$ref": "#/$defs/Point"}, "$defs": {"Point": POINT}}),
    (
        Options,
        {"title": "Options", "type": "object", "properties": {"deep": {"type": "boolean"}}, "required": []},
    ),
    (
        Closed,
        {
            "title": "Closed",
            "type": "object",
            "properties": {"someName": {"type": "string"}},
            "required": ["someName"],
            "additionalProperties": False,
        },
    ),
    (
        Box[int],
        {"title": "Box[int]", "type": "object", "properties": {"value": {"type": "integer"}}, "required": ["value"]},
    ),
    (Tree, {**TREE, "$defs": {"Tree": TREE}}),
]


class TestSchemaOf:
    @pytest.mark.parametrize(("tp", "schema"), TYPES, ids=[repr(tp) for tp, _ in TYPES])
    def test_each_type(self, tp: Any, schema: dict[str, Any]) -> None:
        found = schema_of(tp)
        if tp is bytes:
            found = {"contentEncoding": found["contentEncoding"]}
        assert found == schema

    def test_two_classes_of_one_name_keep_apart(self) -> None:
        other = attrs.make_class("Point", {"z": attrs.field(type=str)})
        schema = schema_of(tuple[Point, other])
        names = [item["$ref"].removeprefix("#/$defs/") for item in schema["prefixItems"]]
        assert [list(schema["$defs"][name]["properties"]) for name in names] == [["x", "y"], ["z"]]

    def test_classes_that_refer_to_each_other(self) -> None:
        schema = schema_of(Left)
        assert schema["properties"] == {
            "right": {"anyOf": [{"$ref": "#/$defs/Right"}, {"type": "null"}], "default": None}
        }
        assert set(schema["$defs"]) == {"Left", "Right"}
        check_input_schema(schema)

    def test_tagged_structs(self) -> None:
        schema = schema_of(Cat | Dog)
        assert schema["anyOf"] == [{"$ref": "#/$defs/Cat"}, {"$ref": "#/$defs/Dog"}]
        assert schema["discriminator"]["propertyName"] == "type"
        assert schema["$defs"]["Cat"]["properties"] == {
            "type": {"type": "string", "enum": ["Cat"]},
            "lives": {"type": "integer"},
        }
        assert schema["$defs"]["Cat"]["required"] == ["type", "lives"]

    def test_nested_pydantic_models_share_the_defs(self) -> None:
        pydantic = pytest.importorskip("pydantic")
        inner = pydantic.create_model("Point", z=(int, ...))
        outer = pydantic.create_model("Outer", point=(inner, ...))
        schema = schema_of(tuple[Point, outer])
        reference = schema["prefixItems"][1]["properties"]["point"]["$ref"]
        assert reference == "#/$defs/Outer.Point"
        assert schema["$defs"]["Outer.Point"]["required"] == ["z"]
        assert schema["$defs"]["Point"] == POINT
        check_schema(schema)

    def test_two_pydantic_models_of_one_name_are_refused(self) -> None:
        pydantic = pytest.importorskip("pydantic")
        one, other = pydantic.create_model("Part", a=(int, ...)), pydantic.create_model("Part", b=(int, ...))
        with pytest.raises(DeclarationError, match="two pydantic models are called Part"):
            schema_of(tuple[one, other])

    @pytest.mark.parametrize(
        ("tp", "hint"),
        [
            (complex, "complex"),
            (type, "Allowed are"),
            (list[complex], "complex"),
            (object, "Any"),
            (dict[float, int], "text"),
            (dict[int, int], "text"),
            (dict[uuid.UUID, int], "text"),
            (str | bytes, "str-like"),
            (Annotated[bytes, msgspec.Meta(max_length=2)], "base64"),
            (Annotated[int, msgspec.Meta(extra_json_schema={"enum": [1]})], "enum"),
            (Annotated[Any, msgspec.Meta(extra_json_schema={"minLength": 2})], "minLength"),
            (Annotated[float, msgspec.Meta(multiple_of=0.1)], "whole"),
            (Annotated[int, msgspec.Meta(ge=0)] | float, "beside float"),
            (Level | float, "beside float"),
            (Pair, "'b' of Pair is not for the constructor"),
            (list[Aliased], "'_hidden' of Aliased is 'hidden' to the constructor"),
            (Converted, "'name' of Converted has a converter"),
            (Handmade, "Handmade has an __init__ of its own"),
            (attrs.make_class("Odd", {"x": attrs.field(type=Any, default=object())}), "the schema cannot be made"),
            (msgspec.Raw, "no form in JSON"),
            (msgspec.defstruct("Row", ["a"], array_like=True), "array_like"),
            (attrs.make_class("Lost", {"f": attrs.field(type="Nowhere")}), "Nowhere"),
        ],
        ids=str,
    )
    def test_what_json_cannot_hold_is_refused(self, tp: Any, hint: str) -> None:
        with pytest.raises(DeclarationError, match=hint):
            schema_of(tp)


def deep(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


def tool(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


GOOD = [
    {"type": "object"},
    {"type": "object", "properties": {"a": True, "$ref": {"type": "string"}, "x-mcp-header": {}}},
    {"type": "object", "default": {"$ref": "http://no.example", "x-mcp-header": ""}},
    {
        "type": "object",
        "$defs": {"n": {"properties": {"n": {"$ref": "#/$defs/n"}}}},
        "properties": {"n": {"$ref": "#/$defs/n"}},
    },
    {"type": "object", "properties": {"n": {"type": "array", "items": {"$ref": "#"}}}},
    {"type": "object", "properties": {"a/b~c d": {"type": "string"}, "n": {"$ref": "#/properties/a~1b~0c%20d"}}},
    {"type": "object", "$defs": {"a": {"$anchor": "here"}}, "properties": {"n": {"$ref": "#here"}}},
    {"type": "object", "allOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/a"}], "$defs": {"a": {"minProperties": 1}}},
    deep(60),
]

BAD: list[tuple[Any, str]] = [
    ({}, "root"),
    (None, "root"),
    ([], "root"),
    ({"type": "string"}, "root"),
    ({"type": ["object"]}, "root"),
    (tool(a={"type": "int"}), "'int' is no type"),
    (tool(a={"type": [1]}), "'1' is no type"),
    (tool(a={"enum": 1, "default": None}), "enum must be a list of values"),
    (tool(a=5), "#/properties/a is no schema"),
    (tool(a=None), "#/properties/a is no schema"),
    ({"type": "object", "properties": []}, "#/properties"),
    ({"type": "object", "allOf": {}}, "#/allOf"),
    ({"type": "object", "required": "a"}, "required"),
    ({"type": "object", "required": [1]}, "required"),
    (tool(a={"$ref": "http://host.example/schema"}), "leaves the schema"),
    (tool(a={"$ref": "other.json#/a"}), "leaves the schema"),
    (tool(a={"$ref": "#/$defs/missing"}), "leads to no schema"),
    (tool(a={"$ref": "#missing"}), "leads to no schema"),
    (tool(a={"$ref": "#/type"}), "leads to no schema"),
    (tool(a={"$ref": 5}), "must be text"),
    ({**tool(a={"$ref": "#/x-y"}), "x-y": {"type": "string"}}, "holds no schema"),
    (tool(a={"$id": "https://a.example/b"}), r"\$id"),
    ({"type": "object", "$ref": "#"}, "back to itself"),
    ({"type": "object", "allOf": [{"$ref": "#"}]}, "back to itself"),
    (
        {**tool(a={"$ref": "#/$defs/a"}), "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"not": {"$ref": "#/$defs/a"}}}},
        "itself",
    ),
    (deep(5000), "levels deep"),
    (tool(**{f"p{number}": {} for number in range(10_001)}), "more than 10000"),
]


class TestCheckInputSchema:
    @pytest.mark.parametrize("schema", GOOD)
    def test_good(self, schema: dict[str, Any]) -> None:
        before = copy.deepcopy(schema)
        check_input_schema(schema)
        assert schema == before

    @pytest.mark.parametrize(("schema", "hint"), BAD)
    def test_bad(self, schema: Any, hint: str) -> None:
        with pytest.raises(DeclarationError, match=hint):
            check_input_schema(schema)

    def test_a_long_chain_of_references_is_followed_without_recursion(self) -> None:
        links = {f"l{number}": {"$ref": f"#/$defs/l{number + 1}"} for number in range(3000)}
        check_input_schema({**tool(a={"$ref": "#/$defs/l0"}), "$defs": {**links, "l3000": {"type": "string"}}})

    def test_an_output_schema_need_not_have_an_object_at_its_root(self) -> None:
        check_schema({"type": "array", "items": {"type": "string"}})
        with pytest.raises(DeclarationError, match="object"):
            check_schema(["type"])

    @pytest.mark.parametrize(
        ("schema", "expected"), [({"type": "object"}, True), ({"type": "array"}, False), ({}, False), (True, False)]
    )
    def test_is_object_schema(self, schema: Any, expected: bool) -> None:
        assert is_object_schema(schema) is expected


def header(name: Any, tp: Any = "string") -> dict[str, Any]:
    return {"type": tp, "x-mcp-header": name}


class TestHeaderPlan:
    def test_nested_properties_of_every_type_that_is_allowed(self) -> None:
        schema = tool(
            region=header("Region"),
            where={"type": "object", "properties": {"zone": header("Zone-Id", "integer")}},
            dry=header("Dry", "boolean"),
            plain={"type": "string"},
        )
        check_input_schema(schema)
        assert set(header_plan(schema)) == {
            HeaderParam("Region", ("region",), "string"),
            HeaderParam("Zone-Id", ("where", "zone"), "integer"),
            HeaderParam("Dry", ("dry",), "boolean"),
        }

    def test_none(self) -> None:
        assert header_plan({"type": "object"}) == ()

    @pytest.mark.parametrize(
        ("schema", "hint"),
        [
            (tool(a=header("")), "no header name"),
            (tool(a=header("A B")), "no header name"),
            (tool(a=header("Ok\r\nX: y")), "no header name"),
            (tool(a=header("Ok\n")), "no header name"),
            (tool(a=header("Żółw")), "no header name"),
            (tool(a=header(None)), "no header name"),
            (tool(a=header("Region"), b=header("region")), "twice"),
            (tool(a=header("N", "number")), "integer"),
            (tool(a=header("N", "array")), "integer"),
            (tool(a=header("N", ["string", "null"])), "integer"),
            (tool(a={"enum": ["x"], "x-mcp-header": "N"}), "integer"),
            (tool(a={"type": "array", "items": header("N")}), "properties alone"),
            (tool(a={"anyOf": [header("N")]}), "properties alone"),
            ({"type": "object", "allOf": [tool(a=header("N"))]}, "properties alone"),
            ({**tool(a={"$ref": "#/$defs/a"}), "$defs": {"a": header("N")}}, "properties alone"),
            ({"type": "object", "patternProperties": {"properties": header("N")}}, "properties alone"),
            ({"type": "object", "x-mcp-header": "N"}, "properties alone"),
        ],
        ids=lambda value: str(value)[:60],
    )
    def test_bad(self, schema: dict[str, Any], hint: str) -> None:
        for check in (header_plan, check_input_schema):
            with pytest.raises(DeclarationError, match=hint):
                check(schema)


SIMPLE: list[tuple[str, dict[str, Any], dict[str, Any] | None]] = [
    ("nothing to do", tool(a={"type": "string", "title": "A"}), tool(a={"type": "string", "title": "A"})),
    (
        "a reference keeps its siblings",
        {
            **tool(a={"$ref": "#/$defs/P", "description": "here"}),
            "$defs": {"P": {"type": "object", "description": "P"}},
        },
        tool(a={"type": "object", "description": "here"}),
    ),
    (
        "references within what is referred to",
        {
            **tool(a={"$ref": "#/$defs/A"}, b={"type": "array", "items": {"$ref": "#/$defs/B"}}),
            "$defs": {"A": tool(b={"$ref": "#/$defs/B"}), "B": {"type": "integer"}},
        },
        tool(a=tool(b={"type": "integer"}), b={"type": "array", "items": {"type": "integer"}}),
    ),
    (
        "escaped pointers, and the old place of definitions",
        {**tool(a={"$ref": "#/definitions/a~1b~0c%20d"}), "definitions": {"a/b~c d": {"type": "integer"}}},
        tool(a={"type": "integer"}),
    ),
    (
        "siblings that say more are not mixed in",
        {
            **tool(a={"$ref": "#/$defs/A", "properties": {"y": {}}}),
            "$defs": {"A": {**tool(x={}), "additionalProperties": False}},
        },
        tool(a={"properties": {"y": {}}, "allOf": [{**tool(x={}), "additionalProperties": False}]}),
    ),
    ("a root that refers", {"type": "object", "$ref": "#/$defs/A", "$defs": {"A": tool(x={})}}, tool(x={})),
    (
        "a nullable union loses the null branch and its default",
        tool(a={"anyOf": [{"type": "string", "minLength": 1}, {"type": "null"}], "default": None, "description": "d"}),
        tool(a={"type": "string", "minLength": 1, "description": "d"}),
    ),
    (
        "a default that fits stays",
        tool(a={"oneOf": [{"type": "null"}, {"type": "string"}], "default": "x"}),
        tool(a={"type": "string", "default": "x"}),
    ),
    (
        "several branches remain",
        tool(a={"anyOf": [{"type": "string"}, {"type": "integer"}, {"type": "null"}], "default": None}),
        tool(a={"anyOf": [{"type": "string"}, {"type": "integer"}]}),
    ),
    (
        "a list of types, and an enum",
        tool(a={"type": ["string", "null"], "enum": ["x", None]}, b={"type": ["string", "integer", "null"]}),
        tool(a={"type": "string", "enum": ["x"]}, b={"type": ["string", "integer"]}),
    ),
    (
        "a nullable reference",
        {
            **tool(a={"$ref": "#/$defs/O", "default": None}),
            "$defs": {"O": {"anyOf": [{"type": "integer"}, {"type": "null"}]}},
        },
        tool(a={"type": "integer"}),
    ),
    ("null alone stays", tool(a={"type": "null", "default": None}), tool(a={"type": "null", "default": None})),
    ("any value may be null", tool(a={"default": None}), tool(a={"default": None})),
    (
        "what must not be keeps its null",
        tool(a={"not": {"type": ["string", "null"]}}),
        tool(a={"not": {"type": ["string", "null"]}}),
    ),
    (
        "headers are left out, properties of that name are not",
        tool(**{"a": header("N"), "x-mcp-header": {"type": "string"}, "$ref": {"type": "string"}}),
        tool(**{"a": {"type": "string"}, "x-mcp-header": {"type": "string"}, "$ref": {"type": "string"}}),
    ),
    ("boolean properties become objects", tool(a=True, b=False), tool(a={}, b={"not": {}})),
    ("data is left alone", tool(a={"const": {"$ref": "#/no"}}), tool(a={"const": {"$ref": "#/no"}})),
    ("a cycle", {**tool(a={"$ref": "#/$defs/A"}), "$defs": {"A": tool(a={"$ref": "#/$defs/A"})}}, None),
    ("a cycle through the root", tool(a={"type": "array", "items": {"$ref": "#"}}), None),
    (
        "a cycle through a property",
        tool(n={"type": "array", "items": {"items": {"$ref": "#/properties/n/items"}}}),
        None,
    ),
    ("a cycle that nothing refers to", {**tool(a={}), "$defs": {"A": tool(a={"$ref": "#/$defs/A"})}}, tool(a={})),
    ("another document", tool(a={"$ref": "https://host.example/s"}), None),
    ("a dangling reference", tool(a={"$ref": "#/$defs/none"}), None),
    ("a dynamic reference", tool(a={"$dynamicRef": "#x"}), None),
    (
        "more than fits",
        {
            **tool(a={"$ref": "#/$defs/d0"}),
            "$defs": {
                f"d{n}": tool(a={"$ref": f"#/$defs/d{n + 1}"}, b={"$ref": f"#/$defs/d{n + 1}"}) for n in range(20)
            }
            | {"d20": {}},
        },
        None,
    ),
    ("too deep", deep(5000), None),
]


class TestSimplified:
    @pytest.mark.parametrize(("schema", "expected"), [row[1:] for row in SIMPLE], ids=[row[0] for row in SIMPLE])
    def test_each_case(self, schema: dict[str, Any], expected: dict[str, Any] | None) -> None:
        before = copy.deepcopy(schema) if expected is not None else None
        assert simplified(schema) == expected
        if before is not None:
            assert schema == before

    def test_the_result_shares_nothing_with_its_source(self) -> None:
        schema = tool(a={"enum": [["x"]]})
        simple = simplified(schema)
        assert simple is not None
        simple["properties"]["a"]["enum"][0].append("y")
        assert schema == tool(a={"enum": [["x"]]})

    def test_the_schema_of_nested_classes(self) -> None:
        assert simplified(schema_of(Line)) == {
            "title": "Line",
            "type": "object",
            "properties": {"start": POINT, "end": POINT, "label": {"type": "string"}},
            "required": ["start", "end"],
        }

    def test_what_is_sent_may_still_be_null(self) -> None:
        schema = {**tool(a={"$ref": "#/$defs/A"}), "$defs": {"A": {"anyOf": [{"type": "string"}, {"type": "null"}]}}}
        assert simplified(schema, nullable=True) == tool(a={"anyOf": [{"type": "string"}, {"type": "null"}]})

    def test_a_recursive_class_has_no_simple_form(self) -> None:
        assert simplified(schema_of(Tree)) is None


def test_stripped_takes_the_headers_out_and_leaves_the_rest() -> None:
    schema = {
        **tool(**{"a": {**header("N"), "default": {"x-mcp-header": 1}}, "x-mcp-header": {"type": "string"}}),
        "allOf": [{"properties": {"b": {"$ref": "#/$defs/B"}}}],
        "$defs": {"B": {"type": ["string", "null"]}},
    }
    before = copy.deepcopy(schema)
    assert stripped(schema) == {
        **tool(**{"a": {"type": "string", "default": {"x-mcp-header": 1}}, "x-mcp-header": {"type": "string"}}),
        "allOf": [{"properties": {"b": {"$ref": "#/$defs/B"}}}],
        "$defs": {"B": {"type": ["string", "null"]}},
    }
    assert schema == before

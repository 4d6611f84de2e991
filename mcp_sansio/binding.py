"""From a function to a plan for calling it: what its signature declares, published and enforced.

The parameters of a handler are of three kinds, told apart by annotation: its exchange, its dependencies, and its
arguments. `Bound` says what each is and turns the JSON arguments of a call into keyword arguments. The plan is made
once, when a handler is declared; a call then costs one conversion.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Mapping, Sequence
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Never,
    NoReturn,
    Union,
    get_args,
    get_origin,
    is_typeddict,
)

import msgspec
from msgspec.inspect import CustomType, Metadata
from msgspec.inspect import UnionType as UnionInfo

from . import types as records
from .errors import DeclarationError, McpError
from .faults import ArgumentsInvalid, Fault, examined
from .foreign import faults_of, is_pydantic, validated_text
from .judge import judge_of
from .schema import HeaderParam, InputSchema, published, schema_as_given, schema_of_arguments, schema_of_model
from .signature import EMPTY, Param, Signature, sorted_parameters
from .typed import REFUSED, Typed, spelled, type_text
from .types import JSON
from .wire.json import plain
from .wording import kinds_of, path_text, readings, short

__all__ = ["ArgumentsInvalid", "Bound", "ResultInvalid"]

Arguments = Mapping[str, JSON]
Parse = Callable[[Arguments], dict[str, Any]]


class ResultInvalid(McpError):
    """A handler returned what its output schema does not allow. It is for the log: the peer did nothing wrong."""

    def __init__(self, where: str, faults: Sequence[Fault]) -> None:
        self.faults = list(faults)
        text = "; ".join(f"{path} {message}" for path, message in self.faults)
        super().__init__(f"{where}: the returned value does not fit the output schema: {text}")


class Bound(msgspec.Struct, frozen=True, eq=False):
    """A handler and how to call it.

    `name` is the function's, `description` its docstring (dedented) or ``None``. `headers` is the plan for the
    arguments that HTTP mirrors. `output_schema` is ``None`` where the handler returns text, content or nothing that a
    schema could describe. `is_async` is whether it is an ``async def``.
    `exchange_param` names the parameter that takes the exchange, and `dependencies` gives the annotation of each
    parameter that a provider supplies.
    """

    fn: Callable[..., Any]
    name: str
    description: str | None
    input_schema: dict[str, JSON]
    headers: tuple[HeaderParam, ...]
    output_schema: dict[str, JSON] | None
    is_async: bool
    exchange_param: str | None
    dependencies: Mapping[str, Any]
    #: Whether ``await fn(**parse(arguments))`` is all: an ``async def`` that takes its arguments and nothing else.
    is_direct: bool
    #: Whether that moreover waits for nothing, whatever the arguments.
    never_waits: bool
    #: Gives the keyword arguments of `fn` for the JSON object of a call's arguments, without the exchange and the
    #: dependencies. Raises `ArgumentsInvalid` with every fault. Properties that are not declared are ignored, unless
    #: the schema says otherwise.
    parse: Parse
    #: Gives the JSON value of what `fn` returned, checked against `output_schema` where there is one. NaN and infinity
    #: are left in; the caller checks for them. Raises `ResultInvalid`, and ``TypeError`` for a value that has no form
    #: in JSON.
    structured: Callable[[Any], JSON]

    @property
    def takes_exchange(self) -> bool:
        """Whether the handler takes an exchange, and so may ask."""
        return self.exchange_param is not None

    def prompt_arguments(self) -> list[dict[str, JSON]]:
        """The arguments as a prompt lists them (schema, PromptArgument): ``name``, ``description`` and ``required``."""
        required = self.input_schema.get("required", ())
        return [
            {
                "name": name,
                **({"description": schema["description"]} if "description" in schema else {}),
                "required": name in required,
            }
            for name, schema in self.input_schema.get("properties", {}).items()
        ]

    # Over 40 lines, since each field of the plan has one of its own.
    @classmethod
    def of(
        cls,
        fn: Callable[..., Any],
        *,
        exchange_type: type,
        provided: Callable[[Any], bool] = lambda annotation: False,
        input_schema: Mapping[str, JSON] | None = None,
        output_schema: Mapping[str, JSON] | None = None,
        lax_strings: bool = False,
    ) -> Bound:
        """The plan for `fn`. Raises `DeclarationError` where the declaration cannot work.

        `exchange_type` is the class of the exchange, and `provided` tells whether an annotation is a dependency. With a
        raw `input_schema`, `fn` takes the whole arguments as one mapping; a raw `output_schema` replaces the one of the
        return annotation. `lax_strings` is for arguments that are text on the wire (prompts, URI templates): numbers
        and booleans are read from it, and there is no output schema, as only tools have one.
        """
        signature = Signature.of(fn, exchange_type)
        exchange, dependencies, params = sorted_parameters(signature, exchange_type, provided)
        if input_schema is not None:
            taken, parse = _raw_input(signature.name, params, input_schema)
        else:
            taken, parse = _typed_input(signature.name, params, lax_strings)
        if output_schema is not None:
            output, structured = _raw_output(signature.name, output_schema)
        elif lax_strings or _is_plain(signature.returns):
            output, structured = None, _plain
        else:
            output, structured = _typed_output(signature.name, signature.returns)
        is_direct = signature.is_async and exchange is None and not dependencies
        return cls(
            fn=fn,
            name=signature.name,
            description=signature.description,
            input_schema=taken.schema,
            headers=taken.headers,
            output_schema=output,
            is_async=signature.is_async,
            exchange_param=exchange,
            dependencies=dependencies,
            is_direct=is_direct,
            never_waits=is_direct and not signature.may_wait,
            parse=parse,
            structured=structured,
        )


# Arguments by type


def _typed_input(name: str, params: Sequence[Param], lax: bool) -> tuple[InputSchema, Parse]:
    if not params:
        return InputSchema({"type": "object", "properties": {}}, ()), lambda arguments: {}
    parts = {param.name: _typed_param(name, param) for param in params}
    typed = parts[params[0].name]
    if len(params) == 1 and typed.is_model:
        return schema_of_model(typed, name), _parse_of(name, typed, _named(params[0].name), lax)
    required = [param.name for param in params if param.default is EMPTY]
    published = schema_of_arguments(parts, required, name)
    for param in params:
        _publish_default(published.schema["properties"][param.name], param, parts[param.name], _place(name, param))
    fields = [_struct_field(param, parts[param.name]) for param in params]
    typed = Typed.of_arguments(msgspec.defstruct("Arguments_", fields, kw_only=True), parts, required)
    return published, _parse_of(name, typed, msgspec.structs.asdict, lax)


def _place(name: str, param: Param) -> str:
    return f"{name}, parameter {param.name!r}"


def _typed_param(name: str, param: Param) -> Typed:
    where = _place(name, param)
    if param.type is EMPTY:
        advice = f"give it one, like {param.name}: str, or {param.name}: Exchange for the context of the call"
        if param.name == "self":
            advice = f"declare a method by its object, like registry.tool(thing.{name})"
        raise DeclarationError(f"{where} has no annotation, so it cannot be published; {advice}")
    return Typed.of(spelled(param.type), where)


def _named(name: str) -> Callable[[Any], dict[str, Any]]:
    return lambda made: {name: made}


def _struct_field(param: Param, typed: Typed) -> Any:
    if param.default is EMPTY:
        return (param.name, typed.type)
    # The function's own object, as a call without the argument would give it; a factory, since msgspec copies no more
    # than an empty list.
    return (param.name, typed.type, msgspec.field(default_factory=lambda: param.default))


#: Types of defaults that are meant as what they are. None, a boolean or an object of any class may stand for nothing.
_WRITTEN = (str, int, float, list, dict)


def _publish_default(schema: dict[str, JSON], param: Param, typed: Typed, where: str) -> None:
    """Say the default, unless it is the function's own affair: no JSON, or refused by the type (`x: int = None`).

    Raises `DeclarationError` for one of another kind: the function would be given what no caller may give it.
    """
    if param.default is EMPTY:
        return
    try:
        wire = msgspec.json.decode(msgspec.json.encode(param.default, enc_hook=_dumped))
    except (TypeError, ValueError, RecursionError):
        return
    faults = examined(typed.info, wire, output=True)[1]
    if not faults:
        schema["default"] = wire
    elif type(param.default) in _WRITTEN and not _may_be(typed.info, wire):
        text = f"the default {short(repr(param.default))} does not fit its type: {faults[0][1]}"
        raise DeclarationError(f"{where}: {text}")


def _may_be(info: Any, wire: JSON) -> bool:
    """Whether a type takes values of the kind that `wire` is. What a class is in JSON may be for the class to say."""
    while isinstance(info, Metadata):
        info = info.type
    if isinstance(info, UnionInfo):
        return any(_may_be(member, wire) for member in info.types)
    return isinstance(info, CustomType) or not set(readings(wire)).isdisjoint(kinds_of(info))


def _parse_of(name: str, typed: Typed, finish: Callable[[Any], dict[str, Any]], lax: bool) -> Parse:
    """How arguments become `typed` and then, by `finish`, keyword arguments. With `lax` they come as text."""
    if lax:
        read = _text_reader(name, typed)
        return lambda arguments: finish(read(arguments))
    parse = _exact_parse(typed, finish) if typed.exact else lambda arguments: finish(typed.built(dict(arguments)))
    # A handler may change what it is given, and the call needs its arguments again when it has asked.
    return (lambda arguments: parse(copy.deepcopy(arguments))) if typed.shares else parse


def _exact_parse(typed: Typed, finish: Callable[[Any], dict[str, Any]]) -> Parse:
    convert, tp = typed.convert, typed.type

    def parse(arguments: Arguments) -> dict[str, Any]:
        try:
            return finish(convert(arguments, tp))
        except REFUSED:
            return finish(typed.built(dict(arguments)))

    return parse


# Arguments as text


def _text_reader(name: str, typed: Typed) -> Callable[[Arguments], Any]:
    """How arguments that come as text (of prompts and templates) become `typed`. Refuses what text cannot spell."""
    info: Any = typed.info
    if isinstance(info, CustomType):
        return functools.partial(_model_of_text, info.cls)
    scalars = {"a string", "an integer", "a number", "a boolean"}
    for field in info.fields:
        if scalars.isdisjoint(kinds_of(field.type)):
            raise DeclarationError(
                f"{name}: the argument {field.encode_name!r} comes as text, which cannot be read as its type; "
                "use str, int, float, bool or a choice of those"
            )
    spoken = {field.encode_name for field in info.fields if "a string" not in kinds_of(field.type)}
    return lambda arguments: typed.built(
        {key: _scalar(value) if key in spoken else value for key, value in arguments.items()}
    )


def _scalar(value: JSON) -> JSON:
    """The number or boolean that a text spells, or `value` itself."""
    try:
        return _decode_scalar(value.strip().lower())
    except (AttributeError, msgspec.DecodeError):
        return value


#: With its type, so that a text full of brackets is refused at the first one instead of being followed into its depth.
_decode_scalar = msgspec.json.Decoder(bool | int | float).decode


def _model_of_text(model: Any, arguments: Arguments) -> Any:
    try:
        return validated_text(model, dict(arguments))
    except ValueError as error:
        raise ArgumentsInvalid((path_text(path), message) for path, message in faults_of(error)) from error


# Arguments by a raw schema


def _raw_input(name: str, params: Sequence[Param], raw: Mapping[str, JSON]) -> tuple[InputSchema, Parse]:
    if len(params) != 1 or not _is_mapping(params[0].type):
        raise DeclarationError(
            f"{name}: with an input_schema, the handler takes one parameter of type dict beside its exchange and "
            "dependencies, like arguments: dict"
        )
    taken = schema_as_given(raw, name)
    judge = judge_of(taken.schema, name)
    param = params[0].name

    def parse(arguments: Arguments) -> dict[str, Any]:
        faults = _judged(judge, dict(arguments))
        if faults:
            raise ArgumentsInvalid(faults)
        return {param: copy.deepcopy(arguments)}  # which is the handler's to change

    return taken, parse


def _judged(judge: Callable[[JSON], list[Fault]], value: JSON) -> list[Fault]:
    try:
        return judge(value)
    except RecursionError:
        return [("$", "is nested too deeply")]


def _is_mapping(annotation: Any) -> bool:
    if annotation in (EMPTY, Any) or is_typeddict(annotation):
        return True
    origin = get_origin(annotation) or annotation
    return isinstance(origin, type) and issubclass(dict, origin)


# Results


def _plain(value: Any) -> JSON:
    return msgspec.to_builtins(value, str_keys=True, enc_hook=_dumped)


def _dumped(value: Any) -> JSON:
    if is_pydantic(type(value)):
        return value.model_dump(mode="json", by_alias=True)
    if isinstance(value, str | int | float):  # by another name, as numpy's are
        return plain(value)
    raise TypeError(f"a value of type {type_text(type(value))} has no form in JSON")


def _raw_output(name: str, raw: Mapping[str, JSON]) -> tuple[dict[str, JSON], Callable[[Any], JSON]]:
    judge = judge_of(raw, f"{name}, output_schema")

    def structured(value: Any) -> JSON:
        wire = _plain(value)
        faults = _judged(judge, _listed(wire))
        if faults:
            raise ResultInvalid(name, faults)
        return wire

    return copy.deepcopy(dict(raw)), structured


def _listed(wire: JSON) -> JSON:
    """`wire` with its tuples as lists: the encoder makes no difference, but jsonschema does."""
    if isinstance(wire, dict):
        return {key: _listed(value) for key, value in wire.items()}
    return [_listed(item) for item in wire] if isinstance(wire, list | tuple) else wire


def _typed_output(name: str, returns: Any) -> tuple[dict[str, JSON], Callable[[Any], JSON]]:
    where = f"{name}, return value"
    typed = Typed.of(spelled(returns), where, output=True)
    is_model = is_pydantic(returns)

    def structured(value: Any) -> JSON:
        if is_model and isinstance(value, Mapping):
            value = returns.model_validate(value)
        wire = _plain(value)
        faults = typed.faults(wire)
        if faults:
            raise ResultInvalid(name, faults)
        return wire

    return published(typed, where), structured


#: Return annotations that a schema would say nothing about, or that are shown as they are.
_PLAIN = (EMPTY, None, NoneType, Any, object, str, bytes, bytearray, dict, list, tuple, set, Never, NoReturn)


def _is_plain(returns: Any) -> bool:
    """Whether what is returned becomes content (text, blocks, a whole result) and not structured content."""
    if any(returns is plain for plain in _PLAIN) or _holds_record(returns):
        return True
    origin, args = get_origin(returns), get_args(returns)
    if origin is Annotated:
        return _is_plain(args[0])
    if origin in (Union, UnionType):
        return any(_is_plain(member) for member in args if member is not NoneType)
    return origin in (list, tuple, Sequence) and set(args) <= {Any, Ellipsis}


def _holds_record(tp: Any) -> bool:
    """Whether `tp` is, or is made of, the content and results of `mcp_sansio.types`."""
    return getattr(tp, "__module__", None) == records.__name__ or any(_holds_record(arg) for arg in get_args(tp))

"""Declarations: what is refused, and in which words; what changes while a server runs; and what is looked up."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from itertools import count
from typing import Any

import attrs
import pytest

from foreign import timed
from mcp_sansio import (
    Change,
    ChangeKind,
    CompletionRequest,
    DeclarationError,
    Exchange,
    Registry,
    ToolAnnotations,
)
from mcp_sansio.testing import Simulation


@attrs.define
class Database:
    """A dependency."""

    name: str = "db"


@attrs.define
class Cursor:
    """A dependency of a dependency."""

    database: Database


def nothing() -> str:
    return "x"


def taken(registry: Registry) -> None:
    registry.tool(name="t")(nothing)
    registry.prompt(name="p")(nothing)
    registry.resource("a:b")(nothing)
    registry.resource("a:{x}")(lambda_of("x"))
    registry.completion(prompt="p")(complete)
    registry.completion(complete)
    registry.provide(Database, Database())


def lambda_of(name: str) -> Callable[..., Any]:
    namespace: dict[str, Any] = {}
    exec(f"def f({name}: str) -> str: return {name}", namespace)
    return namespace["f"]  # type: ignore[no-any-return]


def complete(request: CompletionRequest) -> list[str]:
    return []


def two(request: CompletionRequest, other: int) -> list[str]:
    return []


def needs_cursor(cursor: Cursor) -> Database:
    return cursor.database


def bare(thing) -> Database:  # type: ignore[no-untyped-def]
    return Database()


def missing(x: Missing) -> Database:  # type: ignore[name-defined]  # noqa: F821
    return Database()


def reserved(mcpState: str) -> str:
    return mcpState


REFUSED: list[tuple[Callable[[Registry], Any], str]] = [
    (
        lambda registry: registry.tool(name="t")(nothing),
        "there is a tool named 't' already; give this one another name=",
    ),
    (
        lambda registry: registry.prompt(name="p")(nothing),
        "there is a prompt named 'p' already; give this one another name=",
    ),
    (lambda registry: registry.resource("a:b")(nothing), "there is a resource at 'a:b' already"),
    (lambda registry: registry.resource("a:{x}")(lambda_of("x")), "there is a resource at 'a:{x}' already"),
    (lambda registry: registry.completion(prompt="p")(complete), "there is a completion for 'p' already"),
    (lambda registry: registry.completion(complete), "there is a completion for 'everything' already"),
    (
        lambda registry: registry.completion(prompt="p", resource="a:b")(complete),
        "a completion is for a prompt or for a resource, not for both",
    ),
    (
        lambda registry: registry.completion(prompt="q")(two),
        "completion 'two' must take one CompletionRequest, and may take an Exchange",
    ),
    (
        lambda registry: registry.completion(prompt="q")(nothing),
        "completion 'nothing' must take one CompletionRequest, and may take an Exchange",
    ),
    (lambda registry: registry.provide(Database, Database()), "'Database' is provided already"),
    (lambda registry: registry.provide(Exchange, nothing), "'Exchange' is provided already"),
    (
        lambda registry: registry.provide(int, needs_cursor),
        "what provides 'int' takes a parameter 'cursor' that nothing provides; provide that first",
    ),
    (
        lambda registry: registry.provide(int, bare),
        "what provides 'int' takes a parameter 'thing' that nothing provides; provide that first",
    ),
    (
        lambda registry: registry.provide(int, missing),
        "missing: the annotation 'Missing' cannot be resolved; define it at module level",
    ),
    (
        lambda registry: registry.tool(reserved),
        "tool 'reserved': the argument 'mcpState' is reserved for asking; rename it",
    ),
    (
        lambda registry: registry.resource("b:{x}")(nothing),
        "resource 'b:{x}': the function takes no parameter for {x}",
    ),
    (
        lambda registry: registry.resource("b:{x}")(lambda_of("y")),
        "resource 'b:{x}': the parameter 'y' is no variable of its URI",
    ),
    (
        lambda registry: registry.resource("b:c")(lambda_of("y")),
        "resource 'b:c': the parameter 'y' is no variable of its URI",
    ),
    (lambda registry: registry.resource("b:{x}/{x}"), "the URI template 'b:{x}/{x}' uses {x} twice"),
    (
        lambda registry: registry.resource("b:{x*}"),
        "the URI template 'b:{x*}' may only use {name} (one segment) and {+name} (a path)",
    ),
    (lambda registry: Registry("s", "1", page_size=0), "page_size must be at least 1, not 0"),
]


@pytest.mark.parametrize(("declare", "text"), REFUSED)
def test_what_is_refused(declare: Callable[[Registry], Any], text: str) -> None:
    registry = Registry("s", "1")
    taken(registry)
    with pytest.raises(DeclarationError) as caught:
        declare(registry)
    assert str(caught.value) == text
    # Nothing came of it.
    assert (list(registry.tools), list(registry.prompts)) == (["t"], ["p"])
    assert (list(registry.resources), list(registry.templates)) == (["a:b"], ["a:{x}"])
    assert (len(registry.completions), list(registry.providers)) == (2, [Database])


SCHEMAS: list[tuple[Any, str]] = [
    ({"type": "string"}, 'the root of an input schema must have "type": "object"'),
    ({}, 'the root of an input schema must have "type": "object"'),
    ({"type": "int"}, 'the root of an input schema must have "type": "object"'),
]


@pytest.mark.parametrize(("schema", "text"), SCHEMAS)
def test_schemas_that_are_refused(schema: Any, text: str) -> None:
    registry = Registry("s", "1")

    def take(arguments: dict) -> str:  # type: ignore[type-arg]
        return "x"

    with pytest.raises(DeclarationError) as caught:
        registry.tool(input_schema=schema)(take)
    assert text in str(caught.value)
    assert str(caught.value).startswith("take: ")
    assert registry.tools == {}


HEADERS = ["", "A B", "Ok\r\nX: y", "ż"]


@pytest.mark.parametrize("header", HEADERS)
def test_headers_that_are_refused(header: str) -> None:
    pytest.importorskip("jsonschema")
    registry = Registry("s", "1")
    schema = {"type": "object", "properties": {"a": {"type": "string", "x-mcp-header": header}}}

    def take(arguments: dict) -> str:  # type: ignore[type-arg]
        return "x"

    with pytest.raises(DeclarationError, match="x-mcp-header"):
        registry.tool(input_schema=schema)(take)
    assert registry.tools == {}


def test_decorators_give_the_function_back() -> None:
    registry = Registry("s", "1")
    assert registry.tool(nothing) is nothing
    assert registry.tool(name="other")(nothing) is nothing
    assert registry.prompt(nothing) is nothing
    assert registry.resource("a:b")(nothing) is nothing
    assert registry.completion(complete) is complete
    assert list(registry.tools) == ["nothing", "other"]


def test_what_is_kept_of_a_tool() -> None:
    registry = Registry("s", "1")
    annotations = ToolAnnotations(read_only_hint=True)

    @registry.tool(
        title="T", annotations=annotations, meta={"a/b": 1}, streaming=True, poll_after=1.5, since="2025-06-18"
    )
    async def given() -> str:
        """What it does."""
        return "x"

    spec = registry.tools["given"]
    shown = (spec.name, spec.title, spec.description, spec.annotations, spec.meta)
    assert shown == ("given", "T", "What it does.", annotations, {"a/b": 1})
    assert (spec.streaming, spec.poll_after, spec.since, spec.serial) == (True, 1.5, "2025-06-18", 1)


# Changing while serving -----------------------------------------------------------------------------------------------


class Watcher:
    """Collects changes."""

    def __init__(self) -> None:
        self.seen: list[Change] = []

    def changed(self, change: Change) -> None:
        self.seen.append(change)


def test_changes_are_announced() -> None:
    registry, watcher = Registry("s", "1"), Watcher()
    registry.watch(watcher.changed)
    taken(registry)
    tools, prompts, resources = (Change(ChangeKind(kind)) for kind in ("tools", "prompts", "resources"))
    assert watcher.seen == [tools, prompts, resources, resources]
    watcher.seen.clear()
    registry.remove_tool("t")
    registry.remove_prompt("p")
    registry.remove_resource("a:b")
    registry.remove_resource("a:{x}")
    registry.resource_updated("z:z")
    updated = Change(ChangeKind.RESOURCE_UPDATED, "z:z")
    assert watcher.seen == [tools, prompts, resources, resources, updated]


@pytest.mark.parametrize("remove", ["remove_tool", "remove_prompt", "remove_resource"])
def test_removing_what_is_not_there(remove: str) -> None:
    registry, watcher = Registry("s", "1"), Watcher()
    registry.watch(watcher.changed)
    with pytest.raises(KeyError, match=r"^'none'$"):
        getattr(registry, remove)("none")
    assert watcher.seen == []


def test_a_watcher_is_not_kept_alive() -> None:
    registry, watcher = Registry("s", "1"), Watcher()
    registry.watch(watcher.changed)
    seen = watcher.seen
    del watcher
    registry.tool(nothing)
    assert seen == []


def declared_while(registry: Registry, at: int, change: Callable[[], object]) -> bool:
    """Announce a change, and have `change` happen at the instruction number `at` of that, as in another thread.

    False where it ends before that.
    """
    instructions = iter(range(at + 1))

    def trace(frame: Any, event: str, _: Any) -> Any:
        if "mcp_sansio" not in frame.f_code.co_filename:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode" and next(instructions, None) == at:
            sys.settrace(None)
            change()
        return trace

    tracing = sys.gettrace()
    sys.settrace(trace)
    try:
        registry.resource_updated("a:a")
    finally:
        sys.settrace(tracing)
    return next(instructions, None) is None


def test_whoever_watches_from_any_moment_on_hears_of_the_next_change() -> None:
    for at in count():
        registry, early, late, gone = Registry("s", "1"), Watcher(), Watcher(), Watcher()
        for watcher in (early, gone):
            registry.watch(watcher.changed)
        del watcher, gone
        if not declared_while(registry, at, partial(registry.watch, late.changed)):
            break
        registry.resource_updated("b:b")
        updated = [Change(ChangeKind.RESOURCE_UPDATED, uri) for uri in ("a:a", "b:b")]
        assert early.seen == updated
        assert late.seen in (updated, updated[1:]), at
    assert at > 20, "there are so many moments at least"


def test_what_is_rendered_is_kept_until_a_declaration_changes() -> None:
    registry, made = Registry("s", "1"), []

    def render() -> int:
        made.append(1)
        return len(made)

    assert [registry.rendered("k", render), registry.rendered("k", render), registry.rendered("l", render)] == [1, 1, 2]
    registry.resource_updated("a:b")
    assert registry.rendered("k", render) == 1
    registry.tool(nothing)
    assert registry.rendered("k", render) == 3
    registry.remove_tool("nothing")
    assert registry.rendered("k", render) == 4


def test_what_is_rendered_is_kept_within_bounds() -> None:
    registry, made = Registry("s", "1"), []
    for key in [*range(300), 299, 0]:
        registry.rendered(key, lambda key=key: made.append(key) or "x")
    assert made == [*range(300), 0]


# Looking up -----------------------------------------------------------------------------------------------------------


def test_which_resource_a_uri_belongs_to() -> None:
    registry = Registry("s", "1")
    registry.resource("a:{x}")(lambda_of("x"))
    registry.resource("a:b")(nothing)
    registry.resource("a:{+y}")(lambda_of("y"))

    def found(uri: str) -> Any:
        match = registry.match_resource(uri)
        return None if match is None else (match[0].uri, match[1])

    assert found("a:b") == ("a:b", {})
    assert found("a:c") == ("a:{x}", {"x": "c"})
    assert found("a:c/d") == ("a:{+y}", {"y": "c/d"})
    assert found("A:b") is None
    # A template's own text is no URI of it.
    assert found("a:{x}") == ("a:{x}", {"x": "{x}"})


def test_which_completion_is_meant() -> None:
    registry = Registry("s", "1")
    keys = [
        {"prompt": "p", "argument": "a"},
        {"prompt": "p"},
        {"resource": "r:{x}", "argument": "a"},
        {"resource": "r:{x}"},
        {"argument": "a"},
        {},
    ]
    made = {}
    for number, key in enumerate(keys):

        def fn(request: CompletionRequest) -> list[str]:
            return []

        registry.completion(**key)(fn)  # type: ignore[call-overload]
        made[fn] = number

    def found(argument: str, prompt: str | None = None, resource: str | None = None) -> int:
        spec = registry.match_completion(CompletionRequest(argument, "", prompt, resource))
        assert spec is not None
        return made[spec.handler]

    assert [found("a", "p"), found("b", "p"), found("a", None, "r:{x}"), found("b", None, "r:{x}")] == [0, 1, 2, 3]
    assert [found("a", "q"), found("b", "q")] == [4, 5]
    assert Registry("s", "1").match_completion(CompletionRequest("a", "", "p")) is None


# Dependencies ---------------------------------------------------------------------------------------------------------


def call(registry: Registry, name: str = "use") -> str:
    channel = Simulation(registry).channel()
    version = channel.engine.adapters.versions[-1]
    params = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
    channel.send({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})
    request = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "arguments": {}}}
    [answered] = channel.send(request)
    return answered["result"]["content"][0]["text"]  # type: ignore[no-any-return]


def test_dependencies_are_made_once_for_a_call_and_closed_in_reverse() -> None:
    registry, log = Registry("s", "1"), []

    def database() -> Iterator[Database]:
        log.append("open database")
        yield Database("one")
        log.append("close database")

    async def cursor(database: Database, ex: Exchange, extra: int = 5) -> AsyncIterator[Cursor]:
        log.append(f"open cursor {type(ex).__name__} {extra}")
        yield Cursor(database)
        log.append("close cursor")

    registry.provide(Database, database)
    registry.provide(Cursor, cursor)

    @registry.tool
    async def use(database: Database, cursor: Cursor) -> str:
        """Use."""
        log.append("use")
        return f"{database.name} {cursor.database is database}"

    assert registry.tools["use"].input_schema.get("properties", {}) == {}
    assert call(registry) == "one True"
    steps = ["open database", "open cursor Exchange 5", "use", "close cursor", "close database"]
    assert log == steps
    assert call(registry) == "one True"
    assert log == steps * 2


def test_a_handlers_fault_is_seen_by_what_it_used(caplog: pytest.LogCaptureFixture) -> None:
    registry, log = Registry("s", "1"), []

    def database() -> Iterator[Database]:
        try:
            yield Database()
        finally:
            log.append("closed")

    registry.provide(Database, database)

    @registry.tool
    async def use(database: Database) -> str:
        """Use."""
        raise RuntimeError("secret")

    assert call(registry) == "The tool failed because of an internal error."
    assert log == ["closed"]
    assert "secret" in caplog.text


def test_values_classes_and_plain_functions_provide() -> None:
    registry = Registry("s", "1")
    registry.provide(Database, Database("given"))
    registry.provide(Cursor, Cursor)
    registry.provide(bytes, lambda: b"made")

    async def later(cursor: Cursor) -> complex:
        return 1j

    registry.provide(complex, later)

    @registry.tool
    async def use(database: Database, cursor: Cursor, made: bytes, number: complex) -> str:
        """Use."""
        return f"{database.name} {cursor.database is database} {made!r} {number}"

    assert call(registry) == "given True b'made' 1j"


def test_what_a_decorator_makes_of_it_provides() -> None:
    """Most decorators are a plain ``def``, whatever they decorate."""
    registry, closed = Registry("s", "1"), []

    async def later() -> complex:
        return 1j

    def opened() -> Iterator[bytes]:
        yield b"opened"
        closed.append("plain")

    async def opened_later() -> AsyncIterator[float]:
        yield 0.5
        closed.append("async")

    registry.provide(complex, timed(later))
    registry.provide(Database, lambda: renamed())
    registry.provide(bytes, timed(opened))
    registry.provide(float, timed(opened_later))

    async def renamed() -> Database:
        return Database("renamed")

    @registry.tool
    async def use(number: complex, database: Database, made: bytes, half: float) -> str:
        """Use."""
        return f"{number} {database.name} {made!r} {half}"

    assert call(registry) == "1j renamed b'opened' 0.5"
    assert closed == ["async", "plain"]


# What is no declaration at all ----------------------------------------------------------------------------------------

HABITS: list[tuple[Callable[[Registry], Any], str]] = [
    (
        lambda registry: registry.tool("my_tool"),  # type: ignore[type-var]
        "registry.tool: options are given by name, as in registry.tool(name='my_tool')",
    ),
    (lambda registry: registry.tool(5), "registry.tool decorates a function, not 5"),  # type: ignore[type-var]
    (
        lambda registry: registry.resource(lambda: "x"),  # type: ignore[arg-type]
        "registry.resource needs the URI first, as in registry.resource('note://today')",
    ),
    (
        lambda registry: registry.prompt(nam="x"),  # type: ignore[call-overload]
        "registry.prompt: there is no option 'nam'; there are blocking, description, icons, meta, name, since, title",
    ),
    (lambda registry: registry.tool(title=5), "registry.tool: title must be a string, not 5"),  # type: ignore[arg-type]
    (
        lambda registry: registry.tool(icons=["https://x/y.png"]),  # type: ignore[list-item]
        "registry.tool: icons must be a list of Icon, as in [Icon(src=...)]",
    ),
    (
        lambda registry: registry.tool(annotations={"readOnlyHint": True}),  # type: ignore[arg-type]
        "registry.tool: annotations must be ToolAnnotations of a tool, or Annotations of a resource",
    ),
    (
        lambda registry: registry.resource("x:y", meta="x"),  # type: ignore[arg-type]
        "resource 'x:y': meta must be a mapping, not 'x'",
    ),
    (
        lambda registry: registry.tool(since="2025-6-18"),
        "registry.tool: since must be a revision's date, written as YYYY-MM-DD, not '2025-6-18'",
    ),
]


@pytest.mark.parametrize(("declare_wrongly", "text"), HABITS)
def test_habits_from_elsewhere_are_answered_with_the_way_here(
    declare_wrongly: Callable[[Registry], Any], text: str
) -> None:
    with pytest.raises(DeclarationError) as refused:
        declare_wrongly(Registry("s", "1"))
    assert str(refused.value) == text


def test_a_completion_takes_a_request() -> None:
    def complete(value: str) -> list[str]:
        return [value]

    with pytest.raises(DeclarationError) as refused:
        Registry("s", "1").completion(complete)
    assert str(refused.value) == "completion 'complete' must take one CompletionRequest, and may take an Exchange"


def test_what_was_rendered_of_an_older_state_is_not_kept() -> None:
    """A handler's thread may declare something in the very moment in which a list is rendered."""
    registry = Registry("s", "1")

    def render() -> int:
        before = len(registry.resources)
        registry.resource(f"x:{before}")(lambda: "x")
        return before

    assert [registry.rendered("key", render) for _ in range(3)] == [0, 1, 2]

"""The command that shows what a server is, joined to a server in memory: what it prints, asks and returns."""

from __future__ import annotations

import asyncio
import io
import json
import logging
from collections.abc import Coroutine, Iterator
from typing import Annotated, Any, Literal

import attrs
import pytest

import speak
from mcp_sansio import (
    CallTimeout,
    CallToolResult,
    ConnectionLost,
    Exchange,
    ImageContent,
    Registry,
    ResourceLink,
    ToolError,
    elicit,
    list_roots,
    sample,
)
from mcp_sansio.inspecting import Command, Terminal
from mcp_sansio.inspecting.describing import printable, words_of
from mcp_sansio.inspecting.questions import answering
from mcp_sansio.inspecting.words import WordFault, arguments_of, doubt_of, resolved
from mcp_sansio.testing import connect

NEWEST = speak.VERSIONS[0]
FORM = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 2, "title": "Your name"},
        "loaves": {"type": "integer", "maximum": 9, "default": 1, "description": "how many"},
        "sort": {"type": "string", "enum": ["rye", "spelt"]},
    },
    "required": ["name", "loaves"],
}


@attrs.define
class Order:
    """What is ordered."""

    loaves: int
    sort: Literal["rye", "spelt"] = "rye"


def bakery() -> Registry:
    """A server with one of everything."""
    registry = Registry("bakery", "1.0", title="The bakery", instructions="Be polite.\nAnd brief.")

    @registry.tool(title="Price of bread")
    async def price(order: Order, note: Annotated[str, "for the baker"] = "") -> str:
        """What it costs.

        In euros.
        """
        return f"{order.loaves} {order.sort}: {order.loaves * 3} euros{note}"

    @registry.tool
    async def fail() -> str:
        raise ToolError("no \x1b[31mbread\x1b[0m")

    @registry.tool
    async def everything(ex: Exchange) -> CallToolResult:
        await ex.progress(1, 2, "half")
        await ex.log("warning", {"oven": "hot"})
        picture = ImageContent(b"1234567", "image/png")
        return CallToolResult([picture, ResourceLink("menu:today", "menu", title="Today's")])

    @registry.tool
    async def ask(kind: str, ex: Exchange) -> str:
        questions = {
            "form": elicit("Who are you?", FORM),
            "agree": elicit("Sure?"),
            "url": elicit("Pay, please.", url="https://pay.example/1"),
            "model": sample("Say hello", max_tokens=10, system_prompt="Be short."),
            "roots": list_roots(),
        }
        answer = await ex.ask("q", questions[kind])
        return json.dumps([answer.action])

    @registry.resource("menu:today", mime_type="text/plain", description="What there is.")
    async def menu() -> str:
        return "rye\nspelt"

    @registry.resource("loaf:{number}")
    async def loaf(number: str) -> bytes:
        return b"1234"

    @registry.prompt(description="Asks for bread.")
    async def greet(name: str, tone: str = "kind") -> str:
        return f"Greet {name}, {tone}."

    return registry


class Run:
    """One run of the command: its status, and what it wrote."""

    def __init__(self, *words: str, typed: str = "", revision: str | None = NEWEST, registry: Any = None) -> None:
        self.output, self.errors = io.StringIO(), io.StringIO()
        self.registry = registry or bakery()
        terminal = Terminal(io.StringIO(typed), self.output, self.errors)
        command = Command("command", "SERVER", self.make, most=1)
        if revision is not None:
            words = ("--revision", revision, *words)
        self.status = command.main(words, self.run, terminal)

    def make(self, words: list[str], options: Any, adapters: Any, **more: Any) -> Any:
        assert words == ["server"]
        return connect(self.registry, options.revision, **more)

    @staticmethod
    def run(work: Coroutine[Any, Any, int]) -> int:
        return asyncio.run(work)

    @property
    def lines(self) -> list[str]:
        return self.output.getvalue().splitlines()


@pytest.mark.parametrize("revision", speak.VERSIONS)
class TestEveryRevision:
    def test_is_described(self, revision: str) -> None:
        run = Run("server", revision=revision)
        text = run.output.getvalue()
        assert (run.status, run.errors.getvalue()) == (0, "")
        assert f"  revision      {revision}\n" in text
        for line in (
            "Be polite.",
            "      What it costs.",
            "      - order (object): What is ordered.",
            '      - note (string, default "", optional): for the baker',
            "  menu:today (text/plain) — menu",
            "      What there is.",
            "  loaf:{number} — loaf",
            "      Asks for bread.",
            "      - name",
            "      - tone (optional)",
        ):
            assert line in run.lines
        titles = [line for line in run.lines if line.startswith(("Tools", "Resource", "Prompts"))]
        assert titles == ["Tools", "Resources", "Resource templates", "Prompts"]

    def test_is_described_for_programs(self, revision: str) -> None:
        (line,) = Run("--json", "server", revision=revision).lines
        shown = json.loads(line)
        assert (shown["server"]["name"], shown["server"]["revision"]) == ("bakery", revision)
        assert [tool["name"] for tool in shown["tools"]] == ["price", "fail", "everything", "ask"]
        assert [resource["uri"] for resource in shown["resources"]] == ["menu:today"]
        assert [template["uriTemplate"] for template in shown["resourceTemplates"]] == ["loaf:{number}"]
        assert [argument["name"] for argument in shown["prompts"][0]["arguments"]] == ["name", "tone"]

    def test_its_questions_are_put(self, revision: str) -> None:
        run = Run("server", "--call", "ask", "kind=agree", typed="maybe\ny\n", revision=revision)
        assert (run.status, run.lines) == (0, ['["accept"]'])
        assert run.errors.getvalue().startswith("\nThe server asks: Sure?\n[y]es, [n]o, or [c]ancel? [y]es,")


class TestACall:
    def test_of_a_tool(self) -> None:
        run = Run("server", "--call", "price", 'order={"loaves": 2}', "note= = 6!")
        assert (run.status, run.lines, run.errors.getvalue()) == (0, ["2 rye: 6 euros = 6!"], "")

    def test_with_an_object_of_arguments(self) -> None:
        assert Run("server", "--call", "price", '{"order": {"loaves": 1, "sort": "spelt"}}').lines == [
            "1 spelt: 3 euros"
        ]

    def test_for_programs(self) -> None:
        (line,) = Run("--json", "server", "--call", "price", 'order={"loaves": 2}').lines
        assert json.loads(line)["content"] == [{"type": "text", "text": "2 rye: 6 euros"}]

    def test_that_fails(self) -> None:
        """And nothing that it says moves a cursor."""
        run = Run("server", "--call", "fail")
        assert (run.status, run.lines) == (1, [r"no \x1b[31mbread\x1b[0m"])

    def test_of_what_is_no_tool(self) -> None:
        run = Run("server", "--call", "nothing", "a=1")
        assert (run.status, run.lines) == (1, [])
        assert run.errors.getvalue().startswith("error: there is no tool named 'nothing'")

    def test_of_what_is_no_tool_for_programs(self) -> None:
        run = Run("--json", "server", "--call", "nothing")
        error = json.loads(run.output.getvalue())["error"]
        assert (run.status, error["kind"], error["code"]) == (1, "ServerError", -32602)

    def test_with_what_is_no_argument(self) -> None:
        run = Run("server", "--call", "price", "order=two")
        assert (run.status, run.lines) == (2, [])
        assert run.errors.getvalue() == "error: order=two: 'order' must be object, written as JSON\n"

    @pytest.mark.parametrize("words", [["nota=5"], ['{"nota": 5}']])
    def test_with_an_argument_that_there_is_not(self, words: list[str]) -> None:
        run = Run("server", "--call", "price", *words)
        named, refused = run.errors.getvalue().splitlines() + run.lines
        assert (run.status, named) == (1, "price: there is no argument 'nota'; there are order, note")
        assert "order" in refused

    def test_with_an_argument_beside_the_others_that_there_is_not(self) -> None:
        run = Run("server", "--call", "price", 'order={"loaves": 2}', "nota=5")
        assert (run.status, run.lines) == (0, ["2 rye: 6 euros"])
        assert run.errors.getvalue() == "price: there is no argument 'nota'; there are order, note\n"

    def test_with_an_argument_where_there_is_none(self) -> None:
        assert Run("server", "--call", "fail", "a=1").errors.getvalue() == "fail: it has no arguments\n"

    def test_that_reports_and_gives_more_than_text(self) -> None:
        run = Run("server", "--call", "everything")
        assert run.lines == ["[image image/png, 7 bytes]", "[menu:today] Today's"]
        assert run.errors.getvalue() == "… 1 of 2: half\n"

    def test_of_a_prompt(self) -> None:
        run = Run("server", "--prompt", "greet", "name=1")
        assert (run.status, run.lines) == (0, ["user:", "  Greet 1, kind."])

    @pytest.mark.parametrize("words", [["name=1", "tune=loud"], ['{"name": "1", "tune": "loud"}']])
    def test_of_a_prompt_with_an_argument_that_there_is_not(self, words: list[str]) -> None:
        run = Run("server", "--prompt", "greet", *words)
        assert (run.status, run.lines) == (0, ["user:", "  Greet 1, kind."])
        assert run.errors.getvalue() == "greet: there is no argument 'tune'; there are name, tone\n"

    def test_of_a_prompt_with_an_argument_where_there_is_none(self) -> None:
        registry = Registry("bakery", "1.0")
        registry.prompt(name="hello")(lambda: "Say hello.")
        run = Run("server", "--prompt", "hello", "name=1", registry=registry)
        assert (run.status, run.lines) == (0, ["user:", "  Say hello."])
        assert run.errors.getvalue() == "hello: it has no arguments\n"

    def test_of_what_is_no_prompt(self) -> None:
        run = Run("server", "--prompt", "nothing", "a=1")
        assert (run.status, run.lines) == (1, [])
        assert "nothing" in run.errors.getvalue()

    def test_of_a_resource(self) -> None:
        assert Run("server", "--read", "menu:today").lines == ["rye", "spelt"]
        assert Run("server", "--read", "loaf:1").lines == ["[binary, 4 bytes]"]
        assert Run("server", "--read", "no:such").status == 1

    @pytest.mark.parametrize("word", ["soon", "-1", "0", "nan", "inf"])
    def test_within_what_is_no_time(self, word: str, capsys: pytest.CaptureFixture[str]) -> None:
        with pytest.raises(SystemExit):
            Run("server", f"--timeout={word}")
        assert f"argument --timeout: invalid seconds value: '{word}'" in capsys.readouterr().err


class TestTheCommandLine:
    @pytest.mark.parametrize(
        ("words", "message"),
        [
            ((), "what server? Write SERVER"),
            (("a", "b"), "'b' is one word too many: the server is 'a'"),
            (("--revision", "1999-01-01", "server"), "'1999-01-01' is not among the revisions"),
            (("server", "--call", "a", "--read", "b"), "not allowed with argument"),
            (("server", "--nothing"), "unrecognized arguments"),
        ],
    )
    def test_that_is_wrong(self, words: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]) -> None:
        with pytest.raises(SystemExit) as raised:
            Run(*words, revision=None)
        assert (raised.value.code, message in capsys.readouterr().err) == (2, True)

    def test_words_after_two_dashes_are_the_servers(self) -> None:
        seen: list[Any] = []

        def make(words: list[str], options: Any, adapters: Any, **more: Any) -> Any:
            seen.append((words, options.call))
            return connect(bakery(), **more)

        terminal = Terminal(io.StringIO(), io.StringIO(), io.StringIO())
        words = ["--call", "fail", "--", "serve", "--json", "--", "-v"]
        assert Command("command", "SERVER", make).main(words, asyncio.run, terminal) == 1
        assert seen == [(["serve", "--json", "--", "-v"], ["fail"])]


@pytest.mark.parametrize(
    ("error", "status"), [(ConnectionLost("gone"), 3), (CallTimeout("late"), 3), (KeyboardInterrupt(), 130)], ids=repr
)
def test_a_server_that_cannot_be_talked_to(error: BaseException, status: int) -> None:
    def make(*given: Any, **more: Any) -> Any:
        raise error

    output, errors = io.StringIO(), io.StringIO()
    command = Command("command", "SERVER", make)
    assert command.main(["server"], asyncio.run, Terminal(io.StringIO(), output, errors)) == status
    assert errors.getvalue() == (f"error: {error}\n" if status == 3 else "")


@pytest.fixture
def loggers_as_before() -> Iterator[None]:
    """What -v does to the loggers is for a process of its own."""
    kept = [logging.getLogger(name) for name in ("mcp_sansio.wire", "mcp_sansio.client")]
    before = [(logger, logger.level, logger.propagate, logger.handlers[:]) for logger in kept]
    yield
    for logger, logger.level, logger.propagate, logger.handlers in before:
        logging.getLogger(logger.name).setLevel(logger.level)


@pytest.mark.parametrize("over", ["channel", "http"])
def test_the_wire_is_shown(loggers_as_before: None, over: Any) -> None:
    def make(words: Any, options: Any, adapters: Any, **more: Any) -> Any:
        return connect(bakery(), NEWEST, over=over, headers={"Authorization": "Bearer secret"}, **more)

    errors = io.StringIO()
    words = ["-v", "server", "--read", "menu:today"]
    assert (
        Command("command", "SERVER", make).main(words, asyncio.run, Terminal(io.StringIO(), io.StringIO(), errors)) == 0
    )
    shown = errors.getvalue()
    assert '> {"jsonrpc":"2.0","id":' in shown
    assert '< {"jsonrpc":"2.0","id":' in shown
    assert '"method":"resources/read"' in shown
    assert "secret" not in shown
    if over == "http":
        assert "\n> Authorization: …\n" in shown
        assert "< 200\n< Content-Type: application/json\n" in shown


def put(question: Any, *typed: str | None) -> Any:
    """What a person is shown, and the reply that comes of their lines."""
    dialogue = answering(question)
    shown = [next(dialogue)]
    try:
        for line in typed:
            shown.append(dialogue.send(line))
    except StopIteration as end:
        return shown, end.value
    return shown, None


class TestQuestions:
    def test_a_form_is_filled_in_field_by_field(self) -> None:
        shown, reply = put(elicit("Who are you?", FORM), "y", "", "x", "Max", "ten", "10", "", "oats", "rye")
        assert reply == {"action": "accept", "content": {"name": "Max", "loaves": 1, "sort": "rye"}}
        assert shown == [
            "\nThe server asks: Who are you?\nIt wants name, loaves, sort. Answer? [y]es, [n]o, or [c]ancel? ",
            "Your name (string, minLength 2): ",
            "  it is needed. Again: ",
            "  name must be within minLength and maxLength. Again: ",
            "loaves: how many (integer, maximum 9, default 1): ",
            "  loaves=ten: 'loaves' must be integer, written as JSON. Again: ",
            "  loaves must be within minimum and maximum. Again: ",
            'sort ("rye"|"spelt", may be left empty): ',
            "  sort must be one of the choices. Again: ",
        ]

    def test_what_may_be_left_empty_is_left_out(self) -> None:
        _, reply = put(elicit("Who are you?", FORM), "yes", "Max", "2", "")
        assert reply == {"action": "accept", "content": {"name": "Max", "loaves": 2}}

    @pytest.mark.parametrize(
        ("typed", "action"), [("n", "decline"), ("No", "decline"), ("c", "cancel"), (None, "cancel")], ids=repr
    )
    def test_none_has_to_be_answered(self, typed: str | None, action: str) -> None:
        for question in (elicit("Sure?"), elicit("Who?", FORM), elicit("Pay.", url="https://pay.example")):
            assert put(question, typed)[1] == {"action": action}

    def test_the_end_of_the_input_cancels_a_form_that_was_begun(self) -> None:
        assert put(elicit("Who?", FORM), "y", "Max", None)[1] == {"action": "cancel"}

    def test_an_address_is_shown_and_not_opened(self) -> None:
        shown, reply = put(elicit("Pay.", url="https://pay.example/\x1b[2J"), "y")
        assert reply["action"] == "accept"
        assert r"visit https://pay.example/\x1b[2J" in shown[0]

    def test_a_person_may_be_the_model(self) -> None:
        shown, reply = put(sample("Say hello", max_tokens=10, system_prompt="Be short."), "hello")
        assert shown == [
            "\nThe server asks your model for a message. Be short.\n  user: Say hello\nYour answer, in one line: "
        ]
        assert (reply["role"], reply["content"]) == ("assistant", {"type": "text", "text": "hello"})
        with pytest.raises(ToolError):
            put(sample("Say hello", max_tokens=10), None)

    def test_folders(self) -> None:
        assert put(list_roots(), "file:///a", "file:///b", "")[1] == {
            "roots": [{"uri": "file:///a"}, {"uri": "file:///b"}]
        }
        assert put(list_roots(), None)[1] == {"roots": []}

    def test_of_a_kind_that_nobody_knows(self) -> None:
        with pytest.raises(ToolError, match="cannot be asked 'what/ever'"):
            put({"method": "what/ever", "params": {}}, "y")

    @pytest.mark.parametrize(
        "params", [{}, {"requestedSchema": 5}, {"requestedSchema": {"properties": {"a": 7}}}, {"url": 1}]
    )
    def test_that_are_odd_can_be_answered(self, params: Any) -> None:
        assert put({"method": "elicitation/create", "params": params}, "n")[1] == {"action": "decline"}
        assert put({"method": "elicitation/create", "params": params}, "y", "")[1] in (
            {"action": "accept", "content": {}},
            {"action": "accept"},
        )


SCHEMA = {
    "properties": {
        "text": {"type": "string"},
        "count": {"type": "integer"},
        "maybe": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "number": {"type": ["number", "null"]},
        "list": {"type": "array", "items": {"type": "string"}},
        "sort": {"enum": ["a", "b"]},
        "any": {},
    }
}


ROOT = {
    "$defs": {"a/b": {"type": "integer", "description": "far"}, "me": {"$ref": "#/$defs/me"}},
    "properties": {
        "near": {"$ref": "#/$defs/a~1b", "description": "near"},
        "me": {"$ref": "#/$defs/me"},
        "lost": {"$ref": "#/$defs/nowhere"},
        "away": {"$ref": "https://elsewhere.example/schema"},
    },
}


@pytest.mark.parametrize(
    ("name", "schema"),
    [("near", {"type": "integer", "description": "near"}), ("me", {}), ("lost", {}), ("away", {})],
)
def test_references_are_followed_within_the_schema(name: str, schema: Any) -> None:
    assert resolved(ROOT["properties"][name], ROOT) == schema


class TestWords:
    @pytest.mark.parametrize(
        ("word", "value"),
        [
            ("text=1", "1"),
            ("text=", ""),
            ("text=a=b", "a=b"),
            ("count=12345678901234567890", 12345678901234567890),
            ("maybe=null", "null"),
            ("number=null", None),
            ("number=1.5", 1.5),
            ('list=["a"]', ["a"]),
            ("sort=a", "a"),
            ("any=1", 1),
            ("any=one", "one"),
            ("unknown=true", True),
            ("unknown={", "{"),
        ],
    )
    def test_are_what_the_schema_says(self, word: str, value: Any) -> None:
        assert arguments_of([word], SCHEMA) == {word.partition("=")[0]: value}

    def test_come_together(self) -> None:
        assert arguments_of(['{"a": 1, "b": 2}', "b=3"], None) == {"a": 1, "b": 3}
        assert arguments_of([], None) == {}

    @pytest.mark.parametrize(
        ("word", "message"),
        [
            ("text", "'text' is no argument: write name=value, or a JSON object"),
            ("=1", "'=1' is no argument: write name=value, or a JSON object"),
            ("count=x", "count=x: 'count' must be integer, written as JSON"),
            ("number=x", "number=x: 'number' must be null or number, written as JSON"),
            ("{", "'{' is no JSON object: "),
        ],
    )
    def test_that_are_no_arguments(self, word: str, message: str) -> None:
        with pytest.raises(WordFault) as raised:
            arguments_of([word], SCHEMA)
        assert str(raised.value).startswith(message)


@pytest.mark.parametrize(
    "more",
    [{"additionalProperties": True}, {"additionalProperties": {"type": "string"}}, {"anyOf": [{}]}, {"properties": 5}],
)
def test_what_a_schema_may_have_is_not_doubted(more: Any) -> None:
    schema = {"type": "object", "properties": {"film": {}}}
    assert doubt_of({"fim": 1}, schema) == "there is no argument 'fim'; there are film"
    assert doubt_of({"film": 1}, schema) is None
    assert doubt_of({"fim": 1}, {**schema, **more}) is None
    assert doubt_of({"fim": 1}, None) is None


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({}, ""),
        (7, ""),
        ({"type": "integer", "minimum": 1}, "integer, minimum 1"),
        ({"type": ["string", "null"]}, "null|string"),
        ({"type": "array", "items": {"type": "string"}}, "array of string"),
        ({"enum": ["a", 1]}, '"a"|1'),
        ({"const": None}, "null"),
        ({"anyOf": [{"type": "string"}, {}]}, ""),
        ({"oneOf": [{"const": 1}, {"const": "a"}]}, "integer|string"),
    ],
)
def test_a_schema_in_a_few_words(schema: Any, words: str) -> None:
    assert words_of(schema) == words


def test_nothing_that_a_server_says_moves_a_cursor() -> None:
    assert printable("a\x1b[2J\x07\x9b\r\nb\tc\ud800é") == "a\\x1b[2J\\x07\\x9b\nb\tc\\ud800é"


def test_a_terminal_without_such_letters_shows_them_all_the_same() -> None:
    raw = io.BytesIO()
    output = io.TextIOWrapper(raw, "ascii")
    Terminal(io.StringIO(), output, output).show("é★")
    assert raw.getvalue() == b"\\u00e9\\u2605\n"

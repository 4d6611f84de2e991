"""The command itself: its options, and what it does with a client that a binding makes."""

from __future__ import annotations

import argparse
import json
import logging
import re
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from math import inf
from typing import Any, TextIO

from mcp_sansio.adapters.selection import AdapterSet
from mcp_sansio.child_process import without_last_words
from mcp_sansio.client.api import ClientApi
from mcp_sansio.client.config import ClientConfig
from mcp_sansio.errors import CallTimeout, ConnectionLost, McpError, NegotiationFailed, ServerError, ToolError
from mcp_sansio.outcome import InputRequest
from mcp_sansio.types import JSON, CallToolResult
from mcp_sansio.wire.json import encode

from .describing import (
    as_json,
    printable,
    prompt_lines,
    resource_lines,
    result_lines,
    section,
    server_lines,
    tool_lines,
)
from .questions import answering
from .words import arguments_of, doubt_of, pair_of

#: Exit statuses. Those of a wrong command line (2) and of an interruption (130) are everybody's.
DONE, FAILED, USAGE, UNREACHABLE, INTERRUPTED = 0, 1, 2, 3, 130

#: What it makes has the methods of `ClientApi`, to be awaited.
MakeClient = Callable[..., Any]
Run = Callable[[Coroutine[Any, Any, int]], int]


class Terminal:
    """Where a command reads and writes: text files, like ``sys.stdin``, ``sys.stdout`` and ``sys.stderr``."""

    def __init__(self, source: TextIO, output: TextIO, errors: TextIO) -> None:
        self._source = source
        self._output = output
        self._errors = errors

    def show(self, line: str) -> None:
        """Write a line of what was asked for."""
        _write(self._output, f"{line}\n")

    def warn(self, text: str, end: str = "\n") -> None:
        """Write what goes beside it."""
        _write(self._errors, f"{text}{end}")

    def ask(self, prompt: str) -> str | None:
        """Read a line after a prompt; ``None`` at the end of the input."""
        self.warn(prompt, end="")
        line = self._source.readline()
        return line.rstrip("\r\n") if line else None


def _write(file: TextIO, text: str) -> None:
    try:
        file.write(text)
    except UnicodeEncodeError:  # by what the terminal has for an encoding; JSON is still JSON
        file.write(re.sub(r"[^\x00-\x7f]", lambda match: json.dumps(match[0])[1:-1], text))
    file.flush()


def seconds(word: str) -> float:
    """A time on the command line. Raises ``ValueError``."""
    if not 0 < (given := float(word)) < inf:
        raise ValueError(f"{word} is no time that can pass")
    return given


def header_option(parser: argparse.ArgumentParser) -> None:
    """What can be said about requests: ``options.header`` is pairs of name and value."""
    parser.add_argument(
        *("-H", "--header"),
        action="append",
        default=[],
        type=lambda word: tuple(map(str.strip, pair_of(word, ":"))),
        metavar='"NAME: VALUE"',
        help="send a header with each request",
    )


def process_options(parser: argparse.ArgumentParser) -> None:
    """What can be said about a process: ``options.env`` is pairs of name and value, ``options.cwd`` a folder."""
    parser.add_argument(
        "--env",
        action="append",
        default=[],
        type=lambda word: pair_of(word, "="),
        metavar="NAME=VALUE",
        help="add to the server's environment",
    )
    parser.add_argument("--cwd", metavar="FOLDER", help="the server's working directory")


def either_options(parser: argparse.ArgumentParser) -> None:
    """Both of these, for who takes a URL or the words of a command."""
    header_option(parser)
    process_options(parser)


def either_client(
    at_url: Callable[..., Any], of_process: Callable[..., Any], on_stderr: Callable[[str], object]
) -> Callable[..., Any]:
    """What makes the client of the server at the URL on a command line, or of the one that its words start.

    `at_url` is given the URL, `of_process` the command and its arguments, and `on_stderr`, for what the server writes.
    """

    def make(words: list[str], options: Any, adapters: Any, **more: Any) -> Any:
        if not words[0].startswith(("http://", "https://")):
            more |= {"env": dict(options.env), "cwd": options.cwd, "on_stderr": on_stderr}
            return of_process(words[0], words[1:], adapters, **more)
        if len(words) > 1:
            raise ValueError(f"{words[1]!r} is one word too many: the server is {words[0]!r}")
        return at_url(words[0], adapters, headers=dict(options.header), **more)

    return make


class Command:
    """A command that shows what a server is, or has it do one thing.

    `name` is how it is run, `words` how its help calls the words that say what server, of which there are `most` at
    most. `add_options` adds the options of the binding. ``make(words, options, adapters, **client_options)`` makes the
    client, which is used as a context manager.
    """

    def __init__(
        self,
        name: str,
        words: str,
        make: MakeClient,
        *,
        most: int | None = None,
        add_options: Callable[[argparse.ArgumentParser], object] = lambda parser: None,
    ) -> None:
        self._words = words
        self._make = make
        self._most = most
        self._parser = argparse.ArgumentParser(
            prog=name,
            usage=f"{name} [OPTION ...] {words}",
            description="Show what an MCP server is: its revision, capabilities, tools, resources and prompts. Or have "
            "it do one thing; its questions are put to you.",
        )
        add = self._parser.add_argument
        add("words", nargs="*", help=argparse.SUPPRESS)
        one = self._parser.add_mutually_exclusive_group()
        one.add_argument("--call", nargs="+", metavar=("TOOL", "NAME=VALUE"), help="call a tool")
        one.add_argument("--prompt", nargs="+", metavar=("PROMPT", "NAME=VALUE"), help="get a prompt")
        one.add_argument("--read", metavar="URI", help="read a resource")
        add("--json", action="store_true", help="print JSON, for programs")
        add("-v", "--verbose", action="store_true", help="show what goes over the wire")
        add("--revision", metavar="DATE", help="the protocol revision to speak, instead of finding out")
        add("--timeout", type=seconds, metavar="SECONDS", help="how long the server may take for an answer")
        add_options(self._parser)

    def main(self, argv: Sequence[str], run: Run, terminal: Terminal) -> int:
        """Do what the words of the command line say; the exit status. `run` runs a coroutine to its end.

        The status is 0 where all went well, 1 where the server refused or its tool failed, 2 for a wrong command line,
        3 where the server cannot be talked to, and 130 after an interruption. Raises ``SystemExit`` with these where
        the command line is wrong, or asks for help.
        """
        at = list(argv).index("--") if "--" in argv else len(argv)
        options = self._parser.parse_args(argv[:at])
        words = [*options.words, *argv[at + 1 :]]
        if not words:
            self._parser.error(f"what server? Write {self._words}")
        if self._most is not None and len(words) > self._most:
            self._parser.error(f"{words[self._most]!r} is one word too many: the server is {words[0]!r}")
        try:
            adapters = None if options.revision is None else AdapterSet.default().only(options.revision)
        except ValueError as error:
            self._parser.error(str(error))
        if options.verbose:
            _show_the_wire(terminal)
        try:
            return run(_Session(options, terminal).run(partial(self._make, words, options, adapters)))
        except KeyboardInterrupt:
            return INTERRUPTED


class _Session:
    """One run of the command."""

    def __init__(self, options: argparse.Namespace, terminal: Terminal) -> None:
        self._options = options
        self._terminal = terminal
        self._status = DONE
        self._interrupted = False

    async def run(self, make: Callable[..., ClientApi]) -> int:
        """The exit status."""
        try:
            # For all that is asked of the server, what it is and speaks included.
            config = None if self._options.timeout is None else ClientConfig(timeout=self._options.timeout)
            told = {"on_ask": self._answer, "on_progress": self._progress, "on_log": self._log}
            async with make(config=config, **told) as client:
                await self._act(client)
        except (ConnectionLost, NegotiationFailed, CallTimeout) as error:
            self._fail(error, UNREACHABLE)
        except McpError as error:
            self._fail(error, FAILED)
        except ValueError as error:  # what was typed is no argument, or nothing that can be sent
            self._fail(error, USAGE)
        return INTERRUPTED if self._interrupted else self._status

    async def _act(self, client: ClientApi) -> None:
        if self._options.call:
            name, *words = self._options.call
            schema = next((tool.input_schema for tool in await client.list_tools() if tool.name == name), None)
            arguments = arguments_of(words, schema)
            self._doubt(name, arguments, schema)
            self._show_result(await client.call_tool(name, arguments))
        elif self._options.prompt:
            name, *words = self._options.prompt
            texts = arguments_of(words, _TEXTS)
            self._doubt(name, texts, await _schema_of_prompt(client, name) if texts else None)
            self._show_result(await client.get_prompt(name, texts))
        elif self._options.read is not None:
            self._show_result(await client.read_resource(self._options.read))
        else:
            await self._describe(client)

    def _doubt(self, name: str, arguments: Mapping[str, JSON], schema: Mapping[str, JSON] | None) -> None:
        doubt = doubt_of(arguments, schema)
        if doubt is not None:  # what it means is for the server to say
            self._terminal.warn(printable(f"{name}: {doubt}"))

    # What is shown

    async def _describe(self, client: ClientApi) -> None:
        server = await client.initialize()
        lists: dict[str, list[Any]] = {}
        for capability, member, listed, _ in _LISTS:
            if capability in server.capabilities:
                try:
                    lists[member] = await getattr(client, listed)()
                except (ServerError, CallTimeout) as error:
                    self._fail(error, FAILED)
        if self._options.json:
            shown = {member: as_json(entries) for member, entries in lists.items()}
            self._print_json({"server": as_json(server), **shown})
            return
        self._print(server_lines(server))
        for _, member, _, lines in _LISTS:
            if lists.get(member):
                title = member.replace("T", " t").capitalize()
                self._print(section(title, map(lines, lists[member])))

    def _show_result(self, result: Any) -> None:
        if isinstance(result, CallToolResult) and result.is_error:
            self._status = FAILED
        if self._options.json:
            self._print_json(as_json(result))
        else:
            self._print(result_lines(result))

    def _print(self, lines: Iterable[str]) -> None:
        for line in lines:
            self._terminal.show(printable(line))

    def _print_json(self, value: JSON) -> None:
        self._terminal.show(encode(value).decode())

    def _fail(self, error: Exception, status: int) -> None:
        self._status = status
        if self._options.json:
            details = {"code": error.code, "data": error.data} if isinstance(error, ServerError) else {}
            kept = {name: value for name, value in details.items() if value is not None}
            self._print_json({"error": {"kind": type(error).__name__, "message": str(error), **kept}})
        else:
            self._terminal.warn(printable(f"error: {without_last_words(str(error))}"))

    # What the server has to say meanwhile

    def _answer(self, request: InputRequest) -> Mapping[str, JSON]:
        dialogue = answering(request)
        try:
            prompt = next(dialogue)
            while True:
                prompt = dialogue.send(self._terminal.ask(prompt))
        except StopIteration as end:
            reply: Mapping[str, JSON] = end.value
            return reply
        except KeyboardInterrupt:
            # Raised here it would end a task of the client's, of which nobody would hear.
            self._interrupted = True
            raise ToolError("the user left") from None

    def _progress(self, done: float, total: float | None, message: str | None) -> None:
        of = f"{done:g} of {total:g}" if total is not None else f"{done:g}"
        self._terminal.warn(printable(f"… {of}{f': {message}' if message else ''}"))

    def _log(self, level: str, data: JSON, logger: str | None) -> None:
        text = data if isinstance(data, str) else encode(data).decode()
        self._terminal.warn(printable(f"{level}: {text}"))


async def _schema_of_prompt(client: ClientApi, name: str) -> Mapping[str, JSON] | None:
    """The arguments that a prompt has, as a tool's schema would say it; ``None`` for one that is not listed."""
    with suppress(ServerError):
        for prompt in await client.list_prompts():
            if prompt.name == name:
                return {"properties": {argument.name: {} for argument in prompt.arguments}}
    return None


#: All arguments of a prompt are text.
_TEXTS: Mapping[str, JSON] = {"additionalProperties": {"type": "string"}}
#: A capability, what it lists, by which method, and how an entry is shown.
_LISTS: Sequence[tuple[str, str, str, Callable[[Any], Iterable[str]]]] = (
    ("tools", "tools", "list_tools", tool_lines),
    ("resources", "resources", "list_resources", resource_lines),
    ("resources", "resourceTemplates", "list_resource_templates", resource_lines),
    ("prompts", "prompts", "list_prompts", prompt_lines),
)


class _Wire(logging.Handler):
    """Shows what is logged of the wire, and of what was wrong there."""

    def __init__(self, terminal: Terminal) -> None:
        super().__init__()
        self._terminal = terminal

    def emit(self, record: logging.LogRecord) -> None:
        """Show it."""
        self._terminal.warn(printable(record.getMessage()))


def _show_the_wire(terminal: Terminal) -> None:
    for name in ("mcp_sansio.wire", "mcp_sansio.client"):
        logger = logging.getLogger(name)
        logger.addHandler(_Wire(terminal))
        logger.setLevel(logging.DEBUG)
        logger.propagate = False

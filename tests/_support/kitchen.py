"""Handlers of every kind: those that end at once, and those that want anything else first, of whatever sort."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import Any

import attrs

from mcp_sansio import (
    CallToolResult,
    Exchange,
    NeedInput,
    Registry,
    ResourceNotFound,
    Server,
    TextContent,
    ToolError,
    elicit,
    elicit_decline,
    list_roots,
    sample,
)
from mcp_sansio.runtime import Event
from mcp_sansio.storage import StoreFull, StoreUnavailable

FORM = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
QUESTIONS = {
    "a form": elicit("Who?", FORM),
    "a page": elicit("There", url="https://a.example/b"),
    "a model": sample("Hi", max_tokens=5),
    "roots": list_roots(),
}
FAULTS: dict[str, Callable[[], BaseException]] = {
    "ToolError": lambda: ToolError("burnt"),
    "ResourceNotFound": lambda: ResourceNotFound("gone"),
    "ValueError": lambda: ValueError("secret"),
    "StopAsyncIteration": StopAsyncIteration,
    "RecursionError": lambda: RecursionError("secret"),
    "SystemExit": lambda: SystemExit(3),
    "StoreFull": lambda: StoreFull("the store is full"),
    "StoreUnavailable": lambda: StoreUnavailable("the store is gone"),
    "a group": lambda: ExceptionGroup("secret", [ValueError("secret")]),
    "needs nothing": lambda: NeedInput({}),
    "state that is no JSON": lambda: NeedInput({"q": QUESTIONS["a form"]}, state=object()),
}


def fault_of(name: str) -> BaseException:
    """Something to raise."""
    return FAULTS[name]()


DEEP: Any = []
for _ in range(3000):
    DEEP = [DEEP]
VALUES: dict[str, Any] = {
    "nothing": None,
    "a number": 3,
    "an object": object(),
    "no number": float("nan"),
    "half a letter": "\ud800",
    "bytes": b"\xff",
    "a set": {1},
    "too deep": DEEP,
    "a result": CallToolResult((TextContent("r"),), structured_content={"a": 1}),
    "a fault": CallToolResult((TextContent("r"),), is_error=True),
    "meta that is no JSON": CallToolResult((TextContent("r"),), meta={"x": object()}),
}


@attrs.frozen
class Oven:
    """A dependency."""

    heat: int


@attrs.frozen
class Slow:
    """A dependency whose end takes its time."""


@attrs.frozen
class Broken:
    """A dependency that cannot be had."""


class Kitchen:
    """A registry, of all `KINDS` of handlers or of some.

    `server` and `event` are set once there is a server of it: the latter makes something to wait for.
    """

    server: Server
    event: Callable[[], Event]

    def __init__(self, *kinds: str) -> None:
        self.registry = Registry("kitchen", "1", page_size=7)
        #: What handlers wait for.
        self.gates: list[Event] = []
        #: What dependencies were closed.
        self.closed: list[str] = []
        #: How often something was declared.
        self.declared = 0
        for kind in kinds or KINDS:
            KINDS[kind](self)

    def open(self) -> None:
        """Let everything go on that waits."""
        gates, self.gates[:] = tuple(self.gates), ()
        for gate in gates:
            gate.set()

    async def pass_by(self) -> None:
        """Wait for nothing, which who awaits it cannot know."""

    async def wait(self) -> None:
        """Wait for `open`."""
        gate = self.event()
        self.gates.append(gate)
        await gate.wait()


def _ends(kitchen: Kitchen) -> None:
    tool = kitchen.registry.tool

    @tool
    async def ends(text: str = "é") -> str:
        return text

    @tool
    async def passes(text: str = "é") -> str:
        await kitchen.pass_by()
        return text

    @tool
    async def gives_more(text: str = "") -> dict[str, str]:
        return {"text": text}

    @tool
    def plain(text: str = "") -> str:
        return text

    @tool(blocking=False)
    def quick(text: str = "") -> str:
        return text

    @tool(streaming=True)
    async def streams() -> str:
        return "streamed"

    @tool(poll_after=5.0)
    async def polled() -> str:
        return "polled"

    @tool
    async def who(ex: Exchange) -> str:
        return f"{ex.client_info.name} {ex.request} {ex.session is None} {ex.state} {ex.answered('q')}"

    @tool
    async def counts(ex: Exchange) -> str:
        if ex.session is None:
            return "no session"
        await ex.session.update(lambda held: {**held, "n": held.get("n", 0) + 1})
        return str(ex.session.get("n"))

    @tool
    async def opens(ex: Exchange) -> bool:
        basket = await ex.sessions.open()
        await basket.set("a", 1)
        used = await ex.sessions.use(basket.handle)
        await ex.sessions.drop(basket.handle)
        return used is not None and used.get("a") == 1

    @tool
    async def gives(value: str) -> Any:
        return VALUES[value]

    @tool
    async def gives_in_passing(value: str) -> Any:
        await kitchen.pass_by()
        return VALUES[value]


def _waits(kitchen: Kitchen) -> None:
    tool = kitchen.registry.tool

    @tool
    async def waits(text: str = "") -> str:
        await kitchen.wait()
        return text

    @tool
    async def waits_in_vain() -> str:
        gate = kitchen.event()
        gate.set()
        await gate.wait()
        return "no wait"

    @tool
    async def waits_twice() -> str:
        await kitchen.wait()
        await kitchen.wait()
        return "twice"

    @tool(streaming=True)
    async def streams_late() -> str:
        await kitchen.wait()
        return "streamed"

    @tool(poll_after=5.0)
    async def polled_late() -> str:
        await kitchen.wait()
        return "polled"

    @tool
    async def counts_late(ex: Exchange) -> str:
        await kitchen.wait()
        if ex.session is None:
            return "no session"
        await ex.session.set("late", True)
        return str(sorted(ex.session.values))

    @tool
    async def opens_late(ex: Exchange) -> str:
        await kitchen.wait()
        return (await ex.sessions.open()).handle

    @tool
    async def finds(ex: Exchange, handle: str = "") -> bool:
        return await ex.sessions.use(handle) is not None

    @tool
    async def mends() -> str:
        try:
            await kitchen.wait()
        finally:
            kitchen.closed.append("mended")
        return "unhurt"


def _reports(kitchen: Kitchen) -> None:
    tool = kitchen.registry.tool

    @tool
    async def logs(ex: Exchange) -> str:
        await ex.log("info", "before")
        return "logged"

    @tool
    async def logs_softly(ex: Exchange) -> str:
        await ex.log("debug", "perhaps")
        return "logged"

    @tool
    async def logs_and_waits(ex: Exchange) -> str:
        await ex.log("error", "before", logger="l")
        await kitchen.wait()
        await ex.log("error", {"after": 1})
        return "logged"

    @tool
    async def waits_and_logs(ex: Exchange) -> str:
        await kitchen.wait()
        await ex.log("error", "after")
        return "logged"

    @tool
    async def logs_nonsense(ex: Exchange) -> str:
        await ex.log("error", object())  # type: ignore[arg-type]
        return "never"

    @tool
    async def reports(ex: Exchange) -> str:
        for step in range(3):
            await ex.progress(step, 3, "going")
        return "reported"

    @tool
    async def reports_late(ex: Exchange) -> str:
        await ex.progress(1)
        await kitchen.wait()
        await ex.progress(2)
        return "reported"

    @tool
    async def reports_at_length(ex: Exchange) -> str:
        for step in range(50):
            await ex.log("error", "x" * 200)
            await ex.progress(step)
        return "reported"

    @tool
    async def logs_and_fails(ex: Exchange) -> str:
        await ex.log("error", "before")
        raise ValueError("secret")


def _asks(kitchen: Kitchen) -> None:
    tool = kitchen.registry.tool

    @tool
    async def asks(what: str, ex: Exchange) -> str:
        return str((await ex.ask("q", QUESTIONS[what])).action)

    @tool(ask_in_arguments=True)
    async def asks_in_arguments(what: str, ex: Exchange) -> str:
        return str((await ex.ask("q", QUESTIONS[what])).action)

    @tool
    async def asks_in_vain(ex: Exchange) -> str:
        return str((await ex.ask("q", QUESTIONS["a form"], default=elicit_decline())).action)

    @tool
    async def asks_twice(ex: Exchange) -> str:
        first = await ex.ask("q", QUESTIONS["a form"])
        return f"{first.action} {(await ex.ask('r', QUESTIONS['roots'])).action}"

    @tool
    async def asks_late(ex: Exchange) -> str:
        await kitchen.wait()
        return str((await ex.ask("q", QUESTIONS["a form"])).action)

    @tool
    async def logs_and_asks(ex: Exchange) -> str:
        await ex.log("error", "before")
        return str((await ex.ask("q", QUESTIONS["a form"])).action)

    @tool
    async def needs(ex: Exchange) -> str:
        if not ex.answered("q"):
            raise NeedInput({"q": QUESTIONS["a form"], "r": QUESTIONS["roots"]}, state={"round": 1})
        return f"{ex.state} {ex.action('q')}"

    @tool
    async def leaves(ex: Exchange) -> str:
        if ex.state is None:
            raise NeedInput({}, state={"round": 1})
        return str(ex.state)


def _fails(kitchen: Kitchen) -> None:
    tool = kitchen.registry.tool

    @tool
    async def fails(fault: str) -> str:
        raise fault_of(fault)

    @tool
    async def fails_in_passing(fault: str) -> str:
        await kitchen.pass_by()
        raise fault_of(fault)

    @tool
    async def fails_late(fault: str) -> str:
        await kitchen.wait()
        raise fault_of(fault)

    @tool
    def plain_fails(fault: str) -> str:
        raise fault_of(fault)

    @tool
    async def gives_late(value: str) -> Any:
        await kitchen.wait()
        return VALUES[value]


def _depends(kitchen: Kitchen) -> None:
    registry = kitchen.registry

    def oven() -> Iterator[Oven]:
        try:
            yield Oven(200)
        finally:
            kitchen.closed.append("oven")

    async def slow(oven: Oven) -> AsyncIterator[Slow]:
        try:
            yield Slow()
        finally:
            await kitchen.wait()
            kitchen.closed.append("slow")

    def broken() -> Broken:
        raise ToolError("no such thing")

    registry.provide(Oven, oven)
    registry.provide(Slow, slow)
    registry.provide(Broken, broken)

    @registry.tool
    async def bakes(oven: Oven) -> int:
        return oven.heat

    @registry.tool
    def bakes_plainly(oven: Oven, ex: Exchange) -> int:
        return oven.heat

    @registry.tool
    async def burns(oven: Oven, fault: str) -> int:
        raise fault_of(fault)

    @registry.tool
    async def cools(slow: Slow) -> str:
        return "cool"

    @registry.tool
    async def breaks(broken: Broken) -> str:
        return "never"

    @registry.tool
    async def bakes_late(oven: Oven) -> str:
        await kitchen.wait()
        return "baked"


def _acts(kitchen: Kitchen) -> None:
    registry = kitchen.registry

    async def removed() -> str:
        registry.remove_tool("removed")
        return "removed"

    registry.tool(name="removed")(removed)

    @registry.tool
    async def restores() -> str:
        if "removed" not in registry.tools:
            registry.tool(name="removed")(removed)
        return "restored"

    @registry.tool
    async def declares() -> str:
        kitchen.declared += 1
        registry.tool(name=f"declared_{kitchen.declared}")(removed)
        registry.resource(f"new:{kitchen.declared}")(removed)
        registry.prompt(name=f"declared_{kitchen.declared}")(removed)
        return "declared"

    @registry.tool
    async def declares_late() -> str:
        await kitchen.wait()
        registry.remove_tool("removed")
        return "removed"

    @registry.tool
    async def publishes() -> str:
        registry.resource_updated("text:one")
        return "published"

    @registry.tool
    async def shuts_down() -> str:
        kitchen.server.shutdown()
        return "closing"

    @registry.tool
    async def shuts_down_and_waits() -> str:
        kitchen.server.shutdown()
        await kitchen.wait()
        return "closing"

    @registry.tool
    async def gives_up(ex: Exchange) -> str:
        ex.cancel()
        return "never"

    @registry.tool
    async def gives_up_and_reports(ex: Exchange) -> str:
        ex.cancel()
        ex.cancel()
        await ex.log("error", "too late")
        await ex.wait_cancelled()
        return "never"

    @registry.tool
    async def gives_up_and_waits(ex: Exchange) -> str:
        ex.cancel()
        await kitchen.wait()
        return "never"

    @registry.tool
    async def logs_and_gives_up(ex: Exchange) -> str:
        await ex.log("error", "before")
        ex.cancel()
        return "never"

    @registry.tool
    async def gives_up_late(ex: Exchange) -> str:
        await kitchen.wait()
        ex.cancel()
        return "never"

    @registry.tool
    async def heeds(ex: Exchange) -> str:
        await ex.wait_cancelled()
        return "never"


def _reads(kitchen: Kitchen) -> None:
    registry = kitchen.registry

    @registry.resource("text:one")
    async def one() -> str:
        return "one"

    @registry.resource("text:late")
    async def late(ex: Exchange) -> str:
        await ex.log("error", "before")
        await kitchen.wait()
        return "late"

    @registry.resource("fault:{fault}")
    async def fault(fault: str) -> str:
        raise fault_of(fault)

    @registry.resource("value:{value}")
    def value(value: str) -> Any:
        return VALUES[value]

    @registry.resource("asks:{what}")
    async def asking(what: str, ex: Exchange) -> str:
        return str((await ex.ask("q", QUESTIONS[what])).action)

    @registry.prompt
    async def greet(who: str = "you") -> str:
        return f"Greet {who}."


KINDS: dict[str, Callable[[Kitchen], None]] = {
    "ends": _ends,
    "waits": _waits,
    "reports": _reports,
    "asks": _asks,
    "fails": _fails,
    "depends": _depends,
    "acts": _acts,
    "reads": _reads,
}
_NO_ARGUMENTS: Mapping[str, Any] = {}
#: The tools that take one of a few words, and which these are.
_WORDS: dict[str, tuple[str, tuple[str, ...]]] = {
    "gives": ("value", tuple(VALUES)),
    "gives_in_passing": ("value", tuple(VALUES)),
    "gives_late": ("value", tuple(VALUES)),
    "fails": ("fault", tuple(FAULTS)),
    "fails_in_passing": ("fault", tuple(FAULTS)),
    "fails_late": ("fault", tuple(FAULTS)),
    "plain_fails": ("fault", tuple(FAULTS)),
    "burns": ("fault", tuple(FAULTS)),
    "asks": ("what", tuple(QUESTIONS)),
    "asks_in_arguments": ("what", tuple(QUESTIONS)),
}


def tool_calls() -> list[tuple[str, Mapping[str, Any]]]:
    """Every tool with every word that it may be given."""
    found: list[tuple[str, Mapping[str, Any]]] = []
    for name in Kitchen().registry.tools:
        parameter, words = _WORDS.get(name, ("", ()))
        found += [(name, {parameter: word}) for word in words] or [(name, _NO_ARGUMENTS)]
    return found


def uris() -> list[str]:
    """The resources, and some that there are not."""
    return [
        "text:one",
        "text:late",
        "text:none",
        "",
        *(f"fault:{fault}" for fault in FAULTS),
        *(f"value:{value}" for value in VALUES),
        *(f"asks:{what}" for what in QUESTIONS),
    ]

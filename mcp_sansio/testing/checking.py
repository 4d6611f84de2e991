"""What the checks of every kind of driver share: the rules of a transport, and waiting for what should happen."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager
from typing import Any, ClassVar, Generic, NoReturn, TypeAlias, TypeVar

import attrs

from mcp_sansio.adapters.base import Adapter
from mcp_sansio.adapters.selection import AdapterSet
from mcp_sansio.registry import Registry
from mcp_sansio.server.config import Config

from .speaker import Speaker
from .subject import Subject

T = TypeVar("T")
#: What may have to be awaited, or is there at once, so that a driver without an event loop has plain methods.
Maybe: TypeAlias = T | Awaitable[T]
#: What serves a registry within limits, for as long as its context is entered, and gives the client at the other end.
Open: TypeAlias = Callable[[Registry, Config], AbstractAsyncContextManager[T] | AbstractContextManager[T]]

#: Seconds after which what should not come counts as not coming.
QUIET = 0.05
#: Calls that are in flight at once.
MANY = 8
#: Bytes of the largest message of a conversation.
SMALL = 2**18

#: The rules of docs/write-a-transport.md, as far as a driver can be seen to keep them.
RULES = {
    3: "hand in the facts, all of them, in the order in which they happened",
    4: "take everything after each fact and whenever wake was called: events(), data_to_send() and next_deadline()",
    5: "do what the events say: await run() in a task of its own, and cancel the task of a call that is cancelled",
    6: "send from one place, in order, and wait for the transport before you take more; only the sending waits",
    7: "keep one timer for next_deadline(), which every fact, every wake and every timeout may have changed",
    8: "say when it ends, by receive_eof or receive_disconnect, and leave no task behind",
    9: "shut down with server.shutdown(), and take what that brings about",
}


class Scene:
    """A driver under a check: a server, and `client` in front of it, which is of one revision.

    `name` says what is checked, and `patience` how many seconds what should happen may take.
    """

    rules: ClassVar[Mapping[int, str]] = RULES
    page: ClassVar[str] = "docs/write-a-transport.md"
    #: The rule that is broken where something is left at the end.
    last_rule: ClassVar[int] = 8

    def __init__(
        self, name: str, adapter: Adapter, patience: float, config: Config, subject: Subject, client: Any
    ) -> None:
        self.name = name
        self.adapter = adapter
        self.patience = patience
        self.config = config
        self.subject = subject
        self.client = client
        self.speaker = Speaker(adapter)

    def fail(self, rule: int, what: str) -> NoReturn:
        """The driver breaks that rule, as `what` shows."""
        raise AssertionError(self.verdict(self.name, self.adapter, rule, what))

    @classmethod
    def verdict(cls, name: str, adapter: Adapter, rule: int, what: str) -> str:
        """What is wrong, and which rule it breaks."""
        return f"{name} ({adapter.version}): {what}.\nRule {rule} of {cls.page}: {cls.rules[rule]}."

    async def until(self, held: Callable[[], bool], rule: int, what: str) -> None:
        """Return once `held` gives true. Nothing is read meanwhile."""
        waited, pause = 0.0, QUIET / 50
        while not held():
            if waited >= self.patience:
                self.fail(rule, f"{what}, for {self.patience:g} seconds")
            await settled(self.client.wait(pause))
            waited, pause = waited + pause, min(2 * pause, QUIET)

    async def started(self, *names: str) -> None:
        """Return once the handlers of those names have begun."""
        await self.until(lambda: set(names) <= self.subject.begun, 5, f"calls came in, and no handler of {names} runs")

    async def ended(self, rule: int, what: str, *names: str) -> None:
        """Return once the handlers of those names, or all, have ended."""
        running = self.subject.running
        await self.until(lambda: not set(names or running) & set(running), rule, f"{what}, and its handler goes on")


SceneT = TypeVar("SceneT", bound=Scene)


@attrs.frozen
class Case(Generic[SceneT]):
    """A check by the name that its failures have. It needs a server of that `config`.

    It `applies` to some revisions, and what takes time and is alike in all of them is done `once`.
    """

    name: str
    check: Callable[[SceneT], Awaitable[None]]
    config: Config = attrs.field(factory=Config)
    applies: Callable[[Adapter], bool] = lambda adapter: True
    once: bool = False

    def revisions(self, adapters: AdapterSet) -> Sequence[Adapter]:
        """Those of `adapters` that it is for."""
        found = [adapter for adapter in adapters.adapters if self.applies(adapter)]
        return found[:1] if self.once else found


#: For a client that does not read: a call is ended while it waits for that.
SLOW = Config(call_timeout=0.6, max_unsent=64 * 2**10)


def pushes(adapter: Adapter) -> bool:
    """Whether questions are pushed."""
    return adapter.can_push_ask


def has_long_reports(adapter: Adapter) -> bool:
    """Whether a report of progress may say more than numbers."""
    return "message" in adapter.shape.progress


async def run_all(
    cases: Iterable[Case[SceneT]],
    scene: type[SceneT],
    open_driver: Callable[[Adapter], Open[T]],
    adapters: AdapterSet | None,
    patience: float,
) -> None:
    """Run every check at those of the revisions that it is for, or of all of them. Raises ``AssertionError``."""
    subject = Subject()
    for case in cases:
        for adapter in case.revisions(adapters or AdapterSet.default()):
            await run(open_driver(adapter), case, adapter, patience, subject, scene)


async def run(
    open_driver: Open[T], case: Case[SceneT], adapter: Adapter, patience: float, subject: Subject, scene: type[SceneT]
) -> None:
    """Run a check at one revision, with a driver of its own. Raises ``AssertionError``."""
    subject.begin()
    failure: AssertionError | None = None
    ended = False
    try:
        # Even a store that never waits is asked by way of the driver here, so that it is seen to do that.
        config = attrs.evolve(case.config, asks_store_at_once=False)
        async with _entered(open_driver(subject.registry, config)) as client:
            made = scene(case.name, adapter, patience, config, subject, client)
            try:
                await case.check(made)
            except AssertionError as error:
                failure = error  # raised only outside: a nursery would wrap it, a context manager might hide it
            ended = True
    except Exception as error:
        text = f"{case.name} ({adapter.version}): the driver, or the client in front of it, failed: {error!r}"
        raise (failure or AssertionError(text)) from error
    if not ended:  # a nursery does that, for one, where what it holds is cancelled from within
        text = f"{case.name} ({adapter.version}): the check was cut off, and its context manager hides by what: does "
        raise AssertionError(f"{text}the driver cancel the task that closes it?")
    if failure is None and subject.running:
        left = f"the driver has ended, and left {', '.join(subject.running)} running"
        failure = AssertionError(scene.verdict(case.name, adapter, scene.last_rule, left))
    if failure is not None:
        raise failure


@asynccontextmanager
async def _entered(manager: Any) -> AsyncIterator[Any]:
    if isinstance(manager, AbstractAsyncContextManager):
        async with manager as given:
            yield given
    else:
        with manager as given:
            yield given


async def settled(value: Maybe[T]) -> T:
    """`value`, awaited where that is needed."""
    return await value if inspect.isawaitable(value) else value


def shown(data: Any) -> str:
    """`data`, short enough for a message."""
    text = repr(data)
    return text if len(text) <= 300 else f"{text[:200]} … {text[-60:]} ({len(text)} characters)"

"""What the workers of a deployment serve, on whatever event loop."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from pathlib import Path

from mcp_sansio import Exchange, NeedInput, Registry, elicit


def shop(folder: Path, sleep: Callable[[float], Awaitable[object]]) -> Registry:
    """What every worker serves. `sleep` is that of its loop; in `folder` a test and a handler wait for each other."""
    registry = Registry("shop", "1.0")

    async def gate(name: str) -> None:
        """Wait until the test, or another handler, opens that gate; have it known that somebody waits."""
        (folder / f"{name}.waiting").write_text(str(os.getpid()))
        while not (folder / name).exists():
            await sleep(0.01)

    @registry.tool
    async def who() -> str:
        """Which process this is."""
        return str(os.getpid())

    @registry.tool
    async def count(ex: Exchange, by: int = 1) -> str:
        """Count in the session."""
        assert ex.session is not None
        await ex.session.update(lambda values: {**values, "n": values.get("n", 0) + by})
        return str(ex.session.get("n"))

    @registry.tool
    async def keep(ex: Exchange, handle: str = "") -> str:
        """Count in a session by handle."""
        session = await (ex.sessions.use(handle) if handle else ex.sessions.open())
        if session is None:
            return "no such session"
        await session.update(lambda values: {**values, "n": values.get("n", 0) + 1})
        return f"{session.handle} {session.get('n')}"

    @registry.tool
    async def order(ex: Exchange) -> str:
        """Ask twice."""
        answers = [(await ex.ask(key, elicit(f"{key}?"))).action for key in ("rye", "oat")]
        return " ".join(answers)

    @registry.tool
    async def refund(ex: Exchange, amount: int = 0) -> str:
        """Leave state behind, and ask."""
        if ex.answered("sure"):
            return f"refunded {ex.state['amount']} of {amount}"
        raise NeedInput({"sure": elicit("Sure?")}, state={"amount": amount})

    @registry.tool
    async def pay(ex: Exchange, at: str) -> str:
        """Leave state behind, ask, and take a while over the answer."""
        if not ex.answered("sure"):
            raise NeedInput({"sure": elicit("Sure?")}, state={"paid": at})
        with (folder / f"{at}.ran").open("a") as runs:
            runs.write(f"{os.getpid()}\n")
        await gate(at)
        return f"paid {ex.state['paid']}"

    @registry.tool
    async def say(ex: Exchange) -> str:
        """Log at three levels."""
        for level in ("debug", "warning", "error"):
            await ex.log(level, {"at": level})
        return "said"

    @registry.tool
    async def slow(ex: Exchange, at: str) -> str:
        """Report, wait, report, wait, and end."""
        await ex.progress(1)
        await gate(f"{at}-1")
        await ex.progress(2)
        await gate(f"{at}-2")
        return "done"

    @registry.tool
    async def wait(ex: Exchange, at: str) -> str:
        """Wait to be cancelled."""
        (folder / f"{at}.waiting").touch()
        try:
            await ex.wait_cancelled()
        finally:
            (folder / f"{at}.cancelled").touch()
        return "cancelled"

    @registry.tool
    async def update(ex: Exchange, uri: str = "bread://rye") -> str:
        """Announce an update."""
        registry.resource_updated(uri)
        return "updated"

    @registry.tool
    async def change() -> str:
        """Have another list of prompts for a moment: each process has its own."""
        registry.prompt(lambda: "x", name="x")
        registry.remove_prompt("x")
        return "changed"

    @registry.resource("bread://rye")
    def rye() -> str:
        return "rye"

    @registry.resource("bread://oat")
    def oat() -> str:
        return "oat"

    return registry

"""The blocking clients among threads, signals and other people's event loops."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import speak
import support
from core_site import core_site
from flags import PATIENCE, Flag
from mcp_sansio import (
    AdapterSet,
    Change,
    ChangeKind,
    ConnectionLost,
    Exchange,
    LocalProtocolError,
    Registry,
    elicit,
    elicit_accept,
)

support.need("urllib3")
sync = support.need("mcp_sansio_sync")


class Place:
    """A server with something that waits, and what is known of it."""

    def __init__(self) -> None:
        self.begun, self.given_up = Flag(), Flag()
        #: How many have to meet, and have come.
        self.wanted = self.came = 0
        self.registry = Registry("s", "1")
        self.url = ""

    def build(self, event: Any) -> Registry:
        """See `core_site`."""
        registry, met = self.registry, event()

        @registry.tool
        async def meet() -> str:
            """Wait for the others."""
            self.came += 1
            if self.came == self.wanted:
                met.set()
            await met.wait()
            return "met"

        @registry.tool
        async def wait(ex: Exchange) -> str:
            """Wait for nothing."""
            self.begun.set()
            try:
                await ex.wait_cancelled()
            finally:
                self.given_up.set()
            return "never sent"

        @registry.tool
        async def echo(text: str, ex: Exchange) -> str:
            """Say it."""
            await ex.progress(1)
            return text

        @registry.tool
        async def ask(ex: Exchange) -> str:
            """Ask."""
            return (await ex.ask("sure", elicit("Sure?"))).action

        @registry.tool
        async def forget(ex: Exchange) -> str:
            """Remove a tool."""
            registry.remove_tool("echo")
            return "forgotten"

        return registry

    def client(self, version: str | None = None, **options: Any) -> Any:
        """A client."""
        return sync.Client(self.url, None if version is None else AdapterSet.default().by_version[version], **options)


@pytest.fixture
def place() -> Iterator[Place]:
    made = Place()
    with core_site(made.build) as site:
        made.url = site.url + "/mcp"
        yield made


def text_of(result: Any) -> str:
    (content,) = result.content
    return str(content.text)


def in_a_thread(work: Callable[[], Any]) -> tuple[threading.Thread, list[Any]]:
    """Begin to do `work`; what it gives, or raises, comes into the list."""
    outcome: list[Any] = []

    def run() -> None:
        try:
            outcome.append(work())
        except Exception as error:
            outcome.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, outcome


@pytest.mark.parametrize("version", [None, *speak.VERSIONS])
def test_fifty_threads_call_at_once(place: Place, version: str | None) -> None:
    with place.client(version, on_progress=lambda *given: None) as client, ThreadPoolExecutor(50) as pool:
        said = pool.map(lambda number: text_of(client.call_tool("echo", {"text": str(number)})), range(200))
        assert list(said) == [str(number) for number in range(200)]


def test_a_hundred_connections_at_once_are_nothing_to_warn_of(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    place.wanted = 100
    with place.client(speak.VERSIONS[0]) as client, ThreadPoolExecutor(place.wanted) as pool:
        for _ in range(2):
            place.came = 0
            said = pool.map(lambda _: text_of(client.call_tool("meet")), range(place.wanted))
            assert list(said) == ["met"] * place.wanted
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == []


@pytest.mark.parametrize("version", speak.VERSIONS)
def test_a_client_is_closed_from_another_thread_during_a_call(place: Place, version: str) -> None:
    client = place.client(version)
    thread, outcome = in_a_thread(lambda: client.call_tool("wait"))
    place.begun.seen()
    client.close()
    thread.join(PATIENCE)
    assert [str(error) for error in outcome] == ["the client was closed"]
    with pytest.raises(ConnectionLost, match="the client was closed"):
        client.ping()
    client.close()


@pytest.mark.parametrize("version", speak.VERSIONS)
def test_an_interrupt_gives_the_call_up_and_nothing_else(place: Place, version: str) -> None:
    def interrupt() -> None:
        place.begun.seen()
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)  # type: ignore[arg-type]

    with place.client(version) as client:
        interrupting, _ = in_a_thread(interrupt)
        with pytest.raises(KeyboardInterrupt):
            client.call_tool("wait")
        interrupting.join(PATIENCE)
        place.given_up.seen()
        assert text_of(client.call_tool("echo", {"text": "next"})) == "next"


def test_an_interrupted_call_is_cancelled_though_the_client_is_closed_at_once(place: Place) -> None:
    def interrupt() -> None:
        place.begun.seen()
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)  # type: ignore[arg-type]

    interrupting, _ = in_a_thread(interrupt)
    with pytest.raises(KeyboardInterrupt), place.client(speak.HANDSHAKE[0]) as client:
        client.call_tool("wait")
    interrupting.join(PATIENCE)
    place.given_up.seen()


def test_callbacks_may_block_and_call_the_client(place: Place) -> None:
    heard: list[Any] = []

    def on_ask(request: Any) -> Any:
        heard.append(text_of(client.call_tool("echo", {"text": "asked"})))
        return elicit_accept()

    def on_progress(*given: Any) -> None:
        heard.append(text_of(client.call_tool("echo", {"text": "progress"})))

    with place.client(on_ask=on_ask) as client:
        assert text_of(client.call_tool("ask")) == "accept"
        client.call_tool("echo", {"text": "x"}, on_progress=on_progress)
    assert heard == ["asked", "progress"]


def test_a_callback_that_raises_an_interrupt_fails_as_by_any_other_error(place: Place) -> None:
    """It was not meant for the thread in which the callback is called: nobody waits there for an interrupt."""

    def interrupt(*given: Any) -> Any:
        raise KeyboardInterrupt

    with place.client(on_ask=interrupt) as client:
        thread, asked = in_a_thread(lambda: client.call_tool("ask"))
        thread.join(PATIENCE)
        assert [str(error) for error in asked] == ["the client could not answer"]
        thread, reported = in_a_thread(lambda: client.call_tool("echo", {"text": "x"}, on_progress=interrupt))
        thread.join(PATIENCE)
        assert [text_of(result) for result in reported] == ["x"]
        assert text_of(client.call_tool("echo", {"text": "next"})) == "next"
    with place.client(headers=interrupt) as client:
        thread, outcome = in_a_thread(client.ping)
        thread.join(PATIENCE)
        said = "the function that gives the headers failed: RuntimeError('KeyboardInterrupt was raised in a thread')"
        assert [str(error) for error in outcome] == [said]


def test_an_iterator_of_changes_ends_when_another_thread_closes_it(place: Place) -> None:
    with place.client() as client, client.listen(tools=True) as changes:
        client.call_tool("forget")
        assert next(changes) == Change(ChangeKind.TOOLS)
        thread, outcome = in_a_thread(lambda: list(changes))
        changes.close()
        thread.join(PATIENCE)
        assert outcome == [[]]


@pytest.mark.filterwarnings("error")
def test_a_process_that_was_forked_is_told_that_a_client_is_not_its_own(place: Place) -> None:
    reading, writing = os.pipe()
    with place.client() as client:
        client.list_tools()
        child = os.fork()
        if child == 0:
            with os.fdopen(writing, "w") as told:
                for use in (client.list_tools, client.close):
                    try:
                        use()
                    except LocalProtocolError as error:
                        told.write(f"{error}\n")
            os._exit(0)
        os.close(writing)
        with os.fdopen(reading) as told:
            said = told.read().splitlines()
        os.waitpid(child, 0)
        assert said == ["this client was used before the process was forked; make one in each process"] * 2
        assert client.list_tools()


def test_a_loop_that_runs_in_the_same_thread_makes_no_difference(place: Place) -> None:
    async def cell() -> str:
        with place.client() as client:
            return text_of(client.call_tool("echo", {"text": "in a notebook"}))

    async def notebook() -> str:
        # The server is in another thread, and its own loop's.
        return await asyncio.wait_for(cell(), PATIENCE)

    assert asyncio.run(notebook()) == "in a notebook"


@pytest.mark.parametrize("name", ["on_ask", "on_log", "headers"])
def test_an_async_callback_is_refused(name: str) -> None:
    async def callback(*given: Any) -> Any:
        raise AssertionError("nobody calls it")

    with pytest.raises(TypeError, match=f"^{name} is async, and a blocking client has no event loop"):
        sync.Client("http://127.0.0.1:9/mcp", **{name: callback})


def test_headers_are_made_anew_for_each_request_by_a_function_that_may_block(place: Place) -> None:
    made: list[str] = []

    def headers() -> dict[str, str]:
        made.append(threading.current_thread().name)
        return {"X-Token": str(len(made))}

    with place.client(speak.ENVELOPE[0], headers=headers) as client:
        client.ping()
        client.ping()
    assert len(made) >= 2
    assert threading.main_thread().name not in made


def test_what_is_wrong_with_a_child_is_said() -> None:
    with pytest.raises(ConnectionLost, match="cannot start 'no-such-program'"), sync.StdioClient("no-such-program"):
        pass
    client = sync.StdioClient(sys.executable, ["-c", "import sys; sys.exit('the last word')"])
    with client, pytest.raises(ConnectionLost, match="the last word"):
        client.ping()
    assert client.last_words.strip() == "the last word"
    with pytest.raises(ConnectionLost, match="exited with status 1"):
        client.ping()


def test_no_event_loop_is_loaded() -> None:
    code = """
import sys
from mcp_sansio import Registry
from mcp_sansio_sync import Application, Client, StdioClient
Application(Registry("s", "1"))
with Client("http://127.0.0.1:9/mcp") as client:
    try:
        client.ping()
    except Exception as error:
        print(type(error).__name__)
print({"asyncio", "trio", "aiohttp"} & set(sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE, check=True)
    assert done.stdout.split("\n") == ["ConnectionLost", "set()", ""]

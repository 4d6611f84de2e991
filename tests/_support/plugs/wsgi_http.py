"""The WSGI application of mcp_sansio_sync, under gunicorn's threads."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import pytest

from flags import PATIENCE, Flag
from mcp_sansio import Registry
from plugs import HttpServer, Serving, Settings
from worlds import Asyncio, in_a_thread


class WsgiServing(Serving):
    """An application under a server, and the loop that it is lent."""

    is_told_of_leaving = False

    def __init__(self, app: Any, listener: socket.socket, stop: Callable[[], None]) -> None:
        self.host, self.port = listener.getsockname()
        self.server = app.server
        self.stop = stop  # type: ignore[method-assign]


class WsgiServer(HttpServer):
    """`Application`, with a loop lent to it, since the handlers of the suite wait."""

    name = "wsgi, gunicorn"
    needs = ("mcp_sansio_sync", "gunicorn")
    lacks: ClassVar[dict[str, str]] = {
        "http": "HTTP is read by the WSGI server, whichever it is.",
        "connections": "A WSGI application can neither keep nor end its connection: the server does.",
        "trickling": "WSGI leaves the reading of a request, and its time limits, to the server.",
        "threads": "A plain function has the thread of its request, which sends nothing before that has ended.",
    }
    keep_alive = 0.05

    @contextmanager
    def serve(self, registry: Registry, settings: Settings) -> Iterator[Serving]:
        """See `HttpServer.serve`."""
        stopped = Flag()

        async def serve(ready: Callable[[Any], None], stop: Flag) -> None:
            def stop_now() -> None:
                stop.set()
                stopped.seen()

            app = application(registry, settings, asyncio.get_running_loop())
            listener = socket.create_server(("127.0.0.1", 0), backlog=1000)
            worker = start_worker(app, listener)
            ready(WsgiServing(app, listener, stop_now))
            await stop.wait()
            app.shutdown()
            worker.handle_exit(None, None)
            await self.end(worker, settings.patience)
            stopped.set()

        with no_lingering(), in_a_thread(Asyncio(), serve) as serving:
            yield serving

    async def end(self, worker: Any, patience: float) -> None:
        """Wait for what is in flight, and at last end what runs on the loop, as whoever lent it does with the loop."""
        ended = asyncio.ensure_future(worker.ended.wait())
        await asyncio.wait([ended], timeout=patience)
        for task in asyncio.all_tasks() - {asyncio.current_task(), ended}:
            task.cancel()
        await ended


def application(registry: Registry, settings: Settings, loop: asyncio.AbstractEventLoop) -> Any:
    """The application that a test wants."""
    from mcp_sansio_sync import Application

    header, options = settings.user_header, dict(settings.options)
    if header is not None:
        key = f"HTTP_{header.upper().replace('-', '_')}"
        options["principal"] = lambda environ: environ.get(key)
    if settings.pair:
        options["sse_path"] = "/sse"
    return Application(registry, path=settings.path, announces_changes=True, loop=loop, **options)


def start_worker(app: Any, listener: socket.socket) -> Any:
    """One of gunicorn's workers, in a thread of this process: without an arbiter, signals and files of its own."""
    from gunicorn.app.base import BaseApplication
    from gunicorn.glogging import Logger
    from gunicorn.workers.gthread import ThreadWorker

    class Settled(BaseApplication):
        def load_config(self) -> None:
            # Nothing of it is to end a test early, or to let it wait; each call in flight has a thread.
            options = {"threads": 600, "worker_connections": 1000, "keepalive": 1, "limit_request_line": 0}
            for name, value in {**options, "graceful_timeout": int(PATIENCE), "logger_class": Quiet}.items():
                self.cfg.set(name, value)

        def load(self) -> Any:
            return app

    class Quiet(Logger):
        def setup(self, cfg: Any) -> None:
            self.error_log.propagate = True  # what goes wrong is for the test to see

    class Worker(ThreadWorker):
        def __init__(self, settled: Any) -> None:
            super().__init__(0, os.getppid(), [listener], settled, PATIENCE, settled.cfg, Quiet(settled.cfg))
            self.begun, self.ended = Flag(), Flag()
            threading.Thread(target=self.live, name="serving").start()
            self.begun.seen()

        def init_signals(self) -> None:
            self.begun.set()  # they are the process's, and the next thing is to serve

        def set_accept_enabled(self, enabled: bool) -> None:
            super().set_accept_enabled(enabled)
            if not self.alive:
                listener.close()  # as the arbiter does

        def live(self) -> None:
            try:
                self.init_process()
            finally:
                self.tmp.close()
                for descriptor in self.PIPE:
                    os.close(descriptor)
                self.ended.set()

    return Worker(Settled())


@contextmanager
def no_lingering() -> Iterator[None]:
    """A worker waits seconds for the rest of a body that nobody read, and for further requests when it stops."""
    from gunicorn.workers import gthread

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(gthread, "STOP_KEEPALIVE_LINGER", 0.01)
        patched.setattr(gthread, "DEFAULT_WORKER_DATA_TIMEOUT", 0.5)
        yield


PLUGS = [WsgiServer()]

"""Redis and PostgreSQL as programs that are started on a unix socket in a folder of their own, for tests and benches.

Standard library only: the benches' environments have no pytest.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

#: Seconds that a program has to come up, or to end.
PATIENCE = 60.0


class EngineServer:
    """A program that listens on a unix socket. What it has saved outlives `kill` and `start`."""

    #: What the program is called.
    name: ClassVar[str]
    socket: Path
    url: str

    def __init__(self, folder: Path, program: str) -> None:
        self.folder = folder
        self.program = program
        self._process: subprocess.Popen[bytes] | None = None
        self._log = folder / "log"

    @classmethod
    def places(cls) -> list[Path]:
        """The folders where it may be, beside those of the PATH."""
        return []

    def start(self) -> None:
        """Return once it takes connections."""
        with self._log.open("ab") as log:
            self._process = self.spawn(log.fileno())
        deadline = time.monotonic() + PATIENCE
        while not self.answers():
            assert self._process.poll() is None, self._log.read_text("utf-8", "replace")
            assert time.monotonic() < deadline, "it does not come up"
            time.sleep(0.02)

    def kill(self) -> None:
        """``kill -9`` of all of its processes."""
        if self._process is not None:
            self.signal(signal.SIGKILL)
            self._process.wait(PATIENCE)
            self._process = None

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to all of its processes, of which PostgreSQL has one for each connection."""
        assert self._process is not None
        parent = self._process.pid
        os.kill(parent, signal.SIGSTOP)  # so that it makes no more of them meanwhile
        for process in [*_children(parent), parent]:
            try:
                os.kill(process, number)
            except ProcessLookupError:
                pass  # it has ended by itself

    def wipe(self) -> None:
        """Forget all that it has saved, while it does not run."""
        raise NotImplementedError

    def spawn(self, log: int) -> subprocess.Popen[bytes]:
        """Start the program."""
        raise NotImplementedError

    def run(self, words: list[str], log: int, user: str | None = None) -> subprocess.Popen[bytes]:
        """Start it with those words behind its name, and have it end if the tests do so without saying."""
        setpriv = shutil.which("setpriv")
        return subprocess.Popen(
            [*([setpriv, "--pdeathsig", "KILL"] if setpriv else []), self.program, *words],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=self.folder,
            user=user,
            start_new_session=True,
        )

    def answers(self) -> bool:
        """Whether it takes connections."""
        with socket.socket(socket.AF_UNIX) as probe:
            return probe.connect_ex(str(self.socket)) == 0


class RedisServer(EngineServer):
    """redis-server, which writes down what it is told before it answers."""

    name = "redis-server"

    def __init__(self, folder: Path, program: str) -> None:
        super().__init__(folder, program)
        self.socket = folder / "redis.sock"
        self.url = f"unix://{self.socket}"

    def wipe(self) -> None:
        """See `EngineServer.wipe`."""
        shutil.rmtree(self.folder / "appendonlydir")

    def spawn(self, log: int) -> subprocess.Popen[bytes]:
        """See `EngineServer.spawn`."""
        options = {"port": "0", "unixsocket": self.socket, "dir": self.folder, "appendonly": "yes", "save": ""}
        words = [str(word) for name, value in options.items() for word in (f"--{name}", value)]
        return self.run(words, log)

    def answers(self) -> bool:
        """See `EngineServer.answers`: it says that it is loading what it saved, at first."""
        with socket.socket(socket.AF_UNIX) as probe:
            if probe.connect_ex(str(self.socket)):
                return False
            probe.sendall(b"PING\r\n")
            return probe.recv(64).startswith(b"+PONG")


class PostgresServer(EngineServer):
    """postgres, which refuses to run as root: root runs it as the user that Debian's package made for it."""

    name = "postgres"

    @classmethod
    def places(cls) -> list[Path]:
        """See `EngineServer.places`: Debian puts it into a folder for each version, of which the newest is first."""
        folders = Path("/usr/lib/postgresql").glob("*/bin")
        return sorted(folders, key=lambda path: float(path.parent.name), reverse=True)

    def __init__(self, folder: Path, program: str) -> None:
        super().__init__(folder, program)
        self._user = "postgres" if os.geteuid() == 0 else None
        self.socket = folder / ".s.PGSQL.5432"
        self.url = f"host={folder} user=mcp dbname=postgres"
        if self._user is not None:
            shutil.chown(folder, self._user)
        self._initialize()

    def _initialize(self) -> None:
        initdb = [str(Path(self.program).with_name("initdb")), "--no-sync", "-A", "trust", "-U", "mcp", "-E", "UTF8"]
        data = str(self.folder / "data")
        subprocess.run([*initdb, data], user=self._user, cwd=self.folder, check=True, capture_output=True)

    def wipe(self) -> None:
        """See `EngineServer.wipe`."""
        shutil.rmtree(self.folder / "data")
        self._initialize()

    def spawn(self, log: int) -> subprocess.Popen[bytes]:
        """See `EngineServer.spawn`. What it has written outlives its processes without waiting for the disk."""
        words = ["-D", "data", "-k", str(self.folder), "-c", "listen_addresses=", "-c", "fsync=off"]
        return self.run(words, log, user=self._user)

    def answers(self) -> bool:
        """See `EngineServer.answers`: it takes connections, and refuses them, while it starts."""
        ready = [str(Path(self.program).with_name("pg_isready")), "-q", "-h", str(self.folder)]
        return subprocess.run(ready, check=False).returncode == 0


def _children(process: int) -> list[int]:
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            _, _, fields = stat.read_text("utf-8", "replace").rpartition(")")
        except OSError:
            continue  # it has ended meanwhile
        if int(fields.split()[1]) == process:
            found.append(int(stat.parent.name))
    return found


SERVERS: dict[str, type[EngineServer]] = {"redis": RedisServer, "postgres": PostgresServer}


@contextmanager
def serving(engine: str, program: str) -> Iterator[EngineServer]:
    """A server of that engine, up and empty, which `program` is the path of."""
    # Not a folder of the caller's: the path of a socket is short, and another user may have to reach it.
    folder = Path(tempfile.mkdtemp(prefix=f"mcp-{engine}-"))
    try:
        server = SERVERS[engine](folder, program)
        server.start()
        try:
            yield server
        finally:
            server.kill()
    finally:
        shutil.rmtree(folder, ignore_errors=True)

"""Several workers of one deployment, in memory: each a server with a registry of its own, one store and one hub."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mcp_sansio import Config, MemoryHub, Registry, Server
from mcp_sansio.testing import FakeEvent, Simulation


class Deployment:
    """Workers in one simulation, of which `at` chooses the one that gets the next requests."""

    def __init__(self, declare: Callable[[], Registry], *, workers: int = 2, **limits: Any) -> None:
        self.config = Config(**{"deletable_sessions": True, **limits})
        self.registries = [declare() for _ in range(workers)]
        self.simulation = Simulation(self.registries[0], config=self.config)
        self.store = self.simulation.server.store
        self.hub = MemoryHub(event=lambda: FakeEvent(self.simulation.scheduler))
        self.servers: list[Server] = []
        self._lines: list[list[Any]] = []
        for registry in self.registries:
            self.start(registry)
        self.at(0)
        self.idle = len(self.simulation.scheduler)

    def start(self, registry: Registry) -> int:
        """One more worker; its number."""
        server = Server(registry, runtime=self.simulation.runtime, config=self.config, store=self.store, hub=self.hub)
        self.servers.append(server)
        spawn = self.simulation.scheduler.spawn
        self._lines.append([spawn(server.follow()), spawn(server.relay())])
        spawn(server.workers.ready())
        self.simulation.settle()
        return len(self.servers) - 1

    def kill(self, worker: int) -> None:
        """That worker neither hears nor says anything from now on."""
        for line in self._lines[worker]:
            self.simulation.scheduler.cancel(line)
        self.simulation.settle()

    def at(self, worker: int) -> None:
        """The next requests come in at this worker."""
        self.simulation.server = self.servers[worker]

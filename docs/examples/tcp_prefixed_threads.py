"""MCP over TCP, with plain threads: each message has its length before it.

A channel's driver, of docs/write-a-transport.md. One thread has all engines; what blocks has another while it lasts.
"""

import secrets
import socket
import time
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Event as Flag
from threading import Thread, current_thread

from mcp_sansio import ChannelDriver, Registry, Runtime, Server
from mcp_sansio.stepping import Agenda, Event, run_outside
from mcp_sansio.wire.lines import Overlong


class Threads(Agenda):
    """The thread of the engines. It has the methods of `ServingLoop`, too."""

    now = staticmethod(time.monotonic)
    event = Event

    def __init__(self):
        self.inbox = SimpleQueue()
        self.call_soon = self.inbox.put
        super().__init__(self.now, self.call_soon, self.outside)
        self.thread = Thread(target=self.work, daemon=True)
        self.thread.start()

    def work(self):
        for function in iter(self.take, None):
            function()

    def take(self):
        while True:
            with suppress(Empty):  # raised when something is due, which is in the inbox next
                return self.inbox.get(timeout=self.pass_time())

    def outside(self, job):
        Thread(target=lambda: (job.run(), self.call_soon(job.done.set)), daemon=True).start()

    def run_in_loop(self, function):
        return function() if current_thread() is self.thread else self.call_soon(function)

    def runtime(self):
        lent = {"event": Event, "run_sync": run_outside, "run_in_loop": self.run_in_loop}
        return Runtime(now=self.now, token_bytes=secrets.token_bytes, **lent)

    async def wait(self, event, seconds):
        await (event.wait() if seconds is None else self.within(seconds, event.wait))

    def run(self, coroutine):
        """From any other thread: do what `coroutine` has to do, until it has ended."""
        over = Flag()
        self.call_soon(lambda: self.start(coroutine).add_done_callback(lambda task: over.set()))
        over.wait()

    def close(self):
        self.inbox.put(None)


def read(file, most):
    """The next message, unless it is longer than `most`, or None where there is none any more."""
    head = file.read(4)
    if len(head) < 4:
        return None
    size = int.from_bytes(head)
    if size <= most:
        return file.read(size)
    for start in range(0, size, 2**16):
        file.read(min(2**16, size - start))
    return Overlong(size)


async def serve_socket(server, threads, sock):
    """Serve the client at the other end of a socket."""
    driver = ChannelDriver(server, threads.start)

    def send(message):
        return run_outside(lambda: sock.sendall(len(message).to_bytes(4) + message))

    async def write():
        with suppress(OSError):
            await driver.write(send)
        with suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)  # a client that reads no more is not read either

    beside = [threads.start(write()), threads.start(driver.mind(threads.wait))]
    with sock, sock.makefile("rb") as file, suppress(OSError):  # which says that it has ended
        try:
            while (message := await run_outside(lambda: read(file, server.config.max_message))) is not None:
                await driver.receive(message)
        finally:
            await driver.close()
            for task in beside:
                task.cancel()
            sock.shutdown(socket.SHUT_RDWR)  # whoever still writes need not wait for the client


def main():
    threads = Threads()
    server = Server(Registry("prefixed", "1.0"), runtime=threads.runtime())
    with socket.create_server(("127.0.0.1", 8000)) as listener:
        while True:
            sock, _ = listener.accept()
            Thread(target=threads.run, args=[serve_socket(server, threads, sock)], daemon=True).start()


if __name__ == "__main__":
    main()

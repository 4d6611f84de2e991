"""Answers whatever comes in, unread, with one canned answer: what is measured with it is the load generator itself."""

from __future__ import annotations

import os
import select
import socket

import workload

BODY = b'{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"3"}]}}'
RESPONSE = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(BODY), BODY)
PIECE = 2**16


def http() -> None:
    """One answer for each read."""
    listening = socket.create_server(("127.0.0.1", 0), backlog=64)
    workload.announce(listening.getsockname()[1])
    poll, connections = select.poll(), {listening.fileno(): listening}
    poll.register(listening, select.POLLIN)
    while True:
        for descriptor, _ in poll.poll():
            connection = connections[descriptor]
            if connection is listening:
                accepted, _ = listening.accept()
                connections[accepted.fileno()] = accepted
                poll.register(accepted, select.POLLIN)
            elif connection.recv(PIECE):
                connection.sendall(RESPONSE)
            else:
                poll.unregister(descriptor)
                connections.pop(descriptor).close()


def stdio() -> None:
    """One answer for each line, without looking into it."""
    while data := os.read(0, PIECE):
        os.write(1, (BODY + b"\n") * data.count(b"\n"))


if __name__ == "__main__":
    workload.main(http=http, stdio=stdio)

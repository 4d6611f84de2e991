"""MCP over a unix socket, on trio: each line is a message. A channel's driver, of docs/write-a-transport.md."""

import secrets
from contextlib import suppress
from functools import partial

import trio

from mcp_sansio import ChannelDriver, Registry, Runtime, Server
from mcp_sansio.wire.lines import LineDecoder, encode_line


def runtime():
    """What the running loop lends."""
    token = trio.lowlevel.current_trio_token()
    return Runtime(
        now=trio.current_time,
        token_bytes=secrets.token_bytes,
        event=trio.Event,
        run_sync=partial(trio.to_thread.run_sync, abandon_on_cancel=True),
        run_in_loop=token.run_sync_soon,
    )


async def wait(event, seconds):
    """Wait for `event` so many seconds at most."""
    with trio.move_on_after(float("inf") if seconds is None else seconds):
        await event.wait()


async def scoped(scope, work):
    """Do `work`, within a scope of its own."""
    with scope:
        await work


def start_in(nursery, work):
    """Run `work` in `nursery`; what is returned cancels it."""
    scope = trio.CancelScope()
    nursery.start_soon(scoped, scope, work)
    return scope


async def write_lines(driver, stream, nursery):
    """Send what the server says. A client that reads no more is not served any more."""
    with suppress(trio.BrokenResourceError):
        await driver.write(lambda message: stream.send_all(encode_line(message)))
    nursery.cancel_scope.cancel()


async def serve_stream(server, stream):
    """Serve the client at the other end of `stream`."""
    lines = LineDecoder(server.config.max_message)
    async with stream, trio.open_nursery() as nursery:
        driver = ChannelDriver(server, partial(start_in, nursery))
        nursery.start_soon(driver.mind, wait)
        nursery.start_soon(write_lines, driver, stream, nursery)
        try:
            async for data in stream:
                lines.receive_data(data)
                for line in lines.lines():
                    await driver.receive(line)
        except trio.BrokenResourceError:
            pass  # it has ended
        finally:
            nursery.cancel_scope.cancel()
            with trio.CancelScope(shield=True):
                await driver.close()


async def serve_unix(registry, path, **options):
    """Serve `registry` on a unix socket at `path`, until cancelled."""
    server = Server(registry, runtime=runtime(), **options)
    with trio.socket.socket(trio.socket.AF_UNIX) as bound:
        await bound.bind(path)
        bound.listen()
        await trio.serve_listeners(partial(serve_stream, server), [trio.SocketListener(bound)])


if __name__ == "__main__":
    trio.run(serve_unix, Registry("unix", "1.0"), "mcp.sock")

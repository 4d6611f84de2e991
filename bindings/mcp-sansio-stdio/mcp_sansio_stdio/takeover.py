"""A process that is a server, whatever its event loop: its streams are the protocol's alone, and signals end it."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["end_without_waiting", "private_stdio", "signals_to"]

#: Seconds that threads of the program's own have once the main thread has ended.
_GRACE = 0.5

_INPUT, _OUTPUT, _ERRORS = 0, 1, 2


@contextmanager
def private_stdio() -> Iterator[tuple[int, int]]:
    """Private descriptors of the standard input and output, which nobody else can reach meanwhile.

    Descriptor 1 becomes the error output and descriptor 0 an empty input, so that neither C code nor a child process
    writes between messages or reads some of them; ``sys.stdout`` and ``sys.stdin`` follow. What was printed before and
    still sits in a buffer goes to the error output as well. A standard stream that is closed has ended.
    """
    stdin, stdout = sys.stdin, sys.stdout
    taken = _open_what_is_closed()
    # A number that is somebody else's is left alone: its stream has ended.
    ours = tuple(number for number in (_INPUT, _OUTPUT) if number not in taken)
    private = {number: os.dup(number) if number in ours else _open_nothing() for number in (_INPUT, _OUTPUT)}
    with open(os.devnull, encoding="utf-8") as empty:
        for number, instead in ((_INPUT, empty.fileno()), (_OUTPUT, _ERRORS)):
            if number in ours:
                os.dup2(instead, number)
        _flush(stdout)
        sys.stdin, sys.stdout = empty, sys.stderr
        try:
            yield private[_INPUT], private[_OUTPUT]
        finally:
            _flush(stdout)
            sys.stdin, sys.stdout = stdin, stdout
            for number, descriptor in private.items():
                if number in ours:
                    os.dup2(descriptor, number)
                os.close(descriptor)


def _open_what_is_closed() -> set[int]:
    """Put something under the standard numbers, or the next descriptor that anybody opens would have one of them.

    Those are returned that somebody has already: where the interpreter found one closed at its start, it has no stream
    for it, and whatever is there now is none.
    """
    taken = set()
    streams = ((_INPUT, sys.__stdin__), (_OUTPUT, sys.__stdout__), (_ERRORS, sys.__stderr__))
    for number, stream in streams:
        try:
            os.fstat(number)
        except OSError:
            # It gets the lowest number that is free, which is this one.
            os.open(os.devnull, os.O_WRONLY if number == _ERRORS else os.O_RDONLY)
            continue
        if stream is None:
            taken.add(number)
    return taken


def _open_nothing() -> int:
    """An input that has ended, and an output that cannot be written."""
    return os.open(os.devnull, os.O_RDONLY)


def _flush(stream: Any) -> None:
    """Write out what `stream` holds; it may be ``None``, closed or broken."""
    try:
        if stream is not None:
            stream.flush()
    except (OSError, ValueError):
        pass  # there is nobody left to read it


@contextmanager
def signals_to(stop: Callable[[], object], wake_up: Callable[[int], object] = lambda number: None) -> Iterator[None]:
    """Call `stop` on the first SIGINT or SIGTERM; a second one ends the process. Handlers of the program's are left.

    `stop` is called as a signal handler is, in the midst of anything. `wake_up` is called with each number before, for
    a loop that has to be told which signals it is to notice while it waits.
    """
    before: dict[signal.Signals, Any] = {}

    def handle(number: int, frame: object) -> None:
        signal.signal(number, signal.SIG_DFL)
        stop()

    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM):
            if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
                before[number] = signal.getsignal(number)
                wake_up(number)
                signal.signal(number, handle)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def end_without_waiting() -> None:
    """Once the main thread has ended, end the process half a second later whatever other threads still do.

    For the threads that handlers started for themselves: the interpreter would wait for those without limit. It does
    nothing where there are none, and never before the main thread has run to its end.
    """
    main = threading.main_thread()

    def watch() -> None:
        main.join()
        time.sleep(_GRACE)
        os._exit(0)

    if any(thread is not main and not thread.daemon for thread in threading.enumerate()):
        threading.Thread(target=watch, name="mcp_sansio_stdio", daemon=True).start()

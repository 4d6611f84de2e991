"""The process's own input and output, kept for the protocol alone while it is served."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_INPUT, _OUTPUT, _ERRORS = 0, 1, 2


@contextmanager
def private_stdio() -> Iterator[tuple[int, int]]:
    """Private descriptors of the standard input and output, which nobody else can reach meanwhile.

    Descriptor 1 becomes the error output and descriptor 0 an empty input, so that neither C code nor a child process
    writes between messages or reads some of them; ``sys.stdout`` and ``sys.stdin`` follow. What was printed before and
    still sits in a buffer goes to the error output as well. A standard stream that is closed has ended.
    """
    stdin, stdout = sys.stdin, sys.stdout
    _open_what_is_closed()
    source, sink = os.dup(_INPUT), os.dup(_OUTPUT)
    with open(os.devnull, encoding="utf-8") as empty:
        os.dup2(empty.fileno(), _INPUT)
        os.dup2(_ERRORS, _OUTPUT)
        _flush(stdout)
        sys.stdin, sys.stdout = empty, sys.stderr
        try:
            yield source, sink
        finally:
            _flush(stdout)
            sys.stdin, sys.stdout = stdin, stdout
            for private, standard in ((source, _INPUT), (sink, _OUTPUT)):
                os.dup2(private, standard)
                os.close(private)


def _open_what_is_closed() -> None:
    """Put something under the standard numbers, or the next descriptor that anybody opens would have one of them.

    An input like this has ended, and an output cannot be written.
    """
    for descriptor, mode in ((_INPUT, os.O_RDONLY), (_OUTPUT, os.O_RDONLY), (_ERRORS, os.O_WRONLY)):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, mode)  # it gets the lowest number that is free, which is this one


def _flush(stream: Any) -> None:
    """Write out what `stream` holds; it may be ``None``, closed or broken."""
    try:
        if stream is not None:
            stream.flush()
    except (OSError, ValueError):
        pass  # there is nobody left to read it

"""Requests over urllib3 that another thread can end: at any time, and none but the one that it means."""

from __future__ import annotations

import socket
import threading
from typing import Any, cast

from urllib3 import BaseHTTPResponse, HTTPConnectionPool, PoolManager
from urllib3.connection import HTTPConnection
from urllib3.exceptions import HTTPError, NewConnectionError

from mcp_sansio import HttpRequest

#: One read.
_PIECE = 64 * 2**10
#: The exchange that this thread is at, for the connection that its request goes out on.
_at_work = threading.local()


class Exchange:
    """One request and its response. `open` and `read` block, each in whatever thread; `cut` never does.

    `used` gets the pools that connections were taken from.
    """

    def __init__(self, pools: PoolManager, used: set[HTTPConnectionPool]) -> None:
        self._pools = pools
        self._used = used
        self._lock = threading.Lock()
        self._line: Line | None = None
        self._response: BaseHTTPResponse | None = None
        self._is_cut = False

    def open(self, request: HttpRequest) -> BaseHTTPResponse:
        """Send the request, and return when the head of its response is there.

        Raises ``NewConnectionError`` where there is no connection for it, and what went wrong in the first place else.
        """
        pool = self._pools.connection_from_url(request.url)
        self._used.add(pool)
        pool.ConnectionCls = _cuttable(cast("type[HTTPConnection]", pool.ConnectionCls))
        _at_work.exchange = self
        try:
            response = self._pools.urlopen(
                request.method, request.url, body=request.body or None, headers=request.headers, redirect=False,
                retries=False, preload_content=False, decode_content=False, timeout=None,
            )  # fmt: skip
        except HTTPError as error:
            raise _unwrapped(error) from None
        finally:
            _at_work.exchange = None
        with self._lock:
            self._response = response
            if self._is_cut or response.status == 101:  # whose connection is none of HTTP any more
                response.close()
        return response

    def read(self) -> bytes:
        """A piece of the body. Where there is none, the response says that it is `closed`."""
        assert self._response is not None
        try:
            return self._response.read1(_PIECE)
        except HTTPError as error:
            raise _unwrapped(error) from None

    def goes_out_on(self, line: Line) -> None:
        """`line` carries this request. Raises ``OSError`` where it is not wanted any more."""
        with self._lock:
            if self._is_cut:
                raise OSError("the request was given up")
            self._line = line

    def cut(self) -> None:
        """End it: whoever waits for something of it does so no longer. Nothing of it is to be used any more."""
        with self._lock:
            self._is_cut = True
            line = self._line
        if line is not None:
            line.cut(self)

    def close(self) -> None:
        """Let go of what was cut."""
        if self._response is not None:
            self._response.close()


class Line(HTTPConnection):
    """A connection that knows which exchange it is used for."""

    _carried: Exchange | None = None
    _was_cut = False
    #: Kept, since a connection that ends with its response lets go of its own while that is still read.
    _socket: socket.socket | None = None

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._guard = threading.Lock()

    def request(self, *args: Any, **options: Any) -> None:
        """See ``HTTPConnection.request``."""
        self._carry()
        super().request(*args, **options)

    def connect(self) -> None:
        """See ``HTTPConnection.connect``."""
        super().connect()
        self._socket = self.sock
        self._carry()  # the exchange may have been given up meanwhile, when there was nothing to cut

    def _carry(self) -> None:
        exchange: Exchange | None = getattr(_at_work, "exchange", None)
        with self._guard:
            self._carried = exchange
            if self._was_cut:
                self._was_cut = False
                self.close()  # it was cut after its exchange had given it back; it connects again
        if exchange is not None:
            exchange.goes_out_on(self)

    def cut(self, exchange: Exchange) -> None:
        """Have both directions fail at once, if it is still used for `exchange`."""
        with self._guard:
            held = getattr(self, "sock", None) or self._socket
            if self._carried is not exchange or held is None:
                return
            self._was_cut = True
            try:
                # Not the method of an SSLSocket, which takes from a thread that reads what it reads with.
                socket.socket.shutdown(held, socket.SHUT_RDWR)
            except OSError:
                pass  # it is over already


def _unwrapped(error: BaseException) -> BaseException:
    """What went wrong in the first place, that the connection was reset, say; or a ``NewConnectionError``."""
    while isinstance(error, HTTPError) and error.__cause__ is not None and not isinstance(error, NewConnectionError):
        error = error.__cause__
    return error


_classes: dict[type[HTTPConnection], type[HTTPConnection]] = {}


def _cuttable(cls: type[HTTPConnection]) -> type[HTTPConnection]:
    """`cls`, for a connection that is a `Line` as well."""
    if issubclass(cls, Line):
        return cls
    return _classes.setdefault(cls, type(cls.__name__, (Line, cls), {}))

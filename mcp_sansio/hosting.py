"""What every host of a server does alike, whatever its HTTP library and its event loop.

It says who a request is from, that one is refused, and whether it came in on a loopback address, and keeps in touch
with the other workers.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Hashable, Mapping
from functools import lru_cache
from ipaddress import ip_address

from .storage import StoreUnavailable
from .wire.headers import check_headers

__all__ = ["HUB_PAUSE", "HttpRefusal", "checked_principal", "found_principal", "is_loopback", "keep_up"]

#: Seconds before a hub that failed is tried again.
HUB_PAUSE = 1.0
#: What tells a client where an answer ends.
_FRAMING = frozenset({"content-length", "transfer-encoding"})


class HttpRefusal(Exception):
    """A request that is answered with `status` and this `text`, and goes no further. `headers` are for the answer.

    Raises ``ValueError`` for a status that is not from 400 to 599, and for headers that cannot be sent, or that say how
    long the answer is: here, since nobody would be told where it is sent.
    """

    def __init__(self, status: int, text: str = "", headers: Mapping[str, str] = {}) -> None:
        if not 400 <= status <= 599:
            raise ValueError(f"a refusal has a status from 400 to 599, not {status}")
        check_headers(headers)
        self.headers = {name: value.strip(" \t") for name, value in headers.items()}
        for name, value in headers.items():
            if name.lower() in _FRAMING or not value.isascii():
                raise ValueError(f"a refusal cannot have the header {name}: {value}")
        super().__init__(text)
        self.status = status


def checked_principal(principal: object) -> str | None:
    """`principal`, if it can be one: what belongs to a user is found again by it, so it has to be the same each time.

    Raises ``TypeError`` for anything but a string or ``None``. A host logs that and answers with 500.
    """
    if principal is None or isinstance(principal, str):
        return principal
    kind = type(principal).__name__
    raise TypeError(f"a principal is a str or None, not {kind}: the option principal=… takes a function that gives one")


async def found_principal(found: object) -> str | None:
    """What a function for principals has found, which may have to be awaited. Raises as `checked_principal` does."""
    return checked_principal(await found if isinstance(found, Awaitable) else found)


@lru_cache(maxsize=64)
def is_loopback(address: Hashable) -> bool:
    """Whether only this machine can reach a socket's own `address`, which is as ``socket.getsockname()`` gives it.

    A unix socket's address is a string. That is guarded by its file's permissions, and no name is resolved to it. A
    server has few addresses, so what was found of one is remembered.
    """
    return isinstance(address, tuple) and len(address) > 1 and _is_loopback(address[0])


@lru_cache(maxsize=64)
def _is_loopback(host: str) -> bool:
    try:
        address = ip_address(host)
    except ValueError:
        return False
    # A socket of both families shows an IPv4 address as ::ffff:127.0.0.1.
    mapped = getattr(address, "ipv4_mapped", None)
    return bool((mapped or address).is_loopback)


async def keep_up(
    line: Callable[[], Awaitable[None]], sleep: Callable[[float], Awaitable[object]], logger: logging.Logger
) -> None:
    """Go on with `line`, which is `Server.follow` or `Server.relay`, for ever, whatever becomes of the hub meanwhile.

    `sleep` waits that many seconds, as ``asyncio.sleep`` does. Failures of the hub are told to `logger`.
    """
    while True:
        try:
            await line()
        except StoreUnavailable as error:
            logger.error("the hub failed; it is tried again in %g s: %s", HUB_PAUSE, error)
        except Exception:
            logger.exception("the hub failed; it is tried again in %g s", HUB_PAUSE)
        await sleep(HUB_PAUSE)

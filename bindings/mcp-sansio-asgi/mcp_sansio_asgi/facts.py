"""What only the binding can know of a request: who sent it, where it came in, and what of its path is ours."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from functools import lru_cache
from typing import Any

from mcp_sansio.hosting import is_loopback

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Principal = Callable[[Scope], str | None]


def principal_of(scope: Scope) -> str | None:
    """Whom a middleware found: ``scope["user"]``, which is a string, or has an `identity` that is one.

    A user with an `is_authenticated` that is false is nobody. Raises ``TypeError`` for any other object.
    """
    user = scope.get("user")
    if user is None or isinstance(user, str):
        return user
    if not getattr(user, "is_authenticated", True):
        return None
    try:
        identity: str | None = user.identity
    except (AttributeError, NotImplementedError):
        kind = type(user).__name__
        raise TypeError(
            f"the user that a middleware found is a {kind} without an identity: "
            "the option principal=… takes a function that makes a string of the scope"
        ) from None
    return identity


def is_on_loopback(scope: Scope) -> bool:
    """Whether the request came in on an address that only this machine can reach.

    The server's own address tells. Where that is a name, the client's does; a header may have had a part in it.
    """
    return is_loopback(tuple(scope.get("server") or ())) or is_loopback(tuple(scope.get("client") or ()))


def target_of(scope: Scope) -> str:
    """The path with its query, as it was sent."""
    return _target(scope.get("raw_path") or scope["path"].encode(), scope.get("query_string"))


@lru_cache(maxsize=64)  # nearly all requests are to the same one
def _target(path: bytes, query: bytes | None) -> str:
    target = b"%b?%b" % (path, query) if query else path
    return target.decode("latin-1")


def path_below(scope: Scope) -> str:
    """The path below where the application is mounted, without a slash at its end.

    ``root_path`` is what a mount, or a proxy in front, has for itself. Servers differ in whether the path shows it.
    """
    return _below(scope["path"], scope.get("root_path", ""))


@lru_cache(maxsize=64)  # as above
def _below(path: str, root: str) -> str:
    below = path.removeprefix(root) if path == root or path.startswith(f"{root}/") else path
    return below.rstrip("/")

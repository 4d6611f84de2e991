"""Which revision a message is written in, worked out once for each message and before anything is decoded."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from importlib import import_module
from typing import Self

from mcp_sansio.outcome import Failure, FailureKind, Rejected

from .base import Adapter
from .preamble import Preamble

#: The revisions that come with the library, newest first. A revision is one file named after it, and its line here.
REVISIONS = (
    "2026-07-28",
    "2025-11-25",
    "2025-06-18",
    "2025-03-26",
    "2024-11-05",
)


@cache
def adapter_for(version: str) -> Adapter:
    """The one adapter of `version`, a member of `REVISIONS`."""
    suffix = version.replace("-", "_")
    module = import_module(f"{__package__}.v{suffix}")
    adapter: Adapter = getattr(module, f"Adapter{suffix}")()
    return adapter


class AdapterSet:
    """The revisions that a server or client speaks, newest first. Immutable; the windows give new sets."""

    def __init__(self, adapters: Iterable[Adapter]) -> None:
        self.adapters = tuple(sorted(adapters, key=lambda adapter: adapter.version, reverse=True))
        if not self.adapters:
            raise ValueError("an AdapterSet needs at least one revision")
        #: The newest adapter. It renders what is refused before a revision is known.
        self.fallback = self.adapters[0]
        self.by_version = {adapter.version: adapter for adapter in self.adapters}
        self._newest_handshake = next((adapter for adapter in self.adapters if adapter.has_handshake), None)
        self._implied = next((adapter for adapter in self.adapters if adapter.is_implied), None)

    @classmethod
    def default(cls) -> Self:
        """Every revision of the library."""
        return cls(adapter_for(version) for version in REVISIONS)

    def only(self, *versions: str) -> Self:
        """Just these revisions. Raises ``ValueError`` for one that is not in the set."""
        for version in versions:
            self._known(version)
        return type(self)(self.by_version[version] for version in versions)

    def since(self, version: str) -> Self:
        """`version` and what is newer. Raises ``ValueError`` where it is not in the set."""
        self._known(version)
        return type(self)(adapter for adapter in self.adapters if adapter.version >= version)

    def until(self, version: str) -> Self:
        """`version` and what is older. Raises ``ValueError`` where it is not in the set."""
        self._known(version)
        return type(self)(adapter for adapter in self.adapters if adapter.version <= version)

    def with_handshake(self) -> Self | None:
        """The revisions that have a handshake, or ``None`` where none has."""
        held = [adapter for adapter in self.adapters if adapter.has_handshake]
        return type(self)(held) if held else None

    def _known(self, version: str) -> None:
        if version not in self.by_version:
            raise ValueError(f"{version!r} is not among the revisions {', '.join(self.versions)}")

    @property
    def versions(self) -> tuple[str, ...]:
        """The revisions' names, newest first. The one list that is told to clients and checked against."""
        return tuple(self.by_version)

    def negotiate(self, requested: str) -> Adapter:
        """The adapter that a handshake for `requested` settles on (basic/lifecycle, "Version Negotiation").

        Raises `Rejected` where no revision of the set has a handshake.
        """
        adapter = self.by_version.get(requested)
        if adapter is not None and adapter.has_handshake:
            return adapter
        if self._newest_handshake is None:
            raise self.unsupported(requested)
        return self._newest_handshake

    def select(self, preamble: Preamble, remembered: str | None = None) -> Adapter:
        """The adapter for a message. `remembered` is the revision that its session negotiated, if it has one.

        Raises `Rejected`, to be rendered by `fallback`.
        """
        if preamble.fault is not None:
            raise Rejected(Failure(FailureKind.PARSE, f"the body is not JSON: {preamble.fault}"))
        if preamble.pin is not None:
            return self._stated(preamble.pin)
        stated, header = preamble.meta_version, preamble.header_version
        if stated is None and preamble.method == "initialize":
            return self._for_handshake(preamble)
        if header is not None:
            header = header.strip()
            if stated is None:
                stated = header
            elif header != stated:
                text = "the version header does not match the version in _meta"
                raise Rejected(Failure(FailureKind.HEADER_MISMATCH, text))
        if stated is not None:
            adapter = self.by_version.get(stated) if isinstance(stated, str) else None
            return adapter or self._stated(stated)
        if remembered in self.by_version:
            return self.by_version[remembered]
        # Who speaks a revision without a handshake says so in each message; silence is somebody else's.
        return self._implied or self._newest_handshake or self.fallback

    def _for_handshake(self, preamble: Preamble) -> Adapter:
        # A client ahead of this server announces a version that nobody here knows; its handshake negotiates all the
        # same. So does one whose header names a revision that has no handshake.
        adapter = self.by_version.get(preamble.header_version or "")
        if adapter is not None and adapter.has_handshake:
            return adapter
        if self._newest_handshake is not None:
            return self._newest_handshake
        params = preamble.body.get("params")
        version = params.get("protocolVersion") if isinstance(params, dict) else None
        raise self.unsupported(version)

    def _stated(self, version: object) -> Adapter:
        adapter = self.by_version.get(version) if isinstance(version, str) else None
        if adapter is None:
            raise self.unsupported(version)
        return adapter

    def unsupported(self, requested: object) -> Rejected:
        """The refusal of a revision that is not served (basic/versioning, "Protocol Version Negotiation")."""
        named = requested if isinstance(requested, str) else ""
        data = {"supported": list(self.versions), "requested": named[:100]}
        message = f"unsupported protocol version; this server speaks {', '.join(self.versions)}"
        return Rejected(Failure(FailureKind.UNSUPPORTED_VERSION, message, data))

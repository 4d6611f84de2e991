"""A revision that nobody has specified, for the rehearsal in tests/test_a_change_rehearsed.py.

It is written as its author would write it: this one file goes into ``mcp_sansio/adapters``. It renames a method, moves
a header, and adds a member to every result for which no flag exists.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from mcp_sansio.operation import Operation
from mcp_sansio.registry import Registry
from mcp_sansio.specs import CacheHint
from mcp_sansio.types import JSON

from .v2026_07_28 import Adapter2026_07_28


class Adapter2099_01_01(Adapter2026_07_28):
    """The revision of 2099-01-01."""

    version: ClassVar[str] = "2099-01-01"
    name_header: ClassVar[str] = "mcp-target"

    methods: ClassVar[Mapping[str, Operation]] = {
        "tools/invoke" if operation is Operation.CALL_TOOL else method: operation
        for method, operation in Adapter2026_07_28.methods.items()
    }

    def finished(self, body: dict[str, JSON], registry: Registry, hint: CacheHint | None = None) -> dict[str, JSON]:
        """Every result says what it cost."""
        return super().finished({**body, "cost": 0}, registry, hint)

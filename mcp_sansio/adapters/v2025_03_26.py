"""Revision 2025-03-26: the first Streamable HTTP, the only one with batches, and the one that silence implies.

It has no elicitation, so questions of every kind ride in the tool call.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from ._handshake import HandshakeAdapter
from .projection import FULL, Shape


class Adapter2025_03_26(HandshakeAdapter):
    """The revision of 2025-03-26."""

    version: ClassVar[str] = "2025-03-26"
    asks_in_arguments: ClassVar[bool] = True
    has_version_header: ClassVar[bool] = False
    allows_batch: ClassVar[bool] = True
    is_implied: ClassVar[bool] = True

    shape: ClassVar[Shape] = msgspec.structs.replace(
        FULL.without("title", "icons", "_meta", "outputSchema", "lastModified", "resource_link"),
        implementation=frozenset({"name", "version"}),
        tool_annotations=FULL.tool_annotations,
        structured_content="none",
        simplifies_schemas=True,
    )

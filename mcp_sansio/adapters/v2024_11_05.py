"""Revision 2024-11-05: the first. Over HTTP it is a pair of endpoints, over stdio it is spoken like its successors.

Questions of every kind ride in the tool call, as in the revision after it.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from ._handshake import HandshakeAdapter
from .projection import FULL, Shape


class Adapter2024_11_05(HandshakeAdapter):
    """The revision of 2024-11-05."""

    version: ClassVar[str] = "2024-11-05"
    asks_in_arguments: ClassVar[bool] = True
    has_version_header: ClassVar[bool] = False

    shape: ClassVar[Shape] = msgspec.structs.replace(
        FULL.without("title", "icons", "_meta", "lastModified", "resource_link", "audio", "message"),
        implementation=frozenset({"name", "version"}),
        tool=frozenset({"name", "description", "inputSchema"}),
        structured_content="none",
        has_completions=False,
        simplifies_schemas=True,
    )

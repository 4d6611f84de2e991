"""Revision 2025-11-25: sessions and pushed questions, URL elicitation, streams that a server may let go of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import msgspec

from mcp_sansio.types import JSON

from ._handshake import HandshakeAdapter
from .projection import FULL, Shape


class Adapter2025_11_25(HandshakeAdapter):
    """The revision of 2025-11-25."""

    version: ClassVar[str] = "2025-11-25"
    can_push_ask: ClassVar[bool] = True
    askable: ClassVar[Mapping[str, JSON]] = {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}}
    primes_streams: ClassVar[bool] = True
    # The schema made the id of an error optional, and still does not take null.
    null_error_id: ClassVar[bool] = False

    shape: ClassVar[Shape] = msgspec.structs.replace(FULL, structured_content="object", simplifies_schemas=True)

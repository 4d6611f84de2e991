"""What can be known of a message before its revision is: the smallest parse that makes selection total.

The envelope's shape depends on the revision (one allows batches, the others do not), so no typed decoding can happen
before the revision is chosen. A preamble validates nothing beyond "is this JSON".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from mcp_sansio.types import JSON
from mcp_sansio.wire.headers import Headers
from mcp_sansio.wire.json import JsonError, decode

#: The URL's query parameter by which an operator pins an endpoint to one revision.
PIN = "mcp"
VERSION_HEADER = "mcp-protocol-version"
META_VERSION = "io.modelcontextprotocol/protocolVersion"


_NO_HEADERS = Headers()


class Preamble(Struct, frozen=True, eq=False):
    """A message as it came in, and the places where it may state a revision.

    `fault` says why the body is no JSON, or is ``None``. `pin`, `meta_version` and `header_version` are what the URL,
    the body and the header state. A statement in the body that is no string is kept as it is, to be refused as such. A
    batch states what its first message does, so that a revision without batches can say so itself.
    """

    body: JSON
    fault: JsonError | None
    headers: Headers
    pin: str | None
    method: str | None
    meta_version: Any
    header_version: str | None

    @classmethod
    def of(
        cls,
        raw: bytes | bytearray,
        headers: Mapping[str, str] | None = None,
        query: Mapping[str, str] | None = None,
        *,
        max_depth: int = 128,
    ) -> Preamble:
        """The preamble of `raw`, the bytes of one HTTP body or one line. It never raises."""
        body: JSON = None
        method: JSON = None
        fault: JsonError | None = None
        try:
            body = decode(raw, max_depth=max_depth)
        except JsonError as error:
            fault = error
        if isinstance(body, list):
            first = body[0] if body else None
        else:
            first, method = body, body.get("method") if isinstance(body, dict) else None
        params = first.get("params") if isinstance(first, dict) else None
        held = _NO_HEADERS if headers is None else headers if type(headers) is Headers else Headers(headers)
        meta = params.get("_meta") if isinstance(params, dict) else None
        return cls(
            body,
            fault,
            held,
            query.get(PIN) if query else None,
            method if isinstance(method, str) else None,
            meta.get(META_VERSION) if isinstance(meta, dict) else None,
            held.fields.get(VERSION_HEADER),
        )

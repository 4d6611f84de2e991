"""What the head of a request decides before its body is read: whether it is admitted, and how it is answered.

Clients send the same few heads again and again, so verdicts are kept, of heads that `Headers.of_bytes` would keep.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from types import MappingProxyType

from msgspec import Struct

from mcp_sansio.adapters.preamble import PIN, VERSION_HEADER
from mcp_sansio.adapters.selection import AdapterSet
from mcp_sansio.outcome import Failure, FailureKind
from mcp_sansio.wire.headers import Headers
from mcp_sansio.wire.hosts import split_target

from . import gate
from .config import Config
from .sessions import SESSION_HEADER, session_key

_NO_QUERY: Mapping[str, str] = MappingProxyType({})
_SESSION = SESSION_HEADER.lower()
#: How many verdicts are kept, and the characters that the target of each may have.
_MOST, _MAX_TARGET = 256, 1024


class RequestHead(Struct, frozen=True, eq=False):
    """The head of a request, and the verdict on it."""

    target: str
    headers: Headers
    loopback: bool
    #: The query of the target, percent-decoded.
    query: Mapping[str, str]
    session_id: str | None
    #: Where that session, if there is one, is stored where it is nobody's in particular.
    session_key: str
    #: Why it is refused, or ``None``; and the same for a POST, of which the body that it announces counts as well.
    fault: Failure | None
    fault_of_post: Failure | None
    #: What lets a browser's script read the response.
    cors: gate.Pairs
    accepts_json: bool
    accepts_stream: bool
    #: All that a head has a say in where its body is read: heads that are alike in this are alike, see `familiar`.
    place: Hashable


class RequestHeads:
    """Judges the heads of the requests to one server of `adapters`, within the limits of `config`."""

    def __init__(self, config: Config, adapters: AdapterSet) -> None:
        self._config = config
        self._admission = gate.admission(allowed_hosts=config.allowed_hosts, allowed_origins=config.allowed_origins)
        mirrors = (name for adapter in adapters.adapters for name in adapter.mirroring_headers)
        self._stated_in = tuple(dict.fromkeys((VERSION_HEADER, *mirrors)))
        self._known: dict[Hashable, RequestHead] = {}

    def of_bytes(self, target: str, pairs: Iterable[tuple[bytes, bytes]], loopback: bool) -> RequestHead:
        """`judged`, of headers as they came over the wire: the same object for the same ones, mostly."""
        key = target, tuple(pairs), loopback
        try:
            head = self._known.get(key)
        except TypeError:  # they are lists, as an ASGI server may have them
            key = target, tuple([(name, value) for name, value in key[1]]), loopback
            head = self._known.get(key)
        if head is None:
            headers = Headers.of_bytes(key[1])
            head = self.judged(target, headers, loopback)
            if headers.is_kept and len(target) <= _MAX_TARGET:
                if len(self._known) >= _MOST:
                    self._known.clear()  # in one step, since threads share it
                self._known[key] = head
        return head

    def judged(self, target: str, headers: Headers, loopback: bool) -> RequestHead:
        """The verdict on a request for `target`. `loopback` says whether it came in on a loopback address."""
        config, get = self._config, headers.fields.get
        if headers.size > config.max_headers:  # first: what the others judge, they remember
            text = f"the headers are larger than {config.max_headers} bytes"
            fault = Failure(FailureKind.HEADERS_TOO_LARGE, text)
            return RequestHead(target, headers, loopback, _NO_QUERY, None, "", fault, fault, (), False, False, None)
        refused, cors = self._admission(get("host"), get("origin"), loopback)
        query = split_target(target)[1] if "?" in target else _NO_QUERY
        session_id = get(_SESSION)
        accepts_json, accepts_stream = gate.accepted_forms(get("accept"))
        return RequestHead(
            target,
            headers,
            loopback,
            query,
            session_id,
            "" if session_id is None else session_key(session_id, None),
            refused,
            refused or gate.fault_of_body(get("content-type"), get("content-length"), config.max_message),
            () if refused is not None else cors,
            accepts_json,
            accepts_stream,
            (query.get(PIN), session_id is None, accepts_json, accepts_stream, *map(get, self._stated_in)),
        )

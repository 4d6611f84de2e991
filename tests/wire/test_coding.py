"""What a compressed body holds, however it is cut, and what is none."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_sansio.wire.coding import ACCEPTED, ContentDecoder, ContentFault


def raw(body: bytes) -> bytes:
    """Without the header of zlib."""
    packed = zlib.compressobj(wbits=-15)
    return packed.compress(body) + packed.flush()


PACKS: list[tuple[str, Callable[[bytes], bytes]]] = [
    ("", bytes),
    ("identity", bytes),
    ("gzip", gzip.compress),
    ("X-GZIP ", gzip.compress),
    ("deflate", zlib.compress),
    ("deflate", raw),
]
packed = pytest.mark.parametrize(("encoding", "pack"), PACKS)


def decoded(encoding: str, *pieces: bytes) -> bytes:
    decoder = ContentDecoder(encoding)
    held = [piece for data in pieces for piece in decoder.receive_data(data)]
    decoder.receive_end()
    return b"".join(held)


@packed
@given(st.binary(max_size=200))
def test_what_is_packed_comes_out_however_it_is_cut(encoding: str, pack: Callable[[bytes], bytes], body: bytes) -> None:
    whole = pack(body)
    assert decoded(encoding, whole) == body
    assert decoded(encoding, *(bytes([byte]) for byte in whole)) == body


@packed
def test_what_comes_in_is_handed_on_at_once(encoding: str, pack: Callable[[bytes], bytes]) -> None:
    kind = {gzip.compress: 31, zlib.compress: 15, raw: -15}.get(pack)
    packing = zlib.compressobj(wbits=kind) if kind else None
    decoder = ContentDecoder(encoding)
    for event in (b"data: 1\n\n", b"data: 2\n\n"):
        sent = event if packing is None else packing.compress(event) + packing.flush(zlib.Z_SYNC_FLUSH)
        assert b"".join(decoder.receive_data(sent)) == event


def test_a_bomb_comes_out_in_pieces() -> None:
    bomb = gzip.compress(bytes(2**24), 1, mtime=0)
    assert {len(piece) for piece in ContentDecoder("gzip").receive_data(bomb)} <= {2**16}


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_what_follows_the_end_is_left_out(encoding: str) -> None:
    whole = dict(PACKS)[encoding](b"body")
    assert decoded(encoding, whole + b"more", b"and more") == b"body"


@pytest.mark.parametrize(
    ("encoding", "body", "fault"),
    [
        ("gzip", b"nothing of the kind", "cannot be decompressed"),
        ("deflate", b"nothing of the kind", "cannot be decompressed"),
        ("gzip", gzip.compress(b"body", mtime=0)[:-1], "ends too early"),
        ("deflate", b"", "ends too early"),
        ("br", b"", "encoded as 'br', which was not asked for"),
        ("gzip, gzip", b"", "not asked for"),
    ],
)
def test_what_is_none_is_said_so(encoding: str, body: bytes, fault: str) -> None:
    with pytest.raises(ContentFault, match=fault):
        decoded(encoding, body)


@given(st.sampled_from(ACCEPTED.split(", ")), st.binary())
def test_any_bytes_hold_something_or_nothing(encoding: str, data: bytes) -> None:
    try:
        decoded(encoding, data)
    except ContentFault:
        pass

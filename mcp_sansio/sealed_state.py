"""State that travels sealed with the client: no worker keeps anything, and every worker that has the keys can go on.

A token is the base64url text, without padding, of four parts: the id of a key (8 bytes), a nonce (12 bytes), and what
AES-256-GCM made of the expiry and the state, with its tag (16 bytes). What the token is bound to goes in as associated
data: it is not in the token, and without it the token does not open (basic/patterns/mrtr, "Server Requirements").
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Collection
from hashlib import sha256
from struct import Struct
from typing import Any, Final

from .call import Call
from .request_state import STATE_DEPTH, binding_of, refusal
from .runtime import Runtime
from .types import JSON
from .wire.json import decode, encode

KEY_SIZE: Final = 32
_ID_SIZE: Final = 8
_NONCE_SIZE: Final = 12
_TAG_SIZE: Final = 16
_EXPIRY = Struct(">d")
_AROUND: Final = _ID_SIZE + _NONCE_SIZE + _EXPIRY.size + _TAG_SIZE


class SealedState:
    """Puts the state itself into the token, encrypted and authenticated, so that no store is needed for it.

    `keys` are 32 unguessable bytes each (``secrets.token_bytes(32)``), the same at every worker. The first one seals,
    each of them opens. To change keys without losing a call, let every worker open with the new one before any of them
    seals with it: first ``[old, new]`` everywhere, then ``[new, old]``, and ``[new]`` once `Config.state_ttl` is over.
    A key is good for 2³² tokens.

    What a store can do and this cannot: a token is not spent by the call that opens it. Until it expires, its principal
    may make the same call with it again, also several times at the same moment.

    Raises ``ValueError`` where there is no key, or one of another size, and ``ImportError`` where the cryptography
    package is missing.
    """

    def __init__(self, keys: Collection[bytes]) -> None:
        held: list[object] = list(keys)
        if not held or not all(isinstance(key, bytes) and len(key) == KEY_SIZE for key in held):
            text = f"SealedState: keys must be one or more of {KEY_SIZE} bytes each, as secrets.token_bytes makes them"
            raise ValueError(text)
        self._ciphers = {_id_of(key): _cipher(key) for key in keys}
        self._sealing = next(iter(self._ciphers))

    def __repr__(self) -> str:
        """Which keys it has, by their ids, which tell nothing of them."""
        return f"SealedState(<{', '.join(key.hex() for key in self._ciphers)}>)"

    def lend(self, runtime: Runtime, *, ttl: float, max_state: int) -> None:
        """See `StateCodec.lend`. Raises ``ValueError`` for a runtime that has no `Runtime.wall_clock`."""
        if runtime.wall_clock is None:
            raise ValueError("SealedState needs Runtime.wall_clock: what it seals expires at every worker alike")
        self._wall_clock = runtime.wall_clock
        self._token_bytes = runtime.token_bytes
        self._ttl = ttl
        self._max_token = (4 * (max_state + _AROUND) + 2) // 3

    async def seal(self, call: Call, principal: str | None, state: JSON) -> str:
        """See `StateCodec.seal`."""
        nonce = self._token_bytes(_NONCE_SIZE)
        plain = _EXPIRY.pack(self._wall_clock() + self._ttl) + encode(state)
        sealed = self._ciphers[self._sealing].encrypt(nonce, plain, _bound(call, principal))
        return _text(b"".join((self._sealing, nonce, sealed)))

    async def open(self, call: Call, principal: str | None, token: JSON) -> JSON:
        """See `StateCodec.open`."""
        data = self._bytes(token)
        cipher = self._ciphers.get(data[:_ID_SIZE])
        if cipher is None:
            raise refusal()
        nonce, sealed = data[_ID_SIZE : _ID_SIZE + _NONCE_SIZE], data[_ID_SIZE + _NONCE_SIZE :]
        plain = _decrypted(cipher, nonce, sealed, _bound(call, principal))
        (expires,) = _EXPIRY.unpack_from(plain)
        if expires <= self._wall_clock():
            raise refusal()
        return decode(plain[_EXPIRY.size :], max_depth=STATE_DEPTH)

    async def put_back(self, call: Call, principal: str | None, token: str, state: JSON) -> None:
        """See `StateCodec.put_back`: nobody remembers that a token was used."""

    def _bytes(self, token: JSON) -> bytes:
        """What `token` is the text of. Raises the refusal for every text but the one that was given out for it."""
        if not isinstance(token, str) or len(token) > self._max_token or not token.isascii():
            raise refusal()
        try:
            data = urlsafe_b64decode(token + "=" * (-len(token) % 4))
        except ValueError:
            raise refusal() from None
        # Padding, the other alphabet, what is no digit and bits that no byte has are all passed over by the decoder.
        if len(data) < _AROUND or _text(data) != token:
            raise refusal()
        return data


def _cipher(key: bytes) -> Any:
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ImportError as error:
        raise ImportError("SealedState needs the cryptography package; install mcp-sansio[sealed]") from error
    return AESGCM(key)


def _decrypted(cipher: Any, nonce: bytes, sealed: bytes, bound: bytes) -> bytes:
    from cryptography.exceptions import InvalidTag

    try:
        plain: bytes = cipher.decrypt(nonce, sealed, bound)
    except InvalidTag:
        raise refusal() from None
    return plain


def _bound(call: Call, principal: str | None) -> bytes:
    return f"mcp-sansio requestState {binding_of(call, principal)}".encode()


def _id_of(key: bytes) -> bytes:
    return sha256(b"mcp-sansio key id " + key).digest()[:_ID_SIZE]


def _text(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()

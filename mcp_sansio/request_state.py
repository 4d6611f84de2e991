"""What a handler leaves for its next attempt, and the token that stands for it in the client's hands.

The token is the client's to forge. It is therefore bound to the operation, the target, the arguments and the principal
of the call that it was made for, it expires, and whatever is wrong with it gives one and the same refusal, so that
nobody learns which part was right (basic/patterns/mrtr, "Server Requirements").
"""

from __future__ import annotations

from typing import Protocol

import msgspec

from .call import Call
from .given import checked
from .outcome import Failure, FailureKind, Rejected
from .runtime import Runtime
from .storage import SessionStore
from .types import JSON
from .wire.json import MAX_DEPTH

#: A handler's state is as deep as JSON may be here, and is kept within two objects.
STATE_DEPTH = MAX_DEPTH + 2
_REFUSAL = "requestState is not valid for this call; start the call again without it"


def refusal() -> Rejected:
    """The one refusal for every fault of a token."""
    return Rejected(Failure(FailureKind.INVALID_STATE, _REFUSAL))


def binding_of(call: Call, principal: str | None) -> str:
    """A digest of what a token is bound to."""
    from hashlib import sha256  # which loads OpenSSL, and most servers keep no state

    bound = [call.operation, call.target, call.arguments, principal]
    return sha256(msgspec.json.encode(bound, order="sorted")).hexdigest()


class StateCodec(Protocol):
    """Turns what a handler leaves into a token and back: `StoredState` or `SealedState`."""

    def lend(self, runtime: Runtime, *, ttl: float, max_state: int) -> None:
        """What a server lends to its codec before anything else, and its limits.

        A token is good for `ttl` seconds, and a state has `max_state` bytes of JSON at most.
        """

    async def seal(self, call: Call, principal: str | None, state: JSON) -> str:
        """A token for `state`, good for `call` when `principal` repeats it."""

    async def open(self, call: Call, principal: str | None, token: JSON) -> JSON:
        """The state behind `token`, which does not work again from now on, where that can be enforced.

        Raises the `refusal` for every fault of it. Who brings another call or principal must not spend it by that.
        """

    async def put_back(self, call: Call, principal: str | None, token: str, state: JSON) -> None:
        """The call that opened `token` came to nothing: it is to work again, for `state`.

        The task may have been cancelled by then.
        """


class StoredState:
    """Keeps the state in the session store; the token is an unguessable key, together with what it is bound to.

    Opening a token takes the state out of the store, which is one step there: of replays at the same moment one is
    served, and whoever has another call or principal finds nothing. A call that fails has it put back for as long
    again as it had at first. What a worker had taken when it was killed is lost, and its call is to be begun anew.
    """

    def __init__(self, store: SessionStore) -> None:
        self._store = checked("store", store, SessionStore)

    def lend(self, runtime: Runtime, *, ttl: float, max_state: int) -> None:
        """See `StateCodec.lend`."""
        self._runtime = runtime
        self._ttl = ttl

    async def seal(self, call: Call, principal: str | None, state: JSON) -> str:
        """See `StateCodec.seal`."""
        token = self._runtime.token()
        await self._keep(_key(call, principal, token), state)
        return token

    async def open(self, call: Call, principal: str | None, token: JSON) -> JSON:
        """See `StateCodec.open`."""
        if not isinstance(token, str) or len(token) > 128:
            raise refusal()
        record = await self._store.take(_key(call, principal, token))
        if record is None:
            raise refusal()
        return record.data["state"]

    async def put_back(self, call: Call, principal: str | None, token: str, state: JSON) -> None:
        """See `StateCodec.put_back`."""
        await self._keep(_key(call, principal, token), state)

    async def _keep(self, key: str, state: JSON) -> None:
        await self._store.create(key, {"state": state}, ttl=self._ttl)


def _key(call: Call, principal: str | None, token: str) -> str:
    return f"state:{binding_of(call, principal)}:{token}"

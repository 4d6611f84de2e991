"""What a call brings from its earlier attempts, and what it leaves for its next one.

A client answers what it was asked last, and need not repeat its earlier answers (basic/patterns/mrtr, "Client
Requirements"), but the handler starts over and would ask for them again. So the answers are kept with its state.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from .call import Call
from .errors import McpError
from .outcome import Failure, FailureKind, NeedInput, Rejected
from .request_state import STATE_DEPTH, StateCodec
from .storage import STORE_FAULT, StoreFull, StoreUnavailable
from .types import JSON
from .wire.json import decode, encode

logger = logging.getLogger("mcp_sansio")


class Attempts:
    """The attempts of calls, with what `states` keeps in between.

    `max_answers` bounds how many answers a call may bring, and `max_state` how many bytes of answers and state are kept
    for its next attempt.
    """

    def __init__(self, states: StateCodec, *, max_answers: int, max_state: int) -> None:
        self._states = states
        self._max_answers = max_answers
        self._max_state = max_state

    async def take_up(self, call: Call, principal: str | None) -> bytes | None:
        """Give `call` what its previous attempt left, beside the answers that it brings. What was left, for `put_back`.

        Raises `Rejected` for a token that is not valid, and for too many answers.
        """
        left = None
        if call.request_state is not None:
            with _of_the_store():
                opened = await self._states.open(call, principal, call.request_state)
            left = encode(opened)  # before a handler can change it
            call.state = opened["state"]
            # What the client says now outranks what it said before.
            call.answers = {**opened["answers"], **call.answers}
        if len(call.answers) > self._max_answers:
            await self.put_back(call, principal, left)
            text = f"a call may bring {self._max_answers} answers at most"
            raise Rejected(Failure(FailureKind.TOO_MANY, text))
        return left

    async def put_back(self, call: Call, principal: str | None, left: bytes | None) -> None:
        """The attempt that was given what was `left` came to nothing, and the client may make it again.

        Nothing is raised but what cancels a task: who asks has something worse to tell.
        """
        if left is None:
            return
        assert isinstance(call.request_state, str)
        try:
            await self._states.put_back(call, principal, call.request_state, decode(left, max_depth=STATE_DEPTH))
        except (StoreFull, StoreUnavailable) as error:
            logger.error("%s %r failed, and what it was left is lost: %s", call.operation, call.target, error)
        except Exception:
            logger.exception("%s %r failed, and what it was left is lost", call.operation, call.target)

    async def leave(self, call: Call, principal: str | None, needed: NeedInput) -> str | None:
        """A token for what the next attempt of `call` will need, or ``None`` where that is nothing.

        It is the handler's state, and the answers that there are; what is asked anew is not kept. Raises `Rejected`
        for too much of it.
        """
        answers = {key: answer for key, answer in call.answers.items() if key not in needed.requests}
        if not answers and needed.state is None:
            return None
        left: JSON = {"state": needed.state, "answers": answers}
        if len(encode(left)) > self._max_state:
            text = f"what a call has to keep for its next attempt is over {self._max_state} bytes"
            raise Rejected(Failure(FailureKind.TOO_LARGE, text))
        with _of_the_store():
            return await self._states.seal(call, principal, left)


@contextmanager
def _of_the_store() -> Iterator[None]:
    """What is raised here is of the store, whatever it is: the call fails as one does whose session is not found."""
    try:
        yield
    except McpError:
        raise
    except Exception as error:
        logger.error("the session store failed", exc_info=error)
        raise Rejected(Failure(FailureKind.UNAVAILABLE, STORE_FAULT)) from error

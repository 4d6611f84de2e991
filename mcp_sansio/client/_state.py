"""The state machines of the client role, as tables: everything that decides what may come next must stand here.

See `mcp_sansio.states`. The diagrams of the documentation are drawn from these tables.

Who has one, and how one moves another:

* A `ClientEngine` has one NEGOTIATION. While it is not READY, calls are PARKed; its SETTLE is a SEND for each, and its
  FAIL the END of all.
* What a caller wants is a CALL. A result that asks is its ASK, and the last answer its next SEND.
* What the server asks is a QUESTION. The END of the call that it was asked for is its WITHDRAW.
"""

from __future__ import annotations

from enum import auto

from mcp_sansio.states import Member, machine


class CallState(Member):
    """A call, from the caller's command to its outcome. One call may take several requests."""

    WAITING = auto()
    SENT = auto()
    ASKING = auto()
    ENDED = auto()


class CallInput(Member):
    """What can happen to it.

    `SEND` is a request of it, the first or a further one (a page, a round); `PARK` makes it wait for something else
    first (a negotiation, a list that is read anew); `ASK` is a result that asks. What comes after its end is a legal
    race.
    """

    SEND = auto()
    PARK = auto()
    ASK = auto()
    END = auto()


CALL = machine(
    {
        CallState.WAITING: {
            CallInput.SEND: CallState.SENT,
            CallInput.PARK: CallState.WAITING,
            CallInput.END: CallState.ENDED,
        },
        CallState.SENT: {
            CallInput.SEND: CallState.SENT,
            CallInput.PARK: CallState.WAITING,
            CallInput.ASK: CallState.ASKING,
            CallInput.END: CallState.ENDED,
        },
        CallState.ASKING: {
            CallInput.SEND: CallState.SENT,
            CallInput.PARK: CallState.WAITING,
            CallInput.END: CallState.ENDED,
        },
        CallState.ENDED: {CallInput.END: CallState.ENDED},
    }
)


class NegotiationState(Member):
    """What is known of the server."""

    NEW = auto()
    PROBING = auto()
    HANDSHAKING = auto()
    READY = auto()
    CLOSED = auto()


class NegotiationInput(Member):
    """What can happen to it.

    `PROBE` asks what the server speaks, `HANDSHAKE` starts or starts over, `SETTLE` picks a revision, and `FAIL`
    leaves nothing known, so that the next call begins anew.
    """

    PROBE = auto()
    HANDSHAKE = auto()
    SETTLE = auto()
    FAIL = auto()
    CLOSE = auto()


_FINDING_OUT = {
    NegotiationInput.PROBE: NegotiationState.PROBING,
    NegotiationInput.HANDSHAKE: NegotiationState.HANDSHAKING,
    NegotiationInput.SETTLE: NegotiationState.READY,
    NegotiationInput.FAIL: NegotiationState.NEW,
    NegotiationInput.CLOSE: NegotiationState.CLOSED,
}
NEGOTIATION = machine(
    {
        NegotiationState.NEW: _FINDING_OUT,
        NegotiationState.PROBING: _FINDING_OUT,
        NegotiationState.HANDSHAKING: _FINDING_OUT,
        # What was found out may turn out to be stale, and a session may be lost.
        NegotiationState.READY: _FINDING_OUT,
        NegotiationState.CLOSED: {NegotiationInput.CLOSE: NegotiationState.CLOSED},
    }
)


class QuestionState(Member):
    """A question that the server put."""

    OPEN = auto()
    ANSWERED = auto()
    WITHDRAWN = auto()


class QuestionInput(Member):
    """What can happen to it. An answer to one that was withdrawn is a legal race: it is dropped."""

    ANSWER = auto()
    WITHDRAW = auto()


QUESTION = machine(
    {
        QuestionState.OPEN: {
            QuestionInput.ANSWER: QuestionState.ANSWERED,
            QuestionInput.WITHDRAW: QuestionState.WITHDRAWN,
        },
        QuestionState.ANSWERED: {
            QuestionInput.ANSWER: QuestionState.ANSWERED,
            QuestionInput.WITHDRAW: QuestionState.ANSWERED,
        },
        QuestionState.WITHDRAWN: {
            QuestionInput.ANSWER: QuestionState.WITHDRAWN,
            QuestionInput.WITHDRAW: QuestionState.WITHDRAWN,
        },
    }
)

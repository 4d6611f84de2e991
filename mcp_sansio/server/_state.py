"""The state machines of the server role, as tables: everything that decides what may come next must stand here.

A machine is ``{state: {input: next state}}``. An input that a state does not list is a misuse by the driver, never a
fault of a peer: what peers send is judged before it becomes an input. The diagrams of the documentation are drawn from
these tables.

Who has one, and how one moves another, always downwards in this list and never back:

* A `ServerConnection` is a CHANNEL. Its CLOSE is a CANCEL for each of its calls, and the END of what it watches.
* An `HttpTransaction` is a RESPONSE. Its DISCONNECT is a CANCEL for its calls where the revision's `disconnect_cancels`
  says so; elsewhere its calls go on, and its stream is DETACHed where the revision's `resumes_streams` does.
* A call that a handler runs is a CALL. FINISH puts its answer out: the last one of a response is that one's END.
* A listen request over HTTP, and a session's own stream, is a SUBSCRIPTION.
"""

from __future__ import annotations

from enum import auto

from mcp_sansio.states import Member, machine


class CallState(Member):
    """A call that a handler runs."""

    RUNNING = auto()
    ANSWERED = auto()
    CANCELLED = auto()


class CallInput(Member):
    """What can happen to it. Finishing after a cancellation is a legal race: the reply is dropped."""

    FINISH = auto()
    CANCEL = auto()


CALL = machine(
    {
        CallState.RUNNING: {CallInput.FINISH: CallState.ANSWERED, CallInput.CANCEL: CallState.CANCELLED},
        CallState.ANSWERED: {CallInput.FINISH: CallState.ANSWERED, CallInput.CANCEL: CallState.ANSWERED},
        CallState.CANCELLED: {CallInput.FINISH: CallState.CANCELLED, CallInput.CANCEL: CallState.CANCELLED},
    }
)


class ResponseState(Member):
    """One HTTP request and its response."""

    IDLE = auto()
    RECEIVING = auto()
    WAITING = auto()
    STREAMING = auto()
    ENDED = auto()


class ResponseInput(Member):
    """What can happen to it. `DISCONNECT` is the connection's end, wherever the response is."""

    REQUEST = auto()
    RECEIVED = auto()
    STREAM = auto()
    END = auto()
    DISCONNECT = auto()


RESPONSE = machine(
    {
        ResponseState.IDLE: {
            ResponseInput.REQUEST: ResponseState.RECEIVING,
            ResponseInput.DISCONNECT: ResponseState.ENDED,
        },
        # A response may end before its request does: a refusal does not wait for the body.
        ResponseState.RECEIVING: {
            ResponseInput.RECEIVED: ResponseState.WAITING,
            ResponseInput.END: ResponseState.ENDED,
            ResponseInput.DISCONNECT: ResponseState.ENDED,
        },
        ResponseState.WAITING: {
            ResponseInput.STREAM: ResponseState.STREAMING,
            ResponseInput.END: ResponseState.ENDED,
            ResponseInput.DISCONNECT: ResponseState.ENDED,
        },
        ResponseState.STREAMING: {
            ResponseInput.END: ResponseState.ENDED,
            ResponseInput.DISCONNECT: ResponseState.ENDED,
        },
        ResponseState.ENDED: {
            ResponseInput.RECEIVED: ResponseState.ENDED,
            ResponseInput.DISCONNECT: ResponseState.ENDED,
        },
    }
)


class ChannelState(Member):
    """A duplex channel, as far as the revisions with a handshake are concerned. The others need no state."""

    NEW = auto()
    NEGOTIATED = auto()
    CLOSED = auto()


class ChannelInput(Member):
    """What can happen to it. A second handshake starts over."""

    INITIALIZE = auto()
    CLOSE = auto()


CHANNEL = machine(
    {
        ChannelState.NEW: {
            ChannelInput.INITIALIZE: ChannelState.NEGOTIATED,
            ChannelInput.CLOSE: ChannelState.CLOSED,
        },
        ChannelState.NEGOTIATED: {
            ChannelInput.INITIALIZE: ChannelState.NEGOTIATED,
            ChannelInput.CLOSE: ChannelState.CLOSED,
        },
        ChannelState.CLOSED: {ChannelInput.CLOSE: ChannelState.CLOSED},
    }
)


class SubscriptionState(Member):
    """A stream of changes: a listen request, or a session's standalone stream."""

    OPEN = auto()
    DETACHED = auto()
    ENDED = auto()


class SubscriptionInput(Member):
    """What can happen to it. Only a stream that can be resumed is ever detached."""

    DETACH = auto()
    ATTACH = auto()
    END = auto()


SUBSCRIPTION = machine(
    {
        SubscriptionState.OPEN: {
            SubscriptionInput.DETACH: SubscriptionState.DETACHED,
            SubscriptionInput.ATTACH: SubscriptionState.OPEN,
            SubscriptionInput.END: SubscriptionState.ENDED,
        },
        SubscriptionState.DETACHED: {
            SubscriptionInput.ATTACH: SubscriptionState.OPEN,
            SubscriptionInput.END: SubscriptionState.ENDED,
        },
        SubscriptionState.ENDED: {SubscriptionInput.END: SubscriptionState.ENDED},
    }
)

"""What the workers of one deployment tell each other through a `Hub`: changes, answers, and what a session gave up.

Everything goes over one topic that every worker follows from the moment it starts, so whatever is said after a question
went out is heard by the worker that asked, wherever it was said. A worker acts first on what concerns itself and tells
the others the rest; what comes back from itself it leaves alone.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from mcp_sansio.call import Reply
from mcp_sansio.changes import Change, ChangeKind
from mcp_sansio.runtime import Event
from mcp_sansio.storage import Cursor, Hub, StoreUnavailable
from mcp_sansio.types import JSON, RequestId
from mcp_sansio.wire.json import decode, encode

if TYPE_CHECKING:
    from mcp_sansio.server.server import Server

logger = logging.getLogger("mcp_sansio")

TOPIC = "mcp-sansio"
#: How many messages wait for a hub that cannot be reached; then the oldest are not said at all.
MAX_UNSAID = 10_000
#: How much of the id of a worker stands before what it gives out, so that another one knows whom to ask.
_PREFIX = 8
_ID_SIZE = 32

Message = Mapping[str, JSON]


class Workers:
    """One worker's line to the others. Without a hub there are no others, and nothing is said."""

    def __init__(self, server: Server, hub: Hub | None) -> None:
        self._server = server
        self._hub = hub
        self._me = server.runtime.token()
        self._cursor: Cursor | None = None
        self._outbox: deque[bytes] = deque(maxlen=MAX_UNSAID)
        self._more: Event | None = None
        self._following: Event = server.runtime.event()
        self._said = self._failures = 0
        self._failing = self._relaying = False
        #: Who waits until the hub has taken so many of the messages that were ever said.
        self._waiting: deque[tuple[int, Event]] = deque()
        self._asked: dict[str, Callable[[Message], None]] = {}
        if hub is None:
            self._following.set()

    # Driven by the binding, each in a task of its own, where there is a hub

    async def follow(self) -> None:
        """Hear what the others say, for ever. Raises what the hub raises; call it again to go on from there."""
        assert self._hub is not None
        if self._cursor is None:
            # Now, and not before: a process may have been copied since, and each copy is another worker.
            self._me = self._server.runtime.token()
            self._cursor = await self._hub.position(TOPIC)
        self._following.set()
        while True:
            for message in await self._hub.poll(TOPIC, self._cursor):
                self._cursor = message.cursor
                try:
                    self._hear(decode(message.data))
                except Exception:  # of a worker of another release, say: what follows is not to wait for it
                    logger.exception("a message of another worker was not understood")

    async def relay(self) -> None:
        """Tell the others what there is to tell, for ever. Raises what the hub raises; call it again to go on."""
        assert self._hub is not None
        self._relaying = True
        try:
            while True:
                while self._outbox:
                    message = self._outbox[0]
                    await self._hub.publish(TOPIC, message)
                    self._failing = False
                    # While the hub took it, it may have made room for others.
                    if self._outbox and self._outbox[0] is message:
                        self._outbox.popleft()
                    self._release()
                self._more = self._server.runtime.event()
                await self._more.wait()
        finally:
            self._relaying = False
            if self._outbox:
                self._failures += 1
                self._failing = True
                self._release(all_of_them=True)

    async def farewell(self) -> None:
        """Return once the hub has taken what there is to say, or has failed to."""
        try:
            if self._relaying:
                await self.said()
        except StoreUnavailable:
            pass  # it is logged where `relay` is kept up

    async def ready(self) -> None:
        """Return once this worker hears everything that is said from now on."""
        await self._following.wait()

    async def said(self) -> None:
        """Return once the hub has taken all that there is to say: what others say from now on comes after that.

        Raises `StoreUnavailable` where the hub does not take it now.
        """
        if not self._outbox:
            return
        taken, failures = self._server.runtime.event(), self._failures
        self._waiting.append((self._said, taken))
        await taken.wait()
        if failures != self._failures:
            raise StoreUnavailable("the hub does not take what there is to say")

    def _release(self, *, all_of_them: bool = False) -> None:
        """Let those go on whose words the hub has taken."""
        while self._waiting and (all_of_them or self.has_taken(self._waiting[0][0])):
            self._waiting.popleft()[1].set()

    @property
    def has_said_all(self) -> bool:
        """Whether the hub has taken all that there was to say."""
        return not self._outbox

    @property
    def alone(self) -> bool:
        """Whether there is no hub."""
        return self._hub is None

    @property
    def cut_off(self) -> bool:
        """Whether the others cannot be reached now: the hub took nothing the last time, or was never followed."""
        return self._failing or self._cursor is None

    @property
    def said_so_far(self) -> int:
        """How much was ever said, for `has_taken`."""
        return self._said

    def has_taken(self, said: int) -> bool:
        """Whether the hub has taken what was said up to then."""
        return self._said - len(self._outbox) >= said

    # What a worker gives out

    def signed(self, token: str) -> str:
        """An identifier of the same form as `token` that tells which worker gave it out."""
        return self._me[-_PREFIX:] + token[_PREFIX:]

    def is_from_another(self, identifier: str) -> bool:
        """Whether `identifier` has the form of one that another worker gave out: now, or before this one started."""
        is_token = len(identifier) == _ID_SIZE and set(identifier) <= set("0123456789abcdef")
        return is_token and not identifier.startswith(self._me[-_PREFIX:])

    # What is said

    def changed(self, change: Change) -> None:
        """There is `change` to announce."""
        self._say({"change": change.kind, "uri": change.uri})

    def answered(self, owner: tuple[str, str | None], reply: Reply) -> None:
        """`owner` answered a question that this worker did not ask."""
        self._say({"answer": reply.id, "owner": list(owner), "result": reply.result, "error": reply.error})

    def cancelled(self, session_id: str, request_id: RequestId) -> None:
        """A session gave a request up that this worker does not run."""
        self._say({"cancel": request_id, "session": session_id})

    def watched(self, session_id: str, uri: str, *, wanted: bool) -> None:
        """A session subscribed to `uri`, or unsubscribed from it."""
        self._say({"watch": uri, "session": session_id, "wanted": wanted})

    def listening(self, session_id: str, stream_id: str) -> None:
        """A session's announcements go out on that stream from now on, and on no other."""
        self._say({"listening": stream_id, "session": session_id})

    def ended(self, session_id: str) -> None:
        """A session was ended."""
        self._say({"end": session_id})

    def ask(self, message: Message, heard: Callable[[Message], None]) -> str:
        """Ask all others. `heard` is called with each answer, until what this returns is given to `forget`."""
        question = self._server.runtime.token()
        self._asked[question] = heard
        self._say({**message, "question": question})
        return question

    def forget(self, question: str) -> None:
        """No further answer to `question` is of interest."""
        self._asked.pop(question, None)

    def say_of(self, question: str, *, reads: bool) -> None:
        """The answers to `question` are still read, or not any more."""
        self._say({"question": question, "reads": reads})

    def tell(self, question: str, message: Message) -> None:
        """Answer a question of another worker."""
        self._say({**message, "told": question})

    def _say(self, message: Message) -> None:
        if self._hub is None:
            return
        self._said += 1
        self._outbox.append(encode({**message, "from": self._me}))
        if self._more is not None:
            self._more.set()

    # What is heard

    def _hear(self, message: Message) -> None:
        mine = message["from"] == self._me
        for kind, act in _HEARD.items():
            if kind in message and (not mine or kind in _ECHOED):
                act(self, message)

    def _hear_change(self, message: Message) -> None:
        self._server.topics.publish(Change(ChangeKind(message["change"]), message["uri"]))

    def _hear_answer(self, message: Message) -> None:
        session_id, principal = message["owner"]
        reply = Reply(message["answer"], message["result"], message["error"])
        self._server.questions.answer((session_id, principal), reply)

    def _hear_cancel(self, message: Message) -> None:
        self._server.with_live_session(message["session"], lambda live: live.cancel(message["cancel"]))

    def _hear_watch(self, message: Message) -> None:
        uri, wanted = message["watch"], message["wanted"]
        self._server.with_live_session(
            message["session"], lambda live: live.watch(uri) if wanted else live.unwatch(uri)
        )

    def _hear_listening(self, message: Message) -> None:
        self._server.with_live_session(message["session"], lambda live: live.heard_listening(message["listening"]))

    def _hear_end(self, message: Message) -> None:
        self._server.end_session(message["end"])

    def _hear_question(self, message: Message) -> None:
        self._server.lender.hear(message)

    def _hear_told(self, message: Message) -> None:
        heard = self._asked.get(message["told"])
        if heard is not None:
            heard(message)


#: What is done about a message, by the member that it has.
_HEARD: Mapping[str, Callable[[Workers, Message], None]] = {
    "change": Workers._hear_change,
    "answer": Workers._hear_answer,
    "cancel": Workers._hear_cancel,
    "watch": Workers._hear_watch,
    "listening": Workers._hear_listening,
    "end": Workers._hear_end,
    "question": Workers._hear_question,
    "told": Workers._hear_told,
}
#: What a worker hears of itself, too: its place among what the others say matters.
_ECHOED = frozenset({"listening"})

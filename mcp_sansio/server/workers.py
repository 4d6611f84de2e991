"""What the workers of one deployment tell each other through a `Hub`: changes, answers, and what a session gave up.

Everything goes over one topic that every worker follows from the moment it starts, so whatever is said after a question
went out is heard by the worker that asked, wherever it was said. A worker acts first on what concerns itself and tells
the others the rest; what comes back from itself it leaves alone.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from mcp_sansio.call import Reply
from mcp_sansio.changes import Change, ChangeKind
from mcp_sansio.runtime import Event
from mcp_sansio.storage import Cursor, Hub
from mcp_sansio.types import JSON, RequestId
from mcp_sansio.wire.json import decode, encode

if TYPE_CHECKING:
    from mcp_sansio.server.server import Server

TOPIC = "mcp-sansio"
#: How many messages wait for a hub that cannot be reached; then the oldest are not said at all.
MAX_UNSAID = 10_000


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
        if hub is None:
            self._following.set()

    # Driven by the binding, each in a task of its own, where there is a hub

    async def follow(self) -> None:
        """Hear what the others say, for ever. Raises what the hub raises; call it again to go on from there."""
        assert self._hub is not None
        if self._cursor is None:
            self._cursor = await self._hub.position(TOPIC)
        self._following.set()
        while True:
            for message in await self._hub.poll(TOPIC, self._cursor):
                self._cursor = message.cursor
                self._hear(decode(message.data))

    async def relay(self) -> None:
        """Tell the others what there is to tell, for ever. Raises what the hub raises; call it again to go on."""
        assert self._hub is not None
        while True:
            while self._outbox:
                message = self._outbox.popleft()
                try:
                    await self._hub.publish(TOPIC, message)
                except BaseException:
                    self._outbox.appendleft(message)
                    raise
            self._more = self._server.runtime.event()
            await self._more.wait()

    async def ready(self) -> None:
        """Return once this worker hears everything that is said from now on."""
        await self._following.wait()

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

    def ended(self, session_id: str) -> None:
        """A session was ended."""
        self._say({"end": session_id})

    def _say(self, message: dict[str, JSON]) -> None:
        if self._hub is None:
            return
        self._outbox.append(encode({**message, "from": self._me}))
        if self._more is not None:
            self._more.set()

    # What is heard

    def _hear(self, message: dict[str, JSON]) -> None:
        if message["from"] == self._me:
            return
        server = self._server
        if "change" in message:
            server.topics.publish(Change(ChangeKind(message["change"]), message["uri"]))
        elif "answer" in message:
            session_id, principal = message["owner"]
            reply = Reply(message["answer"], message["result"], message["error"])
            server.questions.answer((session_id, principal), reply)
        elif "cancel" in message:
            server.with_live_session(message["session"], lambda live: live.cancel(message["cancel"]))
        elif "watch" in message:
            uri, wanted = message["watch"], message["wanted"]
            server.with_live_session(message["session"], lambda live: live.watch(uri) if wanted else live.unwatch(uri))
        elif "end" in message:
            server.end_session(message["end"])

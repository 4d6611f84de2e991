"""Questions pushed to clients, until their answers come in — on another HTTP request, in another order, or never."""

from __future__ import annotations

import msgspec

from mcp_sansio.call import Reply
from mcp_sansio.runtime import Event, Runtime


class Question(msgspec.Struct, eq=False):
    """A question that waits. `reply` is set when `event` is raised by an answer, and is ``None`` after a timeout.

    `owner` is whose answer counts: a session with its principal, or a channel.
    """

    id: str
    owner: object
    event: Event
    deadline: float
    reply: Reply | None = None


class Questions(msgspec.Struct):
    """The questions of one server, by their ids, which are unguessable."""

    _runtime: Runtime
    _pending: dict[str, Question] = msgspec.field(default_factory=dict)

    def open(self, owner: object, timeout: float) -> Question:
        """A new question for `owner`, which gives up after `timeout` seconds."""
        runtime = self._runtime
        question = Question(f"ask-{runtime.token()}", owner, runtime.event(), runtime.now() + timeout)
        self._pending[question.id] = question
        return question

    def close(self, question: Question) -> None:
        """Nobody waits for `question` any more; a late answer to it is dropped."""
        self._pending.pop(question.id, None)

    def answer(self, owner: object, reply: Reply) -> bool:
        """Hand `reply` to the question that it answers. False where there is none, or it is not this owner's to answer.

        The first answer counts; a second one finds nothing.
        """
        question = self._pending.get(reply.id) if isinstance(reply.id, str) else None
        if question is None or question.owner != owner:
            return False
        self.close(question)
        question.reply = reply
        question.event.set()
        return True

    def __len__(self) -> int:
        """How many questions wait."""
        return len(self._pending)

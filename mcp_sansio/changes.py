"""What a server may announce without being asked: a list that changed, a resource that was updated."""

from __future__ import annotations

from enum import StrEnum

import attrs


class ChangeKind(StrEnum):
    """The kinds of announcement (basic/patterns/subscriptions, "Notification Filter")."""

    TOOLS = "tools"
    PROMPTS = "prompts"
    RESOURCES = "resources"
    RESOURCE_UPDATED = "resource_updated"


@attrs.frozen
class Change:
    """One announcement. `uri` names the resource for :attr:`ChangeKind.RESOURCE_UPDATED` and is ``None`` otherwise.

    Changes compare by value, so they serve as the topics that streams subscribe to.
    """

    kind: ChangeKind
    uri: str | None = None


#: What is announced to everybody who listens at all.
LIST_CHANGES = (Change(ChangeKind.TOOLS), Change(ChangeKind.PROMPTS), Change(ChangeKind.RESOURCES))

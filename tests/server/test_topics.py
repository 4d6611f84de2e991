"""Who is told of a change: all in the order of subscribing, in one encoding for each revision; nothing is left over."""

from __future__ import annotations

import pytest

from mcp_sansio import AdapterSet, Change, ChangeKind
from mcp_sansio.adapters.base import Adapter
from mcp_sansio.server.topics import Frame, Topics
from mcp_sansio.wire.json import decode

ADAPTERS = AdapterSet.default().adapters
CHANGES = [*(Change(kind) for kind in ChangeKind if kind is not ChangeKind.RESOURCE_UPDATED)]
CHANGES += [Change(ChangeKind.RESOURCE_UPDATED, uri) for uri in ("a:b", "a:c")]


class Reader:
    """A listener that keeps what it is told, and writes itself down in `told`."""

    def __init__(self, adapter: Adapter, told: list[Reader]) -> None:
        self.adapter = adapter
        self.frames: list[Frame] = []
        self._told = told

    def deliver(self, frame: Frame) -> None:
        self.frames.append(frame)
        self._told.append(self)


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_is_encoded_once_for_each_revision(change: Change) -> None:
    topics, told = Topics(), list[Reader]()
    readers = [Reader(adapter, told) for adapter in (*ADAPTERS, *reversed(ADAPTERS))]
    for reader in readers:
        topics.subscribe(reader, [change])
        topics.subscribe(reader, [change])  # twice is once
    topics.subscribe(Reader(ADAPTERS[0], told), [other for other in CHANGES if other != change])
    assert len(topics) == len(readers) + len(CHANGES) - 1
    topics.publish(change)
    assert told == readers
    for reader, same in zip(readers, reversed(readers), strict=True):
        assert reader.frames == [reader.adapter.change_frame(change)]
        assert reader.frames[0] is same.frames[0]


@pytest.mark.parametrize("change", CHANGES)
def test_what_stands_around_the_id_of_a_subscription(change: Change) -> None:
    for adapter in ADAPTERS:
        head, tail = adapter.change_frame(change)
        assert (tail is None) is adapter.has_handshake
        params = decode(head if tail is None else head + b'"L"' + tail).get("params", {})
        assert params.get("uri") == change.uri
        assert params.get("_meta") == (None if tail is None else {"io.modelcontextprotocol/subscriptionId": "L"})


def test_nothing_is_kept_for_nobody() -> None:
    topics, told = Topics(), list[Reader]()
    first, second = Reader(ADAPTERS[0], told), Reader(ADAPTERS[0], told)
    topics.unsubscribe(first, CHANGES)
    topics.subscribe(first, CHANGES)
    topics.subscribe(second, CHANGES[:1])
    topics.unsubscribe(second, CHANGES)
    assert len(topics) == len(CHANGES)
    topics.unsubscribe(first, CHANGES)
    assert topics == Topics()
    for change in CHANGES:
        topics.publish(change)
    assert told == []

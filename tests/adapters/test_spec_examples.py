"""The examples of the newest specification, where they are at hand: every request is understood."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcp_sansio import AdapterSet, Call, Operation, Preamble
from mcp_sansio.wire.json import decode
from wire_schema import SPEC

EXAMPLES = sorted((SPEC / "2026-07-28" / "examples").glob("*Request/*.json"))
#: What a server asks of a client.
ASKED = {"sampling/createMessage", "elicitation/create", "roots/list"}


@pytest.mark.revision("2026-07-28")
@pytest.mark.skipif(not EXAMPLES, reason="the specification is not beside the checkout")
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_a_request(path: Path) -> None:
    adapter = AdapterSet.default().by_version["2026-07-28"]
    message = decode(path.read_bytes())
    if message["method"] in ASKED:
        assert message["method"] not in adapter.methods
        return
    [call] = adapter.decode(Preamble.of(path.read_bytes()))
    assert isinstance(call, Call)
    assert (call.id, adapter.method_for(call.operation)) == (message["id"], message["method"])
    assert call.params == message["params"]
    assert call.arguments == message["params"].get("arguments", {})


@pytest.mark.revision("2026-07-28")
def test_operations_without_a_method() -> None:
    adapter = AdapterSet.default().by_version["2026-07-28"]
    missing = {operation for operation in Operation if adapter.method_for(operation) is None}
    assert missing == {
        Operation.HANDSHAKE_COMPLETE,
        Operation.PING,
        Operation.SUBSCRIBE,
        Operation.UNSUBSCRIBE,
        Operation.SET_LOG_LEVEL,
    }

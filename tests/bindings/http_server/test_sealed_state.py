"""Sealed state needs what a host lends: chance, and a clock that is the same in every process."""

from __future__ import annotations

import time

import pytest

import speak
import support
from heard import text_of
from hosting import serving
from mcp_sansio import Config, Exchange, NeedInput, Registry, elicit, elicit_accept
from plugs import HttpServer
from talk import Client

KEYS = [bytes(range(32))]


def shop() -> Registry:
    registry = Registry("shop", "1.0")

    @registry.tool
    async def refund(ex: Exchange) -> str:
        """Leave state behind, and ask."""
        if ex.answered("sure"):
            return f"refunded {ex.state}"
        raise NeedInput({"sure": elicit("Sure?")}, state=12)

    return registry


@pytest.mark.parametrize("version", speak.ENVELOPE)
def test_a_call_goes_on_at_a_server_that_shares_a_key_and_nothing_else(http_server: HttpServer, version: str) -> None:
    support.need("cryptography")
    from mcp_sansio import SealedState

    def again(client: Client, state: str) -> speak.JSON:
        message = client.calling("refund")
        message["params"] |= {"inputResponses": {"sure": elicit_accept()}, "requestState": state}
        return client.post(message)

    short = Config(state_ttl=0.2)
    with serving(http_server, shop(), states=SealedState(KEYS), config=short) as place:
        asked = Client(version, place).call("refund")["result"]["requestState"]
        late = time.monotonic() + 0.2
        while time.monotonic() < late:
            pass  # it is the clock that is tried
        expired = again(Client(version, place), asked)
    assert expired.status == 400
    with serving(http_server, shop(), states=SealedState(KEYS)) as place:
        asked = Client(version, place).call("refund")["result"]["requestState"]
    with serving(http_server, shop(), states=SealedState(KEYS)) as place:
        assert text_of(again(Client(version, place), asked).message) == "refunded 12"

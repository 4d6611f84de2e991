"""What is somebody else's, or was never given out, is refused in one way at every worker, and nothing is told."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import speak
from many_workers import ENGINES, Engines, Fleet, fleet
from mcp_sansio import AdapterSet, elicit_accept
from sockets import Answer, Client, text_of

ADAPTERS = AdapterSet.default().by_version
HANDSHAKE = tuple(version for version in speak.VERSIONS if ADAPTERS[version].has_handshake)
PUSHING = tuple(version for version in speak.VERSIONS if ADAPTERS[version].can_push_ask)
RESUMING = tuple(version for version in speak.VERSIONS if ADAPTERS[version].resumes_streams)
SOON = {"worker_timeout": 1.0}
STATE_REFUSAL = "requestState is not valid for this call; start the call again without it"
#: Identifiers that mean something to a key space, a pattern, a query, a path or a header, and none that was given out.
STRANGE = (
    "*", "?", "[a-z]*", "session:*", "state:x", "handle:x", "mcp:session:x", "mcp-sansio", "a:b:c", ":", "::", "..",
    "../x", "/etc/passwd", "%2e%2e", "%00", "%", "_", "' OR '1'='1", '"', "'; DROP TABLE mcp_sansio_records; --", "\\",
    "$1", "{x}", "${x}", "0", "-1", "null", "undefined", "true", " ", "\t", "x" * 4096, "0" * 32, "f" * 32, "é",
)  # fmt: skip


def seen(answer: Answer) -> tuple[int, tuple[tuple[str, str], ...], bytes]:
    """All that a client gets to see of a response."""
    return answer.status, tuple(sorted(answer.headers.items())), answer.body


async def everywhere(held: Fleet, client: Client, method: str, message: Any = None, **headers: str) -> set[Any]:
    """What each worker answers to one request."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return {seen(await held.at(worker, client).send(method, message, headers=named)) for worker in held.workers}


@pytest.mark.parametrize("engine", ENGINES)
async def test_another_principals_session(engine: str, engines: Engines, tmp_path: Path) -> None:
    async with fleet(2, tmp_path / "fleet", config=SOON, **engines.options(engine)) as held:
        for version in HANDSHAKE:
            ada, bob, nobody = (held.client(version, user=user) for user in ("ada", "bob", None))
            await ada.open()
            assert text_of(await ada.call("count")) == "1"
            for thief in (bob, nobody):
                for method in ("POST", "GET", "DELETE"):
                    message = thief.calling("count") if method == "POST" else None
                    thief.session = ada.session
                    stolen = await everywhere(held, thief, method, message)
                    thief.session = "0" * 32
                    assert stolen == await everywhere(held, thief, method, message)
                    ((status, _, _),) = stolen
                    assert status == 404
            # No attempt counted, renewed or ended anything.
            assert text_of(await ada.call("count")) == "2"
        assert held.errors() == ""


@pytest.mark.parametrize("engine", ENGINES)
async def test_an_identifier_that_was_never_given_out(engine: str, engines: Engines, tmp_path: Path) -> None:
    """Whatever an engine makes of its characters, no record is reached by it but the one that has it."""
    async with fleet(2, tmp_path / "fleet", config=SOON, **engines.options(engine)) as held:
        client = await held.client(PUSHING[0]).open()
        stateless = held.client(speak.VERSIONS[0])
        session = client.session
        assert text_of(await client.call("count")) == "1"
        answers, states = set(), set()
        for text in STRANGE:
            client.session = text.encode().decode("latin-1").strip() or "-"
            answers |= await everywhere(held, client, "POST", client.calling("count"))
            again = stateless.message(
                "tools/call",
                {"name": "refund", "arguments": {}, "inputResponses": {"sure": elicit_accept()}, "requestState": text},
            )
            states |= await everywhere(held, stateless, "POST", again)
            assert text_of(await stateless.call("keep", handle=text)) == "no such session"
        ((status, _, body),) = answers
        assert (status, b"there is no such session" in body) == (404, True)
        ((status, _, body),) = states
        assert (status, STATE_REFUSAL.encode() in body) == (400, True)
        client.session = session
        assert text_of(await client.call("count")) == "2"
        assert held.errors() == ""


@pytest.mark.parametrize("sealed", [False, True], ids=["stored", "sealed"])
@pytest.mark.parametrize("engine", ENGINES)
async def test_another_principals_state(engine: str, sealed: bool, engines: Engines, tmp_path: Path) -> None:
    options = engines.options(engine) | ({"sealed": [bytes(range(32)).hex()]} if sealed else {})
    async with fleet(2, tmp_path / "fleet", **options) as held:
        ada, bob = (held.client(speak.VERSIONS[0], user=user) for user in ("ada", "bob"))

        def again(client: Client, token: str, amount: int = 5) -> Any:
            params = {"inputResponses": {"sure": elicit_accept()}, "requestState": token}
            return client.message("tools/call", {"name": "refund", "arguments": {"amount": amount}, **params})

        token = (await ada.call("refund", amount=5))["result"]["requestState"]
        refused = await everywhere(held, bob, "POST", again(bob, token))
        refused |= await everywhere(held, ada, "POST", again(ada, token, 6))
        refused |= await everywhere(held, ada, "POST", again(ada, token[:-1]))
        refused |= await everywhere(held, ada, "POST", again(ada, ""))
        ((status, _, body),) = refused
        assert (status, STATE_REFUSAL.encode() in body) == (400, True)
        done = await ada.post(again(ada, token))
        assert text_of(done.message) == "refunded 5 of 5"
        if not sealed:  # it is spent, everywhere
            assert await everywhere(held, ada, "POST", again(ada, token)) == refused


@pytest.mark.parametrize("engine", ENGINES)
async def test_a_state_that_is_replayed_at_the_same_moment(engine: str, engines: Engines, tmp_path: Path) -> None:
    """One of them runs, wherever they come in; the others get the one refusal, before it is done and after."""
    async with fleet(3, tmp_path / "fleet", **engines.options(engine)) as held:
        client = held.client(speak.VERSIONS[0], user="ada")
        token = (await client.call("pay", at="pay"))["result"]["requestState"]
        params = {"inputResponses": {"sure": elicit_accept()}, "requestState": token}
        again = client.message("tools/call", {"name": "pay", "arguments": {"at": "pay"}, **params})
        replays = [asyncio.create_task(held.at(held.workers[n % 3], client).post(again)) for n in range(12)]
        await held.happened("pay.waiting")
        refused = []
        while len(replays) > 1:
            over, _ = await asyncio.wait(replays, return_when=asyncio.FIRST_COMPLETED)
            refused += [await task for task in over]
            replays = [task for task in replays if task not in over]
        assert len({seen(answer) for answer in refused}) == 1
        assert (refused[0].status, STATE_REFUSAL.encode() in refused[0].body) == (400, True)
        held.open_gate("pay")
        assert text_of((await replays[0]).message) == "paid pay"
        assert len((held.folder / "pay.ran").read_text().split()) == 1
        assert await everywhere(held, client, "POST", again) == {seen(refused[0])}
        assert held.errors() == ""


@pytest.mark.parametrize("engine", ENGINES)
async def test_another_principals_question_and_events(engine: str, engines: Engines, tmp_path: Path) -> None:
    version = PUSHING[0]
    async with fleet(2, tmp_path / "fleet", config=SOON, **engines.options(engine)) as held:
        ada, bob = [await held.client(version, user=user).open() for user in ("ada", "bob")]
        async with ada.streaming(ada.calling("order")) as stream, ada.listening() as listening:
            question = await stream.message()
            await ada.call("change")
            await listening.message()
            decline = {"jsonrpc": "2.0", "id": question["id"], "result": {"action": "decline"}}
            never = {"jsonrpc": "2.0", "id": f"ask-{'0' * 32}", "result": {"action": "decline"}}
            assert await everywhere(held, bob, "POST", decline) == await everywhere(held, bob, "POST", never)
            for last in (stream.last_id, listening.last_id):
                stolen = await everywhere(held, bob, "GET", Last_Event_ID=last or "")
                assert stolen == await everywhere(held, bob, "GET", Last_Event_ID=f"{'0' * 32}-1")
                ((status, _, _),) = stolen
                assert status == 405
            for key in ("rye", "oat"):
                accept = {"jsonrpc": "2.0", "id": question["id"], "result": elicit_accept()}
                assert (await ada.post(accept)).status == 202, key
                question = await stream.message()
            assert text_of(question) == "accept accept"
            listening.leave()

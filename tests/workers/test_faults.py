"""What is killed in the middle of a call: the call fails clearly or completes, and nothing else is lost by it."""

from __future__ import annotations

import asyncio
import resource
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import speak
from many_workers import ENGINES, PATIENCE, Engines, Fleet, Worker, fleet, until
from mcp_sansio import AdapterSet, elicit_accept
from sockets import Client, ClientError, Stream, text_of

ADAPTERS = AdapterSet.default().by_version
PUSHING = tuple(version for version in speak.VERSIONS if ADAPTERS[version].can_push_ask)
RESUMING = tuple(version for version in speak.VERSIONS if ADAPTERS[version].resumes_streams)
UPDATED = "notifications/resources/updated"
LISTS_CHANGED = [f"notifications/{kind}/list_changed" for kind in ("tools", "prompts", "resources")]
SERVERS = tuple(engine for engine in ENGINES if engine != "sqlite")
#: So that what nobody answers is known soon, on a machine that is busy with something else.
SOON = {"worker_timeout": 1.5}


async def read_to_the_end(stream: Stream) -> list[Any]:
    """The messages up to the end of the response, or of its connection."""
    try:
        return await stream.rest()
    except (OSError, ClientError):
        return []


async def answer(client: Client, question: Any) -> int:
    """The status of an answer to a question that was pushed."""
    reply = {"jsonrpc": "2.0", "id": question["id"], "result": elicit_accept()}
    return (await client.post(reply)).status


async def assert_in_service(held: Fleet, client: Client, counted: int) -> None:
    """Every worker knows the session, and what was kept in it."""
    for number, worker in enumerate(held.workers, counted + 1):
        assert text_of(await held.at(worker, client).call("count")) == str(number)


@pytest.mark.parametrize("engine", ENGINES)
async def test_the_worker_that_asked_is_killed(engine: str, engines: Engines, tmp_path: Path) -> None:
    version = PUSHING[0]
    async with fleet(3, tmp_path / "fleet", config=SOON, **engines.options(engine)) as held:
        asking, other, third = held.workers
        client = await held.client(version).open()
        assert text_of(await client.call("count")) == "1"
        async with (
            held.at(other, client).streaming(client.calling("slow", id="other", token="t", at="other")) as unaffected,
            held.at(asking, client).streaming(client.calling("order")) as asked,
        ):
            assert (await unaffected.message())["params"]["progress"] == 1
            question = await asked.message()
            last = asked.last_id
            await asking.kill()
            held.workers.remove(asking)
            assert await read_to_the_end(asked) == []
            # An answer finds nobody, and the stream is nowhere: that is said, and the session lives.
            assert await answer(client, question) == 202
            gone = await client.send("GET", headers={"Last-Event-ID": last})
            assert (gone.status, gone.message["error"]["message"]) == (
                405, "there is no stream of this session with that Last-Event-ID",
            )  # fmt: skip
            for gate in ("other-1", "other-2"):
                held.open_gate(gate)
            assert text_of((await unaffected.rest())[-1]) == "done"
        await assert_in_service(held, client, 1)
        async with client.streaming(client.calling("order")) as again:
            while (message := await again.message()) is not None and "result" not in message:
                assert await answer(held.at(third, client), message) == 202
            assert text_of(message) == "accept accept"


@pytest.mark.parametrize("engine", ENGINES)
async def test_the_worker_that_took_the_answer_is_killed(engine: str, engines: Engines, tmp_path: Path) -> None:
    """It had acknowledged the answer: the call goes on with it."""
    version = PUSHING[0]
    async with fleet(3, tmp_path / "fleet", config=SOON, **engines.options(engine)) as held:
        asking, *others = held.workers
        client = await held.client(version).open()
        async with held.at(asking, client).streaming(client.calling("order")) as asked:
            for taking in others:
                question = await asked.message()
                assert await answer(held.at(taking, client), question) == 202
                await taking.kill()
                held.workers.remove(taking)
            assert text_of(await asked.message()) == "accept accept"
        await held.start(2)
        await assert_in_service(held, client, 0)


@pytest.mark.parametrize("sealed", [False, True], ids=["stored", "sealed"])
@pytest.mark.parametrize("engine", ENGINES)
async def test_the_worker_that_ended_a_call_with_a_question_is_killed(
    engine: str, sealed: bool, engines: Engines, tmp_path: Path
) -> None:
    """What its handler left is in the engine, or with the client."""
    options = engines.options(engine) | ({"sealed": [bytes(range(32)).hex()]} if sealed else {})
    async with fleet(2, tmp_path / "fleet", **options) as held:
        asking = held.workers[0]
        client = held.client(speak.VERSIONS[0])
        token = (await held.at(asking, client).call("refund", amount=5))["result"]["requestState"]
        await asking.kill()
        held.workers.remove(asking)
        again = client.calling("refund", amount=5)
        again["params"] |= {"inputResponses": {"sure": elicit_accept()}, "requestState": token}
        assert text_of((await client.post(again)).message) == "refunded 5 of 5"


def paying(client: Client, at: str, token: str) -> Any:
    """The round of a call that answers what its first round asked."""
    params = {"inputResponses": {"sure": elicit_accept()}, "requestState": token}
    return client.message("tools/call", {"name": "pay", "arguments": {"at": at}, **params})


@pytest.mark.parametrize("sealed", [False, True], ids=["stored", "sealed"])
@pytest.mark.parametrize("engine", ENGINES)
async def test_the_worker_that_goes_on_with_an_answer_is_killed(
    engine: str, sealed: bool, engines: Engines, tmp_path: Path
) -> None:
    """The call fails with its connection. What its first round left in an engine is spent, and it is begun anew."""
    options = engines.options(engine) | ({"sealed": [bytes(range(32)).hex()]} if sealed else {})
    async with fleet(2, tmp_path / "fleet", **options) as held:
        going_on = held.workers[0]
        client = held.client(speak.VERSIONS[0])
        lost, other = [(await client.call("pay", at=at))["result"]["requestState"] for at in ("lost", "other")]
        failing = asyncio.create_task(held.at(going_on, client).post(paying(client, "lost", lost)))
        unaffected = asyncio.create_task(held.at(held.workers[1], client).post(paying(client, "other", other)))
        for at in ("lost", "other"):
            await held.happened(f"{at}.waiting")
        await going_on.kill()
        held.workers.remove(going_on)
        with pytest.raises((OSError, ClientError)):
            await failing
        for at in ("lost", "other", "anew"):
            held.open_gate(at)
        assert text_of((await unaffected).message) == "paid other"
        again = await client.post(paying(client, "lost", lost))
        if sealed:
            assert text_of(again.message) == "paid lost"
        else:
            assert (again.status, again.message["error"]["message"]) == (
                400, "requestState is not valid for this call; start the call again without it",
            )  # fmt: skip
        anew = (await client.call("pay", at="anew"))["result"]["requestState"]
        assert text_of((await client.post(paying(client, "anew", anew))).message) == "paid anew"


@pytest.mark.parametrize("engine", ENGINES)
async def test_a_client_that_left_comes_back_to_another_worker(engine: str, engines: Engines, tmp_path: Path) -> None:
    """What its call was left is put back by the worker that gave the call up."""
    async with fleet(2, tmp_path / "fleet", **engines.options(engine)) as held:
        one, other = held.workers
        client = held.client(speak.VERSIONS[0])
        token = (await client.call("pay", at="left"))["result"]["requestState"]
        leaving = asyncio.create_task(held.at(one, client).post(paying(client, "left", token)))
        await held.happened("left.waiting")
        refused = await held.at(other, client).post(paying(client, "left", token))
        assert refused.status == 400, "it runs somewhere"
        leaving.cancel()
        await asyncio.wait([leaving])
        ran = [str(one.pid), str(other.pid)]

        async def opened_once_it_runs_again() -> None:
            await until(lambda: (held.folder / "left.ran").read_text().split() == ran, "it runs again")
            held.open_gate("left")

        opening = asyncio.create_task(opened_once_it_runs_again())
        async with asyncio.timeout(PATIENCE):
            while (answered := await held.at(other, client).post(paying(client, "left", token))).status == 400:
                pass
        await opening
        assert text_of(answered.message) == "paid left"
        assert held.errors() == ""


@pytest.mark.parametrize("engine", ENGINES)
async def test_a_worker_that_is_stopped_finishes_its_calls(engine: str, engines: Engines, tmp_path: Path) -> None:
    """Those that are waited for here, and those that are come back for elsewhere; its listeners go elsewhere, too."""
    async with fleet(2, tmp_path / "fleet", patience=60, **engines.options(engine)) as held:
        leaving, staying = held.workers
        client = await held.client(PUSHING[0]).open()
        here = held.at(leaving, client)
        async with (
            here.listening() as listening,
            here.streaming(here.calling("slow", id="stays", token="t", at="stays")) as stays,
            here.streaming(here.calling("slow", id="leaves", token="t", at="leaves")) as leaves,
        ):
            await client.call("change")
            await listening.message()
            for stream in (stays, leaves):
                assert (await stream.message())["params"]["progress"] == 1
            leaves.leave()
            stopping = asyncio.create_task(leaving.stop())
            held.workers.remove(leaving)
            while await listening.message() is not None:
                pass  # the second announcement of `change`, perhaps
            elsewhere = held.at(staying, client)
            async with elsewhere.streaming(method="GET", headers={"Last-Event-ID": listening.last_id}) as fresh:
                methods = [(await fresh.message())["method"] for _ in range(3)]
                assert methods == LISTS_CHANGED
                fresh.leave()
            async with elsewhere.streaming(method="GET", headers={"Last-Event-ID": leaves.last_id}) as rest:
                for gate in ("leaves-1", "leaves-2"):
                    held.open_gate(gate)
                assert text_of((await rest.rest())[-1]) == "done"
            for gate in ("stays-1", "stays-2"):
                held.open_gate(gate)
            assert text_of((await stays.rest())[-1]) == "done"
            await stopping
        assert held.errors() == ""


@pytest.mark.parametrize("version", RESUMING)
async def test_a_listener_whose_worker_is_killed_keeps_its_session(
    version: str, engines: Engines, tmp_path: Path
) -> None:
    async with fleet(2, tmp_path / "fleet", config=SOON, **engines.options("sqlite")) as held:
        first = held.workers[0]
        client = await held.client(version).open()
        await client.post(client.message("resources/subscribe", {"uri": "bread://rye"}))
        async with held.at(first, client).listening() as stream:
            await client.call("update")
            assert (await stream.message())["method"] == UPDATED
            last = stream.last_id
            await first.kill()
            held.workers.remove(first)
            assert await read_to_the_end(stream) == []
        async with client.streaming(method="GET", headers={"Last-Event-ID": last}) as stream:
            methods = [(await stream.message())["method"] for _ in range(4)]
            assert methods == [*LISTS_CHANGED, UPDATED]
            await client.call("update")
            assert (await stream.message())["method"] == UPDATED
            stream.leave()
        await assert_in_service(held, client, 0)


@pytest.mark.parametrize("engine", SERVERS)
async def test_the_engine_is_killed_and_comes_back(engine: str, tmp_path: Path) -> None:
    engines = Engines(tmp_path)
    options = engines.options(engine)
    server = engines.server(engine)
    pushing, modern = PUSHING[0], speak.VERSIONS[0]
    try:
        async with fleet(3, tmp_path / "fleet", **options) as held:
            client, stateless = await held.client(pushing).open(), held.client(modern)
            assert [text_of(await client.call("count")) for _ in range(3)] == ["1", "2", "3"]
            await client.post(client.message("resources/subscribe", {"uri": "bread://rye"}))
            calling = client.calling("slow", id="slow", token="t", at="slow")
            token = (await stateless.call("pay", at="pay"))["result"]["requestState"]
            payment = asyncio.create_task(stateless.post(paying(stateless, "pay", token)))
            await held.happened("pay.waiting")
            async with (
                client.listening() as listening,
                client.streaming(calling) as running,
                client.streaming(client.calling("order", id="order")) as asked,
            ):
                assert (await running.message())["params"]["progress"] == 1
                question = await asked.message()
                server.kill()
                # What needs the engine says so; what needs none goes on.
                failed = await client.post(client.calling("count"))
                assert (failed.status, failed.message["error"]) == (
                    503, {"code": -32603, "message": "the session store cannot be reached"},
                )  # fmt: skip
                asked_anew = await stateless.post(stateless.calling("refund"))
                assert asked_anew.status == 503
                assert text_of(await stateless.call("who")).isdigit()
                for gate in ("pay", "slow-1", "slow-2"):
                    held.open_gate(gate)
                # It had from the engine what it needed.
                assert text_of((await payment).message) == "paid pay"
                assert [text_of(message) for message in (await running.rest())[-1:]] == ["done"]
                server.start()
                await in_service(client)
                # Nobody was restarted, and nothing that was saved is lost; who waited still waits.
                assert text_of(await client.call("count")) == "4"
                await hub_in_service(client, listening)
                assert await answer(client, question) == 202
                assert await answer(client, await asked.message()) == 202
                assert text_of(await asked.message()) == "accept accept"
                listening.leave()
            await assert_in_service(held, client, 4)
    finally:
        engines.close()


@pytest.mark.parametrize("engine", SERVERS)
async def test_the_engine_comes_back_empty(engine: str, tmp_path: Path) -> None:
    """What it kept is lost, and is said to be; all else is in service again by itself."""
    engines = Engines(tmp_path)
    options = engines.options(engine)
    server = engines.server(engine)
    try:
        async with fleet(2, tmp_path / "fleet", **options) as held:
            before = await held.client(PUSHING[0]).open()
            assert text_of(await before.call("count")) == "1"
            server.kill()
            server.wipe()
            server.start()
            async with asyncio.timeout(PATIENCE):
                while (answered := await before.post(before.message("ping"))).status == 503:
                    pass
            assert (answered.status, answered.message["error"]["message"]) == (
                404, "there is no such session; initialize again",
            )  # fmt: skip
            client = await held.client(PUSHING[0]).open()
            await in_service(client)
            await client.post(client.message("resources/subscribe", {"uri": "bread://rye"}))
            async with held.at(held.workers[0], client).listening() as listening:
                await hub_in_service(held.at(held.workers[1], client), listening)
                listening.leave()
            await assert_in_service(held, client, 0)
    finally:
        engines.close()


async def in_service(client: Client) -> None:
    """Return once a session is found again, wherever it is asked for."""
    async with asyncio.timeout(PATIENCE):
        good = 0
        while good < 6:
            answered = await client.post(client.message("ping"))
            assert answered.status in (200, 503), answered
            good = good + 1 if answered.status == 200 else 0


async def hub_in_service(client: Client, listening: Stream) -> None:
    """Return once announcements come through again."""

    async def announce() -> None:
        while True:
            await client.call("update")
            await asyncio.sleep(0.05)

    announcing = asyncio.create_task(announce())
    async with asyncio.timeout(PATIENCE):
        while (await listening.message())["method"] != UPDATED:
            pass
    announcing.cancel()
    await asyncio.wait([announcing])


def limit_files(workers: list[Worker], size: int) -> None:
    """Let no file of these processes grow beyond so many bytes: what a full disk looks like to them."""
    for worker in workers:
        resource.prlimit(worker.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


async def test_the_disk_is_full_under_sqlite(engines: Engines, tmp_path: Path) -> None:
    options = engines.options("sqlite") | {"where": str(tmp_path / "full.sqlite")}
    version = PUSHING[0]
    async with fleet(2, tmp_path / "fleet", **options) as held:
        client, stateless = await held.client(version).open(), held.client(speak.VERSIONS[0])
        assert text_of(await client.call("count")) == "1"
        async with client.streaming(client.calling("slow", token="t", at="slow")) as running:
            assert (await running.message())["params"]["progress"] == 1
            limit_files(held.workers, 4096)
            opened = await held.client(version).post(client.initialize())
            assert (opened.status, opened.message["error"]["code"]) == (503, -32603)
            counted = await client.post(client.calling("count"))
            assert counted.status in (200, 503)
            assert (await stateless.post(stateless.calling("refund"))).status == 503
            assert text_of(await stateless.call("who")).isdigit()
            for gate in ("slow-1", "slow-2"):
                held.open_gate(gate)
            assert text_of((await running.rest())[-1]) == "done"
        limit_files(held.workers, resource.RLIM_INFINITY)
        await in_service(client)
        assert text_of(await client.call("count")) == "2"
        assert (await (await held.client(version).open()).post(client.message("ping"))).status == 200


class Shopper:
    """A client of the load: it counts in its session, one call after the other, and knows what was acknowledged."""

    def __init__(self, client: Client, happened: Counter[str]) -> None:
        self.client = client
        self.acknowledged = 0
        self.attempted = 0
        self._happened = happened

    async def shop(self, closing: asyncio.Event) -> None:
        """Count until `closing`."""
        while not closing.is_set():
            self.attempted += 1
            try:
                answered = await self.client.post(self.client.calling("count"))
            except (OSError, ClientError):
                self._happened["connections lost"] += 1
                continue
            self._happened[f"answers {answered.status}"] += 1
            if answered.status == 200:
                self.acknowledged += 1

    async def look(self) -> int:
        """How much was counted: 0 where the session is lost."""
        looked = await self.client.post(self.client.calling("count", by=0))
        return int(text_of(looked.messages[-1])) if looked.status == 200 else 0


@pytest.mark.parametrize("engine", ENGINES)
async def test_a_rolling_restart_under_load_loses_nothing(
    engine: str, engines: Engines, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Fifty clients go on while each of three workers is replaced, and one more is killed."""
    happened: Counter[str] = Counter()
    async with fleet(3, tmp_path / "fleet", **engines.options(engine)) as held:
        versions = [version for version in speak.VERSIONS if ADAPTERS[version].has_handshake]
        clients = [await held.client(versions[number % len(versions)]).open() for number in range(50)]
        shoppers = [Shopper(client, happened) for client in clients]
        closing = asyncio.Event()
        load = [asyncio.create_task(shopper.shop(closing)) for shopper in shoppers]
        for worker in tuple(held.workers):
            before = happened["answers 200"]
            await held.start(1)
            await held.leave_out(worker)
            await until(lambda before=before: happened["answers 200"] > before + 100, "the load goes on")  # type: ignore[misc]
        happened["restarts"] = 3
        refused_by_restarts = happened["connections lost"] + happened["answers 503"]
        killed = held.workers.pop()
        await killed.kill()
        before = happened["answers 200"]
        await until(lambda: happened["answers 200"] > before + 100, "the load goes on")
        closing.set()
        await asyncio.gather(*load)
        counted = [await shopper.look() for shopper in shoppers]
        errors = held.errors()
    lost_sessions = sum(count == 0 for count in counted)
    acknowledged = sum(shopper.acknowledged for shopper in shoppers)
    lost = sum(max(0, shopper.acknowledged - count) for shopper, count in zip(shoppers, counted, strict=True))
    with capsys.disabled():
        print(
            f"\n{engine}: {len(shoppers)} clients, {happened['restarts']} restarts and a kill: {acknowledged} writes "
            f"acknowledged, {lost} of them lost, {lost_sessions} sessions lost; {dict(sorted(happened.items()))}"
        )
    assert (lost_sessions, lost, refused_by_restarts) == (0, 0, 0)
    assert all(shopper.acknowledged <= count <= shopper.attempted
               for shopper, count in zip(shoppers, counted, strict=True))  # fmt: skip
    assert "Traceback" not in errors, errors

"""What a server asks its client: forms, addresses, the client's model and its roots, one by one and together."""

from __future__ import annotations

import json
from typing import Any

import pytest

from .answers import Answers, accept, form
from .conftest import Connect, need_some_client
from .expected import ORDER_FORM, READ_HINT, result, text
from .peers import Declined, NotSent, Refused

need_some_client()
JSON = Any


AGREEMENT = {"type": "object", "properties": {}}


async def test_a_form(meet: Connect) -> None:
    answers = Answers(accept(name="Ada", times=2), {"action": "decline"}, {"action": "cancel"})
    async with meet(ask=answers) as peer:
        assert await peer.call("confirm", {"what": "tea"}) == text(peer, "accept: {'name': 'Ada', 'times': 2}")
        assert await peer.call("confirm", {"what": "milk"}) == text(peer, "decline: {}")
        assert await peer.call("confirm", {"what": "sugar"}) == text(peer, "cancel: {}")
        assert answers.asked == [form(f"Who wants {what}?") for what in ("tea", "milk", "sugar")]


async def test_a_form_with_a_field_of_every_kind(meet: Connect) -> None:
    filled = {"email": "ada@host.example", "loaves": 2, "weight": 1.5, "sliced": True, "size": "large", "flour": "r"}
    answers = Answers(accept(**filled, seeds=["poppy", "sesame"]))
    async with meet(ask=answers) as peer:
        said = (
            "email='ada@host.example', flour='r', loaves=2, seeds=['poppy', 'sesame'], size='large', sliced=True, "
            "weight=1.5"
        )
        assert await peer.call("order") == text(peer, said)
        assert answers.asked == [form("What shall it be?", ORDER_FORM)]


async def test_an_address(meet: Connect) -> None:
    answers = Answers({"action": "accept"})
    async with meet(ask=answers) as peer:
        assert await peer.call("sign_in") == text(peer, "accept")
        params = {"mode": "url", "message": "Sign in", "url": "https://interop.example/sign-in"}
        named = {"elicitationId": "sign-in-1"} if peer.revision == "2025-11-25" else {}
        assert answers.asked == [{"method": "elicitation/create", "params": {**params, **named}}]


async def test_one_question_after_the_other(meet: Connect) -> None:
    answers = Answers(accept(name="Ada"), accept(name="Lovelace"), {"action": "accept", "content": {}})
    async with meet(ask=answers) as peer:
        assert await peer.call("introduce") == text(peer, "Ada Lovelace: accept")
        assert answers.asked == [
            form("First name?"),
            form("Last name, Ada?"),
            form("Ada Lovelace?", AGREEMENT),
        ]


async def test_the_clients_model(meet: Connect) -> None:
    answers = Answers()
    async with meet(ask=answers) as peer:
        assert await peer.call("summarise", {"text": "bread"}) == text(peer, "m-1 as assistant: about bread")
        params = {
            "messages": [{"role": "user", "content": {"type": "text", "text": "bread"}}],
            "maxTokens": 50,
            "systemPrompt": "Be brief.",
            "temperature": 0.5,
            "stopSequences": ["STOP"],
        }
        assert answers.asked == [{"method": "sampling/createMessage", "params": params}]


async def test_the_clients_roots(meet: Connect) -> None:
    answers = Answers()
    async with meet(ask=answers) as peer:
        assert await peer.call("folders") == text(peer, "home=file:///home/ada, None=file:///tmp")
        assert answers.asked == [{"method": "roots/list", "params": {}}]
        try:
            await peer.roots_changed()
        except NotSent:
            assert peer.revision == "2026-07-28"
        assert await peer.call("folders") == text(peer, "home=file:///home/ada, None=file:///tmp")


async def test_several_questions_at_once(meet: Connect) -> None:
    answers = Answers(accept(name="Ada"))
    async with meet(ask=answers) as peer:
        assert await peer.call("survey") == text(peer, "3: Ada, 2, about A joke")
        messages = [{"role": "user", "content": {"type": "text", "text": "A joke"}}]
        joke = {"method": "sampling/createMessage", "params": {"messages": messages, "maxTokens": 9}}
        questions = [form("Your name?"), {"method": "roots/list", "params": {}}, joke]
        assert sorted(answers.asked, key=json.dumps) == sorted(questions, key=json.dumps)


async def test_resources_and_prompts_ask_too(meet: Connect) -> None:
    answers = Answers(accept(name="Ada"), accept(name="Grace"))
    async with meet(ask=answers) as peer:
        secret = {"contents": [{"uri": "note://secret", "text": "for Ada only"}]}
        assert await peer.read("note://secret") == result(peer, secret, READ_HINT)
        message = {"role": "user", "content": {"type": "text", "text": "Interview Grace."}}
        assert await peer.prompt("interview") == result(peer, {"messages": [message]})
        assert answers.asked == [form("Who reads?"), form("Whom?")]


async def test_a_client_that_cannot_be_asked(meet: Connect) -> None:
    async with meet() as peer:
        assert await peer.call("agree") == text(peer, "decline")
        for tool, arguments, needed in (
            ("confirm", {"what": "tea"}, {"elicitation": {}}),
            ("sign_in", {}, {"elicitation": {"url": {}}}),
            ("summarise", {"text": "bread"}, {"sampling": {}}),
            ("folders", {}, {"roots": {}}),
        ):
            with pytest.raises(Refused) as refused:
                await peer.call(tool, arguments)
            code = -32021 if peer.revision == "2026-07-28" else -32600
            said = f"this needs the client capability {next(iter(needed))!r}, which the client did not declare"
            error = {"code": code, "message": said, "data": {"requiredCapabilities": needed}}
            assert refused.value.error == error


async def test_a_client_that_answers_with_an_error(meet: Connect) -> None:
    def ask(method: str, params: JSON) -> JSON:
        raise Declined("not today")

    async with meet(ask=ask) as peer:
        with pytest.raises(Refused) as refused:
            await peer.call("confirm", {"what": "tea"})
        # Where the question is the result of the call, the client does not call again, and fails for itself.
        asked_for_itself = {"code": -32603, "message": "not today"}
        pushed = {"code": -32603, "message": "the client refused the question 'name'"}
        assert refused.value.error == (asked_for_itself if peer.revision == "2026-07-28" else pushed)


async def test_asking_in_the_arguments(meet: Connect) -> None:
    async with meet() as peer:
        asked = await peer.call("book", {"seats": 2})
        *_, again = asked["content"][0]["text"].splitlines()
        arguments = json.loads(again)
        assert arguments.pop("mcpAnswers") == {"name": {"action": "accept", "content": {"name": "…", "times": 0}}}
        assert arguments == {"seats": 2}
        answers = {"name": {"action": "accept", "content": {"name": "Ada"}}}
        assert await peer.call("book", {"seats": 2, "mcpAnswers": answers}) == text(peer, "2 for Ada")


async def test_a_client_that_can_be_asked_is_not_asked_in_the_arguments(meet: Connect) -> None:
    answers = Answers(accept(name="Ada"))
    async with meet(ask=answers) as peer:
        assert await peer.call("book", {"seats": 2}) == text(peer, "2 for Ada")
        assert answers.asked == [form("In whose name?")]

"""The answer to a ticket: the agent drafts once, and nothing goes to a customer before a person says so."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models.function import AgentInfo, FunctionModel

from flowguard.testing import FlowClock, FlowResult, FlowRunner, explore
from flows.answer_ticket import agent
from flows.answer_ticket.flow import MAILS, AnswerTicket
from flows.answer_ticket.invariants import a_customer_gets_a_mail_only_after_a_person_said_so
from flows.answer_ticket.stand_in import StandIn, answer
from tests.event_loops import closed_loop
from tests.flows.samples import sample

own_loop = pytest.fixture(autouse=True)(closed_loop)


@pytest.fixture
def tickets(flow_runner: FlowRunner, flow_clock: FlowClock) -> FlowRunner:
    flow_clock.advance(hours=2)  # later than the last request of the samples
    return flow_runner.serve(AnswerTicket)


def after(runner: FlowRunner, name: str, **span: float) -> FlowResult:
    return runner.deliver(sample(f"answer_ticket/{name}.json")).run(within=timedelta(**span))


def mails(result: FlowResult) -> list[tuple[str, str]]:
    found = {mail.id: (mail.body["to"], mail.body["subject"]) for mail in result.sent(MAILS)}
    return list(found.values())


CUSTOMER, REVIEWER = "customer@example.com", "grace@example.com"


def test_a_draft_is_sent_when_a_person_says_so(tickets: FlowRunner) -> None:
    drafted = after(tickets, "01-ticket", seconds=1)
    assert mails(drafted) == [(REVIEWER, "Draft: Your question")]
    [mail] = drafted.sent(MAILS)
    assert mail.body["text"] == "Thank you. Your order left the warehouse on 2 January."
    assert "answers=send%2Cdiscard&comment=yes" in mail.body["link"]
    sent = after(tickets, "02-send", days=2)
    assert (CUSTOMER, "Your question") in mails(sent)
    assert sent.item("tickets", ticket_id="t-701") == {
        "ticket_id": "t-701",
        "status": "SENT",
        "tokens": drafted.item("tickets", ticket_id="t-701")["tokens"],  # type: ignore[index]  # it is there
        "comment": "well put",
    }


def test_a_discarded_draft_is_handed_over_and_not_sent(tickets: FlowRunner) -> None:
    after(tickets, "03-ticket-to-discard", seconds=1)
    result = after(tickets, "04-discard", days=2)
    assert (REVIEWER, "ticket t-702 waits for a person") in mails(result)
    assert CUSTOMER not in [to for to, _ in mails(result)]
    assert result.run("t-702").result == "HANDED_OVER"


def test_a_draft_that_nobody_reads_is_handed_over_after_a_day(tickets: FlowRunner) -> None:
    result = after(tickets, "05-ticket-nobody-reads", days=2)
    assert result.item("tickets", ticket_id="t-703")["comment"] == "nobody has read the draft"  # type: ignore[index]  # it is there
    assert mails(result)[-1] == (REVIEWER, "ticket t-703 waits for a person")


def test_a_model_that_is_away_is_asked_again_and_only_for_what_is_missing(tickets: FlowRunner) -> None:
    asked: list[int] = []

    def flaky(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        asked.append(len(messages))
        if asked == [1, 3]:
            raise ConnectionError("away")
        return answer(messages, info)

    with agent.WRITER.override(model=FunctionModel(flaky)):
        result = after(tickets, "01-ticket", minutes=5)
    assert asked == [1, 3, 3]
    assert result.item("tickets", ticket_id="t-701")["status"] == "DRAFTED"  # type: ignore[index]  # it is there


def test_the_environment_names_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(agent.model(), StandIn)
    monkeypatch.setenv("TICKETS_MODEL", "anthropic:claude-opus-4-8")
    assert agent.model() == "anthropic:claude-opus-4-8"


@pytest.mark.proof("explores a flow that waits")
def test_every_fault_at_the_flow_is_survived() -> None:
    answers: dict[str, Any] = {"review": {"answer": "send", "comment": "well put"}}
    report = explore(
        AnswerTicket,
        [sample("answer_ticket/01-ticket.json")],
        bound=0,
        walks=0,
        answers=answers,
        invariants=[a_customer_gets_a_mail_only_after_a_person_said_so],
    )
    assert report.ok, str(report)

"""An agent drafts answers on a function, and a reviewer sends or discards them by the link of a mail.

What a dead worker leaves to the next is explored elsewhere: here the lease of a stage that asks a model, four minutes,
would have to pass.
"""

from __future__ import annotations

from typing import Final

from flows.answer_ticket.agent import WRITER
from tests.proofs.e2e.cloud import Cloud, Received
from tests.proofs.e2e.links import Links
from tests.proofs.e2e.play import Check, Scene, Until

MODULE = "flows.answer_ticket.handlers"
MAILS: Final = "ticket-mails"
QUESTION: Final = "Where are my orders A-17 and A-99?"


def scene(cloud: Cloud) -> Scene:
    for ticket in ("t-send", "t-discard", "t-again"):
        _open(cloud, ticket, "first", copies=2)
    yield Until("each draft is mailed", lambda: all(_links(cloud, f"t-{t}") for t in ("send", "discard", "again")))
    drafted = WRITER.run_sync(QUESTION)
    tokens = {row["ticket_id"]: int(row["tokens"]) for row in cloud.items("tickets")}
    wanted = dict.fromkeys(("t-send", "t-discard", "t-again"), drafted.usage.total_tokens)
    yield Check("each has taken the tokens of one draft, though it came twice", wanted, tokens)
    yield from _decided(cloud)
    yield from _asked_anew(cloud)
    yield Until("nothing is on its way", lambda: cloud.settled("tickets-opened"))
    customers = sorted(mail.body["to"] for mail in _mails(cloud) if mail.body["to"].startswith("customer"))
    wanted_mails = ["customer-t-again@example.com", "customer-t-send@example.com"]
    yield Check("each customer got one answer, and none a discarded one", wanted_mails, customers)
    texts = {mail.body["text"] for mail in _mails(cloud) if mail.body["to"].startswith("customer")}
    yield Check("it is what the agent drafts", {drafted.output.text}, texts)


def _decided(cloud: Cloud) -> Scene:
    """Answer by each link twice: once with the other choice afterwards."""
    links = Links(cloud, "answer-ticket-answers")
    for ticket, choice, other in (("t-send", "send", "discard"), ("t-discard", "discard", "send")):
        link = _links(cloud, ticket)[0]
        fields = links.fields(link)
        yield Check("who only opens the link has sent nothing", "DRAFTED", _status(cloud, ticket))
        first = links.post(link, {**fields, "answer": choice, "comment": "well put"})
        links.post(link, {**fields, "answer": other, "comment": ""})
        yield Check("the answer is taken", 200, first)
    yield Until("one is sent", lambda: _status(cloud, "t-send") == "SENT")
    yield Until("one is handed over", lambda: _status(cloud, "t-discard") == "HANDED_OVER")


def _asked_anew(cloud: Cloud) -> Scene:
    """Open a ticket anew, and answer by the first link and then by the second."""
    links = Links(cloud, "answer-ticket-answers")
    first = _links(cloud, "t-again")[0]
    opened = links.fields(first)
    _open(cloud, "t-again", "second")
    yield Until("it is drafted anew", lambda: len(_links(cloud, "t-again")) >= 2)
    second = _links(cloud, "t-again")[1]
    links.post(first, {**opened, "answer": "discard", "comment": ""})
    taken = links.post(second, {**links.fields(second), "answer": "send", "comment": ""})
    yield Check("the second link takes an answer", 200, taken)
    yield Until("the first has decided nothing", lambda: _status(cloud, "t-again") == "SENT")


def _open(cloud: Cloud, ticket: str, request: str, copies: int = 1) -> None:
    payload = {"ticket_id": ticket, "customer": f"customer-{ticket}@example.com", "question": QUESTION}
    whole = {**payload, "reviewer": f"{ticket}@example.com"}
    cloud.send("tickets-opened", whole, {"uniquerequestid": f"{ticket}-{request}"}, copies=copies)


def _mails(cloud: Cloud) -> list[Received]:
    return cloud.distinct(MAILS)


def _links(cloud: Cloud, ticket: str) -> list[str]:
    """Return the links to the drafts of a ticket, the oldest first."""
    return [
        mail.body["link"] for mail in _mails(cloud) if mail.body["to"] == f"{ticket}@example.com" and mail.body["link"]
    ]


def _status(cloud: Cloud, ticket: str) -> str:
    return str((cloud.item("tickets", ticket_id=ticket) or {}).get("status"))

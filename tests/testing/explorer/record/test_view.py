"""The view that an invariant gets."""

from __future__ import annotations

from dataclasses import replace

from flowguard.sim.posted_messages import Posted
from flowguard.testing.explorer.record.view import View
from tests.testing.explorer import seeded
from tests.testing.explorer.histories import history_of


def posted(to: str, identity: str) -> Posted:
    return Posted(to=to, body=f'{{"id": "{identity}"}}', call=1)


def test_messages_to_several_receivers_are_in_the_order_of_sending() -> None:
    history = history_of(seeded.flow_of(seeded.Recorded), [seeded.Order(order_id="o1")], "none", tables=seeded.TABLES)
    sent = [posted("sqs:mails", "1"), posted("sns:news", "1"), posted("sqs:mails", "2"), posted("sqs:mails", "1")]
    view = View(replace(history, posted=sent), same={"mails": "id", "news": "id"})
    assert [(one.to, one.body["id"]) for one in view.sent("mails", "news")] == [
        ("mails", "1"),
        ("news", "1"),
        ("mails", "2"),
    ], "a copy counts once for each receiver"
    assert [one.body["id"] for one in view.sent("news")] == ["1"]
    assert view.sent() == []

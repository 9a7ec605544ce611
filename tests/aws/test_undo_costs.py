"""What a run that fails and is undone costs, as DynamoDB Local counts it: the table of the documentation."""

from __future__ import annotations

from pathlib import Path

from flowguard.sim.calls import intercept
from flowguard.sim.table_keys import create_table
from tests.aws.engines import on_dynamodb_local
from tests.aws.test_write_units import Units
from tests.proofs.bench.flow import a_request
from tests.proofs.bench.wire import Bench, event_of
from tests.proofs.compare.with_flowguard import DeclineOrder, Order

PAGE = Path(__file__).parents[2] / "docs" / "explain" / "comparison.md"
HOPS = ("charges, and records one write", "fails for good", "takes it back, and records one write")


def test_each_hop_of_a_run_that_is_undone_costs_what_the_page_says(dynamodb_local_url: str) -> None:
    clients = on_dynamodb_local(dynamodb_local_url)
    create_table(clients.dynamodb, "totals", "day")
    bench = Bench(DeclineOrder, clients)
    event, _ = a_request(
        DeclineOrder,
        Order(order_id="o1", day="monday", amount=5),
        request_id="r-1",
        requested_at=bench.clock.now(),
    )
    found = []
    for _ in HOPS:
        with intercept(Units()) as units:
            bench.deliver(event)
        found.append(units.written)
        event = event_of(bench.wire.sent[-1])  # the next hop's message is sent last
    assert found == [5, 2, 5]
    page = PAGE.read_text()
    for hop, written in zip(HOPS, found, strict=True):
        assert f"| {hop} | UpdateItem, " in page
        assert f"| {written:g} |" in next(line for line in page.splitlines() if line.startswith(f"| {hop} |"))

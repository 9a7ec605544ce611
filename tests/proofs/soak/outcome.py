"""What a soak left behind: the tables and queues, read once, and what the workers' journal tells."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flowguard.aws.items import read_item, run_key
from flowguard.flow import AnyFlow
from flowguard.names.ids import ObjectId
from flowguard.protocol.run import RunItem, Status
from tests.proofs.soak.chronicle import Chronicle
from tests.proofs.soak.mail import Mail
from tests.proofs.soak.orders.flow import Order, Orders
from tests.proofs.soak.pages.flow import Pages
from tests.proofs.soak.pages.requests import PageRequest
from tests.proofs.soak.places import ACCOUNTS, EFFECTS, PAGES
from tests.proofs.soak.request import Requests, Trouble
from tests.proofs.soak.sandbox import Sandbox
from tests.proofs.soak.waits.flow import Waits, Wanted

GIVEN_UP = "RunFailed: SQS gave the message up"
"""How the error of a run begins that SQS's own dead-letter queue has ended."""


@dataclass(frozen=True)
class Outcome:
    """``orders``, ``pages`` and ``waits`` are what was asked for, by request id; ``page_runs`` are by page.

    ``went_on`` says where a run that had waited wrote its effect; ``resumed_by_token`` counts how often the holder of
    its token was told that this resumed it. ``forged`` is what the insider has sent.
    """

    orders: Mapping[str, Order]
    pages: Mapping[str, PageRequest]
    waits: Mapping[str, Wanted]
    order_runs: Mapping[str, RunItem]
    page_runs: Mapping[str, RunItem]
    wait_runs: Mapping[str, RunItem]
    effects: Mapping[str, int]
    went_on: Mapping[str, str]
    accounts: Mapping[str, Mapping[str, Any]]
    page_rows: Mapping[str, Mapping[str, Any]]
    mail: Mail
    chronicle: Chronicle
    seconds: float
    resumed_by_token: Counter[str]
    forged: Sequence[str]

    @classmethod
    def read(
        cls,
        sandbox: Sandbox,
        asked: Requests,
        mail: Mail,
        chronicle: Chronicle,
        seconds: float,
        resumed_by_token: Counter[str],
        forged: Sequence[str],
    ) -> Outcome:
        orders, pages, waits = runs_of(Orders), runs_of(Pages), runs_of(Waits)
        effects = sandbox.rows(EFFECTS)
        runs = {str(item["pk"]["S"]): read_item(item) for item in sandbox.scan("flowguard") if item["sk"]["S"] == "run"}
        return cls(
            asked.orders,
            asked.pages,
            asked.waits,
            {key.removeprefix(orders): run for key, run in runs.items() if key.startswith(orders)},
            {key.removeprefix(pages): run for key, run in runs.items() if key.startswith(pages)},
            {key.removeprefix(waits): run for key, run in runs.items() if key.startswith(waits)},
            {name: int(row["applied"]) for name, row in effects.items()},
            {name: str(row["went_on"]) for name, row in effects.items() if "went_on" in row},
            sandbox.rows(ACCOUNTS),
            sandbox.rows(PAGES),
            mail,
            chronicle,
            seconds,
            resumed_by_token,
            forged,
        )

    def failed(self) -> dict[str, str]:
        """Each request that ended among the dead letters, with its error."""
        return {told.request_id: told.error for told in self.mail.told if told.status == Status.FAILED}

    def completed(self) -> set[str]:
        return {told.request_id for told in self.mail.told if told.status == Status.COMPLETED}

    def dead_lettered(self) -> set[str]:
        """The requests that the function of SQS's own dead-letter queue has ended."""
        return {request for request, error in self.failed().items() if error.startswith(GIVEN_UP)}

    def trouble(self, request_id: str) -> Trouble:
        order = self.orders.get(request_id) or self.waits.get(request_id)
        return order.trouble if order is not None else self.pages[request_id].reset.trouble


def runs_of(flow: AnyFlow) -> str:
    """What the keys of a flow's run items begin with."""
    return str(run_key(flow.name, ObjectId(""))["pk"]["S"])

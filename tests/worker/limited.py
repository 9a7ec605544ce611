"""Flows with limits for a crowd, and what is left of them at the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Final

from botocore.exceptions import EndpointConnectionError
from pydantic import BaseModel

from flowguard.errors import Retry
from flowguard.flow import AnyFlow, Flow
from flowguard.limit import PerKey
from flowguard.outcome import Done, Outcome
from flowguard.protocol.places import NOBODY, Change, Holder, Hop, Places, Terms, given_back, settled, taken
from flowguard.protocol.run import Status
from flowguard.retry import Fixed, RetryPolicy
from flowguard.sim.calls import ApiCall
from flowguard.stage import Stage
from flowguard.step import Step
from flowguard.worker.place_store import PlaceKey
from tests.worker.crowd import HOUR, Crowd, Killed


class Order(BaseModel):
    order_id: str
    customer: str = "c1"
    gateway: str = "g1"
    note: str = ""


CROWDS: Final[list[Crowd]] = []
"""The crowd that is at work: handlers find it here."""

ONE: Final = PerKey("customer", at_once=1)
FIRST: Final = Order(order_id="o0")

LONGEST: Final = 1_800_000
STRANGER: Final = Hop("stranger", "somebody else", 0)
"""A hop that is not of any test's runs, and may hold a place."""


def flow_of(
    limit: PerKey | tuple[PerKey, ...] | None = ONE,
    does: Callable[[Order, Step, Crowd], object] = lambda order, step, crowd: crowd.pass_time(200),
    rest: int = 60,
    **options: Any,
) -> AnyFlow:
    """A flow of one stage with this limit, which ``does`` something. Attempts that fail ``rest`` for so long (s)."""

    class Charge(
        Stage[Order],
        name="charge",
        inbox="orders",
        retry=RetryPolicy(attempts=20, backoff=Fixed(rest), jitter=0),
        limit=limit,
    ):
        def handle(self, order: Order, step: Step) -> Outcome:
            crowd = CROWDS[-1]
            with crowd.at_work(order.customer, order.order_id):
                does(order, step, crowd)
            return Done()

    class Orders(Flow, name="orders", object_id="order_id", dead_letters="dead", **options):
        stages = (Charge,)

    return Orders


def sometimes_fails(share: float) -> Callable[[Order, Step, Crowd], object]:
    def does(order: Order, step: Step, crowd: Crowd) -> None:
        crowd.pass_time(max(1, int(crowd.draw.expovariate(1 / 200))))
        if crowd.draw.random() < share:
            raise Retry(after=timedelta(seconds=60))

    return does


@contextmanager
def crowd_of(flow: AnyFlow, **options: Any) -> Iterator[Crowd]:
    with Crowd(flow, **options) as crowd:
        CROWDS.append(crowd)
        try:
            yield crowd
        finally:
            CROWDS.pop()


def dies_at(number: int) -> tuple[Callable[[ApiCall], None], list[int]]:
    """What kills the function at a call, counted from 0, and the calls that were made."""
    calls: list[int] = []

    def die(call: ApiCall) -> None:
        calls.append(1)
        if len(calls) == number + 1:
            raise Killed

    return die, calls


def out_for_an_hour(after: int) -> Callable[[ApiCall], None]:
    """What fails each call after so many, until the first hour of the crowd is over."""
    calls: list[int] = []

    def fail(call: ApiCall) -> None:
        calls.append(1)
        crowd = CROWDS[-1]
        if len(calls) > after and crowd.now_ms - crowd.start_ms < HOUR:
            raise EndpointConnectionError(endpoint_url="https://dynamodb")

    return fail


def key_of(order: Order = FIRST, name: str = "customer", value: str = "") -> PlaceKey:
    place = PerKey(name, at_once=1).place_of(order.model_copy(update={name: value or getattr(order, name)}))
    assert place is not None
    return PlaceKey("orders", "charge", place)


def places_of(crowd: Crowd, key: PlaceKey | None = None) -> Places:
    """Who holds a place of the key, and who stands in line."""
    return crowd.services.store.places.change(key or key_of(), Change, "nobody").seen.places


def occupy(crowd: Crowd, key: PlaceKey | None = None, lease: int = 600_000) -> None:
    """Let a stranger hold a place."""
    terms = Terms(100, crowd.now(), LONGEST)
    holder = Holder("a stranger", crowd.now() + lease)
    places = crowd.services.store.places
    changed = places.change(
        key or key_of(), lambda found: taken(found, STRANGER, holder, terms), crowd.services.ids.new()
    )
    assert changed.change.granted


def vacate(crowd: Crowd, key: PlaceKey | None = None) -> None:
    """Let the stranger go. It calls nobody, as a worker that died just then."""
    terms = Terms(1, crowd.now(), LONGEST)
    places = crowd.services.store.places
    places.change(
        key or key_of(), lambda found: given_back(found, STRANGER.token, "a stranger", terms), crowd.services.ids.new()
    )


def all_end(crowd: Crowd, runs: int) -> None:
    """Each run is complete, nothing is left in the queue, and nobody is left who would hold a place or wait.

    Failures that were noted stay until the next one is.
    """
    assert Counter(crowd.item(f"o{number}").status for number in range(runs)) == {Status.COMPLETED: runs}
    assert crowd.waiting == []
    windows = [limit.window for stage in crowd.flow.stages for limit in stage.limits]
    terms = Terms(1, crowd.now() + max([crowd.lease, *windows]) * 2, LONGEST)
    for row in crowd.items("limit#"):
        _, flow, stage, place = row["pk"]["S"].split("#", 3)
        left = settled(places_of(crowd, PlaceKey(flow, stage, place)), terms)
        assert left._replace(failed=()) == NOBODY

"""Runs that are cancelled while they wait, with those that they have asked; a stage of a third flow orders it.

Each one is cancelled before anything could answer it, so every order of events has the same end.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from flowguard import Callback, Done, Failure, Flow, Outcome, Stage, Step
from flowguard.protocol.conflict import OnConflict
from flowguard.protocol.run import Status
from flowguard.testing.explorer import View
from tests.proofs.prove.flows import CAREFUL, Order, Progress
from tests.proofs.prove.given import request

_LONG: Final = timedelta(days=1)
_NEVER: Final = Callback("never", id="order")


class Dig(Stage[Order, Progress], name="dig", then="dug", inbox="to-dig", retry=CAREFUL):
    """What it takes, it gives back when it is cancelled. It waits for what never comes."""

    def handle(self, order: Order, step: Step[Progress]) -> Outcome:
        step.state.amount = order.amount
        step.update("totals", {"day": "dug"}, "ADD amount :more", values={":more": order.amount})
        return Dug.when_all(x=step.event("never"), within=_LONG)


class Dug(Stage[dict[str, Any], Progress], name="dug", inbox="to-dig", retry=CAREFUL):
    def handle(self, answers: dict[str, Any], step: Step[Progress]) -> Outcome:
        step.put("notes", {"note": "dug"})
        return Done()


class Fill(Stage[Failure, Progress], name="fill", inbox="to-dig", retry=CAREFUL):
    def handle(self, failure: Failure, step: Step[Progress]) -> Outcome:
        step.update("totals", {"day": "dug"}, "ADD amount :less", values={":less": -step.state.amount})
        return Done()


class Digs(Flow, name="digs", object_id="order_id", answers="to-digs", callbacks=(_NEVER,), on_failed=Fill):
    stages = (Dig, Dug, Fill)


class Build(Stage[Order, Progress], name="build", then="built", inbox="to-build", retry=CAREFUL):
    """It asks for a hole, and starts what cancels it, once it waits."""

    def handle(self, order: Order, step: Step[Progress]) -> Outcome:
        step.start(Stops, Order(order_id=order.order_id))
        hole = step.ask(Digs, Order(order_id=f"{order.order_id}-hole"), cancel_too=True)
        return Built.when_all(hole=hole, x=step.event("never"), within=_LONG)


class Built(Stage[dict[str, Any], Progress], name="built", inbox="to-build", retry=CAREFUL):
    def handle(self, answers: dict[str, Any], step: Step[Progress]) -> Outcome:
        step.put("notes", {"note": "built"})
        return Done()


class Builds(Flow, name="builds", object_id="order_id", answers="to-builds", complete_to="ended", callbacks=(_NEVER,)):
    stages = (Build, Built)


class Stop(Stage[Order], name="stop", inbox="to-stop", retry=CAREFUL):
    def handle(self, order: Order, step: Step) -> Outcome:
        step.cancel(Builds, order.order_id, why="nobody wants it")
        return Done()


class Stops(Flow, name="stops", object_id="order_id"):
    stages = (Stop,)


class Share(Stage[Order, Progress], name="share", then="shared", inbox="to-share", retry=CAREFUL):
    """It takes callers, and is cancelled once it waits."""

    def handle(self, order: Order, step: Step[Progress]) -> Outcome:
        step.start(StopsSharing, Order(order_id=order.order_id))
        return Shared.when_all(x=step.event("never"), within=_LONG)


class Shared(Stage[dict[str, Any], Progress], name="shared", inbox="to-share", retry=CAREFUL):
    def handle(self, answers: dict[str, Any], step: Step[Progress]) -> Outcome:
        step.put("notes", {"note": "shared"})
        return Done()


class Shares(
    Flow, name="shares", object_id="order_id", answers="to-shares", callbacks=(_NEVER,), on_conflict=OnConflict.ATTACH
):
    stages = (Share, Shared)


class StopSharing(Stage[Order], name="stop-sharing", inbox="to-stop-sharing", retry=CAREFUL):
    def handle(self, order: Order, step: Step) -> Outcome:
        step.cancel(Shares, order.order_id, why="nobody wants it")
        return Done()


class StopsSharing(Flow, name="stops-sharing", object_id="order_id"):
    stages = (StopSharing,)


CALLERS: Final = ("request-1", "request-2", "request-3")
SHARED: Final = [
    request(Shares, "to-share", Order(order_id="o1"), own, at=place, reply_to="sqs:replies")
    for place, own in enumerate(CALLERS)
]


def each_caller_is_told_one_end_under_one_id(view: View) -> str | None:
    """I16, of callers of a cancelled run."""
    told: dict[str, set[str]] = {}
    for one in view.sent("replies"):
        told.setdefault(one.body["request_id"], set()).add(f"{one.id}: {one.body['status']}, {one.body['error']}")
    wrong = {own: said for own in CALLERS if len(said := told.get(own, set())) != 1}
    return f"{wrong} of {told}" if wrong else None


def what_is_cancelled_has_ended_so_and_left_nothing(view: View) -> str | None:
    """Also the hole, whenever it was cancelled; and nothing was done after."""
    ended = {run.flow: run.status for run in view.runs() if run.flow in ("builds", "digs")}
    if set(ended.values()) != {Status.FAILED}:
        return f"the runs are {ended}"
    row = view.item("totals", day="dug")
    left = row["amount"] if row else 0
    if left and view.sent("digs-dead-letters"):  # what was to give it back has failed
        return None
    notes = [name for name in ("dug", "built") if view.item("notes", note=name)]
    return f"{left} are dug, and {notes} noted" if left or notes else None

"""The flow of the pages: a cache that is asked for anew while it is being built.

Each commit adds a line to its page's history, in the transaction of the commit: the history is the order in which
DynamoDB applied them, and no clock and no worker's journal has to be believed. Nothing in the stages themselves keeps
an older request from writing: the page's writes carry no condition of their own.
"""

from __future__ import annotations

from pydantic import BaseModel

from flowguard import SUPERSEDE, Done, Flow, Outcome, Stage, Step
from tests.proofs.soak.places import DEAD, EFFECTS, INBOX, NEWS, PAGES, POLICY, TOLD
from tests.proofs.soak.request import Trouble


class Reset(BaseModel):
    """``revision`` is what the page has to show when this request was the last to be carried out."""

    page: str
    revision: int
    trouble: Trouble = Trouble()


class Collected(BaseModel):
    """The run's own state: what the second stage shows comes from the first one, by way of the run item."""

    content: str = ""


class Collect(Stage[Reset, Collected], name="collect", then="publish", retry=POLICY):
    def handle(self, reset: Reset, step: Step[Collected]) -> Outcome:
        step.state.content = content(step.request_id, reset)
        _write(reset, step, "SET #started = :request", {":request": step.request_id}, {"#started": "started"})
        reset.trouble.strike(step)
        return Publish.message(reset)


class Publish(Stage[Reset, Collected], name="publish", retry=POLICY):
    def handle(self, reset: Reset, step: Step[Collected]) -> Outcome:
        shown: dict[str, object] = {":content": step.state.content, ":revision": reset.revision}
        _write(reset, step, "SET #content = :content, revision = :revision", shown, {"#content": "content"})
        reset.trouble.strike(step)
        return Done({"revision": reset.revision})


class Pages(
    Flow, name="soak-pages", object_id="page", on_conflict=SUPERSEDE, inbox=INBOX, dead_letters=DEAD, complete_to=TOLD
):
    stages = (Collect, Publish)


def content(request_id: str, reset: Reset) -> str:
    return f"{reset.page} at {reset.revision}, asked for by {request_id}"


def _write(reset: Reset, step: Step[Collected], change: str, values: dict[str, object], names: dict[str, str]) -> None:
    """The page with one more line of its history, and an effect that shows it if it is applied twice."""
    step.update(
        PAGES,
        {"id": reset.page},
        f"{change}, history = list_append(if_not_exists(history, :none), :line)",
        names=names,
        values={**values, ":none": [], ":line": [f"{step.request_id}.{step.hop}"]},
    )
    step.update(EFFECTS, {"id": f"{step.request_id}.{step.hop}"}, "ADD applied :one", values={":one": 1})
    step.send(NEWS, {"page": reset.page, "revision": reset.revision})

"""Flows whose runs begin with what buckets tell: one a queue, one a topic."""

from __future__ import annotations

from typing import Any, Final

from pydantic import BaseModel

from flowguard import Done, Flow, Outcome, Stage, Step, Topic, lambda_handler

TOLD: Final = "arn:aws:sns:eu-west-1:123456789012:told"
OPTIONS: Final[dict[str, Any]] = {
    "defaults": {"max_concurrency": 5},
    "settings": {"signing_keys": "ssm:/keys"},
    "queues": {"files": {"buckets": ["uploads"]}},
    "topics": {"told": {"buckets": ["scans", "more.scans"]}},
}


class Change(BaseModel):
    object: dict[str, Any]


class Index(Stage[Change], name="index"):
    def handle(self, change: Change, step: Step) -> Outcome:
        return Done()


class Files(Flow, name="files", object_id="object.key"):
    stages = (Index,)


class Read(Stage[Change], name="read"):
    def handle(self, change: Change, step: Step) -> Outcome:
        return Done()


class Scans(Flow, name="scans", object_id="object.key", inbox=Topic(TOLD)):
    stages = (Read,)


index = lambda_handler(Files)
read = lambda_handler(Scans)

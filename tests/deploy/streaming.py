"""Flows whose runs begin with the records of streams: of Kinesis, of tables made here, and of those made elsewhere."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from pydantic import BaseModel

from flowguard import Done, Flow, Outcome, Stage, Step, lambda_handler
from flowguard.streams import KinesisStream, TableStream

TABLES: Final = {"stock": "sku"}
SHARED: Final = "arn:aws:kinesis:eu-west-1:210987654321:stream/clicked"
CLICKED: Final = f"{SHARED}/consumer/counts:1767323045"
KEY: Final = "arn:aws:kms:eu-west-1:210987654321:key/1234abcd-12ab-34cd-56ef-1234567890ab"
PRICES: Final = "arn:aws:dynamodb:eu-west-1:123456789012:table/prices/stream/2026-01-01T00:00:00.000"

OPTIONS: Final[dict[str, Any]] = {
    "defaults": {"max_concurrency": 5},
    "settings": {"signing_keys": "ssm:/keys"},
    "functions": {"count": {"batch_size": 4}},
    "streams": {
        "clicked": {
            "arn": CLICKED,
            "start": "LATEST",
            "batch_size": 200,
            "window": 5,
            "parallel": 3,
            "max_age": 3_600,
            "max_attempts": 50,
            "kms_key": KEY,
        },
        "prices": {"arn": PRICES},
    },
}


class Click(BaseModel):
    page: str


class Change(BaseModel):
    keys: dict[str, str]


class Count(Stage[Click], name="count"):
    def handle(self, click: Click, step: Step) -> Outcome:
        return Done()


class Clicks(Flow, name="clicks", object_id="page", streams=(KinesisStream("viewed"), KinesisStream("clicked"))):
    stages = (Count,)


class Notice(Stage[Change], name="notice", inbox="notice.fifo", timeout=timedelta(seconds=20)):
    def handle(self, change: Change, step: Step) -> Outcome:
        return Done()


class Changes(Flow, name="changes", object_id="keys.sku", streams=(TableStream("stock"), TableStream("prices"))):
    stages = (Notice,)


count = lambda_handler(Clicks)
notice = lambda_handler(Changes)

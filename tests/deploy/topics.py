"""Flows whose runs begin with the records of Kafka: of clusters of MSK, and of some outside it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from pydantic import BaseModel

from flowguard import Done, Flow, Outcome, Stage, Step, lambda_handler
from flowguard.streams import KafkaTopic

CLUSTER: Final = "arn:aws:kafka:eu-west-1:123456789012:cluster/bank/751d2973-a626-431c-9d4e-d7975eb44dd7-2"
SCRAM_SECRET: Final = "arn:aws:secretsmanager:eu-west-1:123456789012:secret:AmazonMSK_bank-1a2b3c"
PLAIN_SECRET: Final = "arn:aws:secretsmanager:eu-west-1:123456789012:secret:kafka-1a2b3c"
KEY: Final = "arn:aws:kms:eu-west-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab"
SERVERS: Final = ("kafka-1.example.com:9096", "kafka-2.example.com:9096")

OPTIONS: Final[dict[str, Any]] = {
    "defaults": {"max_concurrency": 5},
    "settings": {"signing_keys": "ssm:/keys"},
    "functions": {"copy": {"batch_size": 4}},
    "streams": {
        "accounts": {"arn": CLUSTER},
        "limits": {
            "arn": CLUSTER,
            "secret": SCRAM_SECRET,
            "kms_key": KEY,
            "group": "limits-copies",
            "start": "LATEST",
            "batch_size": 200,
            "window": 5,
            "pollers": 4,
            "max_age": 3_600,
            "max_attempts": 500,
        },
        "orders": {
            "servers": SERVERS,
            "secret": PLAIN_SECRET,
            "auth": "BASIC_AUTH",
            "subnets": ["subnet-0a1b2c3d", "subnet-0a1b2c3e"],
            "security_groups": ["sg-0a1b2c3d"],
        },
    },
}


class Account(BaseModel):
    owner: str


class AccountRecord(BaseModel):
    key: str
    value: Account | None = None


class OrderRecord(BaseModel):
    key: str
    value: dict[str, str]


class Copy(Stage[AccountRecord], name="copy"):
    def handle(self, record: AccountRecord, step: Step) -> Outcome:
        return Done()


class Accounts(Flow, name="accounts", object_id="key", streams=(KafkaTopic("accounts"), KafkaTopic("limits"))):
    stages = (Copy,)


class Place(Stage[OrderRecord], name="place", timeout=timedelta(seconds=8)):
    def handle(self, record: OrderRecord, step: Step) -> Outcome:
        return Done()


class Orders(Flow, name="orders", object_id="key", streams=(KafkaTopic("orders"),)):
    stages = (Place,)


copy = lambda_handler(Accounts)
place = lambda_handler(Orders)

"""What is wrong with a setting or an option, in words of its own. Values are not repeated: some are secrets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_WORDS: Final = {
    "bool_parsing": "is neither true nor false",
    "bool_type": "is neither true nor false",
    "dict_type": "is no table of names and values",
    "extra_forbidden": "is no option",
    "finite_number": "is no finite number",
    "greater_than": "is not more than {gt}",
    "greater_than_equal": "is less than {ge}",
    "int_from_float": "is no whole number",
    "int_parsing": "is no whole number",
    "int_type": "is no whole number",
    "less_than_equal": "is more than {le}",
    "list_type": "is no list",
    "literal_error": "is not {expected}",
    "missing": "is missing",
    "model_type": "is no table of options",
    "string_too_long": "has more than {max_length} characters",
    "string_too_short": "has fewer than {min_length} characters",
    "string_type": "is no text, which stands in quotes",
    "too_long": "has more than {max_length} parts",
    "too_short": "has fewer parts than {min_length}",
    "tuple_type": "is no list",
    "value_error": "{error}",
}

ROLE: Final = r"^(arn:[a-z0-9-]+:iam::[0-9]{12}:role/)?([A-Za-z0-9_+=,.@-]+/)*[A-Za-z0-9_+=,.@-]{1,64}$"
POLICY: Final = r"^arn:[a-z0-9-]+:iam::([0-9]{12}|aws):policy/[A-Za-z0-9_+=,.@/-]+$"
KMS_KEY: Final = "^arn:[a-z0-9-]+:kms:[a-z0-9-]+:[0-9]{12}:key/[A-Za-z0-9-]+$"
CODE_SIGNING: Final = "^arn:[a-z0-9-]+:lambda:[a-z0-9-]+:[0-9]{12}:code-signing-config:csc-[0-9a-z]{17}$"
ACCOUNT: Final = "^[0-9]{12}$"
REGION: Final = "^[a-z]{2,4}(-[a-z]+)+-[0-9]+$"
VARIABLE: Final = "^[A-Za-z][A-Za-z0-9_]+$"
EXPORT: Final = "^[A-Za-z0-9:-]{1,100}$"
QUEUE: Final = r"^[A-Za-z0-9_-]+(\.fifo)?$"
ANY_QUEUE: Final = r"^(arn:[a-z0-9-]+:sqs:[a-z0-9-]+:[0-9]{12}:)?[A-Za-z0-9_-]{1,80}(\.fifo)?$"
PLACE: Final = r"^(arn:[a-z0-9-]+:sqs:[a-z0-9-]+:[0-9]{12}:[A-Za-z0-9_.-]+|https?://\S+|[A-Za-z0-9_-]{1,80}(\.fifo)?)$"
TABLE: Final = "^[A-Za-z0-9_.-]{3,255}$"
BUCKET: Final = r"^[a-z0-9](\.?[a-z0-9-])*\.?[a-z0-9]$"
PREFIX: Final = "^[A-Za-z0-9][A-Za-z0-9/!_.()-]{0,254}$"
ANY_TABLE: Final = "^(arn:[a-z0-9-]+:dynamodb:[a-z0-9-]+:[0-9]{12}:table/)?[A-Za-z0-9_.-]{3,255}$"
ANY_TOPIC: Final = r"^(arn:[a-z0-9-]+:sns:[a-z0-9-]+:[0-9]{12}:)?[A-Za-z0-9_-]{1,256}(\.fifo)?$"
STANDARD_TOPIC: Final = "^arn:[a-z0-9-]+:sns:[a-z0-9-]+:[0-9]{12}:[A-Za-z0-9_-]{1,256}$"
STREAM: Final = (
    "^arn:[a-z0-9-]+:(kinesis:[a-z0-9-]+:[0-9]{12}:stream/[A-Za-z0-9_.-]{1,128}(/consumer/[A-Za-z0-9_.-]{1,128}:[0-9]+)?"
    "|dynamodb:[a-z0-9-]+:[0-9]{12}:table/[A-Za-z0-9_.-]{3,255}/stream/[0-9T:.-]+"
    "|kafka:[a-z0-9-]+:[0-9]{12}:cluster/[A-Za-z0-9_-]{1,64}/[A-Za-z0-9-]+)$"
)
SERVER: Final = (
    "^[A-Za-z0-9.-]{1,253}:([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])$"
)
GROUP: Final = "^[A-Za-z0-9/*:_+=.@-]{1,200}$"
STORED_SECRET: Final = "^arn:[a-z0-9-]+:secretsmanager:[a-z0-9-]+:[0-9]{12}:secret:[A-Za-z0-9/_+=.@-]+$"  # noqa: S105
DATABASE_USER: Final = "^arn:[a-z0-9-]+:rds-db:[a-z0-9-]+:[0-9]{12}:dbuser:(cluster|db|prx)-[A-Za-z0-9]+/[^/*?]+$"
ROLE_PATH: Final = r"^/([A-Za-z0-9_+=,.@-]+/)*$"
SUBNET: Final = "^subnet-[0-9a-f]+$"
SECURITY_GROUP: Final = "^sg-[0-9a-f]+$"
TAG_TEXT: Final = "^[A-Za-z0-9 _.:/=+@-]*$"
TAG_KEY: Final = "^[A-Za-z0-9 _.:/=+@-]{1,128}$"
SCHEDULE_GROUP: Final = "^[0-9a-zA-Z_.-]{1,64}$"
KEYS: Final = (
    r"^(ssm:arn:[a-z0-9-]+:ssm:\S+:parameter/\S+|secretsmanager:arn:[a-z0-9-]+:secretsmanager:\S+:secret:\S+"
    r"|(ssm|secretsmanager):[A-Za-z0-9/_+=.@-]+(:[A-Za-z0-9_.-]+)?)$"
)
LINKS: Final = "^https?://[^/?#]+[^?#]*$"
SECURE_LINKS: Final = "^https://[^/?#]+[^?#]*$"
RUNTIME: Final = r"^python3\.(1[1-9]|[2-9][0-9])$"
ARCHITECTURE: Final = "^(arm64|x86_64)$"

PATTERNS: Final = {
    ROLE: "is no role: neither its path and name, such as teams/shop, nor its ARN, arn:aws:iam::123456789012:role/shop",
    POLICY: "is no ARN of a policy, such as arn:aws:iam::123456789012:policy/shop",
    KMS_KEY: "is no ARN of a key, such as arn:aws:kms:eu-west-1:123456789012:key/1234abcd-…; an alias is none",
    CODE_SIGNING: "is no ARN of a code signing configuration, arn:aws:lambda:…:code-signing-config:csc-…",
    ACCOUNT: "is no account, which has 12 digits",
    REGION: "is no region, such as eu-west-1",
    VARIABLE: "is no name of a variable: a letter, then one or more of a-z, A-Z, 0-9 and _",
    EXPORT: "is no beginning of an export's name: up to 100 of a-z, A-Z, 0-9, : and -",
    QUEUE: "is no name of a queue: one or more of a-z, A-Z, 0-9, _ and -, and .fifo at the end of a FIFO queue",
    ROLE_PATH: "is no path of a role, such as /shop/",
    SUBNET: "is no subnet, such as subnet-0a1b2c3d",
    SECURITY_GROUP: "is no security group, such as sg-0a1b2c3d",
    TAG_TEXT: "is no text of a tag: it has a-z, A-Z, 0-9, spaces and _ . : / = + @ -",
    TAG_KEY: "is no key of a tag: up to 128 of a-z, A-Z, 0-9, spaces and _ . : / = + @ -",
    ANY_QUEUE: "is no name or ARN of a queue",
    PLACE: "is no name, ARN or URL of a queue",
    TABLE: "is no name of a table: 3 to 255 of a-z, A-Z, 0-9, _, . and -; its ARN is the name under [tables.NAME]",
    BUCKET: "is no name of a bucket",
    PREFIX: "is no beginning of keys: up to 255 of a-z, A-Z, 0-9 and / ! _ . ( ) -, with a letter or digit first",
    ANY_TABLE: "is no name or ARN of a table",
    ANY_TOPIC: "is no name or ARN of a topic",
    STANDARD_TOPIC: "is no ARN of a standard topic, such as arn:aws:sns:eu-west-1:123456789012:on-call",
    STREAM: "is no ARN of a stream, arn:aws:kinesis:…:stream/orders or arn:aws:dynamodb:…:table/stock/stream/2026-…, "
    "nor of a cluster of MSK, arn:aws:kafka:…:cluster/bank/751d2973-…",
    SERVER: "is no server of Kafka with its port, such as kafka-1.example.com:9096",
    GROUP: "is no consumer group: up to 200 of a-z, A-Z, 0-9 and / * : _ + = . @ -",
    STORED_SECRET: "is no ARN of a secret, such as arn:aws:secretsmanager:eu-west-1:123456789012:secret:kafka-1a2b3c",
    DATABASE_USER: "is no user of a database by ARN, such as "
    "arn:aws:rds-db:eu-west-1:123456789012:dbuser:cluster-ABCDEFGHIJKL01234/shop",
    SCHEDULE_GROUP: "is no name of a group of schedules: up to 64 of a-z, A-Z, 0-9, _, . and -",
    KEYS: "does not say where the keys are: ssm:<parameter> or secretsmanager:<secret>",
    LINKS: "is no URL of http or https without ? and #",
    SECURE_LINKS: "is no URL of https without ? and #",
    RUNTIME: "is no runtime of Python 3.11 or later, such as python3.13",
    ARCHITECTURE: "is neither arm64 nor x86_64",
}
"""What a text is not that does not match a pattern."""


def setting_problem(error: Mapping[str, Any]) -> str:
    """Return what an error of pydantic's says: what a value is not. Of a rarer error these are its own words."""
    words = PATTERNS.get(error["ctx"]["pattern"]) if "pattern" in error.get("ctx", {}) else _WORDS.get(error["type"])
    return str(error["msg"]) if words is None else words.format_map(error.get("ctx", {}))

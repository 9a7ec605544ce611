"""What programs make at AWS. Each is deleted at the end of its lab."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping, Sequence
from typing import Any, Final

from botocore.exceptions import ClientError

from flowguard.probe.lab import Lab, code

RUNTIME: Final = "python3.13"
_ASSUMED_WITHIN: Final = 60
"""Seconds within which a new role can be used, mostly."""


def tags(lab: Lab) -> list[dict[str, str]]:
    """Return the lab's tag in the form that most services take."""
    return [{"Key": key, "Value": value} for key, value in lab.tags.items()]


def queue(lab: Lab, *, fifo: bool = False, **attributes: str) -> str:
    """Make a queue and return its URL."""
    name = lab.name(".fifo" if fifo else "")
    given = {**({"FifoQueue": "true"} if fifo else {}), **attributes}
    known: list[str] = []
    lab.undo(f"queue {name}", lambda: _delete_queue(lab, name, known))
    url: str = lab.ask("sqs", "create_queue", QueueName=name, Attributes=given, tags=dict(lab.tags))["QueueUrl"]
    known.append(url)
    return url


def _delete_queue(lab: Lab, name: str, known: Sequence[str]) -> None:
    """Delete a queue. Its URL is looked up only where no answer has brought it: SQS may not know a new name yet."""
    url = known[0] if known else lab.clean("sqs", "get_queue_url", QueueName=name)["QueueUrl"]
    lab.clean("sqs", "delete_queue", QueueUrl=url)


def queue_arn(lab: Lab, url: str) -> str:
    """Return the ARN of a queue."""
    answer = lab.ask("sqs", "get_queue_attributes", QueueUrl=url, AttributeNames=["QueueArn"])
    arn: str = answer["Attributes"]["QueueArn"]
    return arn


def received(lab: Lab, url: str, *, most: int = 10, seconds: float = 10, **params: Any) -> list[Any]:
    """Receive messages, looking again until some are there or the time is over."""
    wanted = {"MessageAttributeNames": ["All"], "MessageSystemAttributeNames": ["All"], **params}

    def look() -> list[Any]:
        messages: list[Any] = lab.ask("sqs", "receive_message", QueueUrl=url, MaxNumberOfMessages=most, **wanted).get(
            "Messages", []
        )
        return messages

    return lab.until(look, seconds)


def table(lab: Lab, *, sort: bool = False) -> str:
    """Make a table on demand with the partition key ``pk``, and the sort key ``sk`` where it is asked for."""
    name = lab.name()
    keys = ("pk", "sk") if sort else ("pk",)
    lab.undo(f"table {name}", lambda: lab.clean("dynamodb", "delete_table", TableName=name))
    lab.ask(
        "dynamodb",
        "create_table",
        TableName=name,
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": key, "AttributeType": "S"} for key in keys],
        KeySchema=[{"AttributeName": key, "KeyType": kind} for key, kind in zip(keys, ("HASH", "RANGE"), strict=False)],
        Tags=tags(lab),
    )

    def is_active() -> bool:
        description = lab.ask("dynamodb", "describe_table", TableName=name)["Table"]
        return bool(description["TableStatus"] == "ACTIVE")

    lab.until(is_active, 60)
    return name


def topic(lab: Lab, **attributes: str) -> str:
    """Make a topic and return its ARN."""
    given = {"Name": lab.name(), "Attributes": attributes, "Tags": tags(lab)}
    lab.undo(f"topic {given['Name']}", lambda: _delete_topic(lab, given))
    arn: str = lab.ask("sns", "create_topic", **given)["TopicArn"]
    return arn


def _delete_topic(lab: Lab, given: Mapping[str, Any]) -> None:
    """Delete a topic of which the name is known, and perhaps no ARN: making it once more answers that."""
    lab.clean("sns", "delete_topic", TopicArn=lab.clean("sns", "create_topic", **given)["TopicArn"])


def allow(lab: Lab, url: str, service: str) -> None:
    """Let a service of AWS send to a queue."""
    statement = {
        "Effect": "Allow",
        "Principal": {"Service": service},
        "Action": "sqs:SendMessage",
        "Resource": queue_arn(lab, url),
    }
    policy = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    lab.ask("sqs", "set_queue_attributes", QueueUrl=url, Attributes={"Policy": policy})


def subscribe(lab: Lab, topic_arn: str, url: str, *, allowed: bool = True, **attributes: str) -> str:
    """Subscribe a queue to a topic and return the subscription's ARN."""
    if allowed:
        allow(lab, url, "sns.amazonaws.com")
    answer = lab.ask(
        "sns",
        "subscribe",
        TopicArn=topic_arn,
        Protocol="sqs",
        Endpoint=queue_arn(lab, url),
        Attributes=attributes,
        ReturnSubscriptionArn=True,
    )
    arn: str = answer["SubscriptionArn"]
    return arn


def bucket(lab: Lab) -> str:
    """Make a bucket."""
    name = lab.name()
    lab.undo(f"bucket {name}", lambda: _delete_bucket(lab, name))
    meta = lab._clients("s3").meta  # a region is no resource
    where: dict[str, Any] = {} if meta.region_name == "us-east-1" else {"LocationConstraint": meta.region_name}
    if "Tags" in meta.service_model.shape_for("CreateBucketConfiguration").members:  # boto3 of before 2025 has none
        where["Tags"] = tags(lab)
    lab.ask("s3", "create_bucket", Bucket=name, **({"CreateBucketConfiguration": where} if where else {}))
    return name


def _delete_bucket(lab: Lab, name: str) -> None:
    for entry in lab.clean("s3", "list_objects_v2", Bucket=name).get("Contents", []):
        lab.clean("s3", "delete_object", Bucket=name, Key=entry["Key"])
    lab.clean("s3", "delete_bucket", Bucket=name)


def role(lab: Lab, service: str, statements: list[Any]) -> str:
    """Make a role that a service may assume and return its ARN.

    ``statements`` are what it may do. An engine without IAM takes any.
    """
    if not lab.has("iam"):
        return f"arn:aws:iam::123456789012:role/{lab.name()}"
    name = lab.name()
    lab.undo(f"role {name}", lambda: _delete_role(lab, name))
    principal = {"AWS": service} if service.startswith("arn:") else {"Service": service}
    trust = {"Effect": "Allow", "Principal": principal, "Action": "sts:AssumeRole"}
    arn: str = lab.ask(
        "iam",
        "create_role",
        RoleName=name,
        AssumeRolePolicyDocument=_document([trust]),
        Tags=tags(lab),
    )["Role"]["Arn"]
    grant(lab, arn, statements)
    return arn


def grant(lab: Lab, role_arn: str, statements: list[Any]) -> None:
    """Give a role these statements instead of those it has. None takes all away."""
    name = role_arn.rpartition("/")[2]
    if statements:
        document = _document(statements)
        lab.ask("iam", "put_role_policy", RoleName=name, PolicyName="probe", PolicyDocument=document)


def _document(statements: list[Any]) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": statements})


def _delete_role(lab: Lab, name: str) -> None:
    try:
        lab.clean("iam", "delete_role_policy", RoleName=name, PolicyName="probe")
    finally:
        lab.clean("iam", "delete_role", RoleName=name)


def allowed(*actions: str, on: str = "*") -> dict[str, Any]:
    """Return a statement that allows actions."""
    return {"Effect": "Allow", "Action": list(actions), "Resource": on}


def function(lab: Lab, source: str, statements: list[Any] | None = None, **settings: Any) -> str:
    """Make a function whose module is ``source`` and its handler ``handler``. Its logs are deleted with it."""
    name = lab.name()
    role_arn = role(lab, "lambda.amazonaws.com", [*_LOGS, *(statements or [])])
    group = f"/aws/lambda/{name}"
    lab.undo(f"log group {group}", lambda: lab.clean("logs", "delete_log_group", logGroupName=group))
    lab.ask("logs", "create_log_group", logGroupName=group, tags=dict(lab.tags))
    lab.undo(f"function {name}", lambda: lab.clean("lambda", "delete_function", FunctionName=name))

    def made() -> bool:
        try:
            lab.ask(
                "lambda",
                "create_function",
                FunctionName=name,
                Runtime=RUNTIME,
                Role=role_arn,
                Handler="probed.handler",
                Code={"ZipFile": _zip(source)},
                Tags=dict(lab.tags),
                **{"Timeout": 10, "MemorySize": 128, **settings},
            )
        except ClientError as error:
            if code(error) == "InvalidParameterValueException":  # the role is not known everywhere yet
                return False
            raise
        return True

    if not lab.until(made, _ASSUMED_WITHIN, every=3):
        raise TimeoutError("the role of the function was not accepted")
    lab.until(lambda: _is_active(lab, name), 60)
    return name


_LOGS: Final = (allowed("logs:CreateLogStream", "logs:PutLogEvents"),)


def _is_active(lab: Lab, name: str) -> bool:
    answer = lab.ask("lambda", "get_function_configuration", FunctionName=name)
    return bool(answer.get("State", "Active") == "Active" and answer.get("LastUpdateStatus") != "InProgress")


def _zip(source: str) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as packed:
        info = zipfile.ZipInfo("probed.py", (1980, 1, 1, 0, 0, 0))
        info.external_attr = 0o644 << 16
        packed.writestr(info, source)
    return content.getvalue()


def mapping(lab: Lab, url: str, name: str, **settings: Any) -> str:
    """Map a queue to a function and return the mapping's id once it is enabled."""
    lab.undo(f"mappings of {name}", lambda: delete_mappings(lab, name))
    answer = lab.ask(
        "lambda",
        "create_event_source_mapping",
        EventSourceArn=queue_arn(lab, url),
        FunctionName=name,
        Tags=dict(lab.tags),
        **{"FunctionResponseTypes": ["ReportBatchItemFailures"], **settings},
    )
    identity: str = answer["UUID"]
    lab.ours(identity)
    lab.undo(
        f"mapping {identity} of {name}",
        lambda: lab.clean("lambda", "delete_event_source_mapping", UUID=identity),
    )
    lab.until(lambda: lab.ask("lambda", "get_event_source_mapping", UUID=identity)["State"] == "Enabled", 90, every=2)
    return identity


def delete_mappings(lab: Lab, name: str) -> None:
    """Delete the mappings of a function, also those whose ids no answer has brought.

    It finds none once the function is gone.
    """
    for entry in lab.clean("lambda", "list_event_source_mappings", FunctionName=name)["EventSourceMappings"]:
        if entry.get("State") == "Deleting":
            continue
        lab.ours(entry["UUID"])
        lab.clean("lambda", "delete_event_source_mapping", UUID=entry["UUID"])


def logged(lab: Lab, name: str, word: str, seconds: float = 60) -> list[str]:
    """Return the lines of a function's log that have this word."""

    def look() -> list[str]:
        answer = lab.ask("logs", "filter_log_events", logGroupName=f"/aws/lambda/{name}", filterPattern=f'"{word}"')
        return [event["message"] for event in answer["events"]]

    return lab.until(look, seconds, every=3)

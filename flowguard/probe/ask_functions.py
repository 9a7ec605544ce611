"""What Lambda does with functions and their logs. Most of it needs a tiny function, which is deployed."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from itertools import pairwise
from typing import Any

from flowguard.probe.lab import Lab
from flowguard.probe.made import allowed, delete_mappings, function, logged, mapping, queue, queue_arn
from flowguard.probe.saw import Saw, asks

_NOTHING = "def handler(event, context):\n    return None\n"
MB = 1_048_576


def _target(lab: Lab) -> str:
    """Return a function that can be invoked. It is deployed where the engine does not have every name."""
    name = lab.name()
    if not lab.code_of("lambda", "invoke", FunctionName=name, InvocationType="DryRun"):
        return name
    return function(lab, _NOTHING)


def _payloads(lab: Lab, kind: str, most: int) -> Saw:
    name = _target(lab)

    def invoked(size: int) -> str:
        payload = b'"' + b"x" * (size - 2) + b'"'
        return lab.code_of("lambda", "invoke", FunctionName=name, InvocationType=kind, Payload=payload)

    fits, over = invoked(most), invoked(most + 1)
    return Saw(not fits and over == "RequestTooLargeException", f"fits: {fits or 'taken'}; over: {over or 'taken'}")


@asks("lambda-sync-payload", "lambda", cents=0.1, seconds=40)
def sync_payload(lab: Lab) -> Saw:
    """Invoke a function with 6 MB, and a byte more."""
    return _payloads(lab, "RequestResponse", 6 * MB)


@asks("lambda-async-payload", "lambda", cents=0.1, seconds=40)
def async_payload(lab: Lab) -> Saw:
    """Invoke a function asynchronously with 1 MB, and a byte more."""
    return _payloads(lab, "Event", MB)


@asks("lambda-payload-json", "lambda", cents=0.1, seconds=40)
def payload_json(lab: Lab) -> Saw:
    """Invoke a function with a payload that is no JSON."""
    code = lab.code_of("lambda", "invoke", FunctionName=_target(lab), Payload=b"{")
    return Saw(code == "InvalidRequestContentException", code or "taken")


@asks("lambda-missing-function", "lambda")
def missing_function(lab: Lab) -> Saw:
    """Invoke a function that does not exist."""
    code = lab.code_of("lambda", "invoke", FunctionName=lab.name())
    return Saw(code == "ResourceNotFoundException", code or "taken")


@asks("lambda-async-accepted", "lambda", cents=0.1, seconds=40)
def async_accepted(lab: Lab) -> Saw:
    """Invoke a function asynchronously, and read the answer."""
    answer = lab.ask("lambda", "invoke", FunctionName=_target(lab), InvocationType="Event", Payload=b"{}")
    return Saw(answer["StatusCode"] == 202, f"status {answer['StatusCode']}")


_FAILS = """
import json, time

def handler(event, context):
    print("SAW", json.dumps({"at": time.time()}))
    raise RuntimeError("probe")
"""


@asks("lambda-async-retries", "lambda", "iam", "logs", cents=0.1, seconds=300)
def async_retries(lab: Lab) -> Saw:
    """Invoke a function that fails asynchronously, and see when it is tried again within four minutes."""
    name = function(lab, _FAILS)
    lab.ask("lambda", "invoke", FunctionName=name, InvocationType="Event", Payload=b"{}")
    attempts = [float(record["at"]) for record in _seen(lab, name, 3, 240)]
    lab.pause(15)
    more = len(_seen(lab, name, 4, 0)) - len(attempts)
    after = [round(later - earlier) for earlier, later in pairwise(attempts)]
    right = len(after) == 2 and 40 <= after[0] <= 100 <= after[1] <= 200 and not more
    return Saw(right, f"tried again after {', '.join(f'{seconds} s' for seconds in after) or 'nothing'}; {more} more")


_LOOPS = """
import boto3, os

def handler(event, context):
    sqs = boto3.client("sqs")
    for record in event["Records"]:
        count = int(record["body"])
        print("SAW", count)
        if count < 40:
            extra = {}
            if OWN_HEADER:
                root = f"Root=1-{os.urandom(4).hex()}-{os.urandom(12).hex()};Parent={os.urandom(8).hex()};Sampled=0"
                extra = {"MessageSystemAttributes": {"AWSTraceHeader": {"DataType": "String", "StringValue": root}}}
            sqs.send_message(QueueUrl=os.environ["QUEUE"], MessageBody=str(count + 1), **extra)
"""


def _loop(lab: Lab, *, own_header: bool) -> int:
    """Let a function send to its own queue, and return how often it was invoked in two minutes."""
    url = queue(lab, VisibilityTimeout="60")
    receives = allowed("sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes", "sqs:SendMessage")
    source = f"OWN_HEADER = {own_header}\n{_LOOPS}"
    name = function(
        lab, source, [{**receives, "Resource": queue_arn(lab, url)}], Environment={"Variables": {"QUEUE": url}}
    )
    mapping(lab, url, name, BatchSize=1)
    lab.ask("sqs", "send_message", QueueUrl=url, MessageBody="1")
    lab.pause(100)
    return max((int(line.split()[-1]) for line in logged(lab, name, "SAW", 30)), default=0)


@asks("lambda-loop-detection", "lambda", "sqs", "iam", "logs", cents=0.2, seconds=220)
def loop_detection(lab: Lab) -> Saw:
    """Let a function send to its own queue forty times, and see where it is stopped."""
    count = _loop(lab, own_header=False)
    return Saw(14 <= count <= 18, f"stopped after {count} of 40")


@asks("lambda-loop-lineage", "lambda", "sqs", "iam", "logs", cents=0.2, seconds=220)
def loop_lineage(lab: Lab) -> Saw:
    """Let a function send to its own queue forty times, each under a trace header of its own making."""
    count = _loop(lab, own_header=True)
    return Saw(14 <= count <= 18, f"with headers of its own, stopped after {count} of 40")


@asks("url-public", "lambda", "iam", "logs", cents=0.1, seconds=90)
def url_public(lab: Lab) -> Saw:
    """Call a function URL with one permission, and with both."""
    name = function(lab, "def handler(event, context):\n    return {'statusCode': 204}\n")
    url = lab.ask("lambda", "create_function_url_config", FunctionName=name, AuthType="NONE")["FunctionUrl"]
    public = {"FunctionName": name, "Principal": "*"}
    lab.ask(
        "lambda",
        "add_permission",
        StatementId="url",
        Action="lambda:InvokeFunctionUrl",
        FunctionUrlAuthType="NONE",
        **public,
    )
    lab.pause(10)
    with_one = _status(url)
    lab.ask(
        "lambda",
        "add_permission",
        StatementId="invoke",
        Action="lambda:InvokeFunction",
        InvokedViaFunctionUrl=True,
        **public,
    )
    both = lab.until(lambda: _status(url) == 204, 40, every=5)
    return Saw(
        with_one == 403 and bool(both), f"with one permission: {with_one}; with both: {204 if both else 'not 204'}"
    )


def _status(url: str) -> int:
    if not url.startswith("https://"):
        return 0
    try:
        with urllib.request.urlopen(url, timeout=15) as answer:  # noqa: S310  # the scheme was looked at
            return int(answer.status)
    except urllib.error.HTTPError as error:
        error.close()
        return error.code
    except urllib.error.URLError:  # an engine has no name there
        return 0


_LOGS = """
import json, logging, sys, time

def handler(event, context):
    for level, event_name in (("DEBUG", "probe-debug"), ("INFO", "probe-info"), ("odd", "probe-odd")):
        print(json.dumps({"level": level, "event": event_name, "timestamp": "2026-01-01T00:00:00.000Z"}))
    logging.getLogger("probe").warning("probe-record", extra={"a": 1})
    now = int(time.time() * 1000)
    metric = {"Namespace": event["namespace"], "Dimensions": [[]], "Metrics": [{"Name": "probed"}]}
    print(json.dumps({"_aws": {"Timestamp": now, "CloudWatchMetrics": [metric]}, "probed": [1, 2, 3]}))
"""


def _logging(lab: Lab) -> str:
    """Make and invoke a function that logs JSON. Its name is returned."""
    name = function(lab, _LOGS, LoggingConfig={"LogFormat": "JSON"})
    lab.ask("lambda", "invoke", FunctionName=name, Payload=json.dumps({"namespace": lab.namespace}).encode())
    return name


@asks("logs-raw-json", "lambda", "iam", "logs", cents=0.1, seconds=90)
def raw_json(lab: Lab) -> Saw:
    """Print lines of JSON, and read them in the log."""
    lines = logged(lab, _logging(lab), "probe-info")
    entries = [json.loads(line) for line in lines]
    as_described = len(entries) == 1 and entries[0].get("event") == "probe-info" and entries[0].get("level") == "INFO"
    return Saw(as_described, f"the line: {lines}")


@asks("logs-levels", "lambda", "iam", "logs", cents=0.1, seconds=110)
def levels(lab: Lab) -> Saw:
    """Print lines of JSON of the levels DEBUG and odd, and look which are in the log."""
    name = _logging(lab)
    odd = logged(lab, name, "probe-odd")
    debug = logged(lab, name, "probe-debug", 5)
    return Saw(bool(odd) and not debug, f"of an unknown level: {len(odd)}; DEBUG: {len(debug)}")


@asks("logs-json-fields", "lambda", "iam", "logs", cents=0.1, seconds=90)
def json_fields(lab: Lab) -> Saw:
    """Log a record by Python's logging, and read its fields."""
    lines = logged(lab, _logging(lab), "probe-record")
    names = sorted(json.loads(lines[0])) if lines else []
    wanted = {"timestamp", "level", "message", "logger", "requestId"}
    return Saw(wanted <= set(names), f"fields: {names}")


def _metric(lab: Lab, name: str) -> float | None:
    """Return the sum of a metric of this namespace, once there is one."""
    now = int(time.time())
    query = {
        "Id": "probed",
        "MetricStat": {"Metric": {"Namespace": lab.namespace, "MetricName": name}, "Period": 60, "Stat": "Sum"},
    }

    def look() -> list[float]:
        given = {"MetricDataQueries": [query], "StartTime": now - 600, "EndTime": now + 600}
        values: list[float] = lab.ask("cloudwatch", "get_metric_data", **given)["MetricDataResults"][0]["Values"]
        return values

    sums = lab.until(look, 240, every=10)
    return sum(sums) if sums else None


@asks("emf-metrics", "lambda", "iam", "logs", "cloudwatch", cents=2.0, seconds=300)
def emf_metrics(lab: Lab) -> Saw:
    """Print a line of the embedded metric format with three values, and read the metric."""
    _logging(lab)
    total = _metric(lab, "probed")
    return Saw(total == 6, f"the sum: {total}")


@asks("logs-metric-filter", "lambda", "iam", "logs", "cloudwatch", cents=2.0, seconds=330)
def metric_filter(lab: Lab) -> Saw:
    """Count events of a log by a field of their JSON."""
    name = function(lab, _LOGS, LoggingConfig={"LogFormat": "JSON"})
    lab.ask(
        "logs",
        "put_metric_filter",
        logGroupName=f"/aws/lambda/{name}",
        filterName="probe",
        filterPattern='{ $.event = "probe-info" }',
        metricTransformations=[{"metricName": "counted", "metricNamespace": lab.namespace, "metricValue": "1"}],
    )
    lab.pause(5)
    lab.ask("lambda", "invoke", FunctionName=name, Payload=json.dumps({"namespace": lab.namespace}).encode())
    total = _metric(lab, "counted")
    return Saw(total == 1, f"counted: {total}")


# -- event source mappings

_MAPPED = """
import json, time

def handler(event, context):
    failures = []
    size = len(json.dumps(event))
    for record in event["Records"]:
        receives = int(record["attributes"]["ApproximateReceiveCount"])
        body = record["body"]
        print("SAW", json.dumps({"body": body[:20], "receives": receives, "at": time.time(), "keys": sorted(record),
                                 "batch": len(event["Records"]), "size": size}))
        if body.startswith("fail") and receives == 1:
            failures.append({"itemIdentifier": record["messageId"]})
    return {"batchItemFailures": failures}
"""


def _mapped(lab: Lab, url: str, *, most: int = 10, timeout: int = 3, **settings: Any) -> str:
    receives = allowed("sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes", on=queue_arn(lab, url))
    name = function(lab, _MAPPED, [receives], Timeout=timeout)
    mapping(lab, url, name, BatchSize=most, **settings)
    return name


def _seen(lab: Lab, name: str, count: int, seconds: float = 60) -> list[Any]:
    """Return what a mapped function has logged of its records, once there are so many."""
    records: list[Any] = []

    def enough() -> bool:
        records[:] = [json.loads(line.partition("SAW ")[2]) for line in logged(lab, name, "SAW", 0)]
        return len(records) >= count

    lab.until(enough, seconds, every=3)
    return sorted(records, key=lambda record: float(record["at"]))


def _send(lab: Lab, url: str, body: str, **params: Any) -> None:
    lab.ask("sqs", "send_message", QueueUrl=url, MessageBody=body, **params)


@asks("mapping-partial-batch", "lambda", "sqs", "iam", "logs", cents=0.2, seconds=150)
def partial_batch(lab: Lab) -> Saw:
    """Let a function return one of two records, and see which comes again."""
    url = queue(lab, VisibilityTimeout="20")
    for body in ("good", "fail"):
        _send(lab, url, body)
    seen = [(record["body"], record["receives"]) for record in _seen(lab, _mapped(lab, url), 3, 120)]
    return Saw(sorted(seen) == [("fail", 1), ("fail", 2), ("good", 1)], f"records and receives: {seen}")


@asks("mapping-failed-visibility", "lambda", "sqs", "iam", "logs", cents=0.2, seconds=150)
def failed_visibility(lab: Lab) -> Saw:
    """Let a function return a record, and see after how long it comes again."""
    url = queue(lab, VisibilityTimeout="30")
    _send(lab, url, "fail")
    records = _seen(lab, _mapped(lab, url), 2, 120)
    later = records[1]["at"] - records[0]["at"] if len(records) > 1 else None
    return Saw(later is not None and later > 25, f"with a visibility timeout of 30 s it came again after {later} s")


@asks("mapping-visibility-at-least-timeout", "lambda", "sqs", "iam", "logs", cents=0.1, seconds=60)
def visibility_at_least_timeout(lab: Lab) -> Saw:
    """Map a queue that hides messages for a shorter time than its function may take."""
    url = queue(lab, VisibilityTimeout="5")
    receives = allowed("sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes", on=queue_arn(lab, url))
    name = function(lab, _NOTHING, [receives], Timeout=10)
    given = {"EventSourceArn": queue_arn(lab, url), "FunctionName": name, "Enabled": False, "Tags": dict(lab.tags)}
    lab.undo(f"mappings of {name}", lambda: delete_mappings(lab, name))
    code = lab.code_of("lambda", "create_event_source_mapping", **given)
    return Saw(code == "InvalidParameterValueException", code or "taken")


@asks("mapping-throttles-burn-receives", "lambda", "sqs", "iam", "logs", cents=0.2, seconds=300)
def throttles_burn_receives(lab: Lab) -> Saw:
    """Give a function no concurrency, and see whether its record goes to the dead-letter queue uncalled."""
    dead = queue(lab)
    policy = json.dumps({"deadLetterTargetArn": queue_arn(lab, dead), "maxReceiveCount": "2"})
    url = queue(lab, VisibilityTimeout="10", RedrivePolicy=policy)
    receives = allowed("sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes", on=queue_arn(lab, url))
    name = function(lab, _MAPPED, [receives], Timeout=3)
    lab.ask("lambda", "put_function_concurrency", FunctionName=name, ReservedConcurrentExecutions=0)
    mapping(lab, url, name)
    _send(lab, url, "throttled")

    def letters() -> int:
        answer = lab.ask("sqs", "get_queue_attributes", QueueUrl=dead, AttributeNames=["ApproximateNumberOfMessages"])
        return int(answer["Attributes"]["ApproximateNumberOfMessages"])

    moved = lab.until(letters, 240, every=10)
    called = len(logged(lab, name, "SAW", 0))
    return Saw(bool(moved) and not called, f"dead letters: {moved}; the function was called {called} times")


@asks("mapping-event-6-mb", "lambda", "sqs", "iam", "logs", cents=0.3, seconds=150)
def event_6_mb(lab: Lab) -> Saw:
    """Send seven messages of nearly 1 MiB, and look at the sizes of the batches."""
    url = queue(lab, VisibilityTimeout="60")
    for _ in range(7):
        _send(lab, url, "x" * (MB - 100))
    name = _mapped(lab, url, timeout=10, MaximumBatchingWindowInSeconds=10)
    batches = {(record["batch"], record["size"]) for record in _seen(lab, name, 7, 120)}
    largest = max(batches, default=(0, 0))
    return Saw(bool(batches) and largest[1] <= 6 * MB, f"records and bytes of the batches: {sorted(batches)}")


@asks("mapping-fifo-order", "lambda", "sqs", "iam", "logs", cents=0.2, seconds=180)
def fifo_order(lab: Lab) -> Saw:
    """Let the first record of a FIFO group fail once, with another group beside it."""
    url = queue(lab, fifo=True, VisibilityTimeout="20")
    for place, (body, group) in enumerate((("fail-1", "g"), ("2", "g"), ("other", "h"))):
        _send(lab, url, body, MessageGroupId=group, MessageDeduplicationId=str(place))
    bodies = [record["body"] for record in _seen(lab, _mapped(lab, url, most=1), 4, 150)]
    grouped = [body for body in bodies if body != "other"]
    return Saw(grouped == ["fail-1", "fail-1", "2"] and "other" in bodies, f"in this order: {bodies}")


@asks("mapping-record-attributes", "lambda", "sqs", "iam", "logs", cents=0.2, seconds=120)
def record_attributes(lab: Lab) -> Saw:
    """Read what a record has."""
    url = queue(lab, VisibilityTimeout="20")
    _send(lab, url, "good")
    records = _seen(lab, _mapped(lab, url), 1, 90)
    keys = set(records[0]["keys"]) if records else set()
    wanted = {"messageId", "receiptHandle", "body", "attributes", "messageAttributes", "eventSource", "eventSourceARN"}
    return Saw(wanted <= keys, f"a record has {sorted(keys)}")

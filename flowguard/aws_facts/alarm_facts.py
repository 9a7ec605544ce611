"""What CloudWatch does with logs, metrics and alarms."""

from __future__ import annotations

from typing import Final

from flowguard.aws_facts.fact import NOWHERE, Document, Fact, like

_LEVELS: Final = Document(
    "Log-level filtering", "https://docs.aws.amazon.com/lambda/latest/dg/monitoring-cloudwatchlogs-log-level.html"
)
_FORMATS: Final = Document(
    "Configuring JSON and plain text log formats",
    "https://docs.aws.amazon.com/lambda/latest/dg/monitoring-cloudwatchlogs-logformat.html",
)
_METRICS: Final = Document(
    "Types of metrics for Lambda functions",
    "https://docs.aws.amazon.com/lambda/latest/dg/monitoring-metrics-types.html",
)
_EMF: Final = Document(
    "Specification: Embedded metric format",
    "https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch_Embedded_Metric_Format_Specification.html",
)
_RETENTION: Final = Document(
    "PutRetentionPolicy",
    "https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_PutRetentionPolicy.html",
)
_LOGS: Final = Document(
    "CloudWatch Logs quotas",
    "https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/cloudwatch_limits_cwl.html",
)
_FILTER: Final = Document(
    "Filter pattern syntax for metric filters",
    "https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/FilterAndPatternSyntaxForMetricFilters.html",
)
_ALARM: Final = Document(
    "Configuring how CloudWatch alarms treat missing data",
    "https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/alarms-and-missing-data.html",
)
_PUT_ALARM: Final = Document(
    "PutMetricAlarm", "https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_PutMetricAlarm.html"
)

ALARM_FACTS: Final = (
    Fact(
        name="logs-raw-json",
        sentence="In the JSON log format a line of JSON on standard output is taken as it stands, with its `level` and "
        "`timestamp`; one whose level is missing or unknown, or whose time is not in the form of RFC 3339, counts as "
        "INFO.",
        source=_LEVELS,
        read="2026-11",
        relied_on_by=("text/lambda_log.py:write", "text/lambda_log.py:takes_all"),
        engines=like("ministack"),
    ),
    Fact(
        name="logs-levels",
        sentence="In the JSON log format lines below the application log level are dropped; the level is INFO unless "
        "it is set. Lambda's levels are TRACE, DEBUG, INFO, WARN, ERROR and FATAL.",
        source=_LEVELS,
        read="2026-11",
        relied_on_by=(
            "text/lambda_log.py:takes_all",
            "deploy/options.py:DeployOptions",
            "deploy/cloudformation.py:_CloudFormation.add_function",
        ),
        words=("LoggingConfig", "LogFormat", "LogGroup", "ApplicationLogLevel", "SystemLogLevel", "JSON"),
        engines=like(ministack="drops no level"),
    ),
    Fact(
        name="logs-json-fields",
        sentence="In the JSON log format a record of Python's logging becomes one JSON object with `timestamp`, "
        "`level`, `message`, `logger`, `requestId`, and what `extra` has.",
        source=_FORMATS,
        relied_on_by=("text/lambda_log.py:OWN",),
        engines=like(ministack="breaks: its lines are no JSON"),
    ),
    Fact(
        name="logs-event-size",
        sentence="An event of a log has at most 1 MB; a longer one is cut.",
        source=_LOGS,
        relied_on_by=("text/printable.py:bounded",),
        limit=1_048_576,
        engines=NOWHERE,
        by_hand="Lines here are bounded far below.",
    ),
    Fact(
        name="logs-retention",
        sentence="A log group keeps events for ever, or for one of 22 numbers of days.",
        source=_RETENTION,
        relied_on_by=("deploy/options.py:RETENTIONS",),
        limit=3_653,
        words=("AWS::Logs::LogGroup",),
        engines=NOWHERE,
        by_hand="The refusal shows at deployment.",
    ),
    Fact(
        name="logs-metric-filter",
        sentence='A metric filter counts events by fields of JSON, as `{ $.event = "fenced" }`.',
        source=_FILTER,
        relied_on_by=("deploy/alarms.py:metrics_of", "deploy/cloudformation.py:_CloudFormation.add_metric"),
        words=("AWS::Logs::MetricFilter",),
        engines=NOWHERE,
    ),
    Fact(
        name="emf-metrics",
        sentence="A line with `_aws.CloudWatchMetrics` becomes metrics: at most 100 metrics in a directive, and 100 "
        "values in an array.",
        source=_EMF,
        relied_on_by=("observers/metrics.py:MOST_VALUES",),
        limit=100,
        words=("Namespace", "Dimensions"),
        engines=NOWHERE,
    ),
    Fact(
        name="emf-at-least-once",
        sentence="Metrics of lines are made at least once, so a value may count twice.",
        source=_EMF,
        read="2026-11",
        relied_on_by=("observers/metrics.py:Metrics",),
        engines=NOWHERE,
        by_hand="It is rare; no program can wait for it.",
    ),
    Fact(
        name="lambda-metrics",
        sentence="Lambda counts `Throttles`, `Errors`, `AsyncEventsDropped` and `RecursiveInvocationsDropped` for each "
        "function. Throttles of a mapping's polls count too. `Errors` has what the code raises and what the runtime "
        "does: a time-out, a module that cannot be imported.",
        source=_METRICS,
        relied_on_by=("deploy/alarms.py:alarms_of", "deploy/alarms.py:_failing"),
        words=(
            "RecursiveInvocationsDropped",
            "Throttles",
            "Errors",
            "Sum",
            "Maximum",
            "MetricName",
            "Statistic",
            "Period",
            "EvaluationPeriods",
            "Threshold",
        ),
        engines=NOWHERE,
        by_hand="The probes of throttling and of loops leave these metrics behind.",
    ),
    Fact(
        name="lambda-iterator-age",
        sentence="`IteratorAge` of a function says in milliseconds how old the last record of a batch of a stream of "
        "Kinesis or DynamoDB was when its mapping sent it to the function. Where none is sent there is no value.",
        source=_METRICS,
        read="2026-11",
        relied_on_by=("deploy/alarms.py:_of_streams", "docs/operate/operating.md"),
        words=("IteratorAge",),
        engines=NOWHERE,
        by_hand="A stream whose function fails for minutes leaves it behind.",
    ),
    Fact(
        name="lambda-offset-lag",
        sentence="`OffsetLag` of a function says how many records of a topic of Kafka are behind the last one that its "
        "consumer group has processed, all partitions together; it is sent while the function works on records.",
        source=_METRICS,
        read="2026-11",
        relied_on_by=("deploy/alarms.py:_of_streams", "docs/operate/operating.md"),
        words=("OffsetLag",),
        engines=NOWHERE,
        by_hand="It needs a cluster of Kafka.",
    ),
    Fact(
        name="alarm-span",
        sentence="Periods of an alarm last for a day at most, all that it looks at together, and for seven days where "
        "each is an hour or longer.",
        source=_PUT_ALARM,
        read="2026-11",
        relied_on_by=("deploy/alarms.py:_failing",),
        engines=NOWHERE,
        by_hand="The refusal shows at deployment.",
    ),
    Fact(
        name="alarm-missing-data",
        sentence="An alarm whose metric has no data is INSUFFICIENT_DATA unless `TreatMissingData` says otherwise.",
        source=_ALARM,
        relied_on_by=("deploy/cloudformation.py:_CloudFormation.add_alarm", "deploy/terraform.py:_Terraform.add_alarm"),
        words=(
            "AWS::CloudWatch::Alarm",
            "TreatMissingData",
        ),
        engines=NOWHERE,
        by_hand="The console shows it of any new alarm.",
    ),
    Fact(
        name="cost-of-dynamodb-units",
        sentence="A write costs a unit for each 1 KB that begins, a read a unit for each 4 KB, half when it is "
        "eventually consistent; in a transaction twice as much.",
        source=Document(
            "DynamoDB read and write operations",
            "https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/read-write-operations.html",
        ),
        relied_on_by=("deploy/meter.py:WRITE_BYTES", "aws/history_room.py:_UNIT"),
        limit=1_024,
        words=("ReturnConsumedCapacity", "ConsumedCapacity", "CapacityUnits"),
        engines=like("dynamodb-local", "ministack", moto="counts one unit for each write"),
    ),
    Fact(
        name="cost-of-a-read",
        sentence="A read costs a unit for each 4 KB that begins.",
        source=Document(
            "DynamoDB read and write operations",
            "https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/read-write-operations.html",
        ),
        relied_on_by=("deploy/meter.py:READ_BYTES",),
        limit=4_096,
        engines=like(
            "dynamodb-local", moto="counts half a unit for each read", ministack="counts one unit for 4,097 bytes"
        ),
    ),
    Fact(
        name="alarm-topic-region",
        sentence="An alarm notifies topics of its own region alone.",
        source=_PUT_ALARM,
        relied_on_by=("deploy/regions.py:in_one_region",),
        engines=NOWHERE,
        by_hand="`put-metric-alarm` shows the refusal. The page has topics of the alarm's region alone.",
    ),
    Fact(
        name="alarm-account",
        sentence="An alarm watches a metric of its own account. One of another account has to be shared with it, and "
        "named by its account in the alarm.",
        source=Document(
            "Cross-account cross-Region CloudWatch console",
            "https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/Cross-Account-Cross-Region.html",
        ),
        read="2026-11",
        relied_on_by=("deploy/alarms.py:alarms_of", "docs/operate/security.md"),
        engines=NOWHERE,
        by_hand="It needs two accounts.",
    ),
    Fact(
        name="alarm-topic-policy",
        sentence="An alarm publishes as `cloudwatch.amazonaws.com` where the topic's policy lets it, which may ask for "
        "the alarm by `aws:SourceArn`.",
        source=Document(
            "Example cases for Amazon SNS access control",
            "https://docs.aws.amazon.com/sns/latest/dg/sns-access-policy-use-cases.html",
        ),
        relied_on_by=("deploy/foreign_policies.py:policies_of_others",),
        engines=NOWHERE,
        by_hand="It needs two accounts.",
    ),
)

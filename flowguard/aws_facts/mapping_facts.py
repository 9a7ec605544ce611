"""What an event source mapping does between an SQS queue and its function."""

from __future__ import annotations

from typing import Final

from flowguard.aws_facts.fact import NOWHERE, Document, Fact, like

_CONFIGURE: Final = Document(
    "Creating and configuring an Amazon SQS event source mapping",
    "https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-configure.html",
)
_ERRORS: Final = Document(
    "Handling errors for an SQS event source in Lambda",
    "https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-errorhandling.html",
)
_SCALING: Final = Document(
    "Configuring scaling behavior for SQS event source mappings",
    "https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-scaling.html",
)
_PARAMETERS: Final = Document(
    "Lambda parameters for Amazon SQS event source mappings",
    "https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-parameters.html",
)
_MAPPINGS: Final = Document(
    "How Lambda processes records from stream and queue-based event sources",
    "https://docs.aws.amazon.com/lambda/latest/dg/invocation-eventsourcemapping.html",
)
_UPDATE: Final = Document(
    "UpdateEventSourceMapping",
    "https://docs.aws.amazon.com/lambda/latest/api/API_UpdateEventSourceMapping.html",
)
_LIST: Final = Document(
    "ListEventSourceMappings",
    "https://docs.aws.amazon.com/lambda/latest/api/API_ListEventSourceMappings.html",
)
_PIPES: Final = Document(
    "Amazon Simple Queue Service as a source",
    "https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-pipes-sqs.html",
)
_FILTERS: Final = Document(
    "Control which events Lambda sends to your function",
    "https://docs.aws.amazon.com/lambda/latest/dg/invocation-eventfiltering.html",
)
_FIFO: Final = Document(
    "Using Lambda with Amazon SQS",
    "https://docs.aws.amazon.com/lambda/latest/dg/with-sqs.html",
)

MAPPING_FACTS: Final = (
    Fact(
        name="mapping-partial-batch",
        sentence="With `ReportBatchItemFailures` the records that the answer names return to the queue, and all others "
        "of the batch are deleted. An empty list deletes all.",
        source=_ERRORS,
        read="2026-11",
        relied_on_by=(
            "handler.py:lambda_answer",
            "deploy/cloudformation.py:_CloudFormation.source",
            "deploy/function_checks.py:_source",
        ),
        words=(
            "AWS::Lambda::EventSourceMapping",
            "FunctionResponseTypes",
        ),
        engines=like("ministack", "deliveries"),
    ),
    Fact(
        name="mapping-invalid-answer",
        sentence="An answer that is no JSON of that form, or names an id that is not in the batch, fails the whole "
        "batch; so does an exception.",
        source=_ERRORS,
        read="2023-10",
        relied_on_by=("handler.py:lambda_answer",),
        engines=like("deliveries"),
        by_hand="Needs a function that answers wrongly; the probe of partial batches can be changed to do it.",
    ),
    Fact(
        name="mapping-failed-visibility",
        sentence="A record that an answer names stays invisible until its visibility timeout ends: Lambda does not "
        "make it visible earlier. Whoever wants it earlier changes its visibility.",
        source=_ERRORS,
        read="2026-11",
        relied_on_by=("sim/event_source.py:EventSource.end", "once_function.py:OnceFunction.batch"),
        engines=like("ministack", "deliveries"),
    ),
    Fact(
        name="mapping-visibility-six-times",
        sentence="A queue's visibility timeout should be six times its function's timeout, and the batch window more: "
        "Lambda tries a throttled batch again within that time.",
        source=_CONFIGURE,
        read="2026-11",
        relied_on_by=("deploy/queue_plan.py:TIMES_THE_TIMEOUT", "deploy/queue_checks.py:_visibility"),
        words=("MaximumBatchingWindowInSeconds",),
        limit=6,
        engines=NOWHERE,
        by_hand="Advice of AWS; nothing refuses less.",
    ),
    Fact(
        name="mapping-visibility-at-least-timeout",
        sentence="A mapping whose queue has a visibility timeout below the function's timeout is refused when it is "
        "made or changed.",
        source=_CONFIGURE,
        read="2026-11",
        relied_on_by=("deploy/queue_plan.py:QueuePlan._visibility",),
        engines=like(moto="takes it", ministack="takes it"),
    ),
    Fact(
        name="mapping-throttles-burn-receives",
        sentence="A batch that Lambda cannot start, because the function is throttled, was received all the same: each "
        "such delivery counts in `ApproximateReceiveCount`, and at `maxReceiveCount` the record moves to the "
        "dead-letter queue, its function never called.",
        source=_ERRORS,
        relied_on_by=(
            "deploy/options.py:QueueOptions",
            "docs/operate/operating.md",
            "sim/weather/throttled.py:Throttled",
        ),
        engines=like(deliveries="as the weather `throttled`"),
    ),
    Fact(
        name="mapping-batch-size",
        sentence="Without a batch window, and on FIFO queues, a batch has at most 10 records.",
        source=_PARAMETERS,
        read="2026-11",
        relied_on_by=("deploy/batch_plan.py:MOST_RECORDS", "deploy/options.py:FunctionOptions"),
        limit=10,
        words=("BatchSize",),
        engines=like("deliveries"),
        by_hand="The refusal of a larger size shows at deployment.",
    ),
    Fact(
        name="mapping-batch-size-with-window",
        sentence="With a batch window a standard queue's batch has up to 10,000 records.",
        source=_PARAMETERS,
        read="2026-11",
        relied_on_by=(
            "cli/cost.py:cost",
            "testing/explorer/run/plain.py:_MOST_RECORDS",
            "deploy/options.py:FunctionOptions",
        ),
        limit=10_000,
        engines=NOWHERE,
        by_hand="The refusal of a larger size shows at deployment.",
    ),
    Fact(
        name="mapping-batch-window",
        sentence="A batch window lasts up to 300 seconds; FIFO queues have none. A batch ends earlier when it is full "
        "or has 6 MB.",
        source=_PARAMETERS,
        read="2026-11",
        relied_on_by=("deploy/options.py:FunctionOptions", "deploy/cloudformation.py:_CloudFormation.source"),
        limit=300,
        words=("MaximumBatchingWindowInSeconds",),
        engines=NOWHERE,
        by_hand="The refusal of a longer window shows at deployment.",
    ),
    Fact(
        name="mapping-event-6-mb",
        sentence="The event of a batch has at most 6 MB, its records' metadata and JSON's escapes included: records of "
        "1 MiB arrive in batches of five or fewer.",
        source=_MAPPINGS,
        read="2026-11",
        relied_on_by=("deploy/queue_plan.py:QueuePlan._receives", "docs/guides/batches.md"),
        limit=6_291_456,
        engines=like(ministack="makes larger events"),
    ),
    Fact(
        name="mapping-scaling",
        sentence="A standard queue's mapping begins with five batches at once, adds up to 300 a minute, and has at "
        "most 1,250; texts of the page from before provisioned mode say 1,000.",
        source=_SCALING,
        read="2026-11",
        relied_on_by=("docs/proofs/performance.md", "docs/explain/when-a-stage-fails.md"),
        limit=1_250,
        engines=NOWHERE,
        by_hand="Takes a load of thousands of messages a second.",
    ),
    Fact(
        name="mapping-idle-polls",
        sentence="A mapping polls its queue also while that is empty, by long polls, and SQS charges each. When little "
        "comes it goes back to five batches at once, and to as few as two where `MaximumConcurrency` is not set.",
        source=_SCALING,
        read="2026-11",
        relied_on_by=("deploy/flow_cost.py:POLLERS",),
        limit=5,
        engines=NOWHERE,
        by_hand="`NumberOfEmptyReceives` of a queue to which nothing comes shows it.",
    ),
    Fact(
        name="mapping-maximum-concurrency",
        sentence="`MaximumConcurrency` of a mapping, 2 to 1,000, keeps it from receiving more than the function takes, "
        "so no receives are lost to throttling. Reserved concurrency alone does not.",
        source=_SCALING,
        read="2026-11",
        relied_on_by=(
            "deploy/options.py:FunctionOptions",
            "deploy/cloudformation.py:_CloudFormation.source",
            "lanes.py:LEAST_AT_ONCE",
            "docs/guides/lanes.md",
        ),
        words=("ScalingConfig", "MaximumConcurrency"),
        engines=NOWHERE,
        by_hand="Takes a load of many messages at once.",
    ),
    Fact(
        name="mapping-off",
        sentence="A mapping that is disabled polls no more: what lies in its queue stays, and is polled when it is "
        "enabled again. Its state is `Disabling` until then; it takes seconds to a minute.",
        source=_UPDATE,
        read="2026-11",
        relied_on_by=("aws/queue_mappings.py:OFF", "operate/stage_pauses.py:StagePauses.pause"),
        words=("Disabled", "Disabling", "ListEventSourceMappings", "UpdateEventSourceMapping", "UUID"),
        engines=like("moto", "ministack"),
        by_hand="A message that is sent to the queue of a disabled mapping is there a minute later, never received.",
    ),
    Fact(
        name="mappings-paged",
        sentence="`ListEventSourceMappings` returns at most 100 mappings, and `NextMarker` where there are more.",
        source=_LIST,
        read="2026-11",
        relied_on_by=("deploy/live.py:LiveAccount.event_sources", "deploy/live.py:LiveAccount.readers"),
        words=("Marker", "NextMarker"),
        engines=NOWHERE,
        by_hand="A function with more than 100 mappings shows it.",
    ),
    Fact(
        name="mapping-concurrency-removed",
        sentence="An empty `ScalingConfig` takes the largest concurrency of a mapping away. A mapping in provisioned "
        "mode takes none.",
        source=_SCALING,
        read="2026-11",
        relied_on_by=("aws/queue_mappings.py:QueueMappings.turn_on",),
        engines=like("moto"),
        by_hand="`update-event-source-mapping --scaling-config {}` shows it.",
    ),
    Fact(
        name="mapping-pollers",
        sentence="In provisioned mode `MaximumPollers` of `ProvisionedPollerConfig` bounds a mapping: a poller of a "
        "queue has at most 10 invocations at once. `MaximumConcurrency` cannot be set beside it.",
        source=_SCALING,
        read="2026-11",
        relied_on_by=("deploy/function_checks.py:_is_bounded",),
        words=("ProvisionedPollerConfig", "MaximumPollers"),
        engines=NOWHERE,
        by_hand="Takes a load of many messages at once.",
    ),
    Fact(
        name="mapping-several-of-a-queue",
        sentence="A queue may have mappings to several functions. Each message goes to one of them.",
        source=_MAPPINGS,
        relied_on_by=("deploy/queue_checks.py:_readers",),
        engines=NOWHERE,
        by_hand="Two functions mapped to a queue show it: each gets a part of what is sent.",
    ),
    Fact(
        name="pipe-reads-a-queue",
        sentence="A pipe of EventBridge polls the queue that is its source, and deletes from it what it has brought to "
        "its target.",
        source=_PIPES,
        read="2026-11",
        relied_on_by=("deploy/other_readers.py:other_readers",),
        words=("AWS::Pipes::Pipe", "SourcePrefix"),
        engines=NOWHERE,
        by_hand="A pipe beside a function shows it: each gets a part of what is sent.",
    ),
    Fact(
        name="mapping-filter",
        sentence="A record that fits none of the filters of its mapping is discarded: no function gets it, and its "
        "queue has it no more.",
        source=_FILTERS,
        read="2026-11",
        relied_on_by=("deploy/function_checks.py:_source",),
        words=("FilterCriteria", "Filters"),
        engines=NOWHERE,
        by_hand="A message that fits no filter is gone from its queue, and its function was not invoked.",
    ),
    Fact(
        name="mapping-backoff",
        sentence="While its function is throttled a mapping takes fewer batches, tries a batch again within its "
        "visibility timeout, and comes back step by step. Failed invocations slow it down only without "
        "`ReportBatchItemFailures`.",
        source=_ERRORS,
        read="2026-11",
        relied_on_by=("docs/operate/operating.md", "sim/weather/pollers.py:Pollers"),
        engines=like(deliveries="as the weather `pollers`, by seconds of our own"),
        by_hand="Shows in the metrics of a function that fails for minutes.",
    ),
    Fact(
        name="mapping-at-least-once",
        sentence="Lambda processes each message at least once; a record may be delivered again though its function "
        "succeeded.",
        source=_MAPPINGS,
        read="2026-11",
        relied_on_by=("protocol/claims.py:decide", "worker/runtime.py:Runtime"),
        engines=like("deliveries"),
        by_hand="It is rare; no program can wait for it.",
    ),
    Fact(
        name="mapping-fifo-order",
        sentence="Of a FIFO queue, a batch may have several groups, each in order; the next records of a group come "
        "only when those before are deleted or visible again. A failed record does not hold back other groups.",
        source=_FIFO,
        read="2023-10",
        relied_on_by=("sim/event_source.py:EventSource.next", "worker/batch.py:Batch"),
        engines=like("ministack", "deliveries"),
    ),
    Fact(
        name="mapping-fifo-stop-at-failure",
        sentence="With partial batch responses a function of a FIFO queue has to stop at the first failure and return "
        "it with everything unprocessed after it, or the order of its group is lost.",
        source=_ERRORS,
        read="2023-10",
        relied_on_by=("worker/batch.py:Batch", "handler.py:lambda_answer"),
        engines=like("deliveries"),
        by_hand="What the function returns is the function's own choice.",
    ),
    Fact(
        name="mapping-record-attributes",
        sentence="A record has `messageId`, `receiptHandle`, `body`, `attributes` with `ApproximateReceiveCount` and "
        "`SentTimestamp`, `messageAttributes`, and `eventSourceARN`.",
        source=_FIFO,
        read="2023-10",
        relied_on_by=("wire/records.py:find_records", "testing/lambda_events.py:sqs_event"),
        engines=like("ministack", "deliveries"),
    ),
    Fact(
        name="mapping-same-region",
        sentence="The queue of a mapping is in the function's region; it may be another account's.",
        source=_CONFIGURE,
        read="2026-11",
        relied_on_by=("wire/home.py:Home", "deploy/regions.py:in_one_region"),
        engines=NOWHERE,
        by_hand="Shows at deployment.",
    ),
)

"""What SQS does with queues and messages."""

from __future__ import annotations

from typing import Final

from flowguard.aws_facts.fact import NOWHERE, Document, Fact, Seen, like

_GUIDE: Final = "https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide"
_API: Final = "https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference"
_MESSAGES: Final = Document("Amazon SQS message quotas", f"{_GUIDE}/quotas-messages.html")
_QUEUES: Final = Document("Amazon SQS standard queue quotas", f"{_GUIDE}/quotas-queues.html")
_METADATA: Final = Document("Amazon SQS message metadata", f"{_GUIDE}/sqs-message-metadata.html")
_BATCH: Final = Document("SendMessageBatch", f"{_API}/API_SendMessageBatch.html")
_SEND: Final = Document("SendMessage", f"{_API}/API_SendMessage.html")
_RECEIVE: Final = Document("ReceiveMessage", f"{_API}/API_ReceiveMessage.html")
_VISIBILITY: Final = Document("Amazon SQS visibility timeout", f"{_GUIDE}/sqs-visibility-timeout.html")
_CHANGE: Final = Document("ChangeMessageVisibility", f"{_API}/API_ChangeMessageVisibility.html")
_STANDARD: Final = Document(
    "Amazon SQS at-least-once delivery", f"{_GUIDE}/standard-queues-at-least-once-delivery.html"
)
_TERMS: Final = Document("Amazon SQS FIFO queue key terms", f"{_GUIDE}/FIFO-key-terms.html")
_LOGIC: Final = Document("FIFO queue delivery logic in Amazon SQS", f"{_GUIDE}/FIFO-queues-understanding-logic.html")
_ATTRIBUTES: Final = Document("SetQueueAttributes", f"{_API}/API_SetQueueAttributes.html")
_DELETE: Final = Document("DeleteQueue", f"{_API}/API_DeleteQueue.html")
_DEAD: Final = Document("Using dead-letter queues in Amazon SQS", f"{_GUIDE}/sqs-dead-letter-queues.html")
_RETENTION: Final = Document(
    "Setting-up dead-letter queue retention in Amazon SQS", f"{_GUIDE}/setting-up-dead-letter-queue-retention.html"
)
_REDRIVE: Final = Document(
    "Learn how to configure a dead-letter queue redrive in Amazon SQS",
    f"{_GUIDE}/sqs-configure-dead-letter-queue-redrive.html",
)
_METRICS: Final = Document(
    "Available CloudWatch metrics for Amazon SQS", f"{_GUIDE}/sqs-available-cloudwatch-metrics.html"
)
_POLICIES: Final = Document("Amazon SQS policy quotas", f"{_GUIDE}/quotas-policies.html")
_FAIR: Final = Document("Amazon SQS fair queues", f"{_GUIDE}/sqs-fair-queues.html")
_NOISY: Final = Document("How Amazon SQS fair queues work", f"{_GUIDE}/sqs-fair-queues-detailed.html")

SQS_FACTS: Final = (
    Fact(
        name="sqs-message-size",
        sentence="A message has at most 1 MiB, the names, types and values of its attributes included.",
        source=_MESSAGES,
        read="2026-11",
        relied_on_by=(
            "sim/limits/queues.py:LARGEST",
            "protocol/outbox.py:largest",
            "testing/hostile.py:LARGEST_MESSAGE",
        ),
        limit=1_048_576,
        words=("MessageBody", "InvalidParameterValueException"),
        engines=like("memory", "moto", elasticmq="takes 256 KiB, as SQS did until August 2025", ministack="takes more"),
    ),
    Fact(
        name="sqs-queue-size-limit",
        sentence="`MaximumMessageSize` of a queue may be lower, and then holds for it; a queue that was made when 256 "
        "KiB was the default keeps that.",
        source=_ATTRIBUTES,
        read="2026-11",
        relied_on_by=("sim/limits/queues.py:Takes", "deploy/queue_checks.py:_size"),
        words=("MaximumMessageSize",),
        engines=like("memory", "moto", "ministack", elasticmq="does not look at it"),
    ),
    Fact(
        name="sqs-batch-entries",
        sentence="A batch has 1 to 10 entries, each with an id of its own.",
        source=_BATCH,
        read="2026-11",
        relied_on_by=("aws/sender.py:MOST_ENTRIES", "sim/limits/queues.py:MOST_ENTRIES"),
        limit=10,
        words=(
            "Entries",
            "EmptyBatchRequest",
            "TooManyEntriesInBatchRequest",
            "InvalidBatchEntryId",
            "BatchEntryIdsNotDistinct",
        ),
        engines=like("memory", "moto", "ministack", elasticmq="takes an empty batch and any id"),
    ),
    Fact(
        name="sqs-batch-size",
        sentence="The messages of a batch have at most 1 MiB together. More is `BatchRequestTooLong`; none is sent.",
        source=_BATCH,
        read="2026-11",
        relied_on_by=("sim/limits/queues.py:check_send_batch", "aws/sender.py:_batches"),
        limit=1_048_576,
        words=("BatchRequestTooLong",),
        engines=like("memory", "moto", "ministack", elasticmq="takes 256 KiB"),
    ),
    Fact(
        name="sqs-batch-partial-failure",
        sentence="Each entry of a batch succeeds or fails on its own, in an answer of 200: `Failed` has the others.",
        source=_BATCH,
        read="2026-11",
        relied_on_by=("aws/sender.py:refused_by", "worker/dispatch.py:dispatch"),
        words=("SendMessageBatch", "DeleteMessageBatch", "Failed", "SenderFault", "Code", "Message", "Id"),
        engines=like("memory", "moto", "elasticmq", ministack="takes every entry"),
    ),
    Fact(
        name="sqs-attributes",
        sentence="A message has at most 10 attributes of its own.",
        source=_METADATA,
        read="2026-11",
        relied_on_by=(
            "protocol/outbox.py:MOST_ATTRIBUTES",
            "wire/envelope.py:MAX_ATTRIBUTES",
            "wire/message.py:_MOST_ATTRIBUTES",
            "sim/limits/queues.py:MOST_ATTRIBUTES",
        ),
        limit=10,
        words=("MessageAttributes", "DataType", "StringValue", "BinaryValue"),
        engines=like("memory", "moto", "elasticmq", ministack="takes more"),
    ),
    Fact(
        name="sqs-attribute-names",
        sentence="An attribute's name has 1 to 256 letters, digits, underscores, hyphens and periods, none of "
        "these at an end or twice in a row, does not begin with `AWS.` or `Amazon.` in any case, and its "
        "type is String, Number or Binary with a label.",
        source=_METADATA,
        read="2026-11",
        relied_on_by=(
            "protocol/outbox.py:_LONGEST_ATTRIBUTE_NAME",
            "protocol/outbox.py:_LONGEST_ATTRIBUTE_TYPE",
            "sim/limits/attributes.py:LONGEST_NAME",
        ),
        limit=256,
        engines=like("memory", "moto", elasticmq="takes any name", ministack="takes any name"),
    ),
    Fact(
        name="sqs-characters",
        sentence="A body has the characters of XML 1.0: other control characters, and halves of surrogates, are "
        "`InvalidMessageContents`.",
        source=_SEND,
        read="2026-11",
        relied_on_by=("sim/limits/texts.py:forbidden",),
        words=("InvalidMessageContents",),
        engines=like("memory", "moto", "ministack", elasticmq="has another code"),
    ),
    Fact(
        name="sqs-empty-body",
        sentence="A body has at least one character.",
        source=_SEND,
        read="2026-11",
        relied_on_by=("sim/limits/queues.py:missing",),
        words=("MissingParameter", "MissingRequiredParameterException", "InvalidParameterValue"),
        engines=like("memory", "moto", "elasticmq", "ministack"),
    ),
    Fact(
        name="sqs-delay",
        sentence="A message is delayed by 0 to 900 seconds; on a FIFO queue the queue alone may say by how much.",
        source=_MESSAGES,
        read="2026-11",
        relied_on_by=(
            "retry.py:LONGEST_SQS_DELAY",
            "sim/limits/queues.py:LONGEST_DELAY",
            "dev/saved_state.py:_LONGEST_DELAY",
            "recorded/side_messages.py:_check_delay",
        ),
        limit=900,
        words=("DelaySeconds",),
        engines=like("memory", "moto", "elasticmq", ministack="takes longer delays"),
    ),
    Fact(
        name="sqs-visibility",
        sentence="A message is invisible for at most 12 hours, counted from when it was received: the sum of all "
        "changes may not pass that.",
        source=_VISIBILITY,
        read="2023-06",
        relied_on_by=(
            "once_function.py:_LONGEST_LEASE",
            "cli/retry.py:retry",
            "cli/dlq.py:redrive",
            "cli/forget.py:forget",
            "sim/limits/queues.py:LONGEST_VISIBILITY",
        ),
        limit=43_200,
        words=("VisibilityTimeout",),
        engines=like(
            "memory",
            moto="counts 12 hours from when it was sent",
            elasticmq="counts 12 hours from each change",
            ministack="counts 12 hours from each change",
        ),
    ),
    Fact(
        name="sqs-visibility-default",
        sentence="A queue whose visibility timeout nobody set has 30 seconds.",
        source=_VISIBILITY,
        read="2026-11",
        relied_on_by=("testing/explorer/run/parties.py:_VISIBILITY",),
        limit=30,
        words=("InvalidAttributeName",),
        engines=like("memory", "moto", "elasticmq", "ministack"),
    ),
    Fact(
        name="sqs-visibility-zero",
        sentence="A visibility of 0 returns a message to its queue at once; the receive stays counted.",
        source=_CHANGE,
        read="2026-11",
        relied_on_by=("aws/dead_letter_queue.py:DeadLetterQueue",),
        words=("ChangeMessageVisibilityBatch", "ChangeMessageVisibility", "ReceiptHandle"),
        engines=like("memory", "moto", "elasticmq", "ministack"),
    ),
    Fact(
        name="sqs-not-in-flight",
        sentence="The visibility of a message that is not in flight cannot be changed: `MessageNotInflight`, 400.",
        source=_CHANGE,
        read="2026-11",
        relied_on_by=("sim/memory/sqs.py:SQS._change",),
        words=("MessageNotInflight", "ReceiptHandleIsInvalid"),
        engines=like("memory", moto="takes the change", elasticmq="takes the change", ministack="takes the change"),
    ),
    Fact(
        name="sqs-retention",
        sentence="A queue keeps a message for 60 seconds to 14 days; then it is deleted without a word, wherever it "
        "stands.",
        source=_QUEUES,
        read="2026-11",
        relied_on_by=(
            "deploy/queue_plan.py:LONGEST_RETENTION",
            "sim/provision.py:LONGEST_RETENTION",
            "docs/explain/guarantees.md",
        ),
        limit=1_209_600,
        words=("MessageRetentionPeriod",),
        engines=like("memory", "moto"),
        by_hand="The shortest is a minute, and SQS says that it may take 15 to change.",
    ),
    Fact(
        name="sqs-retention-default",
        sentence="A queue whose retention nobody set keeps a message for four days.",
        source=_QUEUES,
        read="2026-11",
        relied_on_by=("deploy/planned/account.py:_KEPT",),
        limit=345_600,
        engines=NOWHERE,
        by_hand="`flowguard doctor` reads it of a live queue.",
    ),
    Fact(
        name="sqs-retention-shortest",
        sentence="A queue keeps a message for 60 seconds at least.",
        source=_QUEUES,
        read="2026-11",
        relied_on_by=("deploy/queue_plan.py:_SHORTEST",),
        limit=60,
        engines=like("moto"),
        by_hand="The refusal shows at deployment.",
    ),
    Fact(
        name="sqs-retention-on-redrive-standard",
        sentence="In a standard dead-letter queue a message's age goes on from its first sending: a day in the queue "
        "and four days of retention leave three.",
        source=_RETENTION,
        read="2026-11",
        relied_on_by=("deploy/queue_plan.py:Retentions", "docs/operate/dead-letters.md"),
        engines=like("memory", "moto", "ministack", elasticmq="keeps messages for ever"),
    ),
    Fact(
        name="sqs-retention-on-redrive-fifo",
        sentence="In a FIFO dead-letter queue a message's age begins anew when it is moved.",
        source=_RETENTION,
        read="2026-11",
        relied_on_by=("deploy/queue_plan.py:Retentions",),
        engines=like(
            "elasticmq",
            "ministack",
            memory="keeps the age from the first sending",
            moto="keeps the age from the first sending",
        ),
    ),
    Fact(
        name="sqs-sent-timestamp-on-redrive",
        sentence="A message that a redrive policy moves keeps its id and its `SentTimestamp`, in a FIFO queue too, "
        "where its age begins anew.",
        source=_RETENTION,
        read="2026-11",
        relied_on_by=("worker/routing.py:Routes", "worker/dead_letters.py:Letter", "worker/given_up.py:GivenUp"),
        engines=like("memory", "moto", "elasticmq", "ministack"),
        # The page says it of standard queues. Of FIFO the message quoted shows it: its SentTimestamp is 154 s before
        # the time in its sequence number, that of the move (256 * (2**56 + µs)); of a message not moved both agree.
        seen=Seen("2023-11-28", "quoted in https://github.com/softwaremill/elasticmq/issues/921"),
    ),
    Fact(
        name="sqs-redrive-policy",
        sentence="A message that was received `maxReceiveCount` times is moved to the dead-letter queue when it would "
        "be received once more. Body and attributes stay as they were.",
        source=_DEAD,
        read="2026-11",
        relied_on_by=(
            "sim/event_source.py:EventSource",
            "deploy/queue_checks.py:_redrive_policy",
            "wire/envelope.py:normalize",
        ),
        words=(
            "ListDeadLetterSourceQueues",
            "RedrivePolicy",
        ),
        engines=like("memory", "moto", "elasticmq", "ministack", "deliveries"),
    ),
    Fact(
        name="sqs-most-receives",
        sentence="A redrive policy moves a message after 1 to 1,000 receives.",
        source=Document(
            "Configure a dead-letter queue using the Amazon SQS console",
            f"{_GUIDE}/sqs-configure-dead-letter-queue.html",
        ),
        read="2023-06",
        relied_on_by=("deploy/queue_plan.py:MOST_RECEIVES", "deploy/options.py:QueueOptions"),
        limit=1_000,
        engines=like("elasticmq", "ministack", memory="takes more", moto="takes more"),
    ),
    Fact(
        name="sqs-receive-count-on-redrive",
        sentence="`ApproximateReceiveCount` counts receives across all queues: of a message that was moved to a "
        "dead-letter queue it goes on. The redrive policy of that queue may count those before the move, "
        "too; no page says.",
        source=_RECEIVE,
        read="2026-11",
        relied_on_by=("deploy/queue_plan.py:QueuePlan",),
        engines=like("memory", "moto", "elasticmq", "ministack"),
    ),
    Fact(
        name="sqs-redrive-same-type",
        sentence="The dead-letter queue of a FIFO queue is a FIFO queue, that of a standard queue a standard one.",
        source=_DEAD,
        read="2026-11",
        relied_on_by=("deploy/queue_plan.py:QueuePlan",),
        engines=like("moto", memory="takes any", elasticmq="takes any", ministack="takes any"),
    ),
    Fact(
        name="sqs-redrive-same-account",
        sentence="The dead-letter queue of a queue is of the same account and region. The guide of the SDK says that "
        "it must be, that of SQS that it had better be; flowguard takes it for a must.",
        source=Document(
            "Using Dead Letter Queues in Amazon SQS",
            "https://docs.aws.amazon.com/sdk-for-java/v1/developer-guide/examples-sqs-dead-letter-queues.html",
        ),
        read="2026-11",
        relied_on_by=("deploy/queue_plan.py:QueuePlan", "deploy/existing_notes.py:existing_notes"),
        engines=NOWHERE,
        by_hand="It takes queues of two accounts. A refusal shows at deployment.",
    ),
    Fact(
        name="sqs-hosts",
        sentence="The host of a queue's URL has its region: `sqs.REGION.amazonaws.com`, of FIPS `sqs-fips.REGION.…`, "
        "of IPv6 `sqs.REGION.api.aws`, of a network's own endpoint `vpce-….sqs.REGION.vpce.amazonaws.com`, formerly "
        "`REGION.queue.amazonaws.com`; `queue.amazonaws.com` is us-east-1.",
        source=Document(
            "Amazon SQS endpoints and quotas", "https://docs.aws.amazon.com/general/latest/gr/sqs-service.html"
        ),
        relied_on_by=("deploy/queue_arns.py:arn_of",),
        engines=NOWHERE,
        by_hand="boto3 has the present ones in its endpoint rules.",
    ),
    Fact(
        name="sqs-not-across-accounts",
        sentence="No policy of a queue lets another account use `StartMessageMoveTask`, `SetQueueAttributes` and "
        "others that change a queue.",
        source=Document(
            "Limitations of Amazon SQS custom policies",
            "https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/"
            "sqs-limitations-of-custom-policies.html",
        ),
        read="2026-11",
        relied_on_by=("deploy/existing_notes.py:existing_notes", "docs/operate/security.md"),
        engines=NOWHERE,
        by_hand="It needs two accounts.",
    ),
    Fact(
        name="sqs-move-task",
        sentence="`StartMessageMoveTask` sends dead letters back as new messages: with new ids and a retention that "
        "begins anew.",
        source=_REDRIVE,
        read="2023-06",
        relied_on_by=("docs/operate/dead-letters.md", "wire/envelope.py:normalize"),
        engines=like(elasticmq="keeps the message's id"),
    ),
    Fact(
        name="sqs-move-to-fifo-dlq",
        sentence="A message that is moved to a FIFO dead-letter queue has its message id as its deduplication id "
        "there.",
        source=_DEAD,
        read="2023-06",
        relied_on_by=("docs/operate/dead-letters.md",),
        engines=NOWHERE,
        by_hand="The deduplication id is not among what a moved message shows in all SDKs.",
    ),
    Fact(
        name="sqs-at-least-once",
        sentence="A standard queue may deliver a message more than once, even after it was deleted, and in any order.",
        source=_STANDARD,
        read="2023-06",
        relied_on_by=("protocol/claims.py:decide", "sim/event_source.py:EventSource"),
        engines=like("deliveries"),
        by_hand="It is rare; no program can wait for it.",
    ),
    Fact(
        name="sqs-fifo-deduplication",
        sentence="A FIFO queue drops a message whose deduplication id it has seen within 5 minutes, though the first "
        "was received and deleted; the answer has the first one's id.",
        source=_TERMS,
        read="2026-11",
        relied_on_by=(
            "sim/memory/queue.py:DEDUPLICATION",
            "testing/explorer/run/inbox.py:_DEDUPLICATED",
            "aws/sender.py:_fifo",
        ),
        limit=300,
        words=("MessageDeduplicationId",),
        engines=like("memory", "elasticmq", "ministack", moto="drops no copy of a message that was deleted"),
    ),
    Fact(
        name="sqs-fifo-group-lock",
        sentence="While a message of a group is in flight, no other message of that group is delivered, until it is "
        "deleted or visible again. One call may bring several of a group.",
        source=_LOGIC,
        read="2026-11",
        relied_on_by=("sim/event_source.py:EventSource.next", "worker/batch.py:Batch"),
        words=("MessageGroupId",),
        engines=like("memory", "moto", "elasticmq", "ministack"),
    ),
    Fact(
        name="sqs-fifo-lock-after-partial-failure",
        sentence="A held record of a group that is in flight blocks its group for the visibility that is left, also "
        "when the record before it is visible again.",
        source=_LOGIC,
        relied_on_by=("sim/event_source.py:EventSource.end",),
        engines=like(
            "memory",
            "ministack",
            moto="delivers the second before the first",
            elasticmq="delivers the first while the second is in flight",
        ),
    ),
    Fact(
        name="sqs-fifo-needs-ids",
        sentence="A FIFO queue takes a message with a group, and with a deduplication id unless it makes one of the "
        "content: each 1 to 128 letters, digits and punctuation characters.",
        source=_SEND,
        read="2026-11",
        relied_on_by=(
            "sim/limits/queues.py:check_message",
            "sim/limits/texts.py:is_token",
            "wire/message.py:LONGEST_ID",
        ),
        limit=128,
        engines=like("memory", "moto", "elasticmq", ministack="takes longer ids"),
    ),
    Fact(
        name="sqs-fair-queues",
        sentence="On a standard queue a group id marks a tenant, and messages of tenants with few in flight come "
        "first. It orders nothing.",
        source=_FAIR,
        read="2026-11",
        relied_on_by=("aws/sender.py:queue_entry", "wire/tenant.py:plain_id", "wire/envelope.py:Envelope.tenant"),
        engines=like("memory", "moto", "ministack", elasticmq="takes no group on a standard queue"),
    ),
    Fact(
        name="sqs-fair-noisy-tenants",
        sentence="A tenant is noisy with more than 10 % of a standard queue's messages in flight and at least 30 of "
        "its own, or with more than 10 % of the recent time of its consumers, approximately. Messages of quiet tenants "
        "come first until its backlog is gone, or nothing of it was sent for 5 minutes. Each message without a group "
        "is a tenant of its own. Of several noisy tenants, the one with the fewest in flight comes first.",
        source=_NOISY,
        read="2026-11",
        relied_on_by=("docs/guides/fairness.md",),
        engines=NOWHERE,
        by_hand="It takes a backlog and a hundred consumers, and no message says when its tenant was found out.",
    ),
    Fact(
        name="sqs-fair-metrics",
        sentence="CloudWatch counts a fair queue's noisy groups (`ApproximateNumberOfNoisyGroups`), and has the age "
        "and numbers of messages of the quiet groups alone, under the metric's name with `InQuietGroups` at its end.",
        source=_METRICS,
        read="2026-11",
        relied_on_by=("docs/guides/fairness.md",),
        engines=NOWHERE,
        by_hand="It takes a tenant that is noisy for minutes.",
    ),
    Fact(
        name="sqs-receive-count",
        sentence="`ApproximateReceiveCount` counts every receive of a message, whatever became of it.",
        source=_RECEIVE,
        read="2026-11",
        relied_on_by=("wire/envelope.py:Envelope", "aws/dead_letter_queue.py:DeadLetterQueue"),
        words=(
            "ReceiveMessage",
            "MessageSystemAttributeNames",
            "AttributeNames",
            "MaxNumberOfMessages",
            "MessageAttributeNames",
        ),
        engines=like("memory", "moto", "elasticmq", "ministack", "deliveries"),
    ),
    Fact(
        name="sqs-long-poll",
        sentence="A receive waits for at most 20 seconds, and brings at most 10 messages.",
        source=_RECEIVE,
        read="2026-11",
        relied_on_by=(
            "deploy/flow_cost.py:A_POLL",
            "dev/port_requests.py:LONGEST_POLL",
            "sim/limits/queues.py:LONGEST_POLL",
        ),
        limit=20,
        words=("WaitTimeSeconds",),
        engines=like("memory", "moto", "elasticmq", ministack="takes longer polls"),
    ),
    Fact(
        name="sqs-in-flight",
        sentence="A queue has about 120,000 messages in flight at most; then a receive of a FIFO queue brings "
        "none, and of a standard queue is `OverLimit`, or with long polling brings none.",
        source=_MESSAGES,
        read="2026-11",
        relied_on_by=("aws/faults.py:is_final_code", "aws/dead_letter_queue.py:MOST_IN_FLIGHT"),
        limit=120_000,
        words=("OverLimit",),
        engines=NOWHERE,
        by_hand="Takes 120,000 messages.",
    ),
    Fact(
        name="sqs-queue-name",
        sentence="A queue's name has at most 80 letters, digits, hyphens and underscores; that of a FIFO queue ends in "
        "`.fifo`.",
        source=_QUEUES,
        read="2026-11",
        relied_on_by=("deploy/queue_plan.py:_LONGEST_NAME",),
        limit=80,
        engines=like("moto", "elasticmq", memory="takes longer names", ministack="takes longer names"),
    ),
    Fact(
        name="sqs-missing-queue",
        sentence="A queue that does not exist is `QueueDoesNotExist`; its older code is "
        "`AWS.SimpleQueueService.NonExistentQueue`.",
        source=_SEND,
        read="2026-11",
        relied_on_by=("sim/limits/queues.py:no_queue", "aws/dead_letter_queue.py:explained", "deploy/live.py:_MISSING"),
        words=(
            "GetQueueUrl",
            "GetQueueAttributes",
            "QueueDoesNotExist",
        ),
        engines=like("memory", "moto", "elasticmq", "ministack"),
    ),
    Fact(
        name="sqs-address",
        sentence="An address that is no queue's is `InvalidAddress`.",
        source=_SEND,
        read="2026-11",
        relied_on_by=("aws/faults.py:FINAL",),
        words=("InvalidAddress",),
        engines=NOWHERE,
        by_hand="No call of the library's names an address that boto3 sends and SQS does not know.",
    ),
    Fact(
        name="sqs-deleted-queue",
        sentence="A queue that is deleted takes messages for up to 60 seconds more, which are lost with it; its name "
        "is free after 60 seconds.",
        source=_DELETE,
        read="2026-11",
        relied_on_by=("docs/operate/operating.md",),
        limit=60,
        words=("QueueNameExists",),
        engines=like(
            memory="makes it again at once",
            moto="makes it again at once",
            elasticmq="makes it again at once",
            ministack="makes it again at once",
        ),
    ),
    Fact(
        name="sqs-attributes-propagate",
        sentence="A changed attribute or policy of a queue may take 60 seconds to hold, a retention 15 minutes. A "
        "shorter retention holds for what lies there already: older messages are deleted.",
        source=_ATTRIBUTES,
        read="2026-11",
        relied_on_by=(
            "docs/operate/operating.md",
            "docs/operate/upgrading.md",
            "deploy/template.py:Template.add_queue",
        ),
        engines=NOWHERE,
        by_hand="A change that is seen at once proves nothing.",
    ),
    Fact(
        name="sqs-age-metric",
        sentence="`ApproximateAgeOfOldestMessage` of a standard queue leaves out a message that was received three"
        " times or more and not deleted; of a dead-letter queue it counts from the move.",
        source=_METRICS,
        read="2026-11",
        relied_on_by=("deploy/alarms.py:alarms_of",),
        engines=like(moto="breaks: it has broken numbers of seconds"),
    ),
    Fact(
        name="sqs-billed-by-64-kb",
        sentence="Each 64 KB of a request to SQS counts as a request.",
        source=Document("Amazon SQS pricing", "https://aws.amazon.com/sqs/pricing/"),
        relied_on_by=("deploy/meter.py:CHUNK_BYTES",),
        limit=65_536,
        engines=like("deliveries"),
        by_hand="The bill shows it.",
    ),
    Fact(
        name="sqs-trace-header",
        sentence="The system attribute `AWSTraceHeader` carries X-Ray's header beside the ten attributes and does not "
        "count as one of them.",
        source=_METADATA,
        read="2026-11",
        relied_on_by=("aws/sender.py:_traced",),
        words=("MessageSystemAttributes",),
        engines=like("memory", "moto", "elasticmq", "ministack"),
    ),
    Fact(
        name="sqs-policy-size",
        sentence="The policy of a queue has at most 8,192 bytes.",
        source=_POLICIES,
        read="2026-11",
        relied_on_by=("deploy/resource_policies.py:LARGEST_QUEUE_POLICY",),
        limit=8_192,
        engines=NOWHERE,
        by_hand="The refusal shows at deployment.",
    ),
    Fact(
        name="sqs-policy-principals",
        sentence="The policy of a queue names at most 50 principals.",
        source=_POLICIES,
        read="2026-11",
        relied_on_by=("deploy/resource_policies.py:MOST_PRINCIPALS",),
        limit=50,
        engines=NOWHERE,
        by_hand="The refusal shows at deployment.",
    ),
    Fact(
        name="sqs-policy-statements",
        sentence="The policy of a queue has at most 20 statements and 10 conditions, and a statement 7 actions.",
        source=_POLICIES,
        read="2026-11",
        relied_on_by=("deploy/resource_policies.py:ResourcePolicies.of_queues",),
        engines=NOWHERE,
        by_hand="The refusal shows at deployment.",
    ),
)

"""What S3 says of its objects, in the notices that it sends to queues and topics itself."""

from __future__ import annotations

from typing import Final

from flowguard.aws_facts.fact import NOWHERE, Document, Fact, like

_GUIDE: Final = "https://docs.aws.amazon.com/AmazonS3/latest/userguide"
_FORM: Final = Document("Event message structure", f"{_GUIDE}/notification-content-structure.html")
_NOTICES: Final = Document("Amazon S3 Event Notifications", f"{_GUIDE}/EventNotifications.html")
_DESTINATIONS: Final = Document(
    "Event notification types and destinations", f"{_GUIDE}/notification-how-to-event-types-and-destinations.html"
)
_GRANTS: Final = Document(
    "Granting permissions to publish event notification messages to a destination",
    f"{_GUIDE}/grant-destinations-permissions-to-s3.html",
)
_OF_BUS: Final = Document("EventBridge event message structure", f"{_GUIDE}/ev-events.html")
_CONFIGURATION: Final = Document(
    "GetBucketNotificationConfiguration",
    "https://docs.aws.amazon.com/AmazonS3/latest/API/API_GetBucketNotificationConfiguration.html",
)

NOTICE_FACTS: Final = (
    Fact(
        name="s3-notice-form",
        sentence="S3 sends a queue or topic JSON with `Records`, whose `eventSource` is `aws:s3`. Each has "
        "`eventVersion`, `eventName`, `eventTime`, `awsRegion`, and the bucket and the object under `s3`; where the "
        "object was put or deleted, it has a `sequencer`. The first number of the version changes where fields mean "
        "something else.",
        source=_FORM,
        read="2026-11",
        relied_on_by=("wire/object_notices.py:find_object_notice",),
        words=("Records",),
        engines=like("ministack", moto="has no sequencer, and says nobody who asked"),
    ),
    Fact(
        name="s3-notice-sequencer",
        sentence="The notice of a change and EventBridge's event of it have the same `sequencer`. No page says so: "
        "each says of its own that it orders the events of a key.",
        source=_OF_BUS,
        relied_on_by=("wire/object_events.py:change_id",),
        engines=NOWHERE,
        by_hand="Needs a bucket that sends its events to a bus and to a queue.",
    ),
    Fact(
        name="s3-notice-key",
        sentence="In a notice the key of an object is written as in a form of a page: a space as `+`, other bytes as "
        "`%C3`. EventBridge's event has it as it is.",
        source=_FORM,
        read="2026-11",
        relied_on_by=("wire/object_notices.py:find_object_notice", "wire/object_events.py:change_id"),
        engines=like("moto", "ministack"),
    ),
    Fact(
        name="s3-notice-reasons",
        sentence="The detail of EventBridge's event says the API by which an object was put (`PutObject`, "
        "`POST Object`, `CopyObject`, `CompleteMultipartUpload`) or deleted (`DeleteObject`, `Lifecycle Expiration`), "
        "and whether a deletion left a marker. A notice says the same by its `eventName`.",
        source=_OF_BUS,
        read="2026-11",
        relied_on_by=("wire/object_notices.py:find_object_notice",),
        engines=NOWHERE,
        by_hand="Needs a bucket that sends its events to a bus and to a queue.",
    ),
    Fact(
        name="s3-notice-versions",
        sentence="In a bucket that keeps versions, `LifecycleExpiration:Delete` tells that a version was deleted for "
        "good, and so does `ObjectRemoved:Delete`; the object may still be there. `DeleteMarkerCreated` of either "
        "tells that the object is gone.",
        source=Document(
            "Configuring S3 Lifecycle event notifications",
            f"{_GUIDE}/lifecycle-configure-notification.html",
        ),
        read="2026-12",
        relied_on_by=("wire/object_events.py:change_id",),
        engines=NOWHERE,
        by_hand="Needs a bucket that keeps versions, and a rule of its life, which takes a day.",
    ),
    Fact(
        name="s3-notice-test",
        sentence="When the notices of a bucket are set up, each destination gets a message whose `Event` is "
        "`s3:TestEvent`, with `Service` and `Bucket`, and without records.",
        source=_FORM,
        read="2026-11",
        relied_on_by=("wire/object_notices.py:find_object_notice",),
        words=("s3:TestEvent",),
        engines=like("moto", "ministack"),
    ),
    Fact(
        name="s3-notice-copies",
        sentence="A notice comes at least once, mostly within seconds, sometimes after a minute or more, in no order.",
        source=_NOTICES,
        read="2026-11",
        relied_on_by=("wire/object_events.py:change_id",),
        engines=NOWHERE,
        by_hand="S3 repeats notices when it likes.",
    ),
    Fact(
        name="s3-notice-fifo",
        sentence="S3 sends no notices to FIFO queues. Of FIFO topics the page says nothing; they take no message "
        "without a group, and S3 gives none.",
        source=_DESTINATIONS,
        read="2026-11",
        relied_on_by=("deploy/queue_plan.py:QueuePlan",),
        engines=NOWHERE,
    ),
    Fact(
        name="s3-notice-policy",
        sentence="The policy of a queue has to let `s3.amazonaws.com` send there before a bucket's notices can be set "
        "up to it. `aws:SourceArn` is the bucket, `aws:SourceAccount` the account that owns it.",
        source=_GRANTS,
        read="2026-11",
        relied_on_by=("deploy/resource_policies.py:ResourcePolicies.of_queues",),
        words=("s3.amazonaws.com",),
        engines=NOWHERE,
    ),
    Fact(
        name="s3-notice-topic-policy",
        sentence="The policy of a topic has to let `s3.amazonaws.com` publish there, with the same conditions; that "
        "which AWS gives a new topic lets its account alone. The policy of a topic is set as a whole.",
        source=_GRANTS,
        read="2026-11",
        relied_on_by=("deploy/resource_policies.py:ResourcePolicies.of_topic", "deploy/bucket_checks.py:check_buckets"),
        words=("AWS::SNS::TopicPolicy",),
        engines=NOWHERE,
    ),
    Fact(
        name="s3-notice-topic-key",
        sentence="A topic or queue under a customer's key gets notices if the key's policy lets `s3.amazonaws.com` "
        "`kms:GenerateDataKey` and `kms:Decrypt`.",
        source=_GRANTS,
        read="2026-11",
        relied_on_by=("deploy/key_policy.py:key_policy",),
        engines=NOWHERE,
        by_hand="Needs a key, which costs by the month.",
    ),
    Fact(
        name="s3-notice-configuration",
        sentence="The notices of a bucket are one configuration, which is set as a whole. Its `QueueConfigurations` "
        "and `TopicConfigurations` name queues and topics by their ARNs.",
        source=_CONFIGURATION,
        read="2026-11",
        relied_on_by=("deploy/live.py:LiveAccount.notified_queues", "deploy/live.py:LiveAccount.notified_topics"),
        words=("GetBucketNotificationConfiguration", "QueueConfigurations", "TopicConfigurations", "QueueArn"),
        engines=like("moto", "ministack"),
    ),
)

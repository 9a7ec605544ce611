"""What EventBridge does with events."""

from __future__ import annotations

from typing import Final

from flowguard.aws_facts.fact import NOWHERE, Document, Fact, like

_PUT: Final = Document("PutEvents", "https://docs.aws.amazon.com/eventbridge/latest/APIReference/API_PutEvents.html")
_SENDING: Final = Document(
    "Sending events with PutEvents", "https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-putevents.html"
)
_FORM: Final = Document(
    "AWS service event structure", "https://docs.aws.amazon.com/eventbridge/latest/ref/overiew-event-structure.html"
)
_RETRIES: Final = Document(
    "How EventBridge retries delivering events",
    "https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-rule-retry-policy.html",
)

BUS_FACTS: Final = (
    Fact(
        name="events-entries",
        sentence="A call has 1 to 10 entries.",
        source=_PUT,
        read="2026-11",
        relied_on_by=("sim/limits/buses.py:MOST_ENTRIES", "aws/sender.py:MOST_ENTRIES"),
        limit=10,
        engines=like("memory", "moto", "ministack"),
    ),
    Fact(
        name="events-size",
        sentence="The entries of a call have less than 1 MB together: source, detail type, detail and resources, and "
        "14 bytes for a time.",
        source=_PUT,
        read="2026-11",
        relied_on_by=("sim/limits/buses.py:LARGEST", "protocol/outbox.py:largest"),
        limit=1_048_576,
        words=("Detail", "DetailType", "Source"),
        engines=like("memory", "moto", ministack="takes more"),
    ),
    Fact(
        name="events-size-of-a-time",
        sentence="The time of an entry counts 14 bytes.",
        source=Document(
            "Calculating PutEvents event entry size",
            "https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-putevents.html",
        ),
        relied_on_by=("sim/limits/buses.py:TIME",),
        limit=14,
        engines=like("memory", "moto"),
        by_hand="Fourteen bytes at the edge of 1 MB decide nothing here.",
    ),
    Fact(
        name="events-larger-than-entries",
        sentence="The event that a rule sends is larger than its entry, by the characters and keys of its JSON. What "
        "is larger than its target takes is not delivered: a queue takes 1 MiB.",
        source=Document(
            "Calculating PutEvents event entry size",
            "https://docs.aws.amazon.com/AmazonCloudWatch/latest/events/CalculatePutEventsEntrySize.html",
        ),
        relied_on_by=("protocol/outbox.py:ROOM_FOR_EVENT",),
        engines=NOWHERE,
        by_hand="Takes a rule whose queue stays empty, for a day of retries.",
    ),
    Fact(
        name="events-partial-failure",
        sentence="Entries succeed or fail each on its own, in an answer of 200 with `FailedEntryCount`; "
        "`ThrottlingException` and `InternalException` may stand there and pass.",
        source=_SENDING,
        read="2023-06",
        relied_on_by=("aws/sender.py:AWSSender",),
        words=("PutEvents", "FailedEntryCount", "ErrorCode", "ErrorMessage", "InternalException", "InternalFailure"),
        engines=like("memory", "moto", ministack="takes any text"),
    ),
    Fact(
        name="events-required",
        sentence="An entry without source, detail type or detail fails with `InvalidArgument`, and the whole call "
        "where no entry has all three; a detail that is no JSON object fails with `MalformedDetail`.",
        source=_PUT,
        read="2026-11",
        relied_on_by=("sim/limits/buses.py:entry_fault", "wire/bodies.py:bus_detail"),
        words=("InvalidArgument", "MalformedDetail"),
        engines=like("memory", "moto", ministack="takes any entry"),
    ),
    Fact(
        name="events-missing-bus",
        sentence="An event for a bus that does not exist is accepted, with an event id, and is lost.",
        source=_SENDING,
        relied_on_by=(
            "sim/limits/refusing.py:Refusing",
            "aws/sender.py:bus_entry",
            "deploy/event_checks.py:check_events",
        ),
        words=("EventBusName",),
        engines=like("memory", "moto", "ministack"),
    ),
    Fact(
        name="events-at-least-once",
        sentence="A rule's target gets an event at least once, in no order; a failed delivery is tried for 24 hours "
        "and 185 times, then goes to the rule's dead-letter queue or is lost. Subscribers of a bus of the newer kind, "
        "which has no rules, get five tries in five minutes by default.",
        source=_RETRIES,
        read="2026-11",
        relied_on_by=("deploy/cloudformation.py:_CloudFormation.add_rule", "docs/explain/guarantees.md"),
        limit=185,
        words=("AWS::Events::Rule",),
        engines=NOWHERE,
        by_hand="Takes a day.",
    ),
    Fact(
        name="events-form",
        sentence="A queue gets an event as JSON with `version`, `id`, `detail-type`, `source`, `account`, `time`, "
        "`region`, `resources` and `detail`.",
        source=_FORM,
        read="2023-06",
        relied_on_by=("payload/foreign.py:_EVENT", "wire/bus_event.py:find_bus_event"),
        engines=like("ministack", moto="leaves out the account"),
    ),
    Fact(
        name="events-objects",
        sentence="An event of S3 has the source `aws.s3`, and `bucket.name`, `object.key` and, where an object was "
        "put or deleted, `object.sequencer` in its detail. Of the events of one key the greater sequencer is the "
        "later: as text, the shorter one with zeros behind it.",
        source=Document(
            "Event message structure",
            "https://docs.aws.amazon.com/AmazonS3/latest/userguide/notification-content-structure.html",
        ),
        read="2026-11",
        relied_on_by=("wire/object_events.py:object_event_id",),
        engines=NOWHERE,
        by_hand="Needs a bucket that sends its events to a bus.",
    ),
)

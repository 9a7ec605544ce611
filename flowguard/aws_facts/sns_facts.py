"""What SNS does with topics and notifications."""

from __future__ import annotations

from typing import Final

from flowguard.aws_facts.fact import NOWHERE, Document, Fact, like

_PUBLISH: Final = Document("Publish", "https://docs.aws.amazon.com/sns/latest/api/API_Publish.html")
_BATCH: Final = Document("PublishBatch", "https://docs.aws.amazon.com/sns/latest/api/API_PublishBatch.html")
_RETRIES: Final = Document(
    "Amazon SNS message delivery retries", "https://docs.aws.amazon.com/sns/latest/dg/sns-message-delivery-retries.html"
)
_DEAD: Final = Document(
    "Amazon SNS dead-letter queues", "https://docs.aws.amazon.com/sns/latest/dg/sns-dead-letter-queues.html"
)
_RAW: Final = Document(
    "Amazon SNS raw message delivery",
    "https://docs.aws.amazon.com/sns/latest/dg/sns-large-payload-raw-message-delivery.html",
)
_FORM: Final = Document(
    "Parsing Amazon SNS message formats", "https://docs.aws.amazon.com/sns/latest/dg/sns-message-and-json-formats.html"
)
_ATTRIBUTES: Final = Document(
    "Amazon SNS message attributes", "https://docs.aws.amazon.com/sns/latest/dg/sns-message-attributes.html"
)
_PERMISSIONS: Final = Document(
    "Amazon SNS API permissions: Actions and resources reference",
    "https://docs.aws.amazon.com/sns/latest/dg/sns-access-policy-language-api-permissions-reference.html",
)

SNS_FACTS: Final = (
    Fact(
        name="sns-message-size",
        sentence="A message has at most 256 KiB with its attributes, unless the topic's `MaximumMessageSize` allows up "
        "to 1 MiB.",
        source=_PUBLISH,
        read="2026-11",
        relied_on_by=("sim/limits/topics.py:LARGEST", "protocol/outbox.py:largest"),
        limit=262_144,
        words=("InvalidParameter",),
        engines=like("memory", "moto", "ministack"),
    ),
    Fact(
        name="sns-batch",
        sentence="A batch has 1 to 10 messages, each with an id of its own and an answer of its own.",
        source=_BATCH,
        read="2026-11",
        relied_on_by=("sim/limits/topics.py:MOST_ENTRIES", "aws/sender.py:MOST_ENTRIES"),
        limit=10,
        words=(
            "PublishBatch",
            "PublishBatchRequestEntries",
        ),
        engines=like("memory", "moto", "ministack"),
    ),
    Fact(
        name="sns-batch-size",
        sentence="The messages of a batch have together what one may have; more is `BatchRequestTooLong`, and none is "
        "published.",
        source=_BATCH,
        read="2026-11",
        relied_on_by=("sim/limits/topics.py:check_batch",),
        engines=like("memory", "moto", ministack="takes more"),
    ),
    Fact(
        name="sns-subject",
        sentence="A subject has less than 100 characters, no control characters and no line breaks.",
        source=_PUBLISH,
        read="2026-11",
        relied_on_by=("sim/limits/topics.py:LONGEST_SUBJECT",),
        limit=100,
        words=("Subject",),
        engines=like("memory", "moto", ministack="takes any"),
    ),
    Fact(
        name="sns-attributes",
        sentence="An attribute has a name, a type of String, String.Array, Number or Binary, and a value that is not "
        "empty; otherwise `ParameterValueInvalid`.",
        source=_ATTRIBUTES,
        read="2022-12",
        relied_on_by=("sim/limits/topics.py:check_message", "aws/sender.py:topic_entry"),
        words=("ParameterValueInvalid",),
        engines=like("memory", "moto", ministack="takes it"),
    ),
    Fact(
        name="sns-notification-form",
        sentence="A queue gets a notification as JSON with `Type`, `MessageId`, `TopicArn`, `Message`, `Timestamp`, "
        "`MessageAttributes` and a signature, as the body of a message without attributes.",
        source=_FORM,
        relied_on_by=("wire/notification.py:find_notification", "sim/memory/sns.py:SNS._notification"),
        words=("Type", "Timestamp", "Signature"),
        engines=like("memory", "moto", "ministack"),
    ),
    Fact(
        name="sns-fair-queues",
        sentence="A standard topic takes a group of 1 to 128 letters, digits and punctuation characters, and passes it "
        "to the standard queues that subscribe to it, and to nothing else.",
        source=_PUBLISH,
        read="2026-11",
        relied_on_by=("aws/sender.py:topic_entry", "sim/limits/topics.py:check_message"),
        engines=like("memory", "moto", "ministack"),
    ),
    Fact(
        name="sns-raw-delivery",
        sentence="With raw delivery the body and up to ten attributes arrive as they are; a message with more than ten "
        "is discarded as a client error.",
        source=_RAW,
        read="2026-11",
        relied_on_by=("sim/memory/sns.py:SNS._delivery", "docs/explain/envelopes.md"),
        limit=10,
        engines=like("memory", moto="delivers more than ten attributes", ministack="delivers more than ten attributes"),
    ),
    Fact(
        name="sns-retries",
        sentence="SNS tries a queue or function that answers with a server's error 100,015 times over 23 days.",
        source=_RETRIES,
        read="2026-11",
        relied_on_by=("docs/explain/guarantees.md",),
        limit=100_015,
        engines=NOWHERE,
        by_hand="Takes days.",
    ),
    Fact(
        name="sns-client-errors",
        sentence="A delivery that meets a client's error (a queue that is gone, a policy that does not allow it) is "
        "not tried again: it goes to the subscription's dead-letter queue, or is lost.",
        source=_DEAD,
        read="2026-11",
        relied_on_by=("docs/operate/operating.md", "deploy/template.py:Template.add_subscription"),
        words=("AWS::SNS::Subscription",),
        engines=like(moto="delivers whatever the policy says", ministack="delivers whatever the policy says"),
    ),
    Fact(
        name="sns-across-regions",
        sentence="A queue of another region may be subscribed; the subscription, and its dead-letter queue, are in the "
        "topic's region then.",
        source=_DEAD,
        read="2026-11",
        relied_on_by=("docs/operate/security.md", "deploy/regions.py:in_one_region"),
        engines=NOWHERE,
        by_hand="Needs two regions.",
    ),
    Fact(
        name="sns-missing-topic",
        sentence="Publishing to a topic that does not exist is `NotFound`, 404.",
        source=_PUBLISH,
        read="2026-11",
        relied_on_by=("sim/limits/topics.py:no_topic", "deploy/live.py:_MISSING"),
        words=("AWS::SNS::Topic", "NotFound", "NotFoundException"),
        engines=like("memory", "moto", "ministack"),
    ),
    Fact(
        name="sns-to-function",
        sentence="SNS invokes a function asynchronously, with one record in an event.",
        source=Document(
            "Invoking Lambda functions with Amazon SNS notifications",
            "https://docs.aws.amazon.com/lambda/latest/dg/with-sns.html",
        ),
        read="2023-10",
        relied_on_by=("wire/records.py:find_records", "docs/explain/guarantees.md"),
        words=("Records",),
        engines=like("deliveries"),
        by_hand="The form is the same in every log of such a function.",
    ),
    Fact(
        name="sns-policy-actions",
        sentence="The policy of a topic takes `Subscribe`, `Publish`, `GetTopicAttributes`, `ListSubscriptionsByTopic` "
        "and others of the topic itself, and no action of a subscription, such as `GetSubscriptionAttributes`, "
        "`SetSubscriptionAttributes` and `Unsubscribe`: a role's own policies allow these. A statement has a `Sid` "
        "that no other has.",
        source=_PERMISSIONS,
        read="2026-11",
        relied_on_by=("deploy/foreign_policies.py:policies_of_others", "docs/operate/security.md"),
        engines=NOWHERE,
        by_hand="SNS refuses others as the policy is written.",
    ),
    Fact(
        name="sns-subscription-handlers",
        sentence="CloudFormation asks for the attributes of the topic before it makes, reads, changes or removes a "
        "subscription, and lists those of a topic: its handlers need `sns:GetTopicAttributes` and "
        "`sns:ListSubscriptionsByTopic` of the topic, beside `Subscribe`, `Unsubscribe`, `GetSubscriptionAttributes` "
        "and `SetSubscriptionAttributes` "
        "([their schema](https://github.com/aws-cloudformation/aws-cloudformation-resource-providers-sns)). "
        "Terraform calls the last four alone ([its source](https://github.com/hashicorp/terraform-provider-aws)).",
        source=Document(
            "AWS::SNS::Subscription",
            "https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/aws-resource-sns-subscription.html",
        ),
        relied_on_by=("deploy/foreign_policies.py:LOOKS_AT_TOPIC",),
        engines=NOWHERE,
        by_hand="The refusal shows at deployment.",
    ),
    Fact(
        name="sns-policy-size",
        sentence="The policy of a topic has at most 30 KB, here taken for 30,000 bytes, and 100 statements.",
        source=_PERMISSIONS,
        read="2026-11",
        relied_on_by=("deploy/resource_policies.py:LARGEST_TOPIC_POLICY",),
        limit=30_000,
        engines=NOWHERE,
        by_hand="The refusal shows at deployment.",
    ),
)

"""What EventBridge Scheduler does with one-time schedules."""

from __future__ import annotations

from typing import Final

from flowguard.aws_facts.fact import NOWHERE, Document, Fact, like

_GUIDE: Final = "https://docs.aws.amazon.com/scheduler/latest/UserGuide"
_CREATE: Final = Document(
    "CreateSchedule", "https://docs.aws.amazon.com/scheduler/latest/APIReference/API_CreateSchedule.html"
)
_TARGET: Final = Document("Target", "https://docs.aws.amazon.com/scheduler/latest/APIReference/API_Target.html")
_TYPES: Final = Document("Schedule types in EventBridge Scheduler", f"{_GUIDE}/schedule-types.html")
_WHAT: Final = Document("What is Amazon EventBridge Scheduler?", f"{_GUIDE}/what-is-scheduler.html")
_CONTEXT: Final = Document(
    "Adding context attributes in EventBridge Scheduler", f"{_GUIDE}/managing-schedule-context-attributes.html"
)
_DELETE: Final = Document("Deleting a schedule in EventBridge Scheduler", f"{_GUIDE}/managing-schedule-delete.html")
_GROUP: Final = Document(
    "DeleteScheduleGroup", "https://docs.aws.amazon.com/scheduler/latest/APIReference/API_DeleteScheduleGroup.html"
)
_DEAD: Final = Document(
    "Configuring a dead-letter queue for EventBridge Scheduler", f"{_GUIDE}/configuring-schedule-dlq.html"
)
_QUOTAS: Final = Document("Quotas for Amazon EventBridge Scheduler", f"{_GUIDE}/scheduler-quotas.html")

SCHEDULER_FACTS: Final = (
    Fact(
        name="scheduler-precision",
        sentence="A schedule runs within the minute that begins at its time, never earlier; a one-time expression has "
        "whole seconds.",
        source=_TYPES,
        read="2026-11",
        relied_on_by=("aws/schedules.py:Schedules", "docs/guides/waiting-for-others.md"),
        limit=60,
        words=("ScheduleExpression", "ScheduleExpressionTimezone", "FlexibleTimeWindow", "Mode"),
        engines=like("ministack"),
    ),
    Fact(
        name="scheduler-at-least-once",
        sentence="A target is invoked at least once, so a message may come twice.",
        source=_WHAT,
        relied_on_by=("aws/schedules.py:Schedules", "protocol/waiting.py:Look"),
        engines=like("deliveries"),
        by_hand="It is rare; no program can wait for it.",
    ),
    Fact(
        name="scheduler-input-size",
        sentence="The input of a target has at most 256 KB.",
        source=_TARGET,
        read="2026-11",
        relied_on_by=("sim/limits/schedules.py:LARGEST_INPUT", "protocol/outbox.py:LARGEST_SCHEDULED"),
        limit=262_144,
        words=("Input", "Target"),
        engines=like("memory", "moto", ministack="takes more"),
    ),
    Fact(
        name="scheduler-no-attributes",
        sentence="A queue as a target gets the input as its body, and no attributes.",
        source=_TARGET,
        relied_on_by=("aws/schedules.py:_whole",),
        engines=like("ministack", "deliveries"),
    ),
    Fact(
        name="scheduler-context-attributes",
        sentence="`<aws.scheduler.schedule-arn>`, `<aws.scheduler.scheduled-time>`, `<aws.scheduler.execution-id>` and "
        "`<aws.scheduler.attempt-number>` in the input are replaced by their values, wherever they stand.",
        source=_CONTEXT,
        read="2026-11",
        relied_on_by=("aws/schedules.py:_whole",),
        engines=like(ministack="replaces none"),
    ),
    Fact(
        name="scheduler-scheduled-time",
        sentence="`<aws.scheduler.scheduled-time>` is the time for which the schedule asked, in UTC and whole seconds, "
        "as `2022-03-22T18:59:43Z`; that it is the same at each attempt and delivery of a tick follows from that, and "
        "no page says it.",
        source=_CONTEXT,
        read="2026-11",
        relied_on_by=("every.py:Every.input",),
        engines=like(ministack="replaces none"),
        by_hand="A tick that is delivered twice is rare, and a recurring schedule takes a minute to its first one.",
    ),
    Fact(
        name="scheduler-recurring",
        sentence="A recurring schedule has `rate(value unit)`, of minutes, hours or days, or `cron(…)` with six "
        "fields, which is read in the schedule's time zone, UTC by default; a disabled one invokes nothing.",
        source=_TYPES,
        read="2026-11",
        relied_on_by=("every.py:Every.problem", "deploy/cloudformation.py:_CloudFormation.add_schedule"),
        words=("AWS::Scheduler::Schedule", "Schedule", "ScheduleExpression", "State"),
        engines=like("ministack"),
        by_hand="A recurring schedule takes a minute to its first tick, and a cron expression takes longer.",
    ),
    Fact(
        name="scheduler-ends",
        sentence="A recurring schedule invokes nothing after its `EndDate`. With a `FlexibleTimeWindow` of the mode "
        "`FLEXIBLE` it invokes at some moment within that window.",
        source=_CREATE,
        read="2026-11",
        relied_on_by=("deploy/event_checks.py:_end", "deploy/event_checks.py:_differing"),
        words=("EndDate", "FlexibleTimeWindow"),
        engines=NOWHERE,
        by_hand="A schedule with an end a minute from now shows it.",
    ),
    Fact(
        name="scheduler-name",
        sentence="A schedule's name has up to 64 of 0-9, a-z, A-Z, `-`, `_`, `.`, and is unique in its group.",
        source=_CREATE,
        read="2026-11",
        relied_on_by=("deploy/schedule_plan.py:LONGEST_NAME",),
        limit=64,
        engines=like("moto"),
        by_hand="The API's own model refuses a longer one before it is sent.",
    ),
    Fact(
        name="scheduler-deletes-itself",
        sentence="A one-time schedule with `ActionAfterCompletion` `DELETE` is deleted after it has invoked its "
        "target; without, it stays and counts against the quota.",
        source=_DELETE,
        relied_on_by=("aws/schedules.py:Schedules",),
        words=("ActionAfterCompletion",),
        engines=like("ministack"),
    ),
    Fact(
        name="scheduler-same-name",
        sentence="A second schedule of one name in a group is `ConflictException`; with the same `ClientToken` and "
        "parameters the call may be repeated.",
        source=_CREATE,
        read="2026-11",
        relied_on_by=("aws/schedules.py:Schedules", "sim/limits/schedules.py:already_there"),
        words=("CreateSchedule", "ConflictException", "ClientToken", "GroupName"),
        engines=like("memory", "moto", "ministack"),
    ),
    Fact(
        name="scheduler-past",
        sentence="A schedule whose time is over by a little is made, and its target is invoked at once. Nothing says "
        "how much a little is.",
        source=_TYPES,
        relied_on_by=("aws/schedules.py:Schedules",),
        engines=like("ministack"),
    ),
    Fact(
        name="scheduler-missing-group",
        sentence="A schedule in a group that does not exist is `ResourceNotFoundException`, 404.",
        source=_CREATE,
        read="2026-11",
        relied_on_by=("sim/limits/schedules.py:no_group",),
        engines=like("memory", "moto", "ministack"),
    ),
    Fact(
        name="scheduler-group-deletion",
        sentence="Deleting a group deletes all its schedules, bit by bit and without a word to anyone; until one is "
        "deleted it may still invoke its target. One that is made meanwhile goes with them, whatever the answer was.",
        source=_GROUP,
        read="2026-11",
        relied_on_by=("docs/operate/operating.md", "deploy/cloudformation.py:_CloudFormation.add_schedule_group"),
        words=("AWS::Scheduler::ScheduleGroup",),
        engines=like("moto", "ministack"),
    ),
    Fact(
        name="scheduler-role",
        sentence="The scheduler sends by the target's role, and checks when the schedule is made only that it may "
        "assume it: a queue that the role may not send to loses the message after the retries.",
        source=_DEAD,
        relied_on_by=("aws/schedules.py:Schedules", "deploy/permissions.py:permissions_of"),
        words=("RoleArn", "Arn"),
        engines=NOWHERE,
        by_hand="Takes the retries of a day; the probe of precision shows the role's check.",
    ),
    Fact(
        name="scheduler-new-role",
        sentence='A schedule whose role may not be assumed, or was made moments ago, is `ValidationException`: "The '
        'execution role you provide must allow AWS EventBridge Scheduler to assume the role." The same call is taken '
        "some time later, with the same role ([others have seen it](https://github.com/aws/aws-sdk-js-v3/issues/6494)).",
        source=Document("Setting up Amazon EventBridge Scheduler", f"{_GUIDE}/setting-up.html"),
        relied_on_by=("aws/faults.py:is_new_role",),
        engines=NOWHERE,
        by_hand="Takes a role that is made in the same second.",
    ),
    Fact(
        name="scheduler-retries",
        sentence="A target that fails is tried for 24 hours and 185 times by default; then the input goes to the "
        "schedule's dead-letter queue, or is lost.",
        source=_DEAD,
        read="2026-11",
        relied_on_by=("aws/schedules.py:Schedules", "docs/explain/guarantees.md"),
        limit=185,
        words=("DeadLetterConfig",),
        engines=NOWHERE,
        by_hand="Takes a day.",
    ),
    Fact(
        name="scheduler-undelivered",
        sentence="The input of a schedule whose target is not there is the body of a message in its dead-letter queue, "
        "at once where it has no retries (`MaximumRetryAttempts` 0); the error stands beside it, in attributes.",
        source=_DEAD,
        relied_on_by=("aws/schedules.py:Schedules", "docs/operate/deploy.md"),
        engines=NOWHERE,
    ),
    Fact(
        name="scheduler-quota",
        sentence="An account has 10,000,000 schedules in a region, and 1,000 invocations of targets a second, unless "
        "it asks for more.",
        source=_QUOTAS,
        relied_on_by=("docs/guides/waiting-for-others.md",),
        limit=10_000_000,
        engines=NOWHERE,
        by_hand="The console of Service Quotas says it.",
    ),
)

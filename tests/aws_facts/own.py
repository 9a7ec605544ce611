"""The numbers and words of the source that say nothing of AWS, each with what it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

OWN_NUMBERS: Final[Mapping[str, tuple[str, ...]]] = {
    "how often flowguard tries, and how long it waits": (
        *("aws/batch_calls.py:MOST_INVALID", "aws/batch_writes.py:MOST_TRIES", "aws/cancellations.py:MOST_TRIES"),
        *(
            "aws/faults.py:PAUSES",
            "aws/signing_keys.py:PAUSES",
            "aws/group_items.py:_MOST_TRIES",
            "aws/ledger.py:MOST_TRIES",
        ),
        *("aws/tables.py:_FIRST_PAUSE", "deploy/pip_download.py:LONGEST", "dev/due_schedules.py:EVERY"),
        *("dev/mapping.py:POLL", "dev/port_requests.py:_LOOK_AGAIN", "dev/process.py:PATIENCE"),
        *("dev/local_answers.py:SECONDS", "deploy/derive.py:START_TIMEOUT"),
        "deploy/alarms.py:_PERIOD",
        "deploy/alarms.py:_LONGEST_IN_STREAM",
        "sim/world.py:EXPIRES_EVERY",
        "dev/local_pages.py:LARGEST",
        *(
            "retry.py:LONGEST_DELAY",
            "retry.py:MOST_ATTEMPTS",
            "sim/event_source.py:MOST_RECEIVES",
            "sim/event_source.py:QUICK_REPEATS",
            "sim/event_source.py:LONGEST_AGE",
            "sim/weather/hot_items.py:LEAST_WRITES",
            "observers/opentelemetry.py:LONGEST_FLUSH_MS",
        ),
    ),
    "how a limit's places, its line and its looks are measured": (
        *("aws/place_items.py:MOST_TRIES", "aws/place_items.py:PATIENT_TRIES", "aws/place_items.py:LONGEST_PAUSE"),
        *(
            "aws/place_items.py:KEPT_FOR",
            "aws/place_items.py:ROUNDED_TO",
            "protocol/places.py:GRACE",
            "protocol/places.py:SKEW",
        ),
        *("protocol/places.py:UNSEEN_FOR", "protocol/places.py:LONGEST_LINE", "protocol/places.py:MOST_AT_ONCE"),
        *("wire/turn.py:_LONGEST_PLACE", "wire/turn.py:_LATEST", "worker/hop_places.py:_MS"),
        *(
            "worker/asked_meanwhile.py:_MILLISECOND",
            "worker/stream_sends.py:MOST_KNOWN",
            "worker/claimed_again.py:COUNTED_IN_MS",
        ),
        *("worker/look_times.py:SHORTEST_LOOK", "worker/look_times.py:UNCALLED_LOOK"),
        *("worker/hop_places.py:LEAST_IN_PLACE", "worker/look_times.py:MOST_LOOKERS"),
        *("worker/look_times.py:FIRST_LOOK", "worker/look_times.py:SELDOM"),
        *("protocol/places.py:COMES_EARLY", "worker/hop_places.py:MOST_STARTS"),
        *("protocol/places.py:LONGEST_WINDOW", "protocol/places.py:LONGEST_AHEAD"),
        *("pause_after.py:MOST_FAILURES", "pause_after.py:SHORTEST", "pause_after.py:LONGEST_WITHIN"),
        *("pause_after.py:_MS", "aws/pause_rows.py:KEPT_FOR"),
        *("worker/call_places.py:MOST_LIMITS", "worker/call_places.py:MOST_STARTS"),
        *("worker/call_places.py:SHORTEST_REST", "worker/call_places.py:LONGEST_REST"),
        *("worker/call_places.py:GROWTH", "worker/call_places.py:_MOST_GROWTHS"),
    ),
    "how many data keys a process keeps open": ("codecs/kept_keys.py:MOST_OPENED",),
    "how long the lean client waits, keeps a connection, and bears a clock": (
        *("aws/transport/connections.py:CONNECT_SECONDS", "aws/transport/connections.py:READ_SECONDS"),
        *("aws/transport/connections.py:KEPT_SECONDS", "aws/transport/connections.py:MOST_KEPT"),
        *("aws/transport/connections.py:_SHORTEST", "aws/transport/json_client.py:OPENING_SECONDS"),
        *("aws/transport/time_left.py:KEPT_MS", "aws/transport/time_left.py:LEAST_SECONDS"),
        *("aws/transport/connections.py:_AT_ONCE", "aws/transport/http_answers.py:_MOST_LINES"),
        *("aws/transport/odd_answers.py:_LONGEST_HEAD", "aws/transport/odd_answers.py:_BEFORE_END"),
        *("aws/transport/json_client.py:SKEW_SECONDS", "aws/transport/retries.py:_DIGITS"),
    ),
    "numbers of botocore's retry mode, with which the tests compare them": (
        *("aws/transport/json_client.py:MOST_ATTEMPTS", "aws/transport/retries.py:TOO_MANY"),
        *("aws/transport/retries.py:CAPACITY", "aws/transport/retries.py:LONGEST"),
        *("aws/transport/retries.py:MOST_LONGER", "aws/botocore_time.py:_ASKS_SECONDS"),
    ),
    "room that flowguard keeps in an item or a request": (
        *("aws/batch_calls.py:LARGEST_CALL", "aws/commit_texts.py:SMALLEST_ANSWER", "aws/items.py:KEPT_FREE"),
        *(
            "aws/commit_texts.py:LONGEST_IN_KEY",
            "aws/commit_texts.py:_FIXED_OF_A_WAIT",
            "aws/items.py:KEPT_FREE_TO_UNDO",
        ),
        *("aws/items.py:KEPT_FREE_AT_THE_END", "aws/wait_calls.py:_CHARACTERS", "aws/memos.py:_BESIDE"),
        *("aws/history_room.py:UNSURE", "aws/history_room.py:_LATER_STAGE", "aws/history_room.py:_TIMES_AND_FLAG"),
        *("aws/history_room.py:_COUNTS", "aws/history_room.py:_MAP", "aws/history_room.py:_MORE"),
        *("aws/packing.py:SHORT", "aws/packing.py:HALF_AN_ITEM"),
    ),
    "parts of flowguard's own protocol": (
        *("protocol/outbox.py:LAST_PHASE", "protocol/forgotten.py:LAST_REDRIVE", "failed.py:LONGEST_PAYLOAD"),
    ),
    "how much flowguard reads or shows at a time": (
        *("aws/caller_lists.py:ROWS_A_PAGE", "aws/history_rows.py:ROWS_SHOWN", "aws/history_rows.py:MOST_ROWS"),
        *("aws/run_pages.py:ITEMS_A_PAGE", "deploy/code_zip.py:NAMED", "dev/delivery.py:LONGEST_TRACE"),
        *("aws/object_scan.py:MOST_FLOWS", "aws/object_traces.py:MOST_REQUESTS", "aws/forgetting.py:TEXTS_A_ROW"),
        *("deploy/live.py:_MOST_NAMED", "deploy/own_calls.py:_MOST_NAMED"),
        "sim/issued_tokens.py:_MOST_NAMED",
    ),
    "how long names and numbers of flowguard's own may be": (
        *("aws/caller_lists.py:_ORDER", "aws/cancellations.py:_ORDER"),
        *("aws/items.py:LONGEST_ID", "aws/items.py:_LONGEST_STAGE", "aws/items.py:_MOST"),
        *("aws/items.py:_LARGEST_NUMBER", "aws/writes.py:_MOST_LEVELS", "deploy/logical_ids.py:_LONGEST"),
    ),
    "what is too much, too late or too far off for an alarm or the doctor": (
        *("deploy/examination.py:MOST_OFF_BY", "deploy/run_checks.py:_STUCK"),
        *(
            "deploy/run_checks.py:_LATE",
            "deploy/batch_plan.py:LONGEST_DERIVED",
            "deploy/batch_plan.py:_SHORTEST_DERIVED",
            "deploy/batch_plan.py:_LEFT_FOR_SENDING",
            "aws/dead_letter_queue.py:_CLOCKS_AGREE",
            "worker/redrive.py:_CLOCKS_DIFFER",
            "aws/dead_letter_queue.py:_NEARLY",
        ),
    ),
    "times, formats and codes of exit": (
        "deploy/compiled_code.py:_NOT_ALL",
        *("deploy/code_zip.py:_TIME", "deploy/code_zip.py:_MODE", "deploy/code_zip.py:_UNIX"),
        *(
            "deploy/flow_cost.py:LAMBDAS_LINES",
            "deploy/flow_cost.py:MONTH",
            "deploy/queue_plan.py:_DAY",
            "deploy/live.py:_HOUR",
            "deploy/planned/account.py:_HOUR",
            "deploy/options.py:TABLE_KEEPS",
            "deploy/needs.py:FOR_EVER",
            "deploy/queue_plan.py:FIFO_RETENTION",
            "deploy/queue_plan.py:_LASTS",
            "dev/due_schedules.py:_NEVER",
        ),
        *("dev/functions.py:NOT_LOADED", "sim/event_source.py:STEP", "sim/world.py:START"),
        *("sim/weather/forecast.py:_HOUR", "sim/weather/pollers.py:LONGEST"),
        "dev/saved_state.py:STEPS",
    ),
    "what a message, a link or a page of flowguard may say": (
        *("wire/answer_address.py:LONGEST_AWAITED_NAME", "wire/answer_address.py:_LONGEST_SIGNATURE"),
        *("wire/answer_link.py:LONGEST_CHOICE", "wire/cancel_reason.py:LONGEST_REASON"),
        *(
            "wire/http_page.py:LONGEST_COMMENT",
            "wire/stream_letters.py:MOST_PARTITIONS",
            "wire/http_request.py:LONGEST_QUERY",
        ),
        *("wire/http_request.py:MOST_FIELDS", "wire/http_request.py:_LONGEST_HEADER"),
        *("wire/message.py:HIGHEST_VERSION", "wire/message.py:LATEST_TIME", "wire/message.py:MOST_HOPS"),
        *("wire/message.py:_LONGEST_ADDRESS", "wire/message.py:_LONGEST_ERROR", "wire/message.py:_LONGEST_SIGNATURE"),
        *("wire/message.py:_LONGEST_TYPE", "wire/shown_facts.py:LONGEST_FACT", "wire/shown_facts.py:LONGEST_NAME"),
        *("wire/shown_facts.py:LONGEST_TITLE", "wire/shown_facts.py:MOST_FACTS", "wire/trace_context.py:LONGEST"),
        *("worker/http_callbacks.py:LONGEST_ANSWER", "worker/plan.py:_LONGEST_WHY", "worker/replies.py:_LONGEST_WHY"),
        *(
            "wire/http_response.py:KEPT_FOR_HEADERS",
            "wire/watch_link.py:LONGEST_LINK",
            "worker/http_starts.py:_LONGEST_HEADER",
        ),
        *("worker/start_rule.py:LONGEST_BODY", "worker/start_rule.py:LONGEST_KEY"),
    ),
    "characters of digests, ids and seals that flowguard makes": (
        "wire/object_events.py:_WIDTH",
        *("protocol/callers.py:_KEY", "wire/message.py:_ROOM_FOR_NUMBER", "wire/message.py:TEXT_DIGEST"),
        *("wire/send_ids.py:_DIGEST", "wire/send_ids.py:_SHORTER", "wire/shown_facts.py:_SEAL"),
        *("wire/signing.py:SHORTEST_SECRET", "wire/tokens.py:LONGEST_TOKEN", "worker/again.py:_LENGTH"),
        *("worker/restart.py:_LENGTH", "wire/watch_link.py:_SEAL"),
    ),
    "how flowguard divides its waits, groups and callers among items and calls": (
        *("protocol/callers.py:LARGEST_ASKER", "protocol/callers.py:LARGEST_HELD", "protocol/callers.py:MOST_HELD"),
        *("protocol/groups.py:LONGEST_GROUP_NAME", "protocol/groups.py:MOST_IN_GROUP"),
        *("protocol/groups.py:MOST_IN_SHARD", "protocol/groups.py:MOST_PARTS", "protocol/groups.py:SHARDS_A_TURN"),
        *("protocol/run_history.py:LONGEST", "protocol/run_history.py:_FIELDS"),
        *("protocol/run_history.py:_LONGEST_STAGE", "protocol/run_history.py:_LONGEST_TOLD"),
        *("worker/batch.py:_A_CALL", "worker/dispatch.py:_A_CALL", "worker/caller_answers.py:ASKERS_A_CALL"),
        *("worker/caller_answers.py:MOST_ASKERS", "worker/early_answers.py:MOST_LOOKED_AT"),
        *(
            "worker/hop_memory.py:_BESIDE",
            "worker/external_answers.py:ROWS_A_PART",
            "worker/wait_planner.py:MOST_AWAITED",
        ),
    ),
    "how long a worker waits, rests, keeps in reserve or believes, and how often it tries": (
        "protocol/series.py:LARGEST_DISORDER",
        *(
            "protocol/run.py:LONGEST_LEASE",
            "protocol/entry.py:LONGEST_LEASE",
            "wire/signing.py:FRESH_FOR",
            "wire/signing.py:JITTER",
        ),
        *("wire/signing.py:NOT_ASKED_FOR", "wire/signing.py:TRIED_AGAIN_AFTER", "wire/signing.py:USED_FOR"),
        *("worker/dispatch.py:RESERVE_MS", "worker/dispatch.py:CALL_MS", "worker/batch.py:HAND_BACK_RESERVE_MS"),
        "worker/dispatch.py:MOST_DUE",
        *("worker/batch.py:WARNING_MS", "worker/claim_phase.py:LEASE_WITHOUT_LAMBDA"),
        *("worker/claim_phase.py:MOST_MEETINGS", "worker/rests.py:NOTED_FROM"),
        *("worker/handle_phase.py:KEPT_TO_COMMIT_MS", "worker/http_callbacks.py:AGAIN_AFTER"),
        *("worker/http_starts.py:LOOK_AGAIN_AFTER", "worker/start_rule.py:_LEAST_KEPT", "worker/starts.py:LEASE"),
        "worker/start_rule.py:_USUALLY_KEPT",
        *("worker/start_rule.py:_TO_START", "worker/starts.py:LEFT_TO_ANSWER", "worker/starts.py:_MS"),
        *("worker/kills.py:ENOUGH_KILLS", "worker/kills.py:MOST_KILLS", "worker/lifetimes.py:LONGEST_WAIT"),
        *(
            "worker/external_answers.py:COPY_AFTER",
            "worker/external_answers.py:KEPT_TO_END_MS",
            "worker/patience.py:MANY_RECEIVES",
        ),
        *("worker/patience.py:SOME_MINUTES", "worker/patience.py:_DELAYED_BY", "worker/patience.py:_FIRST"),
        *("worker/patience.py:_GROWTH", "worker/patience.py:_JITTER", "worker/patience.py:_KEPT_FOR"),
        *("worker/patience.py:_LONGEST_SHARE", "worker/patience.py:_NEARLY_OVER"),
        *(
            "worker/patience.py:_NEARLY_OVER_FIFO",
            "worker/denials.py:_RECEIVES_OF_MINUTES",
            "worker/denials.py:FORGOTTEN_AFTER",
        ),
        *(
            "worker/denials.py:AT_LAST",
            "worker/denials.py:MOST_KNOWN",
        ),
        *("worker/patience.py:_SHORTEST_DELAY", "worker/resets.py:GOOD_FOR", "worker/routing.py:CLAIMED_AT_RECEIVE"),
        *("worker/runtime.py:MOST_CALLS", "worker/together.py:LITTLE_TIME_MS"),
        "worker/together.py:MOST_IN_A_WAVE",
        *(
            "worker/together.py:LONGEST_WAIT_MS",
            "aws/indexed_runs.py:SHORTEST_PAUSE",
            "aws/indexed_runs.py:LONGEST_PAUSE",
        ),
    ),
    "how times are written, and which numbers are none": (
        *(
            "wire/notification.py:LAST_MOMENT",
            "wire/notification.py:_MILLISECOND",
            "wire/stream_records.py:_LAST_SECOND",
            "wire/stream_records.py:_MILLISECONDS",
            "worker/batch.py:_MILLISECOND",
        ),
        *("worker/given_up.py:_MILLISECOND", "worker/claim_phase.py:_MS", "worker/put_off.py:_MS"),
        *("worker/lifetimes.py:_MILLISECOND", "worker/settler.py:_MILLISECOND", "worker/routing.py:MOST_DIGITS"),
        *("worker/routing.py:_EARLIEST", "worker/routing.py:_LOOKS_LIKE_SECONDS", "aws/pause_rows.py:UNBOUNDED"),
    ),
}
"""Constants of the packages that know AWS, by what they are."""

OWN_IN_THE_MIDDLE: Final[Mapping[str, str]] = {
    "deploy/cloudformation.py:_CloudFormation": "how much of the flows' names a template's description has",
    "deploy/options.py:DeployOptions": "after how long the age of a message is an alarm",
    "settings.py:Settings": "a default of flowguard's own",
}
"""Functions and classes with a number in them that is a limit of AWS by chance."""

OWN_WORDS: Final[Mapping[str, tuple[str, ...]]] = {
    "errors of flowguard, Python and botocore": (
        *("FlowguardError", "DefinitionError", "EnvelopeError", "ConditionFailed", "MarkerError"),
        *("NoRegionError", "NoCredentialsError", "BaseException", "FunctionError"),
        *("BotoCoreError", "ClientError", "ConnectTimeoutError", "ConnectionClosedError", "EndpointConnectionError"),
        *("ParamValidationError", "ReadTimeoutError", "SSLError"),
    ),
    "parts of a template, which cfn-lint and the provider's schema check, and of descriptions that the doctor reads": (
        *("Action", "Condition", "Description", "Outputs", "Principal", "Properties", "Resource", "Resources"),
        *("Path", "PermissionsBoundary"),
        *("Role", "Tags", "Version", "Policies", "AssumeRolePolicyDocument", "ManagedPolicyArns", "Enabled"),
        *("Architectures", "Environment", "Handler", "Runtime", "Variables", "State", "FunctionArn", "FunctionUrl"),
        *("AttributeDefinitions", "AttributeName", "AttributeType", "KeySchema", "KeyType", "Table", "Get"),
        *("AlarmActions", "AlarmDescription", "AlarmName", "ComparisonOperator", "LogGroupName", "Metric"),
        *("Endpoint", "Protocol", "EventPattern", "EventSourceArn", "EventSourceMappings", "Events", "Rule"),
        *("Queue", "Queues", "Topic", "Url", "RuleNames", "SubscriptionArn", "Subscriptions", "TargetArn", "Targets"),
        *("Account", "NextToken", "Values"),
        *("Functions", "Logs", "Rules", "Topics", "Active", "Transform"),
        *("BucketName", "Mappings", "PrimaryKey", "Roles"),
    ),
    "types of resources that the doctor reads in files, and flowguard makes none of": (
        *("AWS::Events::EventBus", "AWS::IAM::ManagedPolicy", "AWS::IAM::Policy"),
        *(
            "AWS::IAM::RolePolicy",
            "AWS::Kinesis::Stream",
            "AWS::KMS::Alias",
            "AWS::KMS::Key",
            "AWS::S3::Bucket",
            "AWS::SSM::Parameter",
        ),
        "AWS::Serverless::SimpleTable",
    ),
    "codes of botocore's models and of its retry mode, with which the tests compare them": (
        *("EC2ThrottledException", "InvalidSecurity", "KmsThrottled", "RequestThrottled"),
        *("RequestThrottledException", "ThrottledException"),
    ),
    "names that say only what they stand before": (
        *(
            "S",
            "N",
            "B",
            "BS",
            "M",
            "L",
            "BOOL",
            "NULL",
            "QueueUrl",
            "RequestId",
            "QueueArn",
            "TopicArn",
            "Messages",
            "MessageId",
        ),
        *("Body", "ContentType", "ProjectionExpression", "Event", "QueueOwnerAWSAccountId", "Limit"),
    ),
}
"""Texts that look like words of AWS's interfaces."""

ON_THIS_MACHINE: Final = ("dev/", "sim/", "testing/")
"""What calls only engines of this machine: the simulator, the tests, ``flowguard dev``."""

OWN_OPERATIONS: Final[Mapping[str, Mapping[str, tuple[str, ...]]]] = {
    "only reads, for what flowguard doctor says": {
        "deploy/": (
            *("DescribeContinuousBackups", "DescribeEventBus", "DescribeTable", "DescribeTimeToLive"),
            *("GetCallerIdentity", "GetFunctionConfiguration", "GetFunctionRecursionConfig", "GetFunctionUrlConfig"),
            *(
                "GetSchedule",
                "GetScheduleGroup",
                "GetSubscriptionAttributes",
                "ListRuleNamesByTarget",
            ),
            *("ListSubscriptionsByTopic", "SimulatePrincipalPolicy", "DescribeLogGroups", "DescribeSecret"),
            *("GetBucketEncryption", "GetFunctionCodeSigningConfig", "GetRole", "GetTopicAttributes"),
            *("DescribeRule", "DescribeStreamSummary"),
        ),
    },
    "only reads, to say in which account it is": {"cli/": ("GetCallerIdentity",)},
    "a call that a handler must not make, which flowguard check looks for": {
        "lint/": ("CopyObject", "SendMessage", "TransactGetItems"),
    },
    "a function of Python's sockets": {"aws/": ("CreateConnection",)},
    "a method of the cipher, which is in this process": {"codecs/": ("Encrypt",)},
    "a method of flowguard's signers": {"protocol/": ("Sign",), "wire/": ("Sign",), "worker/": ("Sign",)},
}
"""Operations without a row, by why they need none, and by where they stand."""

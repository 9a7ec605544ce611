"""Guards that no schedule can meet, and the tests which notice that they are gone: the tests are run on the mutant.

The explorer delivers what SQS, SNS and flowguard itself send, a record at a time, with all the time in the world.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Elsewhere:
    r"""``pattern`` is of mutants' names, ``reason`` why no schedule can meet them.

    Where a variable of the function stands in a name, the pattern has ``\w+``: variables may be renamed.
    """

    pattern: str
    tests: tuple[str, ...]
    reason: str


_CODECS: Final = "no world of the explorer has a flow with a codec"

TESTED: Final = (
    Elsewhere(
        r"^(flow\.Flow\.carried_from|flow\.shared_problems|lanes\.|"
        r"deploy\.at_aws\._Renaming\._function: .*shares|recorded\.side_messages\.SideMessages\.start: .*carried|"
        r"worker\.requests\.request_send: .*carried)",
        ("tests/test_lanes.py", "tests/worker/test_lanes.py", "tests/deploy/test_lanes.py"),
        "lanes of an inbox, which no shipped flow has",
    ),
    Elsewhere(
        r"^deploy\.derive\.needs_of: .*asked_codec",
        ("tests/deploy/test_codec_uses.py",),
        "what the asking flow's codec cannot open: no message is delivered",
    ),
    Elsewhere(
        r"^deploy\.(derive\._few_receives|permissions\.permissions_of: .*once)\b",
        ("tests/deploy/test_derive_once.py", "tests/deploy/test_derive.py", "tests/deploy/test_permissions.py"),
        "limits of functions under @once: no message is delivered",
    ),
    Elsewhere(
        r"^worker\.fail_phase\.FailPhase\.(continued: .*is_stream|failed: self\._tell\()",
        (
            "tests/worker/test_group_parts.py",
            "tests/worker/test_stream_copies.py",
            "tests/observers/test_opentelemetry.py",
        ),
        "groups of a queue that are saved in parts, and what observers are told of an attempt",
    ),
    Elsewhere(
        r"^worker\.(stream_sends\.|ending\.acked: .*owner|"
        r"dispatch\.(stream_sends|_is_sent)\b|dispatch\._send: .*(\w+ not in \w+|known|_is_sent)|"
        r"unread\._is_sent: .*known|(commit_phase|turned_away)\..*owner)",
        ("tests/worker/test_stream_sends.py",),
        "what was sent for records of streams, with which no shipped flow begins",
    ),
    Elsewhere(
        r"^worker\.(stream_copies\.|hop_memory\.Unsent\b|(?!external_answers\b)\w+\..*(\bqueued|Unsent|is_taken|turn_away))|"
        r"^protocol\.claims\.queued_key",
        (
            "tests/worker/test_stream_copies.py",
            "tests/worker/test_poison_of_streams.py",
            "tests/worker/runtime/test_debounce.py",
            "tests/worker/test_places_alone.py",
            "tests/worker/test_group_parts.py",
        ),
        "records of streams that come again, with which no shipped flow begins",
    ),
    Elsewhere(
        r"^worker\.record_sources\.(NamedQueues\.(callbacks_of|_alone|_bring_callbacks)|comes_through)\b|"
        r"^worker\.external_answers\.(read_outside|_read|ExternalAnswers\._ending: .*SEALED_IDS)|"
        r"^worker\.callbacks\.Callbacks\.(_answer_of: missed|answer: )",
        (
            *(
                "tests/worker/test_external_answers.py",
                "tests/worker/test_callbacks.py",
                "tests/worker/test_insider.py",
            ),
            *("tests/worker/test_streams.py", "tests/worker/test_answers_by_source.py"),
            *("tests/worker/test_tokens_attacked.py", "tests/worker/test_record_sources.py"),
        ),
        "sources that several callbacks have, and tokens that are used too early",
    ),
    Elsewhere(
        r"^worker\.(fail_phase\.FailPhase\.failed: (\w+\.requested_at|\(?\w+\.first_error|\w+ →)|"
        r"unread\.(begun_and_held|_fifo_group)|batch\.Batch\.run: .*held|dispatch\.DueSends|resend\.marked)",
        (
            *("tests/worker/test_kafka.py", "tests/worker/test_unread.py", "tests/worker/test_batch.py"),
            *("tests/worker/test_plan.py", "tests/worker/test_together_waves.py", "tests/worker/test_dead_letters.py"),
            "tests/worker/test_failure.py",
        ),
        "records without a time, FIFO groups behind what cannot be read, and batches of hundreds",
    ),
    Elsewhere(
        r"^worker\.http_starts\._seen: .*(room|'result' in content)|"
        r"^worker\.starts\.Starts\.(start: \w+\.key|_may_show: except ReaderBroken)",
        ("tests/worker/test_http_starts.py", "tests/test_start_function.py"),
        "requests over HTTP",
    ),
    Elsewhere(
        r"^aws\.object_traces\.TraceReader\.read: \w+\.item is None",
        ("tests/operate/test_forget_object.py",),
        "what is forgotten, which no flow does",
    ),
    Elsewhere(
        r"^once_function\.OnceFunction\._begun",
        ("tests/test_once_refused.py",),
        "functions of no flow",
    ),
    Elsewhere(
        r"^deploy\.kafka_plan\.tries_of",
        ("tests/deploy/test_streaming.py", "tests/deploy/test_topics.py"),
        "what a template says of mappings",
    ),
    Elsewhere(
        r"^expressions\.CLAIM_PAYLOADS_KEY",
        (
            "tests/aws/test_ledger.py",
            "tests/protocol/test_entry.py",
            "tests/test_once_refused.py",
            "tests/test_once_crashes.py",
        ),
        "keys of functions of no flow",
    ),
    Elsewhere(
        r"^(aws\.memos\.DynamoDBMemos\.fetch_key|worker\.hop_memory\.HopMemory\.fetch_key|"
        r"recorded\.remembered\.EarlyEffects\.\w+: .*\.fetch_key)",
        ("tests/codecs/test_outage.py",),
        _CODECS,
    ),
    Elsewhere(
        r"^worker\.fail_phase\.FailPhase\.failed: isinstance\(\w+, WorkerFenced",
        ("tests/worker/runtime/test_remembered.py", "tests/sql/test_step_sql.py"),
        "workers that meet the fence before their commit",
    ),
    Elsewhere(
        r"^protocol\.claims\.(takes_object|committed_before)\b",
        ("tests/protocol/test_claims.py", "tests/sql/test_step_sql.py"),
        "ids that come again in a database beside the table",
    ),
    Elsewhere(
        r"^worker\.settler\.(Settler\.settle: )?_is_just_cancelled",
        (
            "tests/worker/runtime/test_cancelled.py",
            "tests/worker/test_late_answers.py",
            "tests/worker/test_groups.py",
            "tests/worker/test_waiting.py",
        ),
        "answers under way while a run is cancelled",
    ),
    Elsewhere(
        r"^worker\.(handler_calls\.|missed\.beside_stream|"
        r"fail_phase\.FailPhase\.failed: .*SettingsError)|"
        r"^aws\.faults\.is_outage: .*in_stage",
        (
            "tests/worker/runtime/test_calls_of_handlers.py",
            "tests/worker/test_poison_of_streams.py",
            "tests/aws/test_faults.py",
        ),
        "what a stage misses, and errors of flowguard's own calls",
    ),
    Elsewhere(
        r"^worker\.routing\.Routes\.resolve: .*\.codec is None",
        ("tests/codecs/test_sealed_again.py",),
        "no world of the explorer has a flow with a codec",
    ),
    Elsewhere(
        r"^deploy\.permissions\._queue_before",
        ("tests/deploy/test_topic_letters.py",),
        "what a role may do, which no message meets",
    ),
    Elsewhere(
        r"^deploy\.audit\.",
        ("tests/deploy/test_audit.py", "tests/deploy/test_codec_uses.py"),
        "what a reviewer reads, which no message meets",
    ),
    Elsewhere(
        r"^handler\.lambda_handler: may_send",
        ("tests/worker/test_sending.py",),
        "what is connected before the first message",
    ),
    Elsewhere(
        r"^worker\.(hop_planner\.planner_of: .*askers|lifetimes\.Lifetimes\.not_before)",
        (
            "tests/worker/test_lifetimes.py",
            "tests/worker/test_plan.py",
            "tests/worker/runtime/test_callers.py",
            "tests/worker/runtime/test_cancelled.py",
            "tests/worker/runtime/test_superseded_told.py",
        ),
        "requests that are redriven and answered in a later hop, and lives longer than any wait",
    ),
    Elsewhere(
        r"^worker\.(failure\.Again\.facts|runtime\.Runtime\._held: except Exception)",
        (
            "tests/worker/test_failure.py",
            "tests/worker/runtime/test_failures.py",
            "tests/worker/runtime/test_calls_of_handlers.py",
        ),
        "what is told of a backoff of one's own, and leases that are given back",
    ),
    Elsewhere(
        r"^worker\.(batch\.Batch\._at_work|handle_phase\.HandlePhase\.planned): .*opens_spans",
        ("tests/observers/test_opentelemetry.py", "tests/worker/test_ways.py"),
        "observers that open spans, which the explorer has none of",
    ),
    Elsewhere(
        r"^aws\.transport\.(made\._credentials: (\(wrong|except)|connections\.Connections\.exchange: self\._limit)",
        ("tests/aws/transport/test_container.py", "tests/aws/transport/test_time_left.py"),
        "the lean client, which the explorer does not use",
    ),
    Elsewhere(
        r"^deploy\.planned\.account\.(PlannedAccount\.(untagged_queues|_tags_of)|_parsed)",
        ("tests/deploy/planned/test_files_looked_at.py", "tests/deploy/test_doctor_security.py"),
        "tags and texts of JSON in files, which no message meets",
    ),
    Elsewhere(
        r"^worker\.handler_calls\.|^aws\.faults\.fails_for_now|^worker\.runtime\.Runtime\._handled: memory\.calls",
        (
            "tests/worker/runtime/test_calls_of_handlers.py",
            "tests/aws/test_faults.py",
            "tests/aws/test_signing_keys.py",
        ),
        "outages that last for all attempts of a hop",
    ),
    Elsewhere(
        r"^deploy\.planned\.(statements\.(others_trusted|_parties|_equals|names_service)|policies\.lets_service)",
        (
            "tests/deploy/test_role_checks.py",
            "tests/deploy/test_buckets.py",
            "tests/deploy/planned/test_files_looked_at.py",
            "tests/deploy/planned/test_statements.py",
            "tests/deploy/planned/test_what_files_leave_open.py",
            "tests/deploy/planned/test_open_queues.py",
        ),
        "who may assume a role, which no message meets",
    ),
    Elsewhere(
        r"^deploy\.planned\.(account\.PlannedAccount\.tags_of_function|terraform_kinds\._properties: type_)",
        (
            "tests/deploy/planned/test_what_files_leave_open.py",
            "tests/deploy/planned/test_files_looked_at.py",
            "tests/deploy/planned/test_terraform_kinds.py",
        ),
        "tags and texts of JSON in files, which no message meets",
    ),
    Elsewhere(
        r"^deploy\.role_checks\.",
        (
            "tests/deploy/test_role_checks.py",
            "tests/deploy/planned/test_files_looked_at.py",
            "tests/deploy/test_doctor_security.py",
        ),
        "what the doctor says of roles, which no message meets",
    ),
    Elsewhere(
        r"^aws\.(object_scan\.(ObjectScan\.(read|_starts)|_started_by)|ledger\.DynamoDBLedger\.remove)",
        (
            "tests/operate/test_forget_started.py",
            "tests/operate/test_forget_object.py",
            "tests/aws/test_object_traces.py",
            "tests/cli/test_once.py",
        ),
        "entries of keys that are forgotten, which no flow does",
    ),
    Elsewhere(
        r"^deploy\.key_uses\._Uses\._key_of_secret",
        ("tests/deploy/test_sql_uses.py", "tests/deploy/test_keys.py", "tests/deploy/test_topics.py"),
        "keys of secrets, which no message meets",
    ),
    Elsewhere(
        r"^worker\.look_times\.",
        ("tests/worker/test_look_times.py",),
        "when who waits for a place looks; the explorer's functions are at work one after the other",
    ),
    Elsewhere(
        r"^(limit|pause_after|wire\.turn|protocol\.(places|breaker))\.|^stage\._limit_problems|^flow\._limit_problems|"
        r"^wire\..*\b(turn|TURN|waits)\b",
        (
            *("tests/test_limit.py", "tests/protocol/test_places.py", "tests/protocol/test_breaker.py"),
            "tests/wire/test_turn.py",
        ),
        "the pure part of a limit; the explorer's functions are at work one after the other",
    ),
    Elsewhere(
        r"^aws\.place_items\.|^expressions\.(PLACES|PLACE_IS|TAKE_PLACE|FREE_PLACE|NOT_SHORTENED|"
        r"FEW_HAVE_FAILED|FREE_AND_NOTE|NOT_BY_HAND|BY_ITSELF)",
        ("tests/aws/test_place_items.py",),
        "writes of a key's item by many",
    ),
    Elsewhere(
        r"^protocol\.claims\.(found_note|is_left_over|sends_by_another|stood_in_line|"
        r"kills_before: .*(was_in_line|turn))",
        ("tests/protocol/test_turns_of_claims.py", "tests/protocol/test_claims.py"),
        "the pure part of what a claim finds of looks and calls",
    ),
    Elsewhere(
        r"^aws\.(commit_call\._add_look\b|commit_call\.CommitCalls\.commit: _add_look|history_room\..*(by_look|_LOOK))",
        ("tests/protocol/test_fields.py", "tests/aws/test_history_room.py", "tests/worker/test_limits.py"),
        "the look by which a hop came to its commit",
    ),
    Elsewhere(
        r"^worker\.rests\.note_rest: ",
        (
            *("tests/worker/runtime/test_pauses.py", "tests/worker/runtime/test_unleased.py"),
            *("tests/cli/test_show.py", "tests/worker/test_limits.py", "tests/worker/test_streams.py"),
        ),
        "a note for those who look, and for a look that is left over",
    ),
    Elsewhere(
        r"^worker\.caller_answers\.CallerAnswers\.flush: stood_in_line",
        ("tests/worker/test_places_alone.py", "tests/worker/test_caller_answers.py"),
        "a turn in the line of a limit; the explorer's functions are at work one after the other",
    ),
    Elsewhere(
        r"^worker\.handle_phase\.HandlePhase\.planned: (keep_back|\w+\.flow\.debounce)",
        (
            "tests/worker/runtime/test_debounce.py",
            "tests/protocol/test_fields.py",
            "tests/worker/test_group_parts.py",
            "tests/worker/test_stream_copies.py",
        ),
        "how long a run is put off, which the explorer does not compare",
    ),
    Elsewhere(
        r"^worker\.lifetimes\.longest_lease\b",
        ("tests/worker/runtime/test_clocks.py",),
        "the explorer's workers have the same clock, and no stage of theirs a timeout of hours",
    ),
    Elsewhere(
        r"^worker\.(hop_places|key_pauses|turn_messages|limits)\.|^worker\.hop_memory\.HopMemory\.(__exit__|__enter__|take_places|of_stage)|"
        r"^worker\.hop_memory\.HopMemory\.begin: .*places|"
        r"^(?!operate\.|worker\.resumed_payload\.|once_function\.|worker\.call_places\.).*(\.turn\b|\w\.limits\b(?!\.)|Message\(turn=|"
        r"\blimits\.turned_away\(|\bis_limited\(|(?<!stacks\.)\bplaces_of\b|\btake_places\(|NoPlace\b|\bwaits\.ending\(|"
        r"was_in_line|back_off\.look\b|claims\.has_failed|\.has_failed\b|stood_in_line)",
        (
            *("tests/worker/test_places_alone.py", "tests/protocol/test_turns_of_claims.py"),
            *("tests/worker/test_hop_places.py", "tests/worker/test_limits.py", "tests/worker/runtime/test_kills.py"),
            *("tests/test_limit.py", "tests/deploy/test_limits.py", "tests/worker/test_together.py"),
            *("tests/worker/test_limits_by_time.py", "tests/worker/test_limits_of_many.py"),
            *("tests/operate/test_key_pauses.py", "tests/worker/test_paused_itself.py"),
        ),
        "a turn in the line of a limit; the explorer's functions are at work one after the other",
    ),
    Elsewhere(
        r"^(operate\.(stage|key)_pauses|aws\.(pause_rows|queue_mappings))\.",
        (
            *(
                "tests/cli/test_pause.py",
                "tests/cli/test_pause_keys.py",
                "tests/aws/test_place_items.py",
                "tests/worker/test_paused_itself.py",
                "tests/operate/test_key_pauses.py",
            ),
            "tests/ui/test_pages.py",
        ),
        "commands of people, which no flow gives",
    ),
    Elsewhere(
        r"^(operate\.(bulk|many_letters|selection)|aws\.indexed_runs)\.",
        (
            *("tests/operate/test_bulk.py", "tests/operate/test_selection.py", "tests/aws/test_indexed_runs.py"),
            *("tests/operate/test_many_letters.py", "tests/cli/test_many.py", "tests/cli/test_many_letters.py"),
            "tests/operate/test_waiting_for_a_place.py",
        ),
        "commands for many runs, and lists of them",
    ),
    Elsewhere(
        r"recorded\.side_messages\.SideMessages\.cancel_children: ",
        ("tests/worker/runtime/test_cancelled_children.py", "tests/worker/test_group_cancels.py"),
        "children that a stage cancels",
    ),
    Elsewhere(
        r"^(protocol\.group_cancel|worker\.(group_cancels|children))\.|^worker\.orders\..*GroupCancel|"
        r"^aws\.group_items\.DynamoDBGroups\.cancelled|cancels_group",
        (
            *("tests/worker/test_children.py", "tests/worker/test_group_cancels.py", "tests/aws/test_group_items.py"),
            *("tests/worker/runtime/test_cancelled_children.py", "tests/worker/test_tenant.py"),
        ),
        "what is cancelled with a run that has asked for it",
    ),
    Elsewhere(
        r"^worker\.orders\..*(check_not_ahead|CancelOrder \| ResetOrder)|^worker\.routing\.check_not_ahead",
        ("tests/worker/test_orders.py", "tests/worker/test_routing.py"),
        "orders of the future, which no sender of ours makes",
    ),
    Elsewhere(
        r"^protocol\.groups\.(bound_key|_digest_of|GroupPlan\.is_bound)|"
        r"^worker\.group_planner\..*(is_bound|bound_key|cancel_too)",
        ("tests/worker/test_group_planner.py", "tests/worker/test_trust.py"),
        "orders that name another queue than that of a group's requests",
    ),
    Elsewhere(
        r"^aws\.group_items\.DynamoDBGroups\.asking|^expressions\.ASKING\b|^worker\.group_asks\..*(cancels_group|asking)",
        ("tests/aws/test_group_items.py", "tests/worker/test_group_cancels.py"),
        "what a group may have asked when its run is cancelled",
    ),
    Elsewhere(
        r"^aws\.botocore_errors\.|^aws\.faults\..*ErrorsNotLoaded|^aws\.sender\.(AWSSender\.send: |_if_taken: )",
        (
            *("tests/aws/test_botocore_errors.py", "tests/aws/test_sender.py"),
            *("tests/worker/runtime/test_fifo_forged.py", "tests/worker/runtime/test_callers.py"),
        ),
        "errors that cannot be loaded, for no file is free",
    ),
    Elsewhere(
        r"^expressions\.(CAN_)?CANCEL_SHARD\b",
        ("tests/aws/test_group_items.py",),
        "messages that cancel what a group has asked, and their copies",
    ),
    Elsewhere(
        r"worker\.restart\.restart_of: ",
        (
            *("tests/worker/test_restart.py", "tests/codecs/test_messages.py"),
            *("tests/worker/test_depth.py", "tests/worker/test_tenant.py"),
        ),
        "the depth and the tenant of what begins anew",
    ),
    Elsewhere(
        r"protocol\.outbox\.Send\.as_json: \[\*\w+, …\]",
        ("tests/worker/test_tenant.py", "tests/protocol/test_outbox.py"),
        "a tenant",
    ),
    Elsewhere(
        r"deploy\.resource_policies\.ResourcePolicies\._statements: is_closed",
        ("tests/deploy/test_buckets.py", "tests/deploy/test_queue_policies.py", "tests/deploy/test_templates.py"),
        "queues that are closed",
    ),
    Elsewhere(r"deploy\.as_json\.described: \w+\.imports", ("tests/deploy/test_imports.py",), "imports are refused"),
    Elsewhere(
        r"^(?!text\.).*(tenant|TENANT|_fair\b)|^(protocol\.short_rows\.|wire\.message\.chain_in|"
        r"protocol\.waiting\.WaitPlan\.from_text: \w+\[[45]|worker\.restart\.first_message_text: \[\*\w+, …\] →)",
        (
            "tests/wire/test_tenant.py",
            "tests/worker/test_tenant.py",
            "tests/worker/test_depth.py",
            "tests/protocol/test_run_orders.py",
            "tests/worker/test_signed_waits.py",
            "tests/protocol/test_short_rows.py",
        ),
        "no request of the proof has a tenant, which decides nothing but whose turn it is",
    ),
    Elsewhere(
        r"^(codecs\.|payload\.codec\.|wire\.sealed_\w+\.|aws\.data_keys\.)",
        (
            "tests/codecs/test_compressed.py",
            "tests/codecs/test_encrypted.py",
            "tests/codecs/test_ends.py",
            "tests/codecs/test_messages.py",
            "tests/codecs/test_reading.py",
            "tests/codecs/test_sealed_again.py",
            "tests/payload/test_codec.py",
            "tests/aws/test_data_keys.py",
        ),
        _CODECS,
    ),
    Elsewhere(
        r"^deploy\.(sql_uses\.|uses\._Reader\._database|uses\._Reader\._method: \w+ == 'sql')",
        ("tests/deploy/test_sql_uses.py",),
        "no explored flow reaches a database by the Data API",
    ),
    Elsewhere(
        r"^deploy\.(function_checks\._denied|arns\.AllowedActions\.contexts|codec_uses: |key_checks\..*OF_NO_CODEC)",
        (
            "tests/deploy/planned/test_keys_of_roles.py",
            "tests/deploy/planned/test_keys_that_no_option_names.py",
            "tests/deploy/test_keys.py",
            "tests/deploy/test_codec_uses.py",
        ),
        _CODECS,
    ),
    Elsewhere(
        r"^deploy\.(codec_uses\.|permissions\.permissions_of: .*codec_permissions|.*CODEC_KEY)",
        ("tests/deploy/test_codec_uses.py",),
        _CODECS,
    ),
    Elsewhere(
        r"^aws\.memos\.DynamoDBMemos\._check_room: \w+\['state'\]",
        ("tests/aws/store/test_memos.py",),
        "states so long that nothing beside them is remembered",
    ),
    Elsewhere(
        r"^worker\.(fail_phase\.FailPhase\._again: note_rest|plan\.Planner\.giving_up: .*veiled)",
        (
            "tests/worker/runtime/test_pauses.py",
            "tests/worker/runtime/test_on_failed.py",
            "tests/worker/test_plan.py",
        ),
        "notes for those who look, and failures of every form",
    ),
    Elsewhere(
        r"^aws\.(packing\..*([sS]eal|codec|about|tells_apart)|packing\._size_of|items\.about_of|"
        r"commit_texts\.CommitTexts\._pack: \w+ == PLAN|"
        r"batch_calls\._length|item_texts\.ItemTexts\._text|(waits|wait_calls|group_items|memos|commit_texts)\..*"
        r"(about|tells_apart))",
        ("tests/aws/test_sealed_texts.py", "tests/aws/test_packing.py", "tests/codecs/test_whole_run.py"),
        _CODECS,
    ),
    Elsewhere(
        r"^(protocol\.claims\.other_text|protocol\.run\.ClaimRequest\.text(_digest)?|"
        r"worker\.claimed_again\.goes_on: .*(\w+ is not None|first_text|says_the_same)|"
        r"worker\.(runtime\.Runtime\.work: except|no_run\.NoRun\.unclaimed)|"
        r"worker\.claim_phase\.ClaimPhase\.request: .*first_text|worker\.routing\.Routes\.resolve: .*first_text)",
        (
            "tests/codecs/test_sealed_again.py",
            "tests/worker/runtime/test_first_texts.py",
            "tests/worker/runtime/test_hostile.py",
            "tests/worker/test_ways.py",
        ),
        _CODECS,
    ),
    Elsewhere(
        r"^(?!wire\.(tokens|shown_facts|watch_link)\.|worker\.http_callbacks\.)"  # these seal links and tokens
        r"(flow|client|wire|worker|protocol|recorded)\S*: .*"
        r"([sS]eal|SEALED|codec|veiled|KeyUnavailable|trusted_payload)|"
        r"^(worker\.(trust\._check_sealed|failure_note\.veiled|settler\._opened|wait_planner\.codec_problems)|"
        r"wire\.message\._version)\b|"
        r"^(protocol\.groups\.GroupPlan\.as_json: \[(True|\*\w+), …\]|wire\.message\.Place\.parse: not \w+ →|"
        r"wire\.message\.Message\.own_attributes: \[self\.version|"
        r"worker\.routing\.Routes\.(resolve: \w+ is not None|_arrival: \w+ →))",
        (
            "tests/codecs/test_messages.py",
            "tests/codecs/test_on_the_way.py",
            "tests/codecs/test_ends.py",
            "tests/codecs/test_outage.py",
            "tests/codecs/test_reading.py",
            "tests/codecs/test_whole_run.py",
        ),
        _CODECS,
    ),
    Elsewhere(
        r"ai\.",
        ("tests/ai/test_remembered_calls.py", "tests/ai/test_questions.py"),
        "no explored flow of the proofs has an agent, for Pydantic AI takes long to import",
    ),
    Elsewhere(
        r"^(worker\.own_table\.|worker\.batch\.Batch\._(ending: .*ending_of_own|turn: .*is_of_run_table)|"
        r"wire\.(stream_\w+|kafka_records)\.|"
        r"handler\.lambda_answer: .*(is_kafka_record|named_for_lambda|\w+\.(received|raw) for)|"
        r"wire\.records\..*is_kafka_event|wire\.(records|envelope)\..*(is_stream|is_windowed|position_of|_STREAMS)|"
        r"wire\.records\.(_open_stream|unread_stream_record)|wire\.envelope\.Envelope\.(source_arn|retried_in_place)|"
        r"wire\.envelope\.(Source\.(is_queue|takes_names)|_source: case str|_read_or_bad: \w+ is None))",
        (
            "tests/wire/test_stream_records.py",
            "tests/testing/explorer/run/test_shards.py",
            "tests/wire/test_kafka_records.py",
            "tests/worker/test_kafka.py",
            "tests/worker/test_object_notices.py",
            "tests/wire/test_stream_letters.py",
            "tests/wire/test_records.py",
            "tests/wire/envelope/",
            "tests/worker/test_streams.py",
            "tests/worker/runtime/test_no_queue.py",
            "tests/worker/runtime/test_fifo.py",
        ),
        "records of streams, with which no shipped flow begins; a world of shards is explored beside the proofs",
    ),
    Elsewhere(
        r"^(worker\.(?!dead_letters|redriven_messages)\w+\..*(is_stream|takes_names|source_arn|comes_often)|"
        r"handler\.lambda_answer: .*takes_names|worker\.unread\._(known_by|named|has_waited)|"
        r"worker\.plan\.retried|worker\.trust\._way_of)",
        (
            "tests/worker/test_streams.py",
            "tests/worker/test_stream_copies.py",
            "tests/testing/explorer/run/test_shards.py",
            "tests/worker/test_plan.py",
            "tests/worker/test_trust.py",
            "tests/worker/test_unread.py",
            "tests/worker/test_record_sources.py",
            "tests/worker/test_routing.py",
            "tests/worker/test_together_calls.py",
            "tests/worker/test_ways.py",
            "tests/worker/runtime/test_denials.py",
            "tests/worker/runtime/test_given_up.py",
            "tests/test_handler.py",
        ),
        "records of streams, with which no shipped flow begins; a world of shards is explored beside the proofs",
    ),
    Elsewhere(
        r"^wire\.object_notices\.|wire\.envelope\.(_unwrapped: .*notice|Envelope\.parts)|worker\.object_notices\.|"
        r"worker\.batch\.(.*\bnotice\b|Batch\._parked_at_last: \w+\.arrival is None)|"
        r"worker\.callbacks\.Callbacks\.(_from_outside|_answer_of)",
        (
            "tests/wire/test_object_notices.py",
            "tests/worker/test_object_notices.py",
            "tests/worker/test_callbacks.py",
            "tests/worker/runtime/test_given_up.py",
        ),
        "notices of S3, which no world of the explorer has",
    ),
    Elsewhere(
        r"^(names\.series_ids\.|protocol\.series\.|wire\.object_events\.|"
        r"worker\.claim_phase\.ClaimPhase\.(_attempt|judged): .*later_in_series|worker\.resend\.as_it_came)",
        (
            "tests/names/test_series_ids.py",
            "tests/protocol/test_series.py",
            "tests/wire/test_object_events.py",
            "tests/worker/test_series.py",
            "tests/worker/test_streams.py",
            "tests/testing/explorer/run/test_shards.py",
        ),
        "series of streams and of S3, which no shipped flow has; a world of shards is explored beside the proofs",
    ),
    Elsewhere(
        r"^deploy\.(bucket_checks\.|queue_plan\.(_bucket_problems|QueuePlan\._with_existing: replace\(buckets)|"
        r"template\.Template\._add_tables_queues_and_topics: .*buckets|"
        r"resource_policies\.ResourcePolicies\.(_bucket|of_topic|_feeding|_of_service)|key_policy\._of_topics)",
        ("tests/deploy/test_buckets.py", "tests/deploy/test_queue_policies.py", "tests/deploy/test_templates.py"),
        "a template and the findings of the doctor: no message is delivered",
    ),
    Elsewhere(
        r"^(every\.|flow\._every_problems)",
        ("tests/test_every.py", "tests/test_lanes.py"),
        "schedules, which are judged where their flow is defined; a tick is a request as others",
    ),
    Elsewhere(
        r"^deploy\.(open_queue_checks\.|planned\.parties\.|planned\.policies\.(doubts|_is_of)|"
        r"planned\.statements\.(named_principals|compared_with|not_judged|names_role: .*NotPrincipal|_comparisons))",
        ("tests/deploy/planned/test_open_queues.py",),
        "what the doctor reads in policies, which no message meets",
    ),
    Elsewhere(
        r"^deploy\.(schedule_plan|event_checks)\.|^deploy\..*(\.every\b|has_scheduler|[sS]chedule_role_arn|makes_group|"
        r"\w+\.schedules\b(?![:(]))|^deploy\.at_aws\._Renaming\._schedule",
        ("tests/deploy/test_schedules.py", "tests/deploy/test_doctor.py", "tests/deploy/test_derive.py"),
        "schedules of a template and what the doctor says of them: no message is delivered",
    ),
    Elsewhere(
        r"^deploy\.kafka_mapping\.",
        ("tests/deploy/test_topics.py", "tests/deploy/test_formats_agree.py"),
        "streams, which no shipped flow begins with",
    ),
    Elsewhere(
        r"^deploy\.(stream_\w+\.|kafka_\w+\.|permissions\.(_stream|_of_shards|permissions_of: _stream)|"
        r"key_uses\..*(stream|secrets)|key_uses\..*Target\.STREAM|"
        r"at_aws\._Renaming\.(_stream|_groups|_function: (places|replace\((streams|name=places)))|"
        r"queue_plan\.QueuePlan\._dead_letter_queues: (\w+\.streams|self\.undelivered_records))",
        ("tests/deploy/test_streaming.py", "tests/deploy/test_topics.py"),
        "streams, which no shipped flow begins with",
    ),
    Elsewhere(
        r"^deploy\.permissions\.(_starts|_of_its_kind: _starts)",
        ("tests/deploy/test_starting.py",),
        "functions that start runs over HTTP, which no shipped flow has",
    ),
    Elsewhere(
        r"^protocol\.claims\.kills_before: \w+\.owner == \w+\.reset_by",
        ("tests/worker/runtime/test_resets.py",),
        "a run that is reset again and again while its first hop is at work",
    ),
    Elsewhere(
        r"^(sql\.|recorded\.remembered\.EarlyEffects\.(kept_elsewhere|_begin: self\._is_elsewhere))",
        ("tests/sql/",),
        "statements in SQL, which no shipped flow makes",
    ),
    Elsewhere(
        r"^(deploy\.at_aws|names\.at_aws)\.|.*\bnames?\.(queue_in_code|queue_of_arn|topic_in_code)|.*\bis_foreign\(|"
        r".*self\._names\.(bus|function|queue|table|topic)\(|"
        r"wire\.envelope\._named|wire\.envelope\.normalize: \w+\.are_those",
        (
            "tests/names/test_at_aws.py",
            "tests/deploy/test_names_at_aws.py",
            "tests/aws/test_names_at_aws.py",
            "tests/worker/test_record_sources.py",
            "tests/worker/test_external_answers.py",
            "tests/aws/dead_letters/test_redriver.py",
        ),
        "names at AWS that are not those in the code, which no world of the explorer has",
    ),
    Elsewhere(
        r"^expressions\.(RESET: SET text_epoch|CANCEL_OF_TEXT|NOTE_CANCEL: SET #ttl)|"
        r"^expressions\.HOLD_CALLER: attribute_exists\(callers\.held|"
        r"^aws\.(cancellations\._of_a_worker: \w+\.first_text|caller_lists\.DynamoDBCallers\._put: )",
        (
            "tests/worker/runtime/test_first_texts.py",
            "tests/worker/runtime/test_callers.py",
            "tests/worker/test_cancelling.py",
            "tests/aws/test_caller_lists.py",
            "tests/aws/test_cancellations.py",
        ),
        "nobody says something else under the id of a request",
    ),
    Elsewhere(
        r"^aws\.commit_call\.(_ending: .*called_attempt|release_call: .*called_attempt)",
        ("tests/worker/runtime/test_two_ways.py",),
        "the explorer's messages come from queues",
    ),
    Elsewhere(
        r"^aws\.(commit_call\.release_call: .*back_off|history_room\.room_in_claimed: .*back_off)",
        (
            "tests/worker/runtime/test_pauses.py",
            "tests/cli/test_show.py",
            "tests/aws/test_history_room.py",
        ),
        "for people who look at a run: nothing decides by it",
    ),
    Elsewhere(
        r"^worker\.(denials\.|hop_memory\.HopMemory\.remember: self\._taken|external_answers\..*not queued|"
        r"commit_phase\.CommitPhase\.written: (self\._services\.denials|isinstance)|"
        r"handle_phase\.(_decoded|_may_have_been_read|_read: message)|"
        r"no_run\.NoRun\.(parked|ending: isinstance)|"
        r"unread_payload\.|"
        r"fail_phase\.FailPhase\.(_end: unread|_is_parked_for|_parked|_again: self\._services\.denials)|"
        r"dispatch\.(send_or_park: (\w+\.denials|\w+ not in)|_park: \w+\.denials|Due\.judged|not_sent)|"
        r"unread\.|settler\.Settler\._is_parked: self\._services\.denials)",
        (
            "tests/worker/runtime/test_denials.py",
            "tests/worker/test_ways.py",
            "tests/worker/test_external_answers.py",
            "tests/worker/test_unread.py",
            "tests/worker/runtime/test_pauses.py",
            "tests/worker/runtime/test_on_failed.py",
            "tests/worker/runtime/test_releases.py",
            "tests/worker/test_upgrades.py",
            "tests/worker/test_resumed_payload.py",
            "tests/worker/runtime/test_fifo.py",
            "tests/worker/runtime/test_given_up.py",
            "tests/worker/runtime/test_refused_for_good.py",
            "tests/worker/test_insider.py::test_who_gives_it_up",
            "tests/worker/test_settler.py",
            "tests/sim/weather/test_bad_days.py::test_a_stage_that_rejects_what_it_waited_for_is_undone",
        ),
        "denials that last for minutes, which the explorer's records do not wait for",
    ),
    Elsewhere(
        r"^worker\.(resend\.|plan\.(dead_letter|letter_or_why)\b|"
        r"fail_phase\.FailPhase\.(_again|continued): except|given_up\.GivenUp\.judged: except TooLarge)",
        (
            "tests/worker/runtime/test_near_the_limit.py",
            "tests/worker/test_plan.py",
            "tests/worker/test_group_parts.py",
            "tests/worker/test_dead_letters.py",
        ),
        "messages of nearly 1 MiB, which no schedule has",
    ),
    Elsewhere(
        r"^(protocol\.claims\.(_has_text\b|_same_hop: \w+\.(attempt == \w+|hop == 1))|"
        r"aws\.claim_call\._first_hop: \w+\.cancelled|"
        r"expressions\.CLAIM_FIRST_HOP: SET text_epoch)",
        ("tests/aws/test_claims_agree.py::test_the_database_and_the_decision_agree", "tests/aws/store/test_claims.py"),
        "nobody says something else under the id of a request",
    ),
    Elsewhere(
        r"^expressions\.CANCELLED_FIRST_HOP",
        (
            "tests/aws/test_claims_agree.py::test_the_database_and_the_decision_agree_in_every_small_state"
            "[a request that is cancelled-memory]",
            "tests/aws/store/test_claims.py::test_a_claim_is_granted_where_the_decision_grants_it_under_either_policy"
            "[a request that is cancelled",
        ),
        "which state a request meets that is cancelled depends on the order of all its messages: there are too many",
    ),
    Elsewhere(
        r"^(wire\.message\.Message\.text_digest|aws\.commit_call\._ending: \[\*expressions\.FIRST_TEXT|"
        r"aws\.commit_call\._ending: .*FIRST_TEXT|worker\.routing\.Routes\.resolve: \w+\.hop >)",
        ("tests/worker/runtime/test_first_texts.py",),
        "nobody says something else under the id of a request",
    ),
    Elsewhere(
        r"^(aws\.memos\.DynamoDBMemos\.(holds|forget|remember: except)|worker\.hop_memory\.HopMemory\.begin)\b",
        (
            "tests/worker/runtime/test_is_current.py",
            "tests/aws/store/test_memos.py",
            "tests/worker/runtime/test_remembered.py",
        ),
        "no stage of the explorer asks whether it is still current, or forgets what it remembers; no bucket is away",
    ),
    Elsewhere(
        r"^worker\.batch\.Batch\.unopened\b",
        ("tests/worker/test_unread.py",),
        "records whose bodies nobody can open",
    ),
    Elsewhere(
        r"^worker\.batch\.Batch\._wave: (\w+ is None|\w+\.may_share)",
        ("tests/worker/test_together_waves.py", "tests/worker/test_together_calls.py"),
        "no explored function shares its calls",
    ),
    Elsewhere(
        r"^worker\.together\.PendingCommits\.flush: not \w+\.is_outlived",
        ("tests/worker/test_together_calls.py",),
        "no commit of the explorer waits for others until its read is old",
    ),
    Elsewhere(
        r"^worker\.together\.Turn\.may_share: (isinstance|\w+\.too_deep)",
        ("tests/worker/test_together_calls.py", "tests/worker/runtime/test_releases.py"),
        "no explored function shares its calls, and none gets messages of another release",
    ),
    Elsewhere(
        r"^(protocol\.claims\.kills_before|worker\.(kills\.with_kills|"
        r"handle_phase\.HandlePhase\.planned: \w+\.problem)|"
        r"aws\.store\.DynamoDBStore\.(note_kills|_write_fenced)\b|aws\.commit_call\.(_noting\b|note_kills_call)|"
        r"aws\.commit_call\.release_call: failed)",
        (
            "tests/protocol/test_turns_of_claims.py",
            "tests/protocol/test_claims.py",
            "tests/worker/runtime/test_kills.py",
            "tests/aws/store/test_releases.py",
        ),
        "functions that are killed five times, and hops that were only read",
    ),
    Elsewhere(
        r"^(worker\.rests\.note_rest|aws\.store\.DynamoDBStore\.back_off)",
        (
            "tests/worker/runtime/test_pauses.py",
            "tests/worker/runtime/test_unleased.py",
            "tests/cli/test_show.py",
            "tests/aws/store/test_releases.py",
            "tests/worker/test_streams.py",
        ),
        "a note for those who look, on which nothing depends, and for records of streams",
    ),
    Elsewhere(
        r"^worker\.(fail_phase\.FailPhase\.(failed: (isinstance|release)|_again: release)|claim_phase\.release\b)",
        (
            "tests/worker/runtime/test_codes.py",
            "tests/worker/runtime/test_releases.py",
            "tests/worker/runtime/test_outages.py",
            "tests/worker/runtime/test_unleased.py",
            "tests/worker/runtime/test_denials.py",
            "tests/worker/runtime/test_on_failed.py",
        ),
        "what is denied for minutes, messages of another release, and queues that refuse a retry",
    ),
    Elsewhere(
        r"^worker\.fail_phase\.FailPhase\._again_in_place\b",
        (
            "tests/worker/runtime/test_full_history.py",
            "tests/worker/runtime/test_fifo.py",
            "tests/worker/runtime/test_two_ways.py",
            "tests/worker/runtime/test_no_queue.py",
            "tests/worker/runtime/test_pauses.py",
        ),
        "FIFO queues whose records rest for minutes, and rows of a full history that are refused",
    ),
    Elsewhere(
        r"^worker\.(claimed_again\.resting|claim_phase\.ClaimPhase\.(_attempt|judged): .*(\brests\b|resting))",
        (
            "tests/worker/runtime/test_fifo.py",
            "tests/worker/runtime/test_given_up.py",
            "tests/worker/runtime/test_two_ways.py",
            "tests/worker/runtime/test_no_queue.py",
        ),
        "records of FIFO queues that SQS does not hide for as long as their runs rest",
    ),
    Elsewhere(
        r"^worker\.claim_phase\.ClaimPhase\.judged: .*goes_on",
        ("tests/worker/runtime/test_given_up.py",),
        "no outage of the explorer lasts until SQS gives records up",
    ),
    Elsewhere(
        r"^worker\.hop_planner\.planner_of: \w+ is None",
        (
            "tests/worker/runtime/test_callers.py::test_who_attaches_while_the_run_begins",
            "tests/worker/runtime/test_callers.py::test_the_end_of_a_run",
        ),
        "the explorer's time is over before anything expires, and redrives no run that goes on",
    ),
    Elsewhere(
        r"^worker\.plan\.retried: continued",
        ("tests/worker/test_plan.py",),
        "a group whose requests are saved by several invocations",
    ),
    Elsewhere(
        r"^protocol\.run\.RunItem\.(wait_was_dispatched|has_sent_beside_its_wait|awaits_look)",
        ("tests/protocol/test_dispatched_waits.py", "tests/worker/test_waiting.py"),
        "runs that were reset or cancelled while they waited or taken over after it, and groups",
    ),
    Elsewhere(
        r"^protocol\.waiting\.WaitPlan\.from_text: \w+\[3",
        ("tests/worker/test_depth.py",),
        "no flows of the proof start each other until a chain is too deep",
    ),
    Elsewhere(
        r"^wire\.message\.Message\.next: .*since",
        ("tests/worker/runtime/test_given_up.py",),
        "no outage of the explorer lasts until SQS gives records up",
    ),
    Elsewhere(
        r"^expressions\.CLAIM_RESUMED_HOP: REMOVE (back_off|kills)",
        ("tests/aws/store/test_claims.py::test_a_resumed_hop",),
        "hops that waited after their functions had rested for minutes, or were killed",
    ),
    Elsewhere(
        r"^expressions\.KEEP_EARLY\b",
        ("tests/aws/test_waits_edges.py", "tests/worker/test_early_answers.py"),
        "early answers that come in another order than they were given in, or whose time is over",
    ),
    Elsewhere(
        r"^worker\.(batch\.Batch\._alone: (self\._given_up|isinstance\(judged)|plan\.returned\b|"
        r"(runtime\.Runtime\.work|claim_phase\.ClaimPhase\._attempt): not \w+\.begins)",
        ("tests/worker/runtime/test_given_up.py",),
        "no outage of the explorer lasts until SQS gives records up",
    ),
    Elsewhere(
        r"^worker\.batch\.Batch\._broken\b",
        (
            "tests/worker/test_settler.py::test_of_an_answer_whose",
            "tests/worker/test_unread.py",
            "tests/worker/runtime/test_clocks.py",
            "tests/worker/runtime/test_releases.py",
            "tests/worker/test_batch.py",
        ),
        "records that nobody can read, or whose time is to come",
    ),
    Elsewhere(
        r"^worker\.wait_planner\.WaitPlanner\.(check_signs|planned: self\.check_signs)",
        ("tests/worker/test_insider.py", "tests/worker/test_wait_planner.py"),
        "the explorer's flows can sign what they wait for",
    ),
    Elsewhere(
        r"^worker\.callbacks\.Callbacks\.(take|take_all|_check|_addressed: self\._check)\b",
        ("tests/worker/test_outages.py", "tests/worker/test_insider.py", "tests/worker/test_callbacks.py"),
        "answers that meet an outage, and forged ones",
    ),
    Elsewhere(
        r"^worker\.routing\.Routes\.resolve: min\(\w+\.since",
        ("tests/worker/runtime/test_given_up.py",),
        "no record that SQS has given up says that its outage has yet to come",
    ),
    Elsewhere(
        r"^worker\.routing\.(Arrival\.takes_lease: .*receive_count|Routes\.resolve: Message\(since|_stage\b|"
        r"Routes\._arrival: .*_is_repeated_request|_is_repeated_request|_read_before)",
        (
            "tests/worker/runtime/test_kills.py",
            "tests/worker/runtime/test_codes.py",
            "tests/worker/runtime/test_releases.py",
            "tests/worker/runtime/test_denials.py",
        ),
        "records that are received again and again, that went back, or that are of another release",
    ),
    Elsewhere(
        r"^worker\.batch\.Batch\.(_parked_at_last|run: .*_given_up)",
        ("tests/worker/runtime/test_given_up.py",),
        "no outage of the explorer lasts until a queue nearly deletes a record",
    ),
    Elsewhere(
        r"^worker\.given_up\.",
        (
            "tests/worker/runtime/test_given_up.py",
            "tests/worker/runtime/test_two_ways.py",
            "tests/worker/runtime/test_releases.py",
        ),
        "no outage of the explorer lasts until SQS gives records up, or until a flow's retention is over",
    ),
    Elsewhere(
        r"^(protocol\.claims\.finds_old_memory|worker\.handle_phase\.HandlePhase\.planned: (not calls|\w+\.begin)|"
        r"aws\.commit_(call\._add_failed|texts\._failed_sizes): .*memo)",
        ("tests/protocol/test_claims.py", "tests/aws/store/test_memos.py", "tests/worker/runtime/test_remembered.py"),
        "no explored request comes again under its old id after another one has had the object",
    ),
    Elsewhere(
        r"^(worker\.together\.Shared\.may_kill|worker\.batch\.Batch\._wave: .*(may_kill|last|rest))",
        ("tests/worker/test_together_calls.py", "tests/worker/test_together.py"),
        "no explored function shares its calls",
    ),
    Elsewhere(
        r"^(worker\.batch\.Batch\._in_waves: .*refusals|.*\.(refusals|_refused: self\._?refusals)\b)",
        ("tests/worker/test_together_calls.py",),
        "no request for several records is refused",
    ),
    Elsewhere(
        r"^worker\.(dispatch\.DueSends|"
        r"batch\.Batch\.(_in_order|_hand_back|_note_time|_at_work|_has_time|_in_turn|run: len)\b)",
        ("tests/worker/test_batch.py", "tests/worker/test_fifo_delays.py", "tests/worker/test_together_waves.py"),
        "the explorer's batches have one record, and all the time there is",
    ),
    Elsewhere(
        r"^aws\.group_items\.DynamoDBGroups\.save: .*once",
        ("tests/aws/test_group_items.py",),
        "an engine makes no call twice by itself",
    ),
    Elsewhere(
        r"^(?!aws\.partiql\.|worker\.dead_letters\.|protocol\.callers\.Caller\.key).*(depth|DEPTH|too_deep|CallerAnswers\.refused)",
        (
            "tests/worker/test_depth.py",
            "tests/recorded/test_side_messages.py",
            "tests/worker/test_children.py",
            "tests/worker/test_group_planner.py",
            "tests/worker/test_plan.py",
            "tests/worker/test_replies.py",
            "tests/worker/test_together.py",
            "tests/worker/test_wait_planner.py",
        ),
        "no flows of the proof start each other until a chain is too deep",
    ),
    Elsewhere(
        r"^(aws\.history_rows\.|protocol\.run_history\.(told_by_|error_of|_added)|"
        r"aws\.store\.DynamoDBStore\.(tell\b|commit: .*(told_until|row_of_commit|len\(actions))|"
        r"worker\.fail_phase\.FailPhase\.(_tell\b|_again: self\._tell|_again_in_place: self\._tell)|"
        r"protocol\.run\.Commit\.is_transaction: .*told_until|"
        r"worker\.plan\.Planner\..*(told_until|full_history|MOST_WRITES)|"
        r"aws\.commit_call\._add_history: .*(told_until|full_history)|aws\.history_room\._kept: .*full_history|"
        r"worker\.plan\.Planner\.(giving_up|failed): .*ended_at|protocol\.claims\.taken: .*history)",
        (
            "tests/worker/runtime/test_full_history.py",
            "tests/aws/test_history_room.py",
            "tests/protocol/test_run_history.py",
        ),
        "no flow of the proof has a full history",
    ),
    Elsewhere(
        r"^(protocol\.run_history\.|aws\.history_room\.|aws\.commit_call\.(_add_history|CommitCalls\.history_after_retry)|"
        r"aws\.commit_call\.(release_call: .*history|CommitCalls\.commit: _add_history)|aws\.items\._history|"
        r"aws\.commit_texts\.CommitTexts\.pack: \w+\.pop|"
        r"aws\.store\.DynamoDBStore\.release: (.*history|\w+ → forced)|aws\.packing\._size_of\b)",
        ("tests/protocol/test_run_history.py", "tests/aws/test_history_room.py", "tests/aws/test_packing.py"),
        "nothing decides by a history",
    ),
    Elsewhere(
        r"^(worker\.undeliverable\._next_hop: Message\(trace|wire\.message\.Message\._of_waits: .*(TRACE|trace)|"
        r"protocol\.waiting\.WaitPlan\.(to_text: (self\.trace|\[dict|\[self\.trace)|from_text: \w+\[)|"
        r"worker\.settler\.message_at: (plan|\w+\.wait is None → forced true)|"
        r"worker\.routing\.Routes\.resolve: (Message\(trace|\w+\.(trace|hop ==)|made_in)|"
        r"worker\.wait_planner\.ask_of_flow: .*trace|"
        r"aws\.sender\.(_traced|queue_entry: .*_traced|queue_entry: \w+\.kind))",
        ("tests/wire/test_trace_context.py", "tests/observers/test_linked.py", "tests/protocol/test_waiting.py"),
        "no explored request is traced",
    ),
    Elsewhere(
        r"^worker\.kills\.",
        ("tests/worker/runtime/test_kills.py",),
        "functions that are killed five times, and hops that were only read",
    ),
    Elsewhere(
        r"^worker\.patience\.",
        ("tests/worker/test_patience.py", "tests/worker/runtime/test_codes.py", "tests/worker/runtime/test_pauses.py"),
        "how long a pause is, which the explorer does not wait for",
    ),
    Elsewhere(
        r"^worker\.outages\.",
        ("tests/worker/test_outages.py", "tests/worker/runtime/test_outages.py", "tests/worker/runtime/test_pauses.py"),
        "the explorer's batches have one record, and it does not wait for pauses",
    ),
    Elsewhere(
        r"^worker\.unread\.",
        ("tests/worker/test_unread.py",),
        "records that nobody can read, and dead-letter queues that refuse them",
    ),
    Elsewhere(
        r"^worker\.redriven_messages\.",
        (
            "tests/worker/test_dead_letters.py",
            "tests/worker/test_trust.py",
            "tests/worker/runtime/test_bus_events.py",
            "tests/aws/dead_letters/",
        ),
        "letters that were forged or changed, and those that flowguard has not parked",
    ),
    Elsewhere(
        r"^worker\.lifetimes\.",
        ("tests/worker/test_lifetimes.py",),
        "the explorer's time is over before anything expires",
    ),
    Elsewhere(
        r"^expressions\.RESET: REMOVE memo",
        ("tests/worker/runtime/test_resets.py",),
        "a cache whose first hop remembers what it has read, and is reset while it is at work",
    ),
    Elsewhere(
        r"^wire\.send_ids\.",
        ("tests/wire/test_send_ids.py",),
        "ids as long as can be, and of everything that is sent",
    ),
    Elsewhere(
        r"^expressions\.CLAIM_(FIRST|LATER)_HOP: REMOVE (back_off|kills)",
        ("tests/worker/runtime/test_kills.py",),
        "hops that rest for minutes, and whose functions are killed four times before they end",
    ),
    Elsewhere(
        r"^(expressions\.(USE_EARLY|SET_USED|IS_UNUSED|FORGET_WAITED|IS_KEPT)|protocol\.waiting\.(EarlyAnswer|Use))\b|"
        r"^aws\.refused_writes\.is_only_beside_fence\b",
        ("tests/aws/test_waits_edges.py",),
        "an early answer that is replaced, removed or used while a wait looks at it",
    ),
    Elsewhere(
        r"^worker\.handle_phase\.(_read|_written_before|_may_have_been_read)\b",
        ("tests/worker/runtime/test_releases.py",),
        "later hops whose payloads this code cannot read",
    ),
    Elsewhere(
        r"^worker\.claim_phase\.ClaimPhase\.request: .*longest_lease",
        ("tests/worker/runtime/test_clocks.py",),
        "the explorer's workers have the same clock, and no stage of theirs a timeout of hours",
    ),
    Elsewhere(
        r"^worker\.(orders\.Orders\.ending: self\._trust|record_sources\.RecordKind\.of_order)",
        ("tests/worker/test_insider.py",),
        "nobody forges an answer or an order",
    ),
    Elsewhere(
        r"^handler\.budget_of\b",
        ("tests/test_handler.py",),
        "the explorer's functions have no Lambda that says how long is left",
    ),
    Elsewhere(
        r"^handler\.(lambda_handler|dlq_handler): prepare_clients",
        ("tests/aws/test_services.py", "tests/worker/test_sending.py"),
        "when clients are made: no message has come yet",
    ),
    Elsewhere(
        r"^worker\.sending\b",
        ("tests/worker/test_sending.py",),
        "what is connected before any message has come",
    ),
    Elsewhere(
        r"^worker\.ending\.(Ending\.)?kept\b",
        ("tests/worker/runtime/test_pauses.py",),
        "how long a pause is, which the explorer does not wait for",
    ),
    Elsewhere(
        r"^text\.lambda_log\.",
        ("tests/text/test_lambda_log.py",),
        "nothing decides by a line of the log",
    ),
    Elsewhere(
        r"^worker\.handle_phase\.HandlePhase\.planned: (\w+\.debug_sampled|is_sampled)",
        ("tests/worker/test_debug_lines.py",),
        "no explored request is traced",
    ),
    Elsewhere(
        r"^(worker\.(put_off|kept_back)\.|"
        r"worker\.fail_phase\.FailPhase\.(_left\b|_goes_on\b|continued: .*(burst|delay|is_taken))|"
        r"aws\.(commit_call\.(_put_off|_ending: .*burst|release_call: .*rest)|run_pages\..*burst))",
        (
            "tests/worker/runtime/test_debounce.py",
            "tests/protocol/test_fields.py",
            "tests/worker/test_group_parts.py",
            "tests/worker/test_stream_copies.py",
        ),
        "how long a run is put off, which the explorer does not compare",
    ),
    Elsewhere(
        r"^(worker\.(handle_phase\.HandlePhase\._saved: |hop_memory\.GoesOn|fail_phase\.FailPhase\.continued: |"
        r"runtime\.Runtime\._handled: except GoesOn)|"
        r"worker\.failure_note\._remembered: (is_of_part|continue))",
        ("tests/worker/test_group_parts.py", "tests/worker/test_groups.py"),
        "no explored flow of the proof has too little time to save a group",
    ),
    Elsewhere(
        r"^(worker\.orders\.Orders\.ending: case GroupOrder|protocol\.run\.NewWait\.begun: self\.plan\.group|"
        r"worker\.plan\.Planner\.(ended: case (SavedGroup|WaitForGroup)|_wait_planner: self\.failed_hop)|"
        r"worker\.callbacks\.Callbacks\._addressed: .*(own|not flows|in flows|flows\[|order|group))",
        (
            "tests/worker/test_groups.py",
            "tests/worker/test_group_planner.py",
            "tests/worker/test_callbacks.py",
            "tests/worker/test_plan.py",
        ),
        "no explored flow of the proof asks a group",
    ),
    Elsewhere(
        r"^aws\.request_bodies\.",
        ("tests/aws/test_request_bodies.py",),
        "the engine in memory takes calls before they are serialised",
    ),
    Elsewhere(
        r"^worker\.recorded_only\.",
        ("tests/worker/test_leases.py",),
        "the explored flows say themselves whether they have a lease",
    ),
    Elsewhere(
        r"^aws\.transport\.answers\.modelled:",
        ("tests/aws/transport/test_json_client.py",),
        "the explored flows are on an engine of the process, whose calls botocore makes",
    ),
    Elsewhere(
        r"^aws\.transport\.signature\.",
        ("tests/aws/transport/test_signature.py",),
        "the explored flows are on an engine of the process, whose calls botocore makes",
    ),
    Elsewhere(
        r"^aws\.transport\.(http|odd)_answers\.",
        ("tests/aws/transport/test_http_answers.py",),
        "the explored flows are on an engine of the process, whose calls botocore makes",
    ),
    Elsewhere(
        r"^aws\.botocore_time\.",
        ("tests/aws/test_botocore_time.py",),
        "the explored flows have no Lambda that counts their time",
    ),
    Elsewhere(
        r"^aws\.transport\.time_left\.",
        ("tests/aws/transport/test_time_left.py",),
        "the explored flows have no Lambda that counts their time",
    ),
    Elsewhere(
        r"^aws\.transport\.connections\.",
        ("tests/aws/transport/test_connections.py", "tests/aws/transport/test_time_left.py"),
        "the explored flows are on an engine of the process, whose calls botocore makes",
    ),
    Elsewhere(
        r"^aws\.transport\.answers\.",
        ("tests/aws/transport/test_equal_answers.py",),
        "the explored flows are on an engine of the process, whose calls botocore makes",
    ),
    Elsewhere(
        r"^aws\.transport\.retries\.",
        ("tests/aws/transport/test_retries.py",),
        "the explored flows are on an engine of the process, whose calls botocore makes",
    ),
    Elsewhere(
        r"^aws\.transport\.(choice|made)\.",
        ("tests/aws/transport/test_choice.py",),
        "the explored flows are on an engine of the process, whose calls botocore makes",
    ),
    Elsewhere(
        r"^aws\.transport\.patched\.",
        ("tests/aws/transport/test_patched.py",),
        "the explored flows are on an engine of the process, whose calls botocore makes",
    ),
    Elsewhere(
        r"^aws\.transport\.json_client\.",
        (
            *("tests/aws/transport/test_json_client.py", "tests/aws/transport/test_equal_answers.py"),
            "tests/aws/transport/test_time_left.py",
        ),
        "the explored flows are on an engine of the process, whose calls botocore makes",
    ),
    Elsewhere(
        r"^aws\.service_models\.",
        ("tests/aws/test_service_models.py",),
        "what clients are made of; no message meets it",
    ),
    Elsewhere(
        r"^deploy\.(template|resource_policies)\.",
        (
            "tests/deploy/test_queue_policies.py",
            "tests/deploy/test_buckets.py",
            "tests/deploy/test_templates.py",
            "tests/deploy/test_resources.py",
            "tests/deploy/test_formats_agree.py",
        ),
        "who may send to a queue, which no message meets",
    ),
    Elsewhere(
        r"^deploy\.planned\.(statements|policies)\.(?!documents_of)",
        (
            "tests/deploy/planned/test_statements.py",
            "tests/deploy/planned/test_what_files_leave_open.py",
            "tests/deploy/planned/test_open_queues.py",
        ),
        "what the doctor reads in policies, which no message meets",
    ),
    Elsewhere(
        r"^deploy\.derive\._share",
        ("tests/deploy/test_queue_plan.py", "tests/deploy/test_derive.py"),
        "which flows share dead letters, and for how long those are kept",
    ),
    Elsewhere(
        r"^deploy\.derive\.",
        (
            "tests/deploy/test_derive.py",
            "tests/deploy/test_derive_once.py",
            "tests/deploy/test_account_options.py",
            "tests/deploy/test_buckets.py",
            "tests/deploy/test_existing_notes.py",
            "tests/deploy/test_imports.py",
            "tests/deploy/test_keys.py",
            "tests/deploy/test_names_at_aws.py",
            "tests/deploy/test_needed.py",
            "tests/deploy/test_own_calls.py",
            "tests/deploy/test_published_topics.py",
            "tests/deploy/test_queue_names.py",
            "tests/deploy/test_queue_plan.py",
            "tests/deploy/test_resources.py",
            "tests/deploy/test_schedules.py",
            "tests/deploy/test_sql_uses.py",
            "tests/deploy/test_variables.py",
            "tests/deploy/test_starting.py",
            "tests/deploy/test_streaming.py",
            "tests/deploy/test_topics.py",
            "tests/deploy/test_lanes.py",
        ),
        "what a deployment needs, which no message meets",
    ),
    Elsewhere(
        r"^deploy\.published_topics\.",
        ("tests/deploy/test_published_topics.py",),
        "which keys a role uses, which no message meets",
    ),
    Elsewhere(
        r"^deploy\.queue_names\.",
        ("tests/deploy/test_queue_names.py",),
        "which resources a deployment may name, which no message meets",
    ),
    Elsewhere(
        r"^deploy\.accounts\.",
        ("tests/deploy/test_accounts.py",),
        "which resources a deployment may name, which no message meets",
    ),
    Elsewhere(
        r"^deploy\.planned\.account\..*(_made_again|_elsewhere|needed\.account)",
        ("tests/deploy/test_accounts.py",),
        "what the doctor reads in files, which no message meets",
    ),
    Elsewhere(
        r"^deploy\.closed_queues\.",
        ("tests/deploy/test_queue_policies.py", "tests/deploy/test_keys.py", "tests/deploy/test_imports.py"),
        "who may send to queues, which no message meets",
    ),
    Elsewhere(
        r"^deploy\.setting_checks\.",
        ("tests/deploy/planned/test_settings_of_functions.py",),
        "what the doctor says of variables, which no message meets",
    ),
    Elsewhere(
        r"^deploy\.variables\.",
        ("tests/deploy/test_variables.py",),
        "what Lambda takes of a function, which no message meets",
    ),
    Elsewhere(
        r"^deploy\.existing_notes\.",
        ("tests/deploy/test_existing_notes.py", "tests/deploy/test_published_topics.py"),
        "what is to be done by hand, which no message meets",
    ),
    Elsewhere(
        r"^deploy\.scheduler_permissions\.",
        (
            "tests/deploy/test_audit.py",
            "tests/deploy/test_keys.py",
            "tests/deploy/test_schedules.py",
            "tests/deploy/test_resources.py",
            "tests/deploy/test_templates.py",
        ),
        "what the scheduler's role may do, which no message meets",
    ),
    Elsewhere(
        r"^deploy\.statement_names\.",
        ("tests/deploy/test_foreign_policies.py",),
        "what owners of keys and topics paste, which no message meets",
    ),
    Elsewhere(
        r"^deploy\.planned\.dangling\.",
        ("tests/deploy/planned/test_dangling.py",),
        "what the doctor reads in files, which no message meets",
    ),
    Elsewhere(
        r"^deploy\.partitions\.",
        ("tests/deploy/test_regions.py",),
        "which resources a deployment may name, which no message meets",
    ),
    Elsewhere(
        r"^deploy\.option_arns\.",
        ("tests/deploy/test_option_arns.py",),
        "what the options of a deployment may name, which no message meets",
    ),
    Elsewhere(
        r"^deploy\.regions\.",
        ("tests/deploy/test_regions.py",),
        "which resources a deployment may name, which no message meets",
    ),
    Elsewhere(
        r"^deploy\.planned\.(sam_functions|tags)\.",
        (
            "tests/deploy/planned/test_sam_functions.py",
            "tests/deploy/planned/test_managed_policies.py::test_the_role_that_sam",
        ),
        "what the doctor reads in files, which no message meets",
    ),
    Elsewhere(
        r"^deploy\.planned\.(resources|values|imported)\.",
        (
            "tests/deploy/planned/test_resources_of_files.py",
            "tests/deploy/planned/test_planned_account.py",
            "tests/deploy/planned/test_paths_of_roles.py",
            "tests/deploy/test_imports.py::test_buckets_of_a_queue_or_topic",
        ),
        "what the doctor reads in files, which no message meets",
    ),
    Elsewhere(
        r"^deploy\.planned\.terraform_(kinds|plan)\.",
        (
            "tests/deploy/planned/test_terraform_kinds.py",
            "tests/deploy/planned/test_terraform_plans.py",
            "tests/deploy/planned/test_paths_of_roles.py",
            "tests/deploy/planned/test_run_index.py",
        ),
        "what the doctor reads in plans, which no message meets",
    ),
    Elsewhere(
        r"^deploy\.planned\.account\.PlannedAccount\._whole",
        ("tests/deploy/planned/test_planned_account.py", "tests/deploy/planned/test_both_languages.py"),
        "the parts of a rule in a plan of Terraform, which no message meets",
    ),
    Elsewhere(
        r"^deploy\.(account|planned\.account|other_readers|queue_policy_checks)\.",
        ("tests/deploy/planned/test_planned_account.py", "tests/deploy/planned/test_queue_policy_checks.py"),
        "what the doctor reads in files, which no message meets",
    ),
    Elsewhere(
        r"^deploy\.(imports|exports)\.",
        ("tests/deploy/test_imports.py",),
        "what a template says, which no message meets",
    ),
    Elsewhere(
        r"^deploy\.planned\.(managed_policies|policies|legible)\.",
        ("tests/deploy/planned/test_managed_policies.py", "tests/deploy/planned/test_what_files_leave_open.py"),
        "what the doctor reads in policies, which no message meets",
    ),
    Elsewhere(
        r"^deploy\.(nested_stacks|stack_parts)\.",
        ("tests/deploy/test_nested_stacks.py", "tests/deploy/test_split_templates.py"),
        "what a template says, which no message meets",
    ),
    Elsewhere(
        r"^deploy\.planned\.(intrinsics|template_file)\.",
        (
            "tests/deploy/planned/test_intrinsics.py",
            "tests/deploy/planned/test_nested_templates.py",
            "tests/deploy/planned/test_dangling.py",
        ),
        "what the doctor reads in files, which no message meets",
    ),
    Elsewhere(
        r"^deploy\.key_checks\.",
        ("tests/deploy/planned/test_keys_that_no_option_names.py", "tests/deploy/test_key_checks.py"),
        "what the doctor says of keys, which no message meets",
    ),
    Elsewhere(
        r"^deploy\.(role_checks\.|planned\.statements\.others_trusted)",
        ("tests/deploy/test_role_checks.py",),
        "what the doctor says of roles, which no message meets",
    ),
    Elsewhere(
        r"^deploy\.(security_checks\._(tracing|tags|function: _(tracing|tags))|"
        r"planned\.account\.PlannedAccount\.(trust|tags_of_function|role\b))",
        ("tests/deploy/test_doctor_security.py", "tests/deploy/planned/test_planned_account.py"),
        "what the doctor says of roles, which no message meets",
    ),
    Elsewhere(
        r"^deploy\.audit\.",
        ("tests/deploy/test_audit.py",),
        "what a reviewer reads, which no message meets",
    ),
    Elsewhere(
        r"^(deploy\.options|text\.setting_problems)\.",
        ("tests/deploy/test_options.py",),
        "what options are taken or refused, which no message meets",
    ),
    Elsewhere(
        r"^deploy\.(foreign_policies|key_policy|key_uses|security_checks)\.",
        (
            "tests/deploy/test_keys.py",
            "tests/deploy/test_imports.py::test_the_policy_of_an_imported_key_needs_its_arn",
            "tests/deploy/test_codec_uses.py",
            "tests/deploy/test_foreign_policies.py",
            "tests/deploy/test_doctor_security.py",
        ),
        "what a key's policy and the doctor say, which no message meets",
    ),
    Elsewhere(
        r"^deploy\.batch_plan\.reserved_problems",
        ("tests/deploy/test_account_options.py",),
        "what a template says, which no message meets",
    ),
    Elsewhere(
        r"^flow\.Flow\.",
        (
            "tests/test_flow.py",
            "tests/test_client.py",
            "tests/worker/test_lifetimes.py",
            "tests/worker/test_trust.py",
            "tests/worker/runtime/test_resets.py",
            "tests/test_lanes.py",
            "tests/worker/test_lanes.py",
        ),
        "a flow's own requests, and how long its ends are good",
    ),
    Elsewhere(
        r"^(lanes\.|flow\.(shared_problems|_lane_problems)\b|stage\.(lane_problems|inbox_and_lanes)\b)",
        ("tests/test_lanes.py", "tests/deploy/test_lanes.py"),
        "lanes, which are judged where their flow is defined or deployed",
    ),
    Elsewhere(
        r"^worker\.redrive\.",
        (
            "tests/aws/dead_letters/",
            "tests/worker/test_redrive.py",
        ),
        "dead letters that a person sends back",
    ),
    Elsewhere(
        r"^wire\.resumed_body\.",
        ("tests/wire/test_resumed_body.py", "tests/worker/test_lifetimes.py"),
        "how long a run lives after a wait, which a schedule meets where its worker dies",
    ),
    Elsewhere(
        r"^worker\.lifetimes\.Lifetimes\.of_claim",
        ("tests/worker/test_lifetimes.py",),
        "how long a run lives after a wait, which a schedule meets where its worker dies",
    ),
    Elsewhere(
        r"^deploy\.queue_plan\..*'senders'",
        ("tests/deploy/test_queue_policies.py",),
        "who sends to a queue, which only its policy says",
    ),
    Elsewhere(
        r"^deploy\.(permissions|queue_plan|batch_plan)\.",
        (
            "tests/deploy/test_needed.py",
            "tests/deploy/test_derive.py",
            "tests/deploy/test_derive_once.py",
            "tests/deploy/test_full_history.py",
            "tests/deploy/test_permissions.py",
            "tests/deploy/test_queue_plan.py",
            "tests/deploy/test_resources.py",
            "tests/deploy/test_existing_notes.py",
            "tests/deploy/test_sql_uses.py",
            "tests/deploy/test_lanes.py",
        ),
        "what a template says, which no message meets",
    ),
    Elsewhere(
        r"^ui\.guards\.",
        ("tests/ui/test_guards.py",),
        "the pages of the inspector, which no message meets",
    ),
    Elsewhere(
        r"^worker\.claim_phase\.ClaimPhase\._asked: \w+ is None",
        ("tests/worker/runtime/test_no_queue.py", "tests/worker/test_together.py"),
        "shared calls, and a commit that fails where no queue keeps the record",
    ),
    Elsewhere(
        r"^aws\.commit_call\._new_wait: .*(group|asked)|^aws\.commit_texts\._size_of_names: .*group",
        ("tests/aws/test_group_items.py", "tests/worker/test_waiting.py"),
        "groups, of which few flows are explored",
    ),
    Elsewhere(
        r"^(worker\.resumed_payload\.resumed_payload: \w+\.plan\.group|"
        r"worker\.handle_phase\.HandlePhase\.(_saved|_ended_group)\b|"
        r"worker\.(flush_phase\.FlushPhase\._left: .*(group|WaitEnd)|"
        r"handle_phase\.HandlePhase\.planned: .*WaitForGroup)|"
        r"worker\.plan\.Planner\.(_waiting_for_group|of_group)\b)",
        ("tests/worker/test_groups.py", "tests/worker/test_waiting.py"),
        "groups, of which few flows are explored",
    ),
    Elsewhere(
        r"^aws\.commit_call\._add_callers: (\w+\.answered_by|\w+\.removed\.append\('answered_by'\))",
        ("tests/worker/runtime/test_resets.py::test_callers_that_were",),
        "a result that is dropped by the run after it, which is reset",
    ),
    Elsewhere(
        r"^(worker\.event_loop\.|worker\.(runtime\.Runtime\.close|handle_phase\.HandlePhase\.(_outcome|close))|"
        r"worker\.batch\.Batch\.run: self\._runtime\.close|worker\.handle_phase\.HandlePhase\.planned: .*Coroutine)",
        ("tests/worker/test_event_loop.py", "tests/worker/test_async_handlers.py"),
        "async handlers, of several records too",
    ),
    Elsewhere(
        r"^(aws\.commit_threads\.|aws\.batch_calls\.DynamoDBBatches\.commit\b|"
        r"worker\.together\.PendingCommits\..*(transactions|threads)|"
        r"worker\.(commit_phase\.CommitPhase\.write: .*answer|"
        r"runtime\.(_last_error|Runtime\._held: (isinstance\(commit|except|\(last|refused|calls))))",
        (
            "tests/aws/test_commit_threads.py",
            "tests/worker/test_parallel_commits.py",
            "tests/worker/runtime/test_conditions.py",
            "tests/worker/runtime/test_modify.py",
            "tests/worker/test_together.py",
            "tests/worker/test_together_crashes.py",
            "tests/worker/test_together_unleased.py",
            "tests/worker/test_waiting.py::test_a_wait_under_rows_is_committed_after_its_rows",
        ),
        "transactions that are made at once",
    ),
    Elsewhere(
        r"^(worker\.invocation_lock\.|worker\.together\.(Turn\.(parallel|stage)|at_once)|"
        r"worker\.together\.PendingCommits\.is_due: .*at_work|"
        r"worker\.batch\.(_lock|Batch\.(_ended|_ask: .*(parallel|_lock)|_wave: .*_lock|"
        r"__init__: .*(_lock|threads)))|"
        r"worker\.routing\.Routes\.are_parallel|stage\._parallel_problems|worker\.handle_phase\..*_outside)",
        ("tests/worker/test_parallel.py", "tests/worker/test_together.py", "tests/worker/test_together_calls.py"),
        "handlers of several threads",
    ),
    Elsewhere(
        r"^worker\.together\.Shared\.",
        (
            "tests/worker/test_together_calls.py::test_a_claim_that_was_shared",
            "tests/worker/test_together.py",
            "tests/worker/test_together_unleased.py",
            "tests/worker/test_together_waves.py",
        ),
        "a lease that is half over",
    ),
    Elsewhere(
        r"^aws\.commit_call\.release_call",
        ("tests/aws/store/test_releases.py",),
        "releases of what failed and of what was not begun",
    ),
    Elsewhere(
        r"^protocol\.claims\.(needs_lease|outlived|waits_unseen)",
        ("tests/protocol/test_unleased.py",),
        "workers that stall for weeks, and runs without a lease that wait for answers from outside",
    ),
    Elsewhere(
        r"^worker\.(routing\.Arrival\.(takes_lease|to_claim)|commit_phase\.CommitPhase\.(write\b|"
        r"written: waits_unseen|answered: (\w+ is None|isinstance\(\w+, Refused))|"
        r"claim_phase\.ClaimPhase\._asked: .*(takes_lease|needs_lease|Claiming)|"
        r"handle_phase\.HandlePhase\.planned: Before\(leased|"
        r"runtime\.Runtime\.work: \(finished)",
        (
            "tests/worker/runtime/test_unleased.py",
            "tests/worker/runtime/test_conflict_changed.py",
            "tests/worker/test_together_unleased.py",
            "tests/worker/runtime/test_fence.py::test_a_stale_worker",
            "tests/worker/runtime/test_claims.py::test_the_next_hop_is_handled_in_two_calls",
        ),
        "runs without a lease that are cancelled, or that wait, or whose workers stall for weeks",
    ),
    Elsewhere(
        r"^worker\.(together\.(Turn\.may_share|can_wait|PendingCommits\.is_due)|asks\.Committing\.can_wait|"
        r"batch\.Batch\.(run: (self\._together|len)|_ask|_begun|_committed|_finished|_alone))",
        (
            "tests/worker/test_together_calls.py",
            "tests/worker/test_together_unleased.py",
            "tests/worker/test_together.py",
            "tests/worker/test_together_crashes.py",
        ),
        "no explored function shares its calls",
    ),
    Elsewhere(
        r"^(aws\.commit_call\.(_take\b|CommitCalls\.commit: .*unwritten)|"
        r"aws\.store\.DynamoDBStore\.(_?judged?\b|_fenced: .*unwritten)|"
        r"expressions\.(UNCHANGED|TAKE)\b)",
        (
            "tests/aws/store/test_unleased.py",
            "tests/aws/test_unleased_agree.py::test_a_hop_without",
            "tests/aws/store/test_fence.py::test_a_newer_run",
        ),
        "an item in every state, and all that a claim would have written",
    ),
    Elsewhere(
        r"^(aws\.cancellations\.|expressions\.(CAN_)?CANCEL|protocol\.run\.RunItem\.cancelled_because)",
        (
            "tests/aws/test_cancellations.py",
            "tests/worker/test_cancelling.py",
            "tests/worker/runtime/test_cancelled.py::test_a_run_that_never_holds_still",
            "tests/worker/runtime/test_cancelled.py::test_a_copy_of_the_request_with_a_later_time",
            "tests/worker/runtime/test_cancelled.py::test_a_newer_request",
            "tests/worker/runtime/test_cancelled.py::test_it_costs",
            "tests/worker/runtime/test_cancelled.py::test_a_hop_that_has_gone_on",
        ),
        "no explored flow is cancelled",
    ),
    Elsewhere(
        r"^(worker\.cancelling\.|"
        r"worker\.(handle_phase\.HandlePhase\.planned: .*(why|cancelled|own_failure)|"
        r"fail_phase\.FailPhase\._end.*Cancelled))",
        (
            "tests/worker/runtime/test_on_failed.py",
            "tests/worker/test_cancelling.py",
            "tests/worker/runtime/test_cancelled.py",
            "tests/worker/runtime/test_cancelled_children.py",
        ),
        "no explored flow is cancelled",
    ),
    Elsewhere(
        r"^worker\.children\.",
        ("tests/worker/test_children.py",),
        "no explored flow is cancelled",
    ),
    Elsewhere(
        r"^worker\.turned_away\.TurnedAway\.ending: is_for_its_run",
        ("tests/worker/runtime/test_cancelled_children.py",),
        "no explored flow is cancelled",
    ),
    Elsewhere(
        r"^(worker\.turned_away\.(TurnedAway\._asked_meanwhile|_is_at_work_for_another)\b|worker\.asked_meanwhile\.|"
        r"worker\.turned_away\.TurnedAway\.ending: (\w+ is None|\w+\.item)|"
        r"worker\.caller_answers\.CallerAnswers\.(asked_after_end|of_work_of_another)\b|"
        r"protocol\.callers\.Caller\.asks_as\b)",
        ("tests/worker/runtime/test_asked_twice.py",),
        "no explored request has two askers",
    ),
    Elsewhere(
        r"^(worker\.caller_answers\.CallerAnswers\.(turned_away|lost)|worker\.no_run\.NoRun\.dead: .*GONE|"
        r"aws\.store\.DynamoDBStore\._refused: .*STALE)",
        (
            *("tests/worker/runtime/test_turned_away.py", "tests/worker/runtime/test_asked_twice.py"),
            "tests/worker/test_caller_answers.py::test_where_nobody_knows",
        ),
        "no explored request that is turned away has a reply_to",
    ),
    Elsewhere(
        r"^protocol\.(claims|fields)\.",
        ("tests/protocol/test_claims.py", "tests/protocol/test_taken.py", "tests/protocol/test_failed_hop.py"),
        "items and messages in every state, of flows that take callers too",
    ),
    Elsewhere(
        r"^protocol\.callers\.",
        (
            "tests/protocol/test_callers.py",
            "tests/aws/test_caller_lists.py",
            "tests/worker/runtime/test_callers.py::test_who_repeats",
            "tests/worker/runtime/test_callers.py::test_who_was_answered_first",
        ),
        "no explored flow takes callers, and texts at their limits",
    ),
    Elsewhere(
        r"^protocol\.run\.",
        ("tests/protocol/test_failed_hop.py", "tests/protocol/test_run.py"),
        "runs before and after, and ends of every kind",
    ),
    Elsewhere(
        r"^worker\.(claim_phase\.ClaimPhase\.(claim\b|request: ClaimRequest\(fresh)|"
        r"turned_away\.TurnedAway\._answered_by_another: verdict)",
        (
            "tests/worker/runtime/test_callers.py::test_a_run_that_ends_just_before_a_caller_attaches",
            "tests/worker/runtime/test_callers.py::test_a_request_that_meets",
            "tests/worker/runtime/test_callers.py::test_a_request_from",
        ),
        "no explored flow takes callers",
    ),
    Elsewhere(
        r"^worker\.turned_away\.TurnedAway\.(_answered_by_another|done: (except|\w+\.(lost|error)))",
        (
            "tests/test_handler.py",
            "tests/worker/runtime/test_callers.py::test_a_direct_caller",
            "tests/worker/runtime/test_gone_texts.py::test_a_copy",
            "tests/worker/runtime/test_gone_texts.py::test_a_request_whose_answer_is_gone",
        ),
        "results that are gone, of runs that had ended before the request came",
    ),
    Elsewhere(
        r"^worker\.turned_away\.TurnedAway\.(_begun_anew|_refused: case Verdict\.RESET)",
        (
            "tests/worker/runtime/test_resets.py::test_a_run_that_began_before_its_flow_took_callers",
            "tests/worker/runtime/test_resets.py::test_a_reset_whose_caller_died",
        ),
        "no explored flow is reset",
    ),
    Elsewhere(
        r"^worker\.flush_phase\.FlushPhase\.flush\b",
        ("tests/worker/runtime/test_superseded_told.py::test_what_the_older_run_had_committed",),
        "all of it is sent again where its worker dies, so no end says what went first",
    ),
    Elsewhere(
        r"^worker\.(commit_phase\.CommitPhase\._replies|turned_away\.TurnedAway\.done)\b",
        (
            "tests/worker/runtime/test_callers.py::test_a_copy_of_an_earlier_hop",
            "tests/worker/runtime/test_callers.py::test_a_run_whose_callers_cannot_be_read_now",
            "tests/worker/runtime/test_on_failed.py::test_whoever_attached_to_the_run",
        ),
        "no explored flow takes callers",
    ),
    Elsewhere(
        r"^worker\.commit_phase\.CommitPhase\.answered: \w+\.error",
        ("tests/test_handler.py",),
        "what a direct caller is told of its run",
    ),
    Elsewhere(
        r"^worker\.commit_phase\.CommitPhase\.answered: .*callers",
        (
            "tests/worker/runtime/test_callers.py::test_a_request_that_meets",
            "tests/worker/runtime/test_claims.py::test_the_next_hop_is_handled_in_two_calls",
        ),
        "no explored flow takes callers",
    ),
    Elsewhere(
        r"^worker\.(commit_phase\.CommitPhase\.answered|turned_away\.TurnedAway\._refused)\b",
        (
            "tests/worker/runtime/test_fence.py",
            "tests/worker/runtime/test_claims.py",
            "tests/worker/runtime/test_callers.py::test_a_request_from_before_the_end",
            "tests/worker/runtime/test_callers.py::test_an_older_request_that_comes_late",
            "tests/worker/runtime/test_on_failed.py::test_a_redriven_letter_of_the_hop_that_failed_is_refused",
        ),
        "verdicts that no explored flow meets",
    ),
    Elsewhere(
        r"^worker\.orders\.Orders\.ending: case ResetOrder",
        (
            "tests/worker/test_batch.py::test_the_first_record_is_begun",
            "tests/worker/runtime/test_resets.py::test_a_stage_resets_another_flows_run",
        ),
        "no explored flow is reset",
    ),
    Elsewhere(
        r"^worker\.plan\.Planner\.(_kept_until|_first_message|_listeners|_notices_of|_complete|_commit|ended)",
        ("tests/worker/test_plan.py",),
        "ends of every form, of flows that take callers and keep results",
    ),
    Elsewhere(
        r"^expressions\.(FIRST_HOP|LATER_HOP_OF_CALLERS|CLAIM_FIRST_HOP_OF_CALLERS)",
        ("tests/aws/test_claims_agree.py::test_the_database_and_the_decision_agree", "tests/aws/store/test_claims.py"),
        "a message, of a caller too, that comes in a state of its run in which nobody sends it",
    ),
    Elsewhere(
        r"^expressions\.(CAN_RESET|RESET)\b",
        ("tests/aws/test_resets_agree.py::test_the_database_and_the_decision_agree_on_every_reset",),
        "a reset that meets a run in each state that there is",
    ),
    Elsewhere(
        r"^expressions\.(HOLD_CALLER|SET_CALLER|SET_ROWS|NOTE_ROWS)",
        ("tests/aws/store/test_callers.py",),
        "no explored flow takes callers",
    ),
    Elsewhere(
        r"^expressions\.CLAIM_(FIRST|LATER)_HOP: REMOVE #(result|error)",
        ("tests/aws/store/test_claims.py", "tests/aws/store/test_calls.py"),
        "no explored flow keeps the result or error of a run that another follows",
    ),
    Elsewhere(
        r"^aws\.caller_lists\.DynamoDBCallers\._changed: \(lives",
        ("tests/aws/store/test_callers.py::test_two_who_both_saw",),
        "no explored flow takes callers",
    ),
    Elsewhere(
        r"^aws\.caller_lists\.",
        ("tests/aws/test_caller_lists.py", "tests/aws/test_resets_agree.py", "tests/worker/test_resets.py"),
        "no explored flow takes callers",
    ),
    Elsewhere(
        r"^aws\.commit_texts\.(CommitTexts\.pack\b|keeps_failed|_(sizes_|failed_sizes|kept_free|size_of_names))",
        (
            "tests/aws/store/test_sizes.py",
            "tests/aws/store/test_waits.py",
            "tests/aws/store/test_memos.py::test_what_a_hop_remembers_counts",
            "tests/aws/store/test_memos.py::test_what_is_remembered_leaves_room",
        ),
        "items that are full to the byte",
    ),
    Elsewhere(
        r"^aws\.(claim_call\.|store\.DynamoDBStore\.(claim|_claimed_item|_refused|release))",
        (
            "tests/aws/store/test_calls.py",
            "tests/aws/store/test_releases.py",
            "tests/aws/store/test_claims.py::test_a_claim_is_refused",
            "tests/aws/store/test_claims.py::test_a_copy",
            "tests/aws/store/test_claims.py::test_a_later_hop",
            "tests/aws/store/test_claims.py::test_a_resumed_hop",
            "tests/aws/store/test_claims.py::test_the",
            "tests/aws/store/test_callers.py",
            "tests/aws/store/test_long_texts.py::test_nor_does_one",
        ),
        "refusals of every kind, and claims of flows that take callers",
    ),
    Elsewhere(
        r"^aws\.(item_texts\.ItemTexts\.(with_(text|outbox|wait)|left\b)|commit_texts\.(CommitTexts\.(_pack|key)|_long))",
        (
            "tests/aws/store/test_long_texts.py",
            "tests/aws/store/test_commits.py",
            "tests/aws/store/test_callers.py::test_the_first_message",
            "tests/aws/store/test_callers.py::test_the_end",
            "tests/aws/store/test_waits.py::test_a_wait",
            "tests/aws/store/test_claims.py::test_the",
            "tests/worker/test_waiting.py::test_an_answer_that_is_gone",
        ),
        "texts that are long or gone",
    ),
    Elsewhere(
        r"^aws\.(store|commit_call|commit_texts|item_texts)\.",
        (
            "tests/aws/store/test_calls.py",
            "tests/aws/store/test_failed.py",
            "tests/aws/store/test_commits.py",
            "tests/aws/store/test_callers.py",
            "tests/aws/store/test_claims.py::test_the",
            "tests/aws/store/test_fence.py",
            "tests/aws/store/test_waits.py",
            "tests/aws/store/test_memos.py::test_the",
            "tests/aws/store/test_writes.py::test_recorded_writes",
            "tests/aws/store/test_long_texts.py",
            "tests/worker/test_waiting.py::test_an_answer_that_is_gone",
        ),
        "ends of every kind, lists that are closed, and texts that are gone",
    ),
    Elsewhere(
        r"^(expressions\.(\w+_KEY|IS_AT_REST)\b|protocol\.entry\.|aws\.ledger\.)",
        (
            "tests/cli/test_once.py",
            "tests/aws/test_ledger.py",
            "tests/test_once_function.py",
            "tests/test_once_refused.py",
            "tests/test_once_batch.py",
            "tests/test_once_crashes.py",
            "tests/protocol/test_entry.py",
            "tests/test_once_limits.py",
        ),
        "no explored flow calls a function under @once",
    ),
    Elsewhere(
        r"^payload\.results\.",
        ("tests/payload/test_results.py",),
        "results of every type, and those that would not come back",
    ),
    Elsewhere(
        r"^once_function\.once\b.*prepare_clients",
        ("tests/aws/test_services.py",),
        "when clients are made: no call has come yet",
    ),
    Elsewhere(
        r"^(once_function|payload\.call_keys|worker\.call_places)\.",
        (
            "tests/test_once_function.py",
            "tests/test_once_limits.py",
            "tests/test_once_refused.py",
            "tests/test_once_batch.py",
            "tests/test_once_crashes.py",
            "tests/payload/test_call_keys.py",
            "tests/test_once_limits.py",
        ),
        "no explored flow calls a function under @once",
    ),
    Elsewhere(
        r"^expressions\.(IS_AS_READ|LEAVE_TRACE|IS_USED|EMPTY_EARLY|IS_STARTED|EMPTY_STARTED)\b",
        (
            "tests/aws/test_object_traces.py",
            "tests/operate/test_forget_object.py",
            "tests/operate/test_forget_started.py",
        ),
        "no explored run is forgotten",
    ),
    Elsewhere(
        r"^expressions\.((CLOSE|DROP)_SHARD|ASK_ON|ASKED|FIRST_ANSWER|SET_ANSWER|(SETTLE|DROP)_MEMBER|(CAN_)?CLOSE)\b",
        ("tests/aws/test_group_items.py",),
        "an answer to a group that meets each state of its run",
    ),
    Elsewhere(
        r"^expressions\.(ANSWER|KEEP_\w+|TIME_OUT|TIME_OUT_LATER|LOOK|END_WAIT)",
        (
            "tests/aws/test_answers_agree.py",
            "tests/aws/test_waits.py",
            "tests/aws/test_waits_edges.py",
            "tests/worker/test_deadlines.py",
            "tests/worker/test_waiting.py",
            "tests/aws/test_group_items.py",
        ),
        "an answer, or a deadline, that meets a run in each state that there is",
    ),
    Elsewhere(
        r"^protocol\.outbox\.Kind\.phase",
        ("tests/protocol/test_outbox.py",),
        "letters that are sent back",
    ),
    Elsewhere(
        r"^(worker\.plan\.Planner\.(_undone|giving_up|failed|_next|_waiting)|"
        r"worker\.(fail_phase\.FailPhase\.(_end|_end_failed|_send_before|_commit_without_letter)\b|"
        r"turned_away\._failed_for_good|handle_phase\._left_error))",
        (
            "tests/worker/runtime/test_on_failed.py",
            "tests/test_on_failed.py",
            "tests/worker/test_plan.py",
            "tests/worker/runtime/test_failures.py",
        ),
        "failures of every form, and each crash of a run that is undone",
    ),
    Elsewhere(
        r"^worker\.kept_answers\.KeptAnswers\.sends",
        ("tests/worker/test_waiting.py::test_a_wait_has_its_deadline_even_where_nobody_may_read_what_was_kept",),
        "a role that may write to the run table and not read it",
    ),
    Elsewhere(
        r"^aws\.memos\.DynamoDBMemos\._check_room: (\w+\.(failed|cancellation)|\w+\['the (failure|cancelled))",
        ("tests/aws/store/test_sizes.py::test_what_a_hop_remembers_leaves_room",),
        "what is remembered by a hop after one that failed",
    ),
    Elsewhere(
        r"^(expressions\.REMEMBER|aws\.memos\.|worker\.hop_memory\.)",
        ("tests/aws/store/", "tests/worker/runtime/test_remembered.py"),
        "no explored flow does anything before its commit",
    ),
    Elsewhere(
        r"^(items\.modified|aws\.modify|aws\.tables)\.",
        ("tests/aws/test_modify.py", "tests/worker/runtime/test_modify.py"),
        "items of every form, and other writers at each moment",
    ),
    Elsewhere(
        r"^items\.newest\.",
        ("tests/worker/runtime/test_newest.py",),
        "writers that are older, equally old or stale",
    ),
    Elsewhere(
        r"^aws\.refused_writes\.",
        ("tests/aws/test_refused_commits.py", "tests/aws/store/"),
        "refusals that no explored flow meets",
    ),
    Elsewhere(
        r"^expressions\.(LATER_HOP|FIRST_HOP\[IGNORE\])",
        ("tests/aws/test_claims_agree.py::test_the_database_and_the_decision_agree",),
        "a message that comes in a state of its run in which nobody sends it",
    ),
    Elsewhere(
        r"^aws\.waits\.DynamoDBWaits\._committed",
        ("tests/aws/test_waits.py", "tests/worker/test_external_answers.py"),
        "rows of two releases for one hop",
    ),
    Elsewhere(
        r"^aws\.waits\.(DynamoDBWaits\._rows: \(after|_after_place|"
        r"DynamoDBWaits\.keep_place: (?!\{'ttl'))",
        (
            "tests/worker/test_external_answers.py::test_another_message",
            "tests/worker/test_external_answers.py::test_a_run_that_is_not_committed_yet",
            "tests/worker/test_external_answers.py::test_a_worker_that_dies_in_a_part",
            "tests/aws/test_waits.py::test_many_rows_are_read_page_by_page",
        ),
        "no explored answer is for so many runs that it is settled in parts",
    ),
    Elsewhere(
        r"^(protocol\.waiting\.Kept|worker\.early_answers)\.|^worker\.external_answers\.(_use|_Progress|answer_message|"
        r"ExternalAnswers\.(_offers|_make|_settle_part|_given|settle))",
        (
            "tests/worker/test_early_answers.py",
            "tests/worker/test_external_answers.py",
            "tests/worker/test_callbacks.py",
            "tests/codecs/test_on_the_way.py",
        ),
        "runs of several objects that wait for one id, and functions that die while they give it to one of them",
    ),
    Elsewhere(
        r"^worker\.settler\.(Settler\.(_take_kept|_is_left_to_another|not_given|settle|look_early|ending: \w+ is None)|"
        r"_use)\b",
        (
            "tests/worker/test_settler.py",
            "tests/worker/test_early_answers.py",
            "tests/worker/test_external_answers.py",
            "tests/worker/test_waiting.py",
        ),
        "runs of several objects that wait for one id, and functions that die while they give it to one of them",
    ),
    Elsewhere(
        r"^worker\.external_answer\.",
        ("tests/worker/test_external_answers.py", "tests/worker/test_early_answers.py"),
        "callbacks whose senders may answer some names alone",
    ),
    Elsewhere(
        r"^aws\.redriver\.",
        ("tests/aws/dead_letters/",),
        "a person sends dead letters back, of every form and from queues of every form",
    ),
    Elsewhere(
        r"^recorded\.remembered\.",
        (
            "tests/recorded/test_remembered.py",
            "tests/worker/runtime/test_remembered.py",
            "tests/worker/test_async_handlers.py",
        ),
        "no explored flow does anything before its commit",
    ),
    Elsewhere(
        r"^aws\.signing_keys\.",
        ("tests/aws/test_signing_keys.py",),
        "keys that are stored, malformed, and renewed while their store does not answer",
    ),
    Elsewhere(
        r"^aws\.wait_calls\.WaitCalls\.query: (start|\{(\*\*\{\}|'ExclusiveStartKey'|'[ps]k'))",
        ("tests/worker/test_external_answers.py",),
        "no explored answer is for so many runs that it is settled in parts",
    ),
    Elsewhere(
        r"^aws\.(waits|wait_calls)\.",
        (
            "tests/worker/test_late_answers.py",
            "tests/worker/test_cancelling.py",
            "tests/aws/test_waits_edges.py",
            "tests/aws/test_waits.py",
            "tests/aws/store/test_waits.py",
            "tests/aws/test_answers_agree.py",
            "tests/worker/test_deadlines.py",
            "tests/worker/test_waiting.py",
            "tests/worker/test_same_request_id.py",
            "tests/aws/test_group_items.py",
        ),
        "answers as large as can be, deadlines that come early or twice, and rows that DynamoDB leaves unwritten",
    ),
    Elsewhere(
        r"^aws\.batch_writes\.",
        ("tests/aws/test_batch_writes.py", "tests/aws/test_group_items.py::test_a_write_that_was_not_answered"),
        "more rows than one call takes, and rows that DynamoDB leaves unwritten",
    ),
    Elsewhere(
        r"^expressions\.CLAIM_(RESUMED|FIRST)_HOP",
        ("tests/worker/test_waiting.py",),
        "a wait that was there before",
    ),
    Elsewhere(
        r"^protocol\.(answers|waiting)\.",
        (
            "tests/protocol/test_answers.py",
            "tests/protocol/test_answers_of_groups.py",
            "tests/aws/test_answers_agree.py",
            "tests/aws/test_group_items.py",
            "tests/protocol/test_waiting.py",
            "tests/worker/test_deadlines.py",
            "tests/worker/test_waiting.py",
            "tests/worker/test_group_planner.py",
        ),
        "an answer that meets a run in each state that there is, and a plan of every form",
    ),
    Elsewhere(
        r"^wire\.answer_address\.",
        ("tests/wire/test_answer_address.py", "tests/worker/test_signed_waits.py"),
        "an address that flowguard has not written",
    ),
    Elsewhere(
        r"^(protocol\.groups|aws\.group_items|recorded\.read_answers|worker\.group_(planner|asks|parts))\.",
        (
            "tests/aws/test_group_items.py",
            "tests/protocol/test_answers_of_groups.py",
            "tests/worker/test_group_planner.py",
            "tests/worker/test_late_answers.py",
            "tests/worker/test_groups.py",
            "tests/worker/test_group_parts.py",
            "tests/codecs/test_on_the_way.py",
        ),
        "a group of which a call is lost, which times out or is replaced, and one that cannot be",
    ),
    Elsewhere(
        r"^worker\.wait_planner\.",
        (
            "tests/worker/test_wait_planner.py",
            "tests/worker/test_waiting.py",
            "tests/worker/test_deadlines.py",
            "tests/worker/test_group_planner.py",
        ),
        "waits that cannot work, and those at the limits",
    ),
    Elsewhere(
        r"^worker\.resets\.",
        ("tests/worker/test_resets.py",),
        "no explored flow is reset",
    ),
    Elsewhere(
        r"^worker\.restart\.",
        ("tests/worker/test_restart.py", "tests/codecs/test_messages.py"),
        "no explored flow is reset",
    ),
    Elsewhere(
        r"^worker\.replies\.",
        ("tests/worker/test_replies.py", "tests/codecs/test_on_the_way.py"),
        "ends of every form, and ways that take no such answer",
    ),
    Elsewhere(
        r"^worker\.caller_answers\.",
        ("tests/worker/test_caller_answers.py",),
        "no explored flow takes callers",
    ),
    Elsewhere(
        r"^worker\.failure_note\.",
        ("tests/worker/test_failure_note.py",),
        "failures of every form, and results that are gone",
    ),
    Elsewhere(
        r"^wire\.cancel_reason\.",
        ("tests/wire/test_cancel_reason.py",),
        "no explored flow is cancelled",
    ),
    Elsewhere(
        r"^protocol\.run_orders\.",
        ("tests/protocol/test_run_orders.py",),
        "no explored flow meets what cannot be read, or is cancelled or reset",
    ),
    Elsewhere(
        r"^worker\.orders\.Orders\.ending: case CancelOrder",
        ("tests/worker/runtime/test_cancelled.py::test_a_stage_cancels",),
        "no explored flow is cancelled",
    ),
    Elsewhere(
        r"^worker\.resumed_payload\.",
        ("tests/worker/test_resumed_payload.py", "tests/worker/test_waiting.py"),
        "payloads of every form, with failures and without answers",
    ),
    Elsewhere(
        r"^worker\.settler\.Settler\.next_hop\b",
        ("tests/worker/runtime/test_cancelled.py", "tests/worker/test_cancelling.py"),
        "no explored run that waits is cancelled by a client",
    ),
    Elsewhere(
        r"^worker\.settler\.",
        (
            "tests/worker/test_settler.py",
            "tests/worker/test_waiting.py",
            "tests/worker/test_external_answers.py::test_an_answer_quicker",
            "tests/worker/test_external_answers.py::test_a_second_click",
            "tests/worker/test_external_answers.py::test_a_run_goes_on_with_the_first_of_two_early_answers",
            "tests/worker/test_deadlines.py",
            "tests/worker/test_signed_waits.py",
            "tests/worker/test_callbacks.py",
            "tests/worker/runtime/test_two_releases.py",
        ),
        "answers and deadlines of every kind, forged ones too, in every order",
    ),
    Elsewhere(
        r"^worker\.(external_answers|callbacks)\.",
        ("tests/worker/test_external_answers.py", "tests/worker/test_callbacks.py"),
        "answers that come from outside, readable or not, in every way",
    ),
    Elsewhere(
        r"^expressions\.COMMIT",
        (
            "tests/aws/store/",
            "tests/worker/runtime/test_superseded_state.py",
            "tests/protocol/test_taken.py",
            "tests/worker/test_waiting.py",
        ),
        "the item has expired, and maybe begun anew, while a worker held it",
    ),
    Elsewhere(
        r"^(worker\.together\.|worker\.batch\.Batch\.(_in_waves|_turn|_wave|_ask|_begun|_committed|run: b))",
        (
            "tests/worker/test_together_waves.py",
            "tests/worker/test_together_unleased.py",
            "tests/worker/test_together.py",
            "tests/worker/test_together_crashes.py",
        ),
        "no explored function shares its calls",
    ),
    Elsewhere(
        r"^worker\.(driving\.|claim_phase\.ClaimPhase\.(request: owner|_asked))",
        (
            "tests/worker/test_driving.py",
            "tests/worker/test_ways.py",
            "tests/worker/test_together.py",
            "tests/worker/test_together_crashes.py",
            "tests/worker/test_together_unleased.py",
        ),
        "no explored function shares its calls",
    ),
    Elsewhere(
        r"^aws\.(partiql|batch_calls|batch_reads)\.",
        (
            "tests/aws/test_batch_calls.py",
            "tests/aws/test_batch_reads.py",
            "tests/aws/test_partiql.py",
            "tests/worker/test_together.py",
        ),
        "no explored function shares its calls",
    ),
    Elsewhere(
        r"^worker\.(orders\.|batch\.(_timeout|Batch\.(run|_in_turn|_ending|_has_time|_returned|_broken)))",
        ("tests/worker/test_batch.py", "tests/worker/test_waiting.py"),
        "the explorer's batches have one record, and all the time there is",
    ),
    Elsewhere(
        r"^worker\.batch\.Batch\._arrival",
        (
            "tests/worker/runtime/test_once_per_key.py::test_the_same_order_sent_twice",
            "tests/worker/runtime/test_given_up.py",
            "tests/worker/runtime/test_bus_events.py",
            "tests/worker/runtime/test_claims.py::test_a_weak_id_is_told_once_of_a_flow",
            "tests/worker/runtime/test_claims.py::test_a_message_without_any_attribute_starts_a_run",
        ),
        "a function whose source is a dead-letter queue, and messages without an id, of which an observer is told",
    ),
    Elsewhere(
        r"^handler\.lambda_answer",
        ("tests/test_handler.py",),
        "the explorer's batches have one record, and each can be read",
    ),
    Elsewhere(
        r"^wire\.message\.(_id_or_none|Place\.parse: \w+\.get|Message\.own_attributes: (self\.is_event|\w+\[EVENT))",
        ("tests/wire/test_message.py", "tests/worker/test_dead_letters.py", "tests/worker/runtime/test_bus_events.py"),
        "what only a dead letter and an event of EventBridge say of themselves",
    ),
    Elsewhere(
        r"^wire\.message\.",
        ("tests/wire/test_message.py", "tests/worker/test_trust.py", "tests/worker/test_waiting.py"),
        "an attribute that flowguard has not written",
    ),
    Elsewhere(
        r"^worker\.routing\.",
        ("tests/worker/test_routing.py", "tests/worker/test_waiting.py"),
        "a message that flowguard has not written, or a function set up wrongly",
    ),
    Elsewhere(
        r"^(payload\.(readable\.|encoding\.(encode_json: |_no_number|_parts))|worker\.plan\.Planner\._state|"
        r"stage\._state_problems)",
        (
            "tests/payload/test_readable.py",
            "tests/payload/test_encoding.py",
            "tests/worker/test_plan.py",
            "tests/test_stage.py",
        ),
        "models that do not read what they write, and numbers that are none",
    ),
    Elsewhere(
        r"^payload\.names\.",
        ("tests/payload/test_names.py",),
        "payloads and answers of every kind, and texts at their limits",
    ),
    Elsewhere(
        r"^worker\.record_sources\.",
        ("tests/worker/test_record_sources.py", "tests/worker/test_insider.py"),
        "records of every kind from every source, forged ones too",
    ),
    Elsewhere(
        r"^worker\.trust\.",
        ("tests/worker/test_trust.py", "tests/worker/test_insider.py", "tests/worker/test_group_cancels.py"),
        "messages that are forged, or changed on their way",
    ),
    Elsewhere(r"^wire\.home\.", ("tests/wire/test_home.py",), "destinations that no explored flow has"),
    Elsewhere(
        r"^wire\.signing\.",
        ("tests/wire/test_signing.py", "tests/worker/test_trust.py", "tests/worker/test_signed_waits.py"),
        "the explorer's messages are not signed",
    ),
    Elsewhere(
        r"^wire\.envelope\.",
        (
            "tests/wire/envelope/",
            "tests/wire/test_records.py",
            "tests/wire/test_bus_event.py",
            "tests/worker/test_record_sources.py",
            "tests/worker/test_routing.py",
            "tests/worker/test_unread.py",
            "tests/worker/runtime/test_fifo.py",
            "tests/worker/runtime/test_fifo_forged.py",
            "tests/worker/runtime/test_no_queue.py",
            "tests/worker/runtime/test_near_the_limit.py",
            "tests/cli/test_normalize.py",
        ),
        "records that no sender of ours makes, and whose source AWS says",
    ),
    Elsewhere(
        r"^wire\.records\.",
        (
            "tests/wire/test_records.py",
            "tests/wire/test_notification.py",
            "tests/wire/envelope/test_corners.py",
            "tests/wire/envelope/test_invocation.py",
            "tests/wire/envelope/test_sns.py",
            "tests/wire/envelope/test_unreadable.py",
        ),
        "records that AWS does not make, printed ones and those written by hand",
    ),
    Elsewhere(
        r"^wire\.notification\.",
        ("tests/wire/test_notification.py", "tests/wire/envelope/"),
        "nobody forges a notification, or sends one that is none",
    ),
    Elsewhere(
        r"^worker\.dead_letters\.",
        (
            "tests/worker/test_dead_letters.py",
            "tests/wire/test_stream_letters.py",
            "tests/aws/dead_letters",
            "tests/worker/runtime/test_given_up.py",
            "tests/worker/runtime/test_near_the_limit.py",
            "tests/worker/test_begun_anew.py",
            "tests/cli/test_dlq.py",
            "tests/ui/test_changes.py",
        ),
        "letters of every kind, forged and broken ones, and what is shown of them",
    ),
    Elsewhere(
        r"^recorded\.awaitables\.",
        ("tests/recorded/test_awaitables.py", "tests/worker/test_wait_planner.py"),
        "questions that cannot be asked, and tokens that cannot be made",
    ),
    Elsewhere(
        r"^operate\.begun_anew\.",
        ("tests/worker/test_begun_anew.py", "tests/cli/test_again.py"),
        "nobody begins a run anew from its letter",
    ),
    Elsewhere(
        r"^(operate\.forget_object|aws\.(forgetting|object_scan|object_traces|stored_texts)|protocol\.forgotten)\.",
        (
            "tests/aws/test_object_traces.py",
            "tests/aws/test_stored_texts.py",
            "tests/operate/test_forget_object.py",
            "tests/operate/test_forget_letters.py",
            "tests/operate/test_forget_started.py",
            "tests/cli/test_forget.py",
        ),
        "no explored run is forgotten",
    ),
    Elsewhere(r"^wire\.token(s|_form)\.", ("tests/wire/test_tokens.py",), "no explored flow hands out a token"),
    Elsewhere(
        r"^(wire\.(watch_link|http_claims)|worker\.(http_starts|start_rule|starts|watched_runs|requests))\.",
        (
            "tests/test_start_function.py",
            "tests/wire/test_watch_link.py",
            "tests/wire/test_http_claims.py",
            "tests/worker/test_watched_runs.py",
            "tests/operate/test_forget_started.py",
            "tests/test_client.py",
        ),
        "the explorer delivers no HTTP request",
    ),
    Elsewhere(
        r"^(wire\.(answer_link|http_request)|payload\.http_source|worker\.http_callbacks)\.",
        (
            "tests/wire/test_answer_link.py",
            "tests/payload/test_http_source.py",
            "tests/wire/test_http_request.py",
            "tests/worker/test_http_callbacks.py",
        ),
        "the explorer delivers no HTTP request",
    ),
    Elsewhere(
        r"^(protocol\.outbox\.|wire\.bodies\.)",
        (
            "tests/protocol/test_outbox.py",
            "tests/wire/test_bodies.py",
            "tests/aws/test_sender.py",
            "tests/worker/test_waiting.py",
        ),
        "messages as large as can be, and texts that no service takes",
    ),
    Elsewhere(
        r"^worker\.undeliverable\.",
        (
            "tests/worker/test_dead_letters.py",
            "tests/worker/test_undeliverable.py",
            "tests/worker/runtime/test_refused_for_good.py",
            "tests/worker/test_trust.py",
            "tests/worker/test_waiting.py",
        ),
        "a parked message of every form, and one that nobody parked",
    ),
    Elsewhere(
        r"^worker\.dispatch\.",
        (
            "tests/worker/test_batch.py",
            "tests/worker/runtime/test_refused_for_good.py",
            "tests/worker/runtime/test_dispatch.py",
            "tests/worker/runtime/test_outages.py",
        ),
        "several messages of which some are refused, some for good",
    ),
    Elsewhere(
        r"^aws\.sender\.",
        (
            "tests/aws/test_sender.py",
            "tests/worker/runtime/test_fifo_forged.py",
            "tests/worker/runtime/test_callers.py",
        ),
        "names and sizes that no explored flow has, and messages under the ids of others",
    ),
    Elsewhere(r"^aws\.schedules\.", ("tests/aws/test_schedules.py",), "a scheduler that refuses"),
    Elsewhere(r"^aws\.faults\.", ("tests/aws/test_faults.py",), "a transaction that meets another one"),
    Elsewhere(
        r"^aws\.writes\.",
        (
            "tests/aws/test_writes.py",
            "tests/aws/store/",
            "tests/aws/test_refused_commits.py",
            "tests/worker/runtime/test_conditions.py",
            "tests/worker/runtime/test_modify.py",
        ),
        "values that no explored flow writes",
    ),
    Elsewhere(
        r"^worker\.claim_phase\.ClaimPhase\.lease: \w+ is not None",
        ("tests/worker/runtime/test_claims.py::test_the_lease_ends_when_the_invocation_does",),
        "the explorer's functions have no Lambda that says how long is left",
    ),
    Elsewhere(
        r"^worker\.claim_phase\.ClaimPhase\._attempt: .*goes_on",
        (
            "tests/worker/runtime/test_claims.py::test_a_retry_of_an_attempt_that_was_overtaken_is_a_duplicate",
            "tests/worker/runtime/test_no_queue.py",
            "tests/worker/runtime/test_two_ways.py",
        ),
        "a copy that comes while a later attempt is at work: the explorer's come at once, or when all is over",
    ),
    Elsewhere(
        r"^worker\.(claim_phase\.ClaimPhase\.(claim|_attempt|_asked|request|lease)|fail_phase\.FailPhase\._again_in_place)",
        ("tests/worker/runtime/test_no_queue.py",),
        "the explorer's messages come from queues",
    ),
    Elsewhere(
        r"^worker\.(flush_phase\.FlushPhase\._left|kept_answers\.KeptAnswers\.(of_commit|of_item))",
        ("tests/worker/test_waiting.py", "tests/worker/runtime/test_takeover.py"),
        "an answer that comes before anything was sent, or before the wait",
    ),
    Elsewhere(
        r"^worker\.(runtime\.Runtime|(claim|flush|handle|commit|fail)_phase|turned_away|no_run|hop_planner)\.",
        (
            "tests/worker/runtime/test_conflict_changed.py",
            "tests/worker/test_ways.py",
            "tests/worker/test_waiting.py",
            "tests/worker/runtime/test_gone_texts.py",
            "tests/worker/runtime/test_failures.py::test_a_message_that_no_run_item",
            "tests/worker/runtime/test_failures.py::test_a_run_whose_item_has_no_room",
            "tests/worker/runtime/test_refused_for_good.py",
            "tests/worker/runtime/test_clocks.py",
            "tests/worker/runtime/test_takeover.py",
            "tests/worker/runtime/test_poison.py",
            "tests/worker/runtime/test_conditions.py",
            "tests/worker/runtime/test_modify.py",
            "tests/worker/runtime/test_remembered.py",
            "tests/worker/runtime/test_superseded_state.py",
        ),
        "texts that are gone, letters that fit nowhere, clocks that go back, handlers that are called again",
    ),
    Elsewhere(
        r"^aws\.packing\.",
        (
            "tests/aws/store/test_long_texts.py::test_an_s3_that_is_down",
            "tests/aws/test_packing.py",
            "tests/aws/test_sealed_texts.py",
            "tests/aws/test_waits.py",
        ),
        "texts of every size and form, and an S3 that refuses",
    ),
    Elsewhere(
        r"^worker\.plan\.",
        (
            "tests/worker/test_plan.py",
            "tests/worker/test_waiting.py",
            "tests/worker/test_dead_letters.py::test_a_letter",
            "tests/worker/runtime/test_refused_for_good.py",
            "tests/worker/runtime/test_once_per_key.py",
        ),
        "what a handler returns that is not type-checked",
    ),
    Elsewhere(r"^worker\.failure\.", ("tests/worker/test_failure.py",), "the very limits"),
    Elsewhere(
        r"^wire\.shown_facts\.",
        ("tests/wire/test_shown_facts.py", "tests/worker/test_http_callbacks.py"),
        "whoever changes what the page of a link shows",
    ),
    Elsewhere(
        r"^recorded\.side_messages\.",
        ("tests/recorded/test_side_messages.py", "tests/worker/runtime/test_resets.py"),
        "messages of every form, to those who are refused too",
    ),
    Elsewhere(
        r"^worker\.again\.",
        ("tests/worker/test_again.py", "tests/cli/test_again.py"),
        "a person begins a run anew that failed for good",
    ),
    Elsewhere(r"^protocol\.memo\.", ("tests/aws/store/test_memos.py",), "what a hop of another run remembers"),
    Elsewhere(
        r"^client\.",
        (
            "tests/test_client.py",
            "tests/worker/runtime/test_cancelled.py",
            "tests/worker/runtime/test_cancelled_children.py",
            "tests/worker/runtime/test_resets.py",
            "tests/aws/test_cache_costs.py",
            "tests/worker/test_callbacks.py",
            "tests/worker/test_typed_results.py",
            "tests/worker/test_insider.py",
        ),
        "arguments that no explored client gives, and services that take nothing",
    ),
    Elsewhere(
        r"^(text\.option_problems\.|flow\._conflict_problems)",
        ("tests/test_options.py",),
        "options of other kinds, which no flow has",
    ),
    Elsewhere(r"^testing\.raised\._text_of", ("tests/testing/test_raised.py",), "errors whose own text fails"),
    Elsewhere(
        r"^worker\.failure\.Again\.facts",
        ("tests/worker/runtime/test_failures.py", "tests/worker/test_failure.py"),
        "backoffs of a user's own that name no delay, which no flow has",
    ),
    Elsewhere(r"^retry\.", ("tests/test_retry.py",), "how long a delay is, which nobody outside can see"),
)


def tested(name: str) -> Elsewhere | None:
    """Where a mutant of this name is noticed, if not by exploring."""
    return next((one for one in TESTED if re.match(one.pattern, name)), None)

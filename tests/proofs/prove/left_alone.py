"""What is not taken away, each with the reason."""

from __future__ import annotations

import re
from typing import Final

MODULES: Final = (
    "flowguard.protocol.claims",
    "flowguard.protocol.callers",
    "flowguard.protocol.failed_hop",
    "flowguard.worker.runtime",
    "flowguard.worker.claim_phase",
    "flowguard.worker.flush_phase",
    "flowguard.worker.handle_phase",
    "flowguard.worker.commit_phase",
    "flowguard.worker.fail_phase",
    "flowguard.worker.turned_away",
    "flowguard.worker.no_run",
    "flowguard.worker.kept_answers",
    "flowguard.worker.hop_planner",
    "flowguard.worker.asks",
    "flowguard.worker.driving",
    "flowguard.worker.orders",
    "flowguard.worker.batch",
    "flowguard.worker.invocation_lock",
    "flowguard.worker.together",
    "flowguard.handler",
    "flowguard.client",
    "flowguard.text.lambda_log",
    "flowguard.worker.dispatch",
    "flowguard.worker.ending",
    "flowguard.worker.given_up",
    "flowguard.worker.kills",
    "flowguard.worker.lifetimes",
    "flowguard.worker.denials",
    "flowguard.worker.outages",
    "flowguard.worker.patience",
    "flowguard.worker.resend",
    "flowguard.worker.redriven_messages",
    "flowguard.worker.unread",
    "flowguard.worker.dead_letters",
    "flowguard.worker.failure",
    "flowguard.worker.hop_memory",
    "flowguard.worker.plan",
    "flowguard.protocol.memo",
    "flowguard.protocol.outbox",
    "flowguard.wire.bodies",
    "flowguard.worker.undeliverable",
    "flowguard.protocol.run",
    "flowguard.protocol.fields",
    "flowguard.protocol.run_history",
    "flowguard.protocol.waiting",
    "flowguard.protocol.answers",
    "flowguard.protocol.groups",
    "flowguard.operate.begun_anew",
    "flowguard.recorded.read_answers",
    "flowguard.recorded.awaitables",
    "flowguard.recorded.remembered",
    "flowguard.ai.answers",
    "flowguard.ai.calls_of_run",
    "flowguard.ai.faults",
    "flowguard.ai.questions",
    "flowguard.ai.remembered_calls",
    "flowguard.sql.fence",
    "flowguard.sql.once_per_hop",
    "flowguard.sql.newest",
    "flowguard.recorded.side_messages",
    "flowguard.worker.group_parts",
    "flowguard.worker.group_planner",
    "flowguard.worker.group_asks",
    "flowguard.worker.wait_planner",
    "flowguard.worker.settler",
    "flowguard.worker.resets",
    "flowguard.worker.restart",
    "flowguard.worker.again",
    "flowguard.worker.replies",
    "flowguard.worker.event_loop",
    "flowguard.worker.caller_answers",
    "flowguard.worker.failure_note",
    "flowguard.protocol.run_orders",
    "flowguard.wire.cancel_reason",
    "flowguard.worker.external_answers",
    "flowguard.worker.early_answers",
    "flowguard.worker.external_answer",
    "flowguard.aws.signing_keys",
    "flowguard.worker.callbacks",
    "flowguard.wire.answer_address",
    "flowguard.worker.resumed_payload",
    "flowguard.wire.message",
    "flowguard.wire.envelope",
    "flowguard.wire.notification",
    "flowguard.wire.records",
    "flowguard.wire.stream_letters",
    "flowguard.wire.stream_records",
    "flowguard.retry",
    "flowguard.payload.names",
    "flowguard.worker.routing",
    "flowguard.worker.record_sources",
    "flowguard.worker.trust",
    "flowguard.wire.home",
    "flowguard.wire.send_ids",
    "flowguard.wire.signing",
    "flowguard.wire.token_form",
    "flowguard.wire.tokens",
    "flowguard.wire.shown_facts",
    "flowguard.wire.answer_link",
    "flowguard.payload.http_source",
    "flowguard.wire.http_request",
    "flowguard.worker.http_callbacks",
    "flowguard.wire.http_claims",
    "flowguard.wire.watch_link",
    "flowguard.worker.http_starts",
    "flowguard.worker.requests",
    "flowguard.worker.start_rule",
    "flowguard.worker.starts",
    "flowguard.worker.watched_runs",
    "flowguard.aws.store",
    "flowguard.aws.claim_call",
    "flowguard.aws.commit_call",
    "flowguard.aws.commit_texts",
    "flowguard.aws.history_room",
    "flowguard.aws.history_rows",
    "flowguard.aws.item_texts",
    "flowguard.aws.caller_lists",
    "flowguard.aws.batch_writes",
    "flowguard.aws.batch_calls",
    "flowguard.aws.commit_threads",
    "flowguard.aws.batch_reads",
    "flowguard.aws.partiql",
    "flowguard.aws.request_bodies",
    "flowguard.aws.service_models",
    "flowguard.aws.transport.answers",
    "flowguard.aws.transport.choice",
    "flowguard.aws.transport.connections",
    "flowguard.aws.transport.http_answers",
    "flowguard.aws.transport.json_client",
    "flowguard.aws.transport.made",
    "flowguard.aws.transport.patched",
    "flowguard.aws.transport.retries",
    "flowguard.aws.transport.signature",
    "flowguard.aws.transport.time_left",
    "flowguard.aws.memos",
    "flowguard.aws.waits",
    "flowguard.aws.wait_calls",
    "flowguard.aws.group_items",
    "flowguard.aws.refused_writes",
    "flowguard.aws.redriver",
    "flowguard.aws.sender",
    "flowguard.aws.schedules",
    "flowguard.aws.writes",
    "flowguard.aws.tables",
    "flowguard.aws.modify",
    "flowguard.items.modified",
    "flowguard.items.newest",
    "flowguard.aws.packing",
    "flowguard.aws.faults",
    "flowguard.aws.cancellations",
    "flowguard.worker.cancelling",
    "flowguard.worker.children",
    "flowguard.protocol.entry",
    "flowguard.aws.ledger",
    "flowguard.once_function",
    "flowguard.payload.call_keys",
    "flowguard.payload.results",
    "flowguard.ui.guards",
    "flowguard.deploy.batch_plan",
    "flowguard.deploy.foreign_policies",
    "flowguard.deploy.key_policy",
    "flowguard.deploy.key_uses",
    "flowguard.deploy.permissions",
    "flowguard.deploy.security_checks",
    "flowguard.deploy.stream_checks",
    "flowguard.deploy.stream_plan",
    "flowguard.deploy.queue_plan",
    "flowguard.deploy.at_aws",
    "flowguard.names.at_aws",
    "flowguard.deploy.template",
    "flowguard.flow",
    "flowguard.worker.redrive",
    "flowguard.wire.resumed_body",
)
"""Where decisions are made."""

FUNCTIONS: Final = {
    r"\.__(str|repr)__$": "a text for people",
    r"\.__(init|call)__$": "keeps what it is made with, and passes on what it is called with",
    r"^retry\.(RetryPolicy\.(problems|_value_problems|longest_delay)|policy_problems|_\w+_problems|_is_a)$": (
        "judges a class when it is defined; no message has come yet"
    ),
    r"^payload\.names\.(path|rule|_paths|_function)_problems$": "judges a class when it is defined",
    r"^protocol\.fields\.(Field\.|removed_by$)": (
        "makes constants when it is imported; tests/protocol/test_fields.py has each of them word for word"
    ),
    r"^wire\.message\.ErrorNote\.": "a text for people",
    r"^flow\.(_|is_flow$|takes_answers$|Flow\.(__init_subclass__|entry|entrance|stage|inbox_of|object_in)$)": (
        "judges or reads a class when it is defined; no message has come yet"
    ),
    r"^deploy\.template\.(?!Template\.(_add_senders|_is_closed|_only_senders|_allowed_roles|_senders|_allow_senders)$|"
    r"_but$)": "what it makes of a deployment's needs in each format; tests/deploy compares the formats",
    r"^worker\.redrive\.(_elsewhere|_claimed|_went_on|_failed_for_good)$": "a text for people",
    r"^worker\.routing\.(_shown|Routes\._served)$": "a text for people",
    r"^worker\.routing\.Routes\.serves$": "for tools that list functions",
    r"^aws\.(store\._message|redriver\.(_unreadable|_name))$": "a text for people",
    r"^handler\.(_result|tell_unreadable)$": "what a person or an observer is told",
    r"^handler\.LambdaHandler\._services$": "chooses the services that a function is made with",
    r"^aws\.store\.DynamoDBStore\.(read|whole)$": "for people and tests: on no message's way",
    r"^aws\.item_texts\.ItemTexts\.whole$": "for people and tests: on no message's way",
    r"^once_function\.(_problems|_\w+_problem|_span)$|^payload\.call_keys\.(rule_problem|_\w+_problem)$": (
        "judges a definition when it is imported; no call has come yet"
    ),
    r"^once_function\.OnceFunction\.(_tell|_tell_claimed|read)$": "what an observer or a person is told",
    r"^worker\.batch\.(_event_of|_field|Batch\._warning)$": "chooses what an observer is told, and decides nothing",
    r"^worker\.plan\.Planner\._no_outcome$": "a text for people",
    r"^worker\.trust\._untrusted$": "a text for people",
    r"^wire\.signing\.Unsigned\.": "what it answers is asked for only where messages are not signed",
    r"^aws\.writes\._types$": "loads boto3's types once",
    r"^aws\.writes\._kind$": "a text for people",
    r"^aws\.ledger\.DynamoDBLedger\.(read|_no_table)$": "for people and tests: not on a call's way",
    r"^aws\.ledger\.lasting$": "for the explorer, which compares what of an entry lasts",
}
"""By the name of the function: never touched."""

STATEMENTS: Final = {
    r"^(self\.)?_?emitter\.|^self\._services\.observer\(": "reports to an observer; decides nothing",
    r"^assert_never\(": "for the type checker: nothing comes there",
    r"^call_off\(\)": "ends a warning",
}
"""By their source: neither left out nor moved."""

FIELDS: Final = {
    "why": "a text for people",
    "text": "a text for people",
}
"""Named arguments that are not left out."""

KEYS: Final = {
    r"^':": "a value of an expression, whose own conditions and actions are left out one by one",
    r"^'(S|N|M|L|BOOL)'$": "how DynamoDB writes a value's type",
    r"^\*\*_SAID$": "values of an expression, whose own conditions and actions are left out one by one",
    r"^'ExpressionAttribute(Names|Values)'$": "goes with the expression, which is left out by itself",
}
"""Entries of dicts that are not left out, by their keys as they are written."""

TEXTS: Final = "what stands in a text, or in an error's arguments, is read by people"


def reason(function: str) -> str | None:
    """Why nothing of this function is taken away."""
    return next((why for pattern, why in FUNCTIONS.items() if re.search(pattern, function)), None)


def is_left(key: str) -> bool:
    """Of an entry of a dict."""
    return any(re.search(pattern, key) for pattern in KEYS)


def only_tells(statement: str) -> bool:
    return any(re.search(pattern, statement) for pattern in STATEMENTS)

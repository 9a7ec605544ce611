"""The derivation of a deployment from its handlers, their flows and its options."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Final

from flowguard.deploy.accounts import account_notes, is_elsewhere, transaction_problems
from flowguard.deploy.at_aws import names_of, rule_notes, under_names
from flowguard.deploy.batch_plan import (
    MOST_RECORDS,
    BatchPlan,
    batching_of,
    batching_problems,
    reserved_problems,
    share_problems,
)
from flowguard.deploy.codec_uses import asked_codec_notes, asked_codec_problems
from flowguard.deploy.existing_notes import existing_notes, renamed_topics
from flowguard.deploy.found import FoundFunction, FunctionKind, flows_of, keys_of, plain_name, what_calls_it_needs
from flowguard.deploy.imports import group_is_imported
from flowguard.deploy.kafka_plan import group_problems, kafka_notes
from flowguard.deploy.key_uses import under_keys
from flowguard.deploy.needs import (
    ANSWERS_URL,
    Deployment,
    FunctionNeed,
    Permission,
    StreamNeed,
    TableNeed,
    Target,
    TopicNeed,
)
from flowguard.deploy.options import OF_MADE_ROLES, POLICIES_OF_A_ROLE, RETENTIONS, DeployOptions, FunctionOptions
from flowguard.deploy.own_calls import note_of
from flowguard.deploy.permissions import (
    IN_VPC,
    TRACED,
    Scope,
    makes_tokens,
    needs_signatures,
    permissions_of,
    tables_of_stage,
    waits,
)
from flowguard.deploy.problems import CannotDeploy
from flowguard.deploy.published_topics import names_in_effect, published, published_topics
from flowguard.deploy.queue_names import no_queue_problems, same_name_problems
from flowguard.deploy.queue_plan import FIFO_RETENTION, LONGEST_RETENTION, QueuePlan, Retentions
from flowguard.deploy.schedule_plan import schedule_problems, schedules_of, unscheduled_notes
from flowguard.deploy.sql_uses import connecting
from flowguard.deploy.stream_plan import stream_notes, stream_problems, streams_of, tables_with_stream
from flowguard.deploy.time_spans import spoken
from flowguard.deploy.used import SourcePlace
from flowguard.deploy.uses import uses_of
from flowguard.deploy.variables import variable_problems
from flowguard.destinations import Queue
from flowguard.errors import shown
from flowguard.flow import AnyFlow, takes_answers
from flowguard.lanes import shares
from flowguard.project.declared import TableKey, declared_tables, modules_of_flows
from flowguard.stage import AnyStage
from flowguard.worker.patience import MANY_RECEIVES

LONGEST_NAME_AT_LAMBDA: Final = 64
URL_SUFFIX: Final = "-url"
START_TIMEOUT: Final = 30
"""Seconds for a function that starts runs: one more than a gateway waits."""

RUN_KEY: Final = TableKey(("pk", "sk"), ("S", "S"))
TTL: Final = "ttl"
_LONGEST_KEPT: Final = timedelta(seconds=LONGEST_RETENTION)
_FUNCTION_NAME = re.compile("[A-Za-z0-9_-]{1,64}")
_TABLE_NAME = re.compile("[A-Za-z0-9_.-]{3,255}")


def needs_of(functions: Sequence[FoundFunction], options: DeployOptions) -> Deployment:
    """Describe the deployment of the functions. Raises :class:`CannotDeploy` with all problems."""
    modules = ", ".join(dict.fromkeys(function.module for function in functions))
    flows = flows_of(functions)
    signing_secret = _signing_secret(functions, flows, options)
    if signing_secret is not None:
        settings = options.settings.model_copy(update={"signing_keys": f"secretsmanager:{signing_secret}"})
        options = options.model_copy(update={"settings": settings})
    made = [function for function in functions if function.kind is not FunctionKind.CALLED]
    named = {name_of(function, options): function for function in made}
    problems = [*_name_problems(made, options), *_served_problems(made, flows), *_option_problems(made, options)]
    if problems:
        raise CannotDeploy(modules, tuple(problems))
    batchings = {name: batching_of(function, _options_of(function, options)) for name, function in named.items()}
    timeouts = {name: batching.timeout for name, batching in batchings.items()}
    windows = {name: _options_of(function, options).window for name, function in named.items()}
    scope = Scope(flows, options.reply_to)
    plan = QueuePlan(scope, named, timeouts, windows, options)
    problems += plan.problems
    problems += _topic_problems(plan.topics, options)
    problems += _index_problems(options)
    for name, function in named.items():
        problems += _batch_problems(function, _options_of(function, options), plan.read_by(name).values())
        problems += batching_problems(function, _options_of(function, options))
        lanes = plan.lanes_of(name)
        inboxes = len(plan.read_by(name)) - sum(len(each) - 1 for each in lanes)
        problems += reserved_problems(function, _options_of(function, options), inboxes)
        problems += share_problems(function, _options_of(function, options), lanes)
    tables = tuple(_chosen(table, flows, options) for table in _tables(functions, flows, options, problems))
    by_arn = {table.name for table in tables if names_of(options).table(table.name).startswith("arn:")}
    made_tables = frozenset(table.name for table in tables if not (table.existing or table.name in by_arn))
    for name, function in named.items():
        problems += stream_problems(function, name, batchings[name], made_tables, options)
    problems += schedule_problems(named.values())
    problems += group_problems(flows, options)
    problems += asked_codec_problems(flows)
    if problems:
        raise CannotDeploy(modules, tuple(dict.fromkeys(problems)))
    needed = tuple(
        each
        for name, function in sorted(named.items())
        for each in _functions(name, function, plan, batchings[name], options, scope)
    )
    needed = tuple(_linked(needed))
    unknown = tuple(_unknown(flows))
    topics = (*(_topic(arn, options) for arn in plan.topics), *published_topics(needed, plan.topics, options))
    made_topics = {topic.arn for topic in topics if not topic.existing}
    deployment = Deployment(
        names=tuple(dict.fromkeys(name for function in functions for name in function.names)),
        flows=flows,
        functions=needed,
        tables=tables,
        queues=plan.queues,
        topics=topics,
        run_table=options.settings.table,
        long_delays=any(
            permission.on is Target.SCHEDULES for function in needed for permission in function.permissions
        ),
        scheduler_group=options.settings.scheduler_group,
        scheduler_role=options.settings.scheduler_role,
        existing_group=_is_existing_group(options),
        undelivered_schedules=plan.undelivered_schedules,
        schedules=schedules_of(named.values(), plan.undelivered_ticks, options),
        signing_secret=signing_secret,
        notes=(
            *_notes(functions, flows, options),
            *_fifo_notes(flows, plan),
            *_shared_letter_notes(flows, plan),
            *stream_notes(flows),
            *kafka_notes(flows, options),
            *asked_codec_notes(flows),
            *existing_notes(flows, plan.queues, tables, options),
            *renamed_topics({*plan.topics, *published(needed)} - made_topics, options),
            *_unbounded(needed),
            *_many_policies(needed),
            *_unmet_options(made, tables, plan, options, names_in_effect(needed, options)),
            *_unmet_secrets(needed, signing_secret, options),
        ),
        unknown=unknown,
        account=options.account,
        named_roles=options.named_roles,
    )
    if misnamed := (*no_queue_problems(deployment), *same_name_problems(deployment, options)):
        raise CannotDeploy(modules, misnamed)
    is_given = group_is_imported(options.imports)
    deployed = under_names(under_keys(deployment, options), names_of(options), group_is_given=is_given)
    if refused := (*transaction_problems(deployed), *variable_problems(deployed)):
        raise CannotDeploy(modules, refused)
    more = (*account_notes(deployed), *rule_notes(deployed, options), *unscheduled_notes(deployed, options))
    return replace(deployed, notes=(*deployed.notes, *more))


def name_of(function: FoundFunction, options: DeployOptions) -> str:
    """Return a function's name at Lambda, such as ``shop-place`` for ``place`` of the flow ``shop``."""
    given = _options_of(function, options).name
    if given is not None:
        return given
    owner = plain_name(function.once) if function.once is not None else function.owner
    name = function.attribute.replace("_", "-")
    return name if name == owner or name.startswith(f"{owner}-") else f"{owner}-{name}"


def _options_of(function: FoundFunction, options: DeployOptions) -> FunctionOptions:
    return options.of_function(function.attribute, function.handler)


# -- what is wrong ----------------------------------------------------------------------------------------------------


def _names(function: FoundFunction, options: DeployOptions) -> tuple[str, ...]:
    name = name_of(function, options)
    return (name, f"{name}{URL_SUFFIX}") if _takes_http(function) else (name,)


def _name_problems(functions: Sequence[FoundFunction], options: DeployOptions) -> Iterator[str]:
    names = Counter(name for function in functions for name in _names(function, options))
    for function, name in ((other, name) for other in functions for name in _names(other, options)):
        fix = f'give it one: [functions."{function.handler}"] name = "…"'
        if not _FUNCTION_NAME.fullmatch(name):
            rule = f"Lambda takes up to {LONGEST_NAME_AT_LAMBDA} of a-z, A-Z, 0-9, '-', '_'"
            yield f"{function.handler} would be named {name!r} ({len(name)} characters), and {rule}; {fix}"
        elif names[name] > 1:
            yield f"{function.handler} would be named {name!r}, as another function is; {fix}"


def _served_problems(functions: Sequence[FoundFunction], flows: Sequence[AnyFlow]) -> Iterator[str]:
    serving: dict[tuple[AnyFlow, AnyStage], list[str]] = {}
    for function in functions:
        for pair in function.stages:
            serving.setdefault(pair, []).append(function.handler)
    for flow in flows:
        for stage in flow.stages:
            handlers = serving.get((flow, stage), [])
            if not handlers:
                yield (
                    f"no handler serves {flow.name}/{stage.name}; write lambda_handler({flow.__name__}, "
                    f"{stage.__name__}), or name the module that has it too"
                )
            elif len(handlers) > 1:
                yield f"{' and '.join(handlers)} both serve {flow.name}/{stage.name}; leave it to one of them"
        answering = [other for other in functions if other.kind is FunctionKind.ANSWERS and flow in other.flows]
        if not answering and (flow.callbacks or makes_tokens(flow)):
            fix = f"write callback_handler({flow.__name__})"
            yield f"{flow.name} is answered from outside, and no handler takes that; {fix}"
        if waits(flow) and not takes_answers(flow.answers):
            fix = f"give {flow.name} answers='a-standard-queue', which one of its functions reads"
            yield f"{flow.name} waits, and answers and deadlines cannot come through {flow.answers}; {fix}"


def _option_problems(functions: Sequence[FoundFunction], options: DeployOptions) -> Iterator[str]:
    for function in functions:
        queue = _options_of(function, options).queue
        if queue is not None and function.once is None:
            yield f"{function.handler} has queue = {queue!r}, which is for functions under @once; its flow says inbox="
        yield from _idle_options(function, options)
    if options.log_retention not in RETENTIONS:
        days = ", ".join(map(str, RETENTIONS))
        yield f"log_retention is {options.log_retention}; CloudWatch keeps logs for {days} days"


def _idle_options(function: FoundFunction, options: DeployOptions) -> Iterator[str]:
    """Yield the options of one function that have no effect there. Those of all are for whom they fit."""
    alone = options.own_of(function.attribute, function.handler)
    given = set() if alone is None else {name for name in alone.model_fields_set if getattr(alone, name)}
    if (role := _options_of(function, options).role) is not None:
        for name in sorted(given & {*OF_MADE_ROLES}):
            yield f"{function.handler} has {name}, and {role} for a role by [defaults], to which nothing is attached"
    starts = function.kind is FunctionKind.STARTS
    if "url_auth" in given and not starts:
        yield f"{function.handler} has url_auth, which is for functions of start_handler: it starts no runs over HTTP"
    if starts and (of_queues := sorted(given & {"batch_size", "max_concurrency", "window"})):
        yield f"{function.handler} has {', '.join(of_queues)}, which is for functions that read queues: it reads none"
    if "url_concurrency" in given and not (starts or _takes_http(function)):
        yield f"{function.handler} has url_concurrency, and gets no URL: it starts no runs over HTTP and makes no links"


def _batch_problems(function: FoundFunction, options: FunctionOptions, queues: Iterable[Queue]) -> Iterator[str]:
    fifo = next((queue for queue in queues if queue.fifo), None)
    size = batching_of(function, options).size
    if fifo is not None and (size > MOST_RECORDS or options.window):
        yield (
            f"{function.handler} reads the FIFO queue {fifo.short_name!r}, whose batches have at most {MOST_RECORDS} "
            f"records and no window; it has batch_size = {size}, window = {options.window}"
        )
    elif size > MOST_RECORDS and not options.window:
        yield f"{function.handler} has batch_size = {size}; above {MOST_RECORDS} Lambda wants window = 1 or more"


# -- tables -----------------------------------------------------------------------------------------------------------


def _tables(
    functions: Sequence[FoundFunction], flows: Sequence[AnyFlow], options: DeployOptions, problems: list[str]
) -> Iterator[TableNeed]:
    run_table = options.settings.table
    existing = {name for name, given in options.tables.items() if given.existing}
    declared = declared_tables(modules_of_flows(flows))
    needed = {run_table: TableNeed(run_table, RUN_KEY, TTL, run_table in existing)} if flows else {}
    _add_key_tables(needed, functions, declared, options, problems)
    used: dict[str, str] = {}
    for flow in flows:
        for stage in flow.stages:
            used |= dict.fromkeys(tables_of_stage(flow, stage), f"{flow.name}/{stage.name}")
            if uses_of(stage).unknown_tables and not declared:
                [place, *_] = uses_of(stage).unknown_tables
                problems.append(f"{place}; name the tables in TABLES of {flow.__module__}")
    yield from needed.values()
    for name in sorted({*declared, *used} - (needed.keys() - {run_table})):
        if name == run_table:
            problems.append(f"{name!r} is the table of the run items, and {used.get(name, 'TABLES')} has it as its own")
        elif not _TABLE_NAME.fullmatch(name):
            problems.append(_no_name(name))
        elif name in declared:
            yield TableNeed(name, declared[name], None, name in existing)
        elif name in existing:
            yield TableNeed(name, TableKey((), ()), None, existing=True)
        else:
            problems.append(
                f"{used[name]} uses the table {name!r}, whose key is not known; name it in TABLES of the flow's "
                f'module: TABLES = {{"{name}": "<its key>"}}, or say [tables."{name}"] existing = true'
            )


def _add_key_tables(
    needed: dict[str, TableNeed],
    functions: Sequence[FoundFunction],
    declared: Mapping[str, TableKey],
    options: DeployOptions,
    problems: list[str],
) -> None:
    """Add the tables in which functions under ``@once`` keep their keys, by name."""
    for function in functions:
        if function.once is None:
            continue
        name, *keys, ttl = keys_of(function.once, options.settings.table)
        key = TableKey(tuple(part for part in keys if part is not None), ("S",) * (len(keys) - keys.count(None)))
        existing = name in options.tables and options.tables[name].existing
        need = TableNeed(name, key, ttl, existing)
        if not _TABLE_NAME.fullmatch(name):
            problems.append(_no_name(name))
        if needed.setdefault(name, need) != need or declared.get(name, key) != key:
            problems.append(
                f"{function.handler} keeps its keys in the table {name!r} under {', '.join(key.names)}, to expire by "
                f"{ttl}, and it has another key or attribute elsewhere; name another table: @once(…, table=…)"
            )


def _no_name(table: str) -> str:
    return f"{table!r} is no table's name; DynamoDB takes 3 to 255 of a-z, A-Z, 0-9, '-', '_', '.'"


def _index_problems(options: DeployOptions) -> Iterator[str]:
    run_table = options.settings.table
    for name, chosen in options.tables.items():
        if chosen.run_index and name != run_table:
            yield f"[tables.{name}] run_index is for the table of the runs, {run_table}"


def _chosen(table: TableNeed, flows: Sequence[AnyFlow], options: DeployOptions) -> TableNeed:
    """Return a table as the options want it, with a stream where runs begin with its changes."""
    table = replace(table, has_stream=table.name in tables_with_stream(flows))
    chosen = options.tables.get(table.name)
    if chosen is None:
        return table
    return replace(table, warm_writes=chosen.warm_writes, warm_reads=chosen.warm_reads, run_index=chosen.run_index)


# -- keys -------------------------------------------------------------------------------------------------------------


def _signing_secret(functions: Sequence[FoundFunction], flows: Sequence[AnyFlow], options: DeployOptions) -> str | None:
    """Return the name of the secret to make for signatures and tokens, if any is needed and no keys are given."""
    settings = options.settings
    if settings.signing_keys is not None:
        return None
    seals = settings.token_keys is None and any(map(_uses_tokens, functions))
    is_needed = seals or any(needs_signatures(flow, flows) for flow in flows)
    return f"{settings.table}/signing-keys" if is_needed else None


# -- functions --------------------------------------------------------------------------------------------------------


def _functions(
    name: str, function: FoundFunction, plan: QueuePlan, batching: BatchPlan, options: DeployOptions, scope: Scope
) -> Iterator[FunctionNeed]:
    """Yield the function of a handler. What comes over HTTP has a function to itself.

    A flood at its URL then uses up that function's concurrency, not that of the queues.
    """
    reads, chosen = plan.read_by(name), _options_of(function, options)
    if function.kind is FunctionKind.STARTS:
        need = _function(name, function, reads, batching, options, scope)
        timeout = chosen.timeout if chosen.timeout is not None else START_TIMEOUT
        yield replace(need, has_url=True, url_auth=chosen.url_auth, timeout=timeout, reserved=_reserved(chosen))
        return
    if not _takes_http(function):
        most = chosen.max_concurrency or 0
        by_queue = [pair for lanes in plan.lanes_of(name) for pair in shares(lanes, most).items()]
        streams = streams_of(function, plan.undelivered_records, batching, options)
        need = _function(name, function, reads, batching, options, scope, streams)
        yield replace(need, shares=tuple(by_queue))
        return
    if reads:
        yield _function(name, function, reads, batching, options, scope)
    url = _function(f"{name}{URL_SUFFIX}" if reads else name, function, {}, batching, options, scope)
    yield replace(url, has_url=True, reserved=_reserved(chosen))


def _reserved(chosen: FunctionOptions) -> int | None:
    return chosen.url_concurrency or None


def _linked(functions: Sequence[FunctionNeed]) -> Iterator[FunctionNeed]:
    """Yield the functions. One that makes links knows the URL of the function that answers them.

    That is a function of its own, which makes no links: nothing waits for itself in a template.
    """
    answering = {
        function.name: frozenset(function.definition.flows)
        for function in functions
        if function.has_url and function.definition.kind is FunctionKind.ANSWERS
    }
    for function in functions:
        linking = {flow for flow, stage in function.definition.stages if uses_of(stage).tokens}
        named = next((name for name, flows in sorted(answering.items()) if linking and linking <= flows), None)
        yield function if ANSWERS_URL in dict(function.environment) else replace(function, links_to=named)


def _takes_http(function: FoundFunction) -> bool:
    return function.kind is FunctionKind.ANSWERS and any(makes_tokens(flow) for flow in function.flows)


def _function(
    name: str,
    function: FoundFunction,
    reads: Mapping[str, Queue],
    batching: BatchPlan,
    options: DeployOptions,
    scope: Scope,
    streams: tuple[StreamNeed, ...] = (),
) -> FunctionNeed:
    chosen = _options_of(function, options)
    permissions = permissions_of(function, reads, name=name, scope=scope, settings=options.settings, streams=streams)
    permissions = (*permissions, *connecting(chosen.database_users))
    permissions = permissions if options.vpc is None else (*permissions, IN_VPC)
    permissions = (*permissions, TRACED) if options.tracing else permissions
    return FunctionNeed(
        name=name,
        definition=function,
        timeout=batching.timeout,
        memory=chosen.memory,
        batch_size=batching.size,
        window=chosen.window,
        max_concurrency=chosen.max_concurrency,
        reads=tuple(reads),
        permissions=permissions,
        environment=tuple(sorted({**chosen.environment, **_settings(function, permissions, options)}.items())),
        role=chosen.role,
        policies=chosen.policies,
        reserved=chosen.reserved,
        streams=streams,
    )


def _settings(function: FoundFunction, permissions: Iterable[Permission], options: DeployOptions) -> Mapping[str, str]:
    """Return the settings that a function needs in its environment."""
    settings = options.settings
    variables = {"FLOWGUARD_TABLE": settings.table}
    signed = ("signing_keys",) if function.once is None else ()
    for name in ("bucket", "bucket_owner", "prefix", "offload_above", *signed, "observers", "client", "debug_sampled"):
        if (value := getattr(settings, name)) is not None:
            variables[f"FLOWGUARD_{name.upper()}"] = str(value)
    if _uses_tokens(function):
        of_tokens = {"FLOWGUARD_TOKEN_KEYS": settings.token_keys, ANSWERS_URL: settings.answers_url}
        variables |= {name: value for name, value in of_tokens.items() if value is not None}
    if any(permission.on is Target.SCHEDULES for permission in permissions):
        variables["FLOWGUARD_SCHEDULER_GROUP"] = settings.scheduler_group
    return variables


def _uses_tokens(function: FoundFunction) -> bool:
    """Answer whether the function makes tokens or reads them."""
    seals = _takes_http(function) or function.kind is FunctionKind.STARTS
    return seals or any(uses_of(stage).tokens for _, stage in function.stages)


def _topic(arn: str, options: DeployOptions) -> TopicNeed:
    """Apply the options to a topic. They name it by its ARN or by its name. One of another account is there already."""
    named = (options.topics.get(arn), options.topics.get(arn.rpartition(":")[2]))
    chosen = [topic for topic in named if topic is not None]
    buckets = tuple(dict.fromkeys(bucket for topic in chosen for bucket in topic.buckets))
    existing = is_elsewhere(arn, options) or any(topic.existing for topic in chosen)
    return TopicNeed(arn, existing, buckets=buckets)


def _topic_problems(topics: Sequence[str], options: DeployOptions) -> Iterator[str]:
    for topic in (_topic(arn, options) for arn in topics):
        if topic.buckets and topic.fifo:
            yield (
                f"[topics.{topic.name!r}] has buckets, and S3 sends nothing to a FIFO topic; let the first stage have "
                "a standard topic as its inbox, or the bucket send its events to EventBridge"
            )


def _is_existing_group(options: DeployOptions) -> bool:
    group = options.schedule_groups.get(options.settings.scheduler_group)
    return group is not None and group.existing


# -- what could not be read -------------------------------------------------------------------------------------------


def _unknown(flows: Sequence[AnyFlow]) -> Iterator[SourcePlace]:
    for flow in flows:
        for stage in flow.stages:
            yield from uses_of(stage).unread


def _unmet_options(
    functions: Sequence[FoundFunction],
    tables: Sequence[TableNeed],
    plan: QueuePlan,
    options: DeployOptions,
    published: Collection[str],
) -> Iterator[str]:
    """Yield a note for each option that has no effect. It may be misspelt, or for another deployment."""
    known = {
        "functions": {name for function in functions for name in (function.attribute, function.handler)},
        "queues": {queue.name for queue in plan.queues},
        "tables": {table.name for table in tables} | {*tables_with_stream(flows_of(functions))},
        "streams": {stream.name for function in functions for flow in function.flows for stream in flow.streams},
        "topics": {*published, *(name for arn in plan.topics for name in (arn, arn.rpartition(":")[2]))},
        "schedule_groups": {options.settings.scheduler_group}
        | {name for name, chosen in options.schedule_groups.items() if chosen.former},
        "schedules": {schedule.name for schedule in schedules_of(functions, plan.undelivered_ticks, options)},
    }
    for section, names in known.items():
        for name in sorted(set(getattr(options, section)) - names):
            yield _no_effect(section, name)


def _unmet_secrets(functions: Iterable[FunctionNeed], made: str | None, options: DeployOptions) -> Iterator[str]:
    """Yield a note for each secret of the options that no function reads, or that the template makes."""
    allowed = (permission for function in functions for permission in function.permissions)
    read = {each.name for each in allowed if each.on in (Target.PARAMETER, Target.SECRET)} - {made}
    yield from (_no_effect("secrets", name) for name in sorted(options.secrets.keys() - read))


def _no_effect(section: str, name: str) -> str:
    return f"the options say [{section}.{shown(name)[1:-1]}], and nothing here is called that; it has no effect"


def _few_receives(function: FoundFunction, queue: str | None, options: DeployOptions) -> Iterator[str]:
    """Yield a note on a queue that gives up what has waited for a place of a limit only a few times."""
    if function.once is None or not function.once.limits or function.kind is not FunctionKind.ONCE:
        return
    name = queue if queue is not None else plain_name(function.once)
    receives = options.of_queue(name).max_receive_count
    if receives < MANY_RECEIVES:
        cause = f"{function.handler} has limits, and its queue {name!r} gives a record up after {receives} receives"
        yield f"{cause}: each that finds no place is one. Say max_receive_count = {MANY_RECEIVES}, or more"


def _notes(functions: Sequence[FoundFunction], flows: Sequence[AnyFlow], options: DeployOptions) -> Iterator[str]:
    for function in functions:
        if note := what_calls_it_needs(function, options.settings):
            yield note
        elif function.once is not None and function.once.keep < _LONGEST_KEPT:
            yield (
                f"{function.handler} keeps results for {function.once.keep}, and its queues keep a record for up to "
                f"{_LONGEST_KEPT.days} days: a copy that comes later calls the function again; raise keep="
            )
    for function in functions:
        chosen = options.of_function(function.attribute, function.handler)
        yield from _few_receives(function, chosen.queue, options)
        if not chosen.policies and chosen.role is None and (calls := note_of(function)) is not None:
            yield calls
    for place in _unknown(flows):
        yield f"{place}; what TABLES and QUEUES of the flow's module name is allowed"
    for flow in flows:
        if not any(function.kind is FunctionKind.KILLED and flow in function.flows for function in functions):
            yield (
                f"{flow.name} has no dlq_handler: a run whose function is killed each time stays RUNNING, "
                f"and SQS gives its record up"
            )
    if silent := [] if options.reply_to else [flow.name for flow in flows if flow.reply_to is None]:
        lists, whose = ("lists", "its") if len(silent) == 1 else ("list", "their")
        yield (
            f"{', '.join(silent)} {lists} no reply_to=(…), so {whose} functions may send no reply to a queue that a "
            "request names, but to those of flows here that ask; where one does, list it there, or in "
            "reply_to = […] of the options"
        )


def _fifo_notes(flows: Sequence[AnyFlow], plan: QueuePlan) -> Iterator[str]:
    """Yield a note for each flow whose FIFO queue deletes a record sooner than another queue does.

    A flow whose retention is below what SQS can keep has asked for less.
    """
    longer = Retentions.of(FIFO_RETENTION, fifo=True, handled=True)
    for flow in flows:
        for queue in plan.fifo_of(flow)[:1] if _LONGEST_KEPT <= flow.retention < FIFO_RETENTION else ():
            yield (
                f"{flow.name} reads the FIFO queue {queue.name!r}, which deletes a record that nobody could take for "
                f"{_days(queue.retention)} days, and nothing tells of it afterwards; "
                f"retention=timedelta(days={FIFO_RETENTION.days}) of the flow makes it {_days(longer.inbox)} days, and "
                f"its run items live for {2 * FIFO_RETENTION.days}"
            )


def _shared_letter_notes(flows: Sequence[AnyFlow], plan: QueuePlan) -> Iterator[str]:
    """Yield a note for each flow whose dead letters outlive its run items, as a flow that shares them needs it."""
    kept = {queue.name: timedelta(seconds=queue.retention) for queue in plan.queues if queue.made}
    for flow in flows:
        name = flow.dead_letters.short_name if isinstance(flow.dead_letters, Queue) else ""
        lives = flow.remember or 2 * flow.retention
        if lives < kept.get(name, lives):
            others = [each.name for each in flows if each is not flow and each.dead_letters == flow.dead_letters]
            yield (
                f"{flow.name} shares the dead letters {name!r} with {', '.join(others)}, so they are kept for "
                f"{spoken(kept[name])}, and its run items for {spoken(lives)}: a letter of a first stage that is "
                "redriven after that begins a new run, and one of a later stage comes back; give "
                f"{flow.name} dead letters of its own, or a longer retention="
            )


def _days(seconds: int) -> str:
    return f"{timedelta(seconds=seconds) / timedelta(days=1):g}"


def _many_policies(functions: Sequence[FunctionNeed]) -> Iterator[str]:
    """Yield a note for each role that needs a quota of the account raised."""
    for function in functions:
        if len(function.policies) > POLICIES_OF_A_ROLE:
            yield (
                f"{function.name} has {len(function.policies)} policies, and a role has {POLICIES_OF_A_ROLE} unless "
                "the account's quota is raised"
            )


def _unbounded(functions: Sequence[FunctionNeed]) -> Iterator[str]:
    """Yield a note that names the functions of handlers whose mappings receive as much at once as Lambda takes."""
    names = [function.name for function in functions if function.brings_work and function.max_concurrency is None]
    if names:
        yield (
            f"{', '.join(names)} {'have' if names[1:] else 'has'} no max_concurrency: what waited in SQS, as while "
            f"Lambda throttles, comes up to 1,250 batches at once; where a handler calls what takes less, set "
            f"max_concurrency under [defaults] or [functions.…] of the options"
        )

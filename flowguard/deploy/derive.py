"""The derivation of a deployment from its handlers, their flows and its options."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Final

from flowguard.deploy.found import FoundFunction, FunctionKind, flows_of
from flowguard.deploy.needs import Deployment, FunctionNeed, Permission, TableNeed, Target, TopicNeed
from flowguard.deploy.options import LONGEST_TIMEOUT, RETENTIONS, DeployOptions, FunctionOptions
from flowguard.deploy.permissions import Scope, makes_tokens, permissions_of, tables_of_stage
from flowguard.deploy.problems import CannotDeploy
from flowguard.deploy.queue_plan import QueuePlan
from flowguard.deploy.used import SourcePlace
from flowguard.deploy.uses import uses_of
from flowguard.destinations import Queue
from flowguard.errors import shown
from flowguard.flow import AnyFlow
from flowguard.sim.declared import TableKey, declared_tables, modules_of_flows
from flowguard.stage import AnyStage
from flowguard.worker.runtime import LEASE_WITHOUT_LAMBDA

LONGEST_NAME_AT_LAMBDA: Final = 64
RUN_KEY: Final = TableKey(("pk", "sk"), ("S", "S"))
TTL: Final = "ttl"
_LEFT_FOR_SENDING: Final = 5
_BATCH: Final = 10
_FUNCTION_NAME = re.compile("[A-Za-z0-9_-]{1,64}")
_TABLE_NAME = re.compile("[A-Za-z0-9_.-]{3,255}")


def needs_of(functions: Sequence[FoundFunction], options: DeployOptions) -> Deployment:
    """Describe the deployment of the functions. Raises :class:`CannotDeploy` with all problems."""
    what = ", ".join(dict.fromkeys(function.module for function in functions))
    flows = flows_of(functions)
    named = {name_of(one, options): one for one in functions}
    problems = [*_name_problems(functions, options), *_served_problems(functions, flows), *_option_problems(options)]
    if problems:
        raise CannotDeploy(what, tuple(problems))
    timeouts = {name: _timeout(one, _options_of(one, options), problems) for name, one in named.items()}
    windows = {name: _options_of(one, options).window for name, one in named.items()}
    scope = Scope(flows, options.reply_to)
    plan = QueuePlan(scope, named, timeouts, windows, options)
    problems += plan.problems
    for name, one in named.items():
        problems += _batch_problems(one, _options_of(one, options), plan.read_by(name).values())
    tables = tuple(_tables(flows, options, problems))
    if problems:
        raise CannotDeploy(what, tuple(dict.fromkeys(problems)))
    needed = tuple(_function(name, one, plan, timeouts[name], options, scope) for name, one in sorted(named.items()))
    unknown = tuple(_unknown(flows))
    topics = tuple(TopicNeed(arn, _is_existing(arn, options)) for arn in plan.topics)
    return Deployment(
        flows=flows,
        functions=needed,
        tables=tables,
        queues=plan.queues,
        topics=topics,
        run_table=options.settings.table,
        long_delays=any(one.on is Target.SCHEDULES for function in needed for one in function.permissions),
        scheduler_group=options.settings.scheduler_group,
        scheduler_role=options.settings.scheduler_role,
        notes=(*_notes(functions, flows, options), *_unmet_options(functions, tables, plan, options)),
        unknown=unknown,
    )


def name_of(function: FoundFunction, options: DeployOptions) -> str:
    """Return a function's name at Lambda, such as ``shop-place`` for ``place`` of the flow ``shop``."""
    given = _options_of(function, options).name
    if given is not None:
        return given
    flow, own = function.flows[0].name, function.attribute.replace("_", "-")
    return own if own == flow or own.startswith(f"{flow}-") else f"{flow}-{own}"


def _options_of(function: FoundFunction, options: DeployOptions) -> FunctionOptions:
    return options.of_function(function.attribute, function.handler)


# -- what is wrong ----------------------------------------------------------------------------------------------------


def _name_problems(functions: Sequence[FoundFunction], options: DeployOptions) -> Iterator[str]:
    names = Counter(name_of(one, options) for one in functions)
    for function in functions:
        name = name_of(function, options)
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
        answering = [one for one in functions if one.kind is FunctionKind.ANSWERS and flow in one.flows]
        if not answering and (flow.callbacks or makes_tokens(flow)):
            fix = f"write callback_handler({flow.__name__})"
            yield f"{flow.name} is answered from outside, and no handler takes that; {fix}"


def _option_problems(options: DeployOptions) -> Iterator[str]:
    if options.log_retention not in RETENTIONS:
        days = ", ".join(map(str, RETENTIONS))
        yield f"log_retention is {options.log_retention}; CloudWatch keeps logs for {days} days"


def _batch_problems(function: FoundFunction, options: FunctionOptions, queues: Iterable[Queue]) -> Iterator[str]:
    fifo = next((queue for queue in queues if queue.fifo), None)
    if fifo is not None and (options.batch_size > _BATCH or options.window):
        yield (
            f"{function.handler} reads the FIFO queue {fifo.short_name!r}, whose batches have at most {_BATCH} records "
            f"and no window; it has batch_size = {options.batch_size}, window = {options.window}"
        )
    elif options.batch_size > _BATCH and not options.window:
        size = f"batch_size = {options.batch_size}"
        yield f"{function.handler} has {size}; above {_BATCH} Lambda wants window = 1 or more"


def _timeout(function: FoundFunction, options: FunctionOptions, problems: list[str]) -> int:
    """Return a function's time-out in seconds. It is the slowest stage's, and some more for sending."""
    spans = {stage.name: stage.timeout or LEASE_WITHOUT_LAMBDA for _, stage in function.stages}
    slowest = max(spans, key=lambda name: spans[name], default="")
    longest = spans.get(slowest, LEASE_WITHOUT_LAMBDA)
    seconds = -(-longest // timedelta(seconds=1))
    if options.timeout is not None:
        if any(stage.timeout is not None for _, stage in function.stages) and options.timeout < seconds:
            problems.append(
                f"{function.handler} has timeout = {options.timeout}, and its stage {slowest!r} may take {longest}; "
                f"raise the one or lower the other"
            )
        return options.timeout
    if seconds + _LEFT_FOR_SENDING > LONGEST_TIMEOUT:
        problems.append(
            f"the stage {slowest!r} may take {longest}, and Lambda stops a function after {LONGEST_TIMEOUT} s; "
            f"lower its timeout="
        )
    return min(max(30, seconds + _LEFT_FOR_SENDING), LONGEST_TIMEOUT)


# -- tables -----------------------------------------------------------------------------------------------------------


def _tables(flows: Sequence[AnyFlow], options: DeployOptions, problems: list[str]) -> Iterator[TableNeed]:
    run_table = options.settings.table
    existing = {name for name, one in options.tables.items() if one.existing}
    declared = declared_tables(modules_of_flows(flows))
    used: dict[str, str] = {}
    for flow in flows:
        for stage in flow.stages:
            used |= dict.fromkeys(tables_of_stage(flow, stage), f"{flow.name}/{stage.name}")
            if uses_of(stage).unknown_tables and not declared:
                [place, *_] = uses_of(stage).unknown_tables
                problems.append(f"{place}; name the tables in TABLES of {flow.__module__}")
    yield TableNeed(run_table, RUN_KEY, TTL, run_table in existing)
    for name in sorted({*declared, *used}):
        if name == run_table:
            problems.append(f"{name!r} is the table of the run items, and {used.get(name, 'TABLES')} has it as its own")
        elif not _TABLE_NAME.fullmatch(name):
            problems.append(f"{name!r} is no table's name; DynamoDB takes 3 to 255 of a-z, A-Z, 0-9, '-', '_', '.'")
        elif name in declared:
            yield TableNeed(name, declared[name], None, name in existing)
        elif name in existing:
            yield TableNeed(name, TableKey((), ()), None, existing=True)
        else:
            problems.append(
                f"{used[name]} uses the table {name!r}, whose key is not known; name it in TABLES of the flow's "
                f'module: TABLES = {{"{name}": "<its key>"}}, or say [tables."{name}"] existing = true'
            )


# -- functions --------------------------------------------------------------------------------------------------------


def _function(
    name: str,
    function: FoundFunction,
    plan: QueuePlan,
    timeout: int,
    options: DeployOptions,
    scope: Scope,
) -> FunctionNeed:
    own = _options_of(function, options)
    permissions = permissions_of(function, plan.read_by(name), name=name, scope=scope, settings=options.settings)
    return FunctionNeed(
        name=name,
        found=function,
        timeout=timeout,
        memory=own.memory,
        batch_size=own.batch_size,
        window=own.window,
        max_concurrency=own.max_concurrency,
        reads=tuple(plan.read_by(name)),
        permissions=permissions,
        environment=tuple(sorted({**own.environment, **_settings(function, permissions, options)}.items())),
        role=own.role,
        policies=own.policies,
        has_url=function.kind is FunctionKind.ANSWERS and any(makes_tokens(flow) for flow in function.flows),
    )


def _settings(function: FoundFunction, permissions: Iterable[Permission], options: DeployOptions) -> Mapping[str, str]:
    """Return the settings that a function needs in its environment."""
    settings = options.settings
    found = {"FLOWGUARD_TABLE": settings.table}
    for name in ("bucket", "prefix", "offload_above", "signing_keys", "observers", "debug_sampled"):
        if (value := getattr(settings, name)) is not None:
            found[f"FLOWGUARD_{name.upper()}"] = str(value)
    stages = any(uses_of(stage).tokens for _, stage in function.stages)
    answers = function.kind is FunctionKind.ANSWERS and any(makes_tokens(flow) for flow in function.flows)
    if stages or answers:
        found["FLOWGUARD_TOKEN_KEYS"] = settings.token_keys
    if any(one.on is Target.SCHEDULES for one in permissions):
        found["FLOWGUARD_SCHEDULER_GROUP"] = settings.scheduler_group
    return found


def _is_existing(arn: str, options: DeployOptions) -> bool:
    name = arn.rpartition(":")[2]
    return any(one.existing for one in (options.topics.get(arn), options.topics.get(name)) if one is not None)


# -- what could not be read -------------------------------------------------------------------------------------------


def _unknown(flows: Sequence[AnyFlow]) -> Iterator[SourcePlace]:
    for flow in flows:
        for stage in flow.stages:
            uses = uses_of(stage)
            yield from dict.fromkeys((*uses.unknown_tables, *uses.unknown_sends))


def _unmet_options(
    functions: Sequence[FoundFunction], tables: Sequence[TableNeed], plan: QueuePlan, options: DeployOptions
) -> Iterator[str]:
    """Yield a note for each option that has no effect. It may be misspelt, or for another deployment."""
    known = {
        "functions": {name for one in functions for name in (one.attribute, one.handler)},
        "queues": {queue.name for queue in plan.queues},
        "tables": {table.name for table in tables},
        "topics": {name for arn in plan.topics for name in (arn, arn.rpartition(":")[2])},
    }
    for section, names in known.items():
        for name in sorted(set(getattr(options, section)) - names):
            yield f"the options say [{section}.{shown(name)[1:-1]}], and nothing here is called that; it has no effect"


def _notes(functions: Sequence[FoundFunction], flows: Sequence[AnyFlow], options: DeployOptions) -> Iterator[str]:
    for place in _unknown(flows):
        yield f"{place}; what TABLES and QUEUES of the flow's module name is allowed"
    for flow in flows:
        if not any(one.kind is FunctionKind.KILLED and flow in one.flows for one in functions):
            yield (
                f"{flow.name} has no dlq_handler: a run whose function is killed each time stays RUNNING, "
                f"and its record goes to {flow.dead_letters}"
            )
        if flow.reply_to is None and not options.reply_to:
            yield (
                f"{flow.name} lists no reply_to=(…), so its functions may send no reply to a queue that a request "
                f"names; list them there, or in reply_to = […] of the options"
            )

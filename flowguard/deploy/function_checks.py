"""Checks of the live functions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any, Final

from flowguard.deploy.account import DEFAULT_TIMEOUT, Account, known
from flowguard.deploy.arns import SCHEDULER_ROLE, AllowedActions, statements_of
from flowguard.deploy.batch_plan import time_for
from flowguard.deploy.codec_uses import FLOW
from flowguard.deploy.finding import LiveFinding, error, note, warning
from flowguard.deploy.found import FunctionKind
from flowguard.deploy.needs import Deployment, FunctionNeed, Target
from flowguard.deploy.setting_checks import check_settings
from flowguard.deploy.stream_checks import (
    brings_queues,
    check_own_table,
    check_shared_streams,
    check_streams,
    is_any_stream,
    streams_there,
)
from flowguard.deploy.template import LOOPS
from flowguard.settings import Settings
from flowguard.wire.home import Home

_LEVELS: Final = frozenset({"TRACE", "DEBUG", "INFO"})
"""The levels of a log that has all events."""

_OWN: Final = frozenset(f"FLOWGUARD_{name.upper()}" for name in Settings.model_fields)


_REFUSED: Final = "what it does there is refused, and its runs or records fail or stop"
_WITHOUT: Final = {
    "ec2": "Lambda makes no network interfaces for it, and does not start it",
    "xray": "X-Ray gets no traces of it",
}
"""What comes of a permission that Lambda itself lacks on all resources, by the service. A policy may name some."""

_RUNTIME: Final = re.compile(r"python3\.(1[1-9]|[2-9]\d)")
"""The runtimes that flowguard works on."""


def check_functions(needed: Deployment, live: Account) -> Iterator[LiveFinding]:
    """Yield the findings about the functions, their event sources and their roles."""
    for function in needed.functions:
        yield from known(_of_function(needed, function, live))
    yield from known(_concurrency(needed, live))


def _of_function(needed: Deployment, function: FunctionNeed, live: Account) -> Iterator[LiveFinding]:
    deployed = live.function(function.name)
    if deployed is not None:
        yield from known(
            _configuration(function, deployed),
            _runtime(function, deployed),
            _reserved(function, live),
            _log(function, deployed),
            _loops(function, live),
            check_settings(function, deployed),
            _environment(function, deployed),
            _bucket(function, deployed),
            _sources(needed, function, deployed, live),
            check_streams(function, deployed, live),
            check_own_table(needed, function, live),
            check_shared_streams(needed, function, live),
            _url(function, live),
            _permissions(needed, function, deployed, live),
            _permissions(needed, function, deployed, live, of_streams=True),
        )
    elif live.was_read("lambda", "get_function_configuration", function.name):
        yield error(
            "function-missing",
            function.name,
            "the function does not exist",
            f"nobody works on what {function.definition.handler} is for",
            f'deploy it, or say its name: [functions."{function.definition.handler}"] name = "…"',
        )


def _configuration(function: FunctionNeed, deployed: Mapping[str, Any]) -> Iterator[LiveFinding]:
    if deployed.get("Handler") != function.definition.handler:
        yield error(
            "handler-other",
            function.name,
            f"its handler is {deployed.get('Handler')}",
            "it does not do the work that it is named for",
            f"set Handler to {function.definition.handler}",
        )
    stages = [stage for _, stage in function.definition.stages if stage.timeout is not None]
    slowest = max(stages, key=lambda stage: stage.timeout or timedelta(0), default=None)
    if slowest is not None and slowest.timeout is not None and timedelta(seconds=deployed["Timeout"]) < slowest.timeout:
        yield error(
            "timeout-short",
            function.name,
            f"it is stopped after {deployed['Timeout']} s, and its stage {slowest.name!r} may take {slowest.timeout}",
            "a message that takes that long kills its function each time",
            f"set Timeout to {function.timeout} s, or lower the stage's timeout=",
        )
    elif slowest is None and deployed["Timeout"] <= DEFAULT_TIMEOUT < function.timeout:
        yield warning(
            "timeout-default",
            function.name,
            f"it is stopped after {deployed['Timeout']} s, as Lambda stops a function whose time-out nobody set",
            "a cold start and the calls around a handler may take that long: its messages come again, and are given up",
            f"set Timeout to {function.timeout} s",
        )


def _runtime(function: FunctionNeed, deployed: Mapping[str, Any]) -> Iterator[LiveFinding]:
    runtime = deployed.get("Runtime")
    if runtime and not _RUNTIME.fullmatch(str(runtime)):
        yield error(
            "runtime-other",
            function.name,
            f"its runtime is {runtime}",
            "flowguard needs Python 3.11 or later: each invocation fails, and its messages are given up",
            "set Runtime to a later Python, such as python3.13",
        )


def _reserved(function: FunctionNeed, live: Account) -> Iterator[LiveFinding]:
    if live.reserved(function.name) == 0:
        yield error(
            "function-off",
            function.name,
            "its reserved concurrency is 0",
            "Lambda never calls it: what it reads is received again and again, and given up",
            "take ReservedConcurrentExecutions away, or raise it",
        )


def _log(function: FunctionNeed, deployed: Mapping[str, Any]) -> Iterator[LiveFinding]:
    logging: Mapping[str, str] = deployed.get("LoggingConfig", {})
    if logging.get("LogFormat", "JSON") != "JSON":
        yield warning(
            "log-format-text",
            function.name,
            "its log is text",
            "metric filters find no events in it, so no alarm rings for them",
            "set LogFormat to JSON",
        )
    elif (level := logging.get("ApplicationLogLevel", "INFO")) not in _LEVELS:
        yield warning(
            "log-level-high",
            function.name,
            f"its log keeps lines from {level} on",
            "events and metrics below that are dropped, so alarms on them do not ring",
            "set ApplicationLogLevel to INFO",
        )


def _loops(function: FunctionNeed, live: Account) -> Iterator[LiveFinding]:
    if live.loops(function.name) not in (None, LOOPS):
        yield error(
            "chain-stopped",
            function.name,
            "Lambda stops it when about 16 of its invocations follow from one request",
            "retries, deadlines, groups and runs of many stages are such chains: their records are dropped, "
            "and go where SQS gives them up",
            "set RecursiveLoop of the function to Allow",
        )


def _environment(function: FunctionNeed, deployed: Mapping[str, Any]) -> Iterator[LiveFinding]:
    variables: Mapping[str, str] = deployed.get("Environment", {}).get("Variables", {})
    wanted = {name for name, _ in function.environment if name == "FLOWGUARD_TOKEN_KEYS"}
    if any(permission.on is Target.SCHEDULES for permission in function.permissions):
        wanted.add("FLOWGUARD_SCHEDULER_ROLE")
    if "FLOWGUARD_SIGNING_KEYS" in variables:
        wanted.discard("FLOWGUARD_TOKEN_KEYS")  # which default to those
    for name in sorted(wanted - variables.keys()):
        yield error(
            "setting-missing",
            function.name,
            f"it has no {name}",
            "its stages make links, or delay for longer than SQS can, and fail without it",
            f"set {name}",
        )
    if "FLOWGUARD_SIGNING_KEYS" in dict(function.environment) and "FLOWGUARD_SIGNING_KEYS" not in variables:
        yield error(
            "unsigned",
            function.name,
            "it has no FLOWGUARD_SIGNING_KEYS",
            "it believes no answer, deadline or order to reset, and its stages that wait fail",
            "set FLOWGUARD_SIGNING_KEYS for all functions, or say trust_senders=True in the flows",
        )
    for name in sorted(name for name in variables if name.startswith("FLOWGUARD_") and name not in _OWN):
        yield warning(
            "setting-unknown",
            function.name,
            f"its variable {name} is no setting of flowguard",
            "it has no effect, whatever it was meant for",
            f"take it out; there are {', '.join(sorted(_OWN))}",
        )


def _bucket(function: FunctionNeed, deployed: Mapping[str, Any]) -> Iterator[LiveFinding]:
    variables: Mapping[str, str] = deployed.get("Environment", {}).get("Variables", {})
    if variables.get("FLOWGUARD_BUCKET") and not variables.get("FLOWGUARD_BUCKET_OWNER"):
        yield warning(
            "bucket-owner-missing",
            function.name,
            "it has FLOWGUARD_BUCKET, and no FLOWGUARD_BUCKET_OWNER",
            "if the bucket is deleted and made again by a stranger, long texts are written there and read from there",
            "set FLOWGUARD_BUCKET_OWNER to the account of the bucket",
        )


def _sources(
    needed: Deployment, function: FunctionNeed, deployed: Mapping[str, Any], live: Account
) -> Iterator[LiveFinding]:
    there = live.event_sources(function.name)
    if there is None:
        return
    for name in function.reads:
        sources = [source for source in there if str(source.get("EventSourceArn", "")).rpartition(":")[2] == name]
        if not sources:
            yield error(
                "source-missing",
                function.name,
                f"no event source mapping brings it the queue {name}",
                "what is sent to it lies in the queue until it expires",
                f"map {name} to it, with ReportBatchItemFailures",
            )
        for source in sources:
            yield from _source(function, name, source, deployed)
            yield from _share(function, name, source)
    queues = {queue.name for queue in needed.queues}
    for source in there:
        name = str(source.get("EventSourceArn", "")).rpartition(":")[2]
        if name in queues and name not in function.reads:
            yield error(
                "source-other",
                function.name,
                f"a mapping brings it the queue {name}, which is not for it",
                "each message reaches one of the queue's functions, whichever it is for",
                f"remove the mapping from {name}",
            )


_TURN_ON: Final = "enable the mapping; 'flowguard resume' does, where 'flowguard stats' says that the stage is paused"


def _source(
    function: FunctionNeed, name: str, source: Mapping[str, Any], deployed: Mapping[str, Any]
) -> Iterator[LiveFinding]:
    """Yield what is wrong with a mapping from a queue."""
    if source.get("State") in ("Disabled", "Disabling"):
        why = "what is sent to it lies in the queue until it expires"
        yield error("source-off", function.name, f"its mapping from {name} is off", why, _TURN_ON)
    if "ReportBatchItemFailures" not in source.get("FunctionResponseTypes", ()):
        yield error(
            "report-failures-missing",
            function.name,
            f"its mapping from {name} has no ReportBatchItemFailures",
            "Lambda deletes failed records as if they had succeeded: messages are lost",
            "set FunctionResponseTypes to ReportBatchItemFailures",
        )
    size, timeout = int(source.get("BatchSize", 1)), int(deployed["Timeout"])
    if (wanted := time_for(size, function.definition)) > timeout:
        yield error(
            "batch-slow",
            function.name,
            f"it gets up to {size} records of {name} at once, which may take {wanted} s, and is stopped after "
            f"{timeout} s",
            "records that it has no time for are received again and again, and given up unread in the end",
            f"set BatchSize to {function.batch_size} and Timeout to {function.timeout} s",
        )
    if (source.get("FilterCriteria") or {}).get("Filters"):
        yield error(
            "source-filtered",
            function.name,
            f"its mapping from {name} has a filter",
            "Lambda deletes what it leaves out, and nothing says so: requests, retries, later hops",
            "remove its FilterCriteria, and keep out of the queue what is not for it",
        )


def _concurrency(needed: Deployment, live: Account) -> Iterator[LiveFinding]:
    """Yield a note that names the functions with a mapping that has no largest concurrency."""
    names = [
        function.name
        for function in needed.functions
        if function.brings_work and not all(map(_is_bounded, brings_queues(live.event_sources(function.name) or ())))
    ]
    if names:
        yield note(
            "concurrency-open",
            ", ".join(names),
            "a mapping has no MaximumConcurrency, and no MaximumPollers",
            "what waited in SQS, as while Lambda throttles, comes up to 1,250 batches at once; nothing else bounds it",
            "set ScalingConfig, as max_concurrency of the options does, where a handler calls what takes less",
        )


def _share(function: FunctionNeed, name: str, source: Mapping[str, Any]) -> Iterator[LiveFinding]:
    """Yield that a lane's mapping brings more or fewer batches at once than its weight says."""
    share, there = dict(function.shares).get(name), (source.get("ScalingConfig") or {}).get("MaximumConcurrency")
    if share is not None and there != share:
        yield warning(
            "lane-share",
            function.name,
            f"its mapping from {name} has {'no ' if there is None else ''}MaximumConcurrency {there or ''}".rstrip(),
            "a lane with more takes the room of the other lanes, and one with less waits while there is room",
            f"set MaximumConcurrency to {share}; after 'flowguard resume --at-once', resume once more without it",
        )


def _is_bounded(source: Mapping[str, Any]) -> bool:
    """Answer whether a mapping says how much it brings at once, also by its pollers."""
    bounds = (
        (source.get("ScalingConfig"), "MaximumConcurrency"),
        (source.get("ProvisionedPollerConfig"), "MaximumPollers"),
    )
    return any(given is not None and given.get(bound) for given, bound in bounds)


def _url(function: FunctionNeed, live: Account) -> Iterator[LiveFinding]:
    if not function.has_url:
        return
    if live.function_url(function.name) is False:
        yield warning(
            "url-missing",
            function.name,
            "it has no function URL",
            "links that stages make lead there, unless a gateway stands in front of it"
            if function.definition.kind is FunctionKind.ANSWERS
            else "no client reaches it, unless a gateway stands in front of it",
            "make a function URL for it, or put a gateway in front",
        )
    elif function.url_auth != "NONE" and live.url_auth(function.name) == "NONE":
        yield warning(
            "url-open",
            function.name,
            "all may call its function URL",
            "all who know the URL start runs, as far as the function's read= lets them",
            'set AuthType to AWS_IAM, or say url_auth = "NONE" of it in the options',
        )
    elif function.url_auth == "NONE" and live.url_auth(function.name) == "AWS_IAM":
        yield warning(
            "url-closed",
            function.name,
            "its function URL wants requests that are signed for IAM",
            "who follows a link gets 403, unless something in front of it signs"
            if function.definition.kind is FunctionKind.ANSWERS
            else "clients without IAM get 403, unless something in front of it signs",
            "set AuthType to NONE, as the template does: the function looks at tokens and keys itself",
        )


def _permissions(
    needed: Deployment, function: FunctionNeed, deployed: Mapping[str, Any], live: Account, *, of_streams: bool = False
) -> Iterator[LiveFinding]:
    """Yield what a role may not. The streams of tables come alone, for a file may leave them open."""
    role, home = str(deployed.get("Role", "")), Home.of(deployed.get("FunctionArn"))
    if not role or home is None:
        return
    owner = dict(function.environment).get("FLOWGUARD_BUCKET_OWNER", home.account)
    for statement in statements_of(needed, function):
        resources = [arn.filled(*home) for arn in statement.arns]
        for resource in streams_there(function, resources, live) if of_streams else resources:
            if resource == SCHEDULER_ROLE.whole:  # whatever its name
                continue
            if is_any_stream(resource) and not of_streams:
                continue
            denied = _denied(statement, resource, role, owner, live)
            if denied is None:
                return  # nobody says
            for actions, where in denied.items():
                is_everything = resource == "*"
                yield (warning if is_everything else error)(
                    "permission-missing",
                    function.name,
                    f"its role may not {', '.join(actions)} on {'all resources' if is_everything else resource}{where}",
                    _WITHOUT.get(actions[0].partition(":")[0], _REFUSED),
                    f"allow {role} to {', '.join(actions)} on it{where}",
                )


def _denied(
    statement: AllowedActions, resource: str, role: str, owner: str, live: Account
) -> Mapping[tuple[str, ...], str] | None:
    """Return what a role is denied on a resource, with the services and flows that this is for. None: nobody says."""
    places: dict[tuple[str, ...], list[str]] = {}
    for context in statement.contexts(owner):
        denied = live.denied(role, [*statement.actions], resource, context)
        if denied is None:
            return None
        if denied:
            place = context.get("kms:ViaService") or context.get(FLOW)
            places.setdefault(tuple(denied), []).extend([] if place is None else [place])
    by = "through" if statement.via else "for the flows"
    return {actions: f", {by} {', '.join(where)}" if where else "" for actions, where in places.items()}

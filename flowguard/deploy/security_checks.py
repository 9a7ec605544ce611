"""Checks of the options about security, on live resources."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from flowguard.deploy.account import Account, known
from flowguard.deploy.finding import LiveFinding, warning
from flowguard.deploy.needs import Deployment, FunctionNeed, TableNeed
from flowguard.deploy.options import DeployOptions
from flowguard.deploy.role_checks import check_roles, check_tags

Ask = Callable[[], str | None]
"""Tells the key of a resource."""


def check_security(needed: Deployment, options: DeployOptions, live: Account) -> Iterator[LiveFinding]:
    """Yield the findings about what the options ask for and is not so."""
    yield from known(*(_key(name, key, ask, live) for name, key, ask in _keys(needed, options, live)))
    for function in needed.functions:
        yield from known(_logs(function, options, live), _function(function, options, live))
    yield from known(*(_table_tags(table, options, live) for table in needed.tables if not table.existing))
    yield from known(check_roles(needed, options, live))


def _function(function: FunctionNeed, options: DeployOptions, live: Account) -> Iterator[LiveFinding]:
    if (there := live.function(function.name)) is not None:
        yield from known(
            _tracing(function, options, there),
            _tags(function, options, live),
            _code(function, options, live),
            _network(function, options, there),
        )


def _named(live_key: str, live: Account) -> str | None:
    """Return the key that is meant: that which an alias names. None if nobody may read which one that is."""
    if "alias/" not in live_key:
        return live_key
    key = live.key(live_key)
    return live_key if key is None and live.was_read("kms", "describe_key", live_key) else key


def _key(name: str, key: str, ask: Ask, live: Account) -> Iterator[LiveFinding]:
    there = ask()
    live_key = None if there is None else _named(there, live)
    if live_key is None or live_key in (key, key.rpartition("/")[2]):
        return
    state = f"it is under the key {live_key}" if live_key else "it is under no key of yours"
    why = "another key's policy says who may read what it keeps"
    yield warning("key-other", name, state, why, f"encrypt it with {key}, or say its kms_key in the options")


def _keys(needed: Deployment, options: DeployOptions, live: Account) -> Iterator[tuple[str, str, Ask]]:
    """Yield the name of each resource to encrypt, the key it should have and who tells the key it has."""
    for table in needed.tables:
        if table.kms_key is not None:
            yield table.name, table.kms_key, partial(live.table_key, table.name)
    for queue in needed.queues:
        if queue.kms_key is not None:
            yield queue.name, queue.kms_key, partial(_key_in, "KmsMasterKeyId", live.queue, queue.name, queue.arn)
    for topic in needed.topics:
        if topic.kms_key is not None:
            yield topic.arn, topic.kms_key, partial(live.topic_key, topic.arn)
    key = needed.kms_key
    bucket, of_bucket = options.settings.bucket, options.bucket_key if options.bucket_key is not None else key
    if bucket is not None and of_bucket is not None:
        yield bucket, of_bucket, partial(live.bucket_key, bucket)
    if key is not None and needed.signing_secret is not None:
        yield needed.signing_secret, key, partial(live.secret_key, needed.signing_secret)
    for function in needed.functions if key is not None else ():
        yield function.name, str(key), partial(_key_in, "KMSKeyArn", live.function, function.name)
        yield f"/aws/lambda/{function.name}", str(key), partial(_key_in, "kmsKeyId", live.log_group, function.name)


def _key_in(attribute: str, ask: Callable[..., Mapping[str, Any] | None], *place: str | None) -> str | None:
    """Return the key that an answer names. It is empty for none. None if there is no answer."""
    answer = ask(*place)
    return None if answer is None else str(answer.get(attribute, ""))


def _logs(function: FunctionNeed, options: DeployOptions, live: Account) -> Iterator[LiveFinding]:
    group = live.log_group(function.name)
    if group is not None and group.get("retentionInDays") != options.log_retention:
        days = group.get("retentionInDays")
        yield warning(
            "log-kept-other",
            f"/aws/lambda/{function.name}",
            "it is kept for ever" if days is None else f"it is kept for {days} days",
            "what is needed to explain a run is gone before, or what should be gone stays",
            f"set its retention to {options.log_retention} days, or say log_retention in the options",
        )


def _tracing(function: FunctionNeed, options: DeployOptions, there: Mapping[str, Any]) -> Iterator[LiveFinding]:
    mode = there.get("TracingConfig", {}).get("Mode", "PassThrough")
    if options.tracing and mode != "Active":
        yield warning(
            "tracing-other",
            function.name,
            f"its tracing is {mode}",
            "X-Ray has traces of it where its caller asks for them, and its queues do not",
            "set TracingConfig to Active",
        )


def _tags(function: FunctionNeed, options: DeployOptions, live: Account) -> Iterator[LiveFinding]:
    if options.tags and (tags := live.tags_of_function(function.name)) is not None:
        yield from check_tags(function.name, "it", tags, options, stack_may=live.adds_tags)


def _table_tags(table: TableNeed, options: DeployOptions, live: Account) -> Iterator[LiveFinding]:
    if options.tags and (tags := live.tags_of_table(table.name)) is not None:
        yield from check_tags(table.name, "it", tags, options, stack_may=live.adds_tags)


def _code(function: FunctionNeed, options: DeployOptions, live: Account) -> Iterator[LiveFinding]:
    if options.code_signing is None:
        return
    signing = live.code_signing(function.name)
    if signing is not None and signing != options.code_signing:
        yield warning(
            "code-signing-other",
            function.name,
            f"it takes {f'code as {signing} says' if signing else 'code that nobody has signed'}",
            "who may update the function can run what your signers have not seen",
            f"set its code signing configuration to {options.code_signing}",
        )


def _network(function: FunctionNeed, options: DeployOptions, there: Mapping[str, Any]) -> Iterator[LiveFinding]:
    if options.vpc is None:
        return
    network = there.get("VpcConfig") or {}
    subnets, groups = set(network.get("SubnetIds", ())), set(network.get("SecurityGroupIds", ()))
    if (subnets, groups) != (set(options.vpc.subnets), set(options.vpc.security_groups)):
        yield warning(
            "network-other",
            function.name,
            f"it runs in {', '.join(sorted(subnets | groups)) or 'no network of yours'}",
            "what it may reach, and what may be seen of its traffic, is not what the options ask for",
            f"put it into {', '.join(options.vpc.subnets)} with {', '.join(options.vpc.security_groups)}",
        )

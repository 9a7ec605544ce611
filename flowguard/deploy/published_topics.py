"""The topics to which functions publish, and from which no queue here gets anything. No template makes one."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from flowguard.deploy.needs import FunctionNeed, Target, TopicNeed
from flowguard.deploy.options import DeployOptions


def published_topics(
    functions: Iterable[FunctionNeed], subscribed: Collection[str], options: DeployOptions
) -> Iterator[TopicNeed]:
    """Yield the topics whose key the options name: who publishes to one uses its key."""
    for arn in published(functions):
        if arn not in subscribed and any(_has_key(name, options) for name in (arn, arn.rpartition(":")[2])):
            yield TopicNeed(arn, existing=True)


def names_in_effect(functions: Iterable[FunctionNeed], options: DeployOptions) -> set[str]:
    """Return the names of blocks of topics that change something for who publishes. By an ARN that is the key alone."""
    arns = published(functions)
    return {arn.rpartition(":")[2] for arn in arns} | {arn for arn in arns if _has_key(arn, options)}


def published(functions: Iterable[FunctionNeed]) -> list[str]:
    """Return the ARNs of the topics to which functions publish."""
    used = (permission for function in functions for permission in function.permissions)
    return sorted({permission.name for permission in used if permission.on is Target.TOPIC})


def _has_key(name: str, options: DeployOptions) -> bool:
    given = options.topics.get(name)
    return given is not None and given.kms_key is not None

"""Checks of the names, ARNs and URLs by which a deployment knows its queues."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from flowguard.deploy.at_aws import names_of
from flowguard.deploy.needs import Deployment, Target
from flowguard.deploy.options import DeployOptions
from flowguard.deploy.queue_arns import arn_of
from flowguard.destinations import Queue

_WRITTEN: Final[Mapping[str, str]] = {
    "sns": "Topic('{}')",
    "lambda": "Function('{}')",
    "events": "Bus('{}', source=…, detail_type=…)",
}
"""How a destination is written that is no queue, by its service."""


class _Place(NamedTuple):
    """Where a queue is. None stands for what nothing says."""

    region: str | None
    account: str | None
    name: str

    def differs(self, other: _Place) -> bool:
        """Answer whether a queue there is another one for certain."""
        return any(None not in pair and pair[0] != pair[1] for pair in zip(self, other, strict=True))


def same_name_problems(needed: Deployment, options: DeployOptions) -> Iterator[str]:
    """Yield what is wrong with queues of one short name that are not the same: the plan has one place for them."""
    seen: dict[str, list[str]] = {}
    for name in _names_of_queues(needed):
        seen.setdefault(Queue(name).short_name, []).append(name)
    for short, names in sorted(seen.items()):
        first, *others = sorted(names)
        for other in others:
            if _place(first, options).differs(_place(other, options)):
                yield (
                    f"{_named(first, options)} and {_named(other, options)} are two queues, and both are called "
                    f"{short!r}: only one would be made or allowed; rename one of them; nothing was written"
                )


def no_queue_problems(needed: Deployment) -> Iterator[str]:
    """Yield what is wrong with ARNs that stand where a queue's is meant, as a plain text does."""
    for name in _names_of_queues(needed):
        if name.startswith("arn:") and (service := name.split(":")[2]) != "sqs":
            yield (
                f"{name} is named as a queue, as each plain text is, and it is of {service}; write "
                f"{_WRITTEN.get(service, 'the ARN or the name of a queue').format(name)}; nothing was written"
            )


def _names_of_queues(needed: Deployment) -> Mapping[str, None]:
    """Return each name, ARN or URL that the code gives a queue."""
    planned = [queue.arn if queue.arn is not None else queue.name for queue in needed.queues]
    used = [permission for function in needed.functions for permission in function.permissions]
    return dict.fromkeys((*planned, *(each.name for each in used if each.on is Target.QUEUE)))


def _place(name: str, options: DeployOptions) -> _Place:
    at_aws = names_of(options).queue(name)
    if (arn := arn_of(Queue(at_aws))) is None:
        return _Place(options.region, options.account, Queue(at_aws).short_name)
    _, _, _, region, account, short = arn.split(":")
    return _Place(region, account, short)


def _named(name: str, options: DeployOptions) -> str:
    at_aws = names_of(options).queue(name)
    return name if at_aws == name else f"{name} ({at_aws})"

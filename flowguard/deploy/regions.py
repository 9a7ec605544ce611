"""The region of each resource that is named by its ARN or URL: all are in the region of the deployment."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from flowguard.deploy.account import Account
from flowguard.deploy.finding import LiveFinding, error
from flowguard.deploy.needs import Deployment, Target
from flowguard.deploy.options import DeployOptions
from flowguard.deploy.partitions import partition_problems
from flowguard.deploy.problems import CannotDeploy
from flowguard.deploy.queue_arns import arn_of
from flowguard.destinations import Queue

_REGION: Final = re.compile("[a-z]{2,4}(-[a-z]+)+-[0-9]+")
_CALLED: Final = "a function calls the services of its own region alone"
_READ: Final = "Lambda reads what is in the function's own region alone"
_GIVEN_UP: Final = "SQS gives records up to queues of the same region alone"
_SUBSCRIBED: Final = "its subscription, and the queue of what it cannot deliver, would have to be made in that region"
_RULED: Final = "a rule, and the queue that it sends to, would have to be made in that region"
_ENCRYPTS: Final = "a key encrypts in its own region alone"
_SIGNED: Final = "Lambda takes a configuration of its own region alone"
_ALARMED: Final = "CloudWatch publishes alarms to topics of its own region alone"
_FIX: Final = "name one of the deployment's region"


class Regional(NamedTuple):
    """A resource with a region, and why it must be that of the deployment."""

    arn: str
    why: str

    @property
    def region(self) -> str:
        return self.arn.split(":")[3]


def in_one_region(needed: Deployment, options: DeployOptions) -> None:
    """Raise :class:`CannotDeploy` where a deployment names resources of another region than its own.

    Its own is the ``region`` of the options. Without that, all that it names must be of one. A queue whose URL says no
    region is refused too.
    """
    if hosts := tuple(_without_region(needed)):
        raise CannotDeploy("queues by their URLs", hosts)
    named = _named(needed, options)
    if apart := tuple(partition_problems((each.arn for each in named), options)):
        raise CannotDeploy("resources of several partitions", apart)
    if options.region is None:
        first = {each.region: each for each in reversed(named)}
        if len(first) > 1:
            places = "; ".join(f"{each.arn}: {each.why}" for _, each in sorted(first.items()))
            fix = 'name resources of one region; region = "…" in the options says which is the deployment\'s'
            raise CannotDeploy("resources of several regions", (f"{places}; {fix}",))
        return
    problems = tuple(
        f"{each.arn} is not of {options.region}: {each.why}; {_FIX}" for each in named if each.region != options.region
    )
    if problems:
        raise CannotDeploy("resources of other regions", problems)


def check_regions(needed: Deployment, options: DeployOptions, live: Account) -> Iterator[LiveFinding]:
    """Yield the findings about resources of another region than the one that is looked at."""
    here = live.region
    if here is None:
        return
    if options.region not in (None, here):
        what = f"it says region = {options.region!r}, and {here} is looked at"
        why = "what is found, and what is missing, is another deployment's"
        yield error("region-other", "the options", what, why, f"look at {options.region}, with --region")
    for each in _named(needed, options):
        if each.region != here:
            yield error("region-other", each.arn, f"it is not of {here}, which is looked at", each.why, _FIX)


def _named(needed: Deployment, options: DeployOptions) -> list[Regional]:
    """Return each resource that is named with its region, once, with the first reason."""
    whole = (*_of_queues(needed), *_of_events(needed), *_of_functions(needed), *_of_options(needed, options))
    placed = [each for each in whole if each.arn.startswith("arn:") and _REGION.fullmatch(each.region)]
    return [*{each.arn: each for each in reversed(placed)}.values()][::-1]


def _of_queues(needed: Deployment) -> Iterator[Regional]:
    taking = {queue.give_up_to for queue in needed.queues}
    for queue in needed.queues:
        if queue.arn is not None:
            why = _CALLED if queue.reader is None else _READ
            yield Regional(queue.arn, _GIVEN_UP if queue.name in taking else why)


def _of_events(needed: Deployment) -> Iterator[Regional]:
    fed = {arn for queue in needed.queues for arn in queue.topics}
    yield from (Regional(topic.arn, _SUBSCRIBED if topic.arn in fed else _CALLED) for topic in needed.topics)
    yield from (Regional(bus.name, _RULED) for queue in needed.queues for bus in queue.rules)


def _of_functions(needed: Deployment) -> Iterator[Regional]:
    for function in needed.functions:
        yield from (Regional(stream.place, _READ) for stream in function.streams)
        used = [permission for permission in function.permissions if permission.on is not Target.KEY]
        yield from (Regional(_arn(permission.name), _CALLED) for permission in used)


def _without_region(needed: Deployment) -> Iterator[str]:
    """Yield what is wrong with the URLs whose host says no region, as that of an emulator."""
    used = (permission for function in needed.functions for permission in function.permissions)
    names = {permission.name for permission in used if permission.on is Target.QUEUE}
    for name in sorted(names):
        if name.startswith("http") and arn_of(Queue(name)) is None:
            yield f"{name}: its host says no region, so no role can name the queue; give its ARN"


def _arn(name: str) -> str:
    """Return the ARN of a queue that a URL names. Other names are returned as they are."""
    return arn_of(Queue(name)) or name


def _of_options(needed: Deployment, options: DeployOptions) -> Iterator[Regional]:
    """Yield the keys, the topic of the alarms and what signs code. The key of a bucket is of the bucket's region."""
    queues, tables = (each.kms_key for each in needed.queues), (each.kms_key for each in needed.tables)
    keys = (options.kms_key, *queues, *tables, *(each.kms_key for each in needed.topics))
    streams = (stream.kms_key for function in needed.functions for stream in function.streams)
    yield from (Regional(key, _ENCRYPTS) for key in (*keys, *streams) if key is not None)
    if (topic := options.alarm_topic) is not None:
        yield Regional(topic.arn, _ALARMED)
        yield from (Regional(key, _ENCRYPTS) for key in (topic.kms_key,) if key is not None)
    if options.code_signing is not None:
        yield Regional(options.code_signing, _SIGNED)

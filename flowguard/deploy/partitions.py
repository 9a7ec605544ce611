"""The partitions of ARNs in the code: those of their regions, and of the options."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from flowguard.deploy.option_arns import APART, named_arns
from flowguard.deploy.options import DeployOptions
from flowguard.deploy.queue_arns import partition_of


def partition_problems(arns: Iterable[str], options: DeployOptions) -> Iterator[str]:
    """Yield what is wrong with the partitions of ARNs with a region, and of the options' own ARNs.

    With a region in the options, theirs are compared with it already.
    """
    given = [*arns]
    for arn in given:
        _, partition, _, region, *_ = arn.split(":")
        if partition != partition_of(region):
            yield f"{arn} has the partition {partition}, and its region {region} is of {partition_of(region)}"
    beside = named_arns(options.model_dump(mode="json")) if given and options.region is None else ()
    for each in beside:
        if each.partition != (wanted := partition_of(given[0].split(":")[3])):
            yield f"{each} is of the partition {each.partition}, and {given[0]} of {wanted}: {APART}"

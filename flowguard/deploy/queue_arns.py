"""The ARN of a queue that is given by its ARN or URL, and its account."""

from __future__ import annotations

import re
from typing import Final

from flowguard.destinations import Queue

_URL: Final = re.compile(r"https?://([^/\s]+)/([0-9]{12})/([A-Za-z0-9_.-]+)")
_REGION: Final = "([a-z]{2,4}(?:-[a-z]+)+-[0-9]+)"
_HOSTS: Final = (
    re.compile(rf"(?:vpce-[a-z0-9-]+\.)?sqs(?:-fips)?\.{_REGION}\..+"),
    re.compile(rf"{_REGION}\.queue\..+"),
)
"""Match the hosts of queue URLs, with the region: ``sqs.REGION``, those of VPC endpoints and FIPS, ``REGION.queue``."""

_FIRST_HOST: Final = "queue.amazonaws.com"
"""The host of the first region, as it was called when there was no other."""

_PARTITIONS: Final = {
    "cn": "aws-cn",
    "us-gov": "aws-us-gov",
    "eusc": "aws-eusc",
    "us-iso": "aws-iso",
    "us-isob": "aws-iso-b",
    "eu-isoe": "aws-iso-e",
    "us-isof": "aws-iso-f",
}
"""By what the names of their regions begin with. All other regions are of ``aws``."""

_DOMAINS: Final = {"aws-cn": "amazonaws.com.cn", "aws-iso": "c2s.ic.gov", "aws-iso-b": "sc2s.sgov.gov"}
"""By the partition. All others have that of ``aws``."""


def arn_of(queue: Queue) -> str | None:
    """Return the ARN of a queue that is given by its ARN or URL.

    None for a bare name, and for a URL whose host says no region.
    """
    if queue.name.startswith("arn:"):
        return queue.name
    if (url := _URL.fullmatch(queue.name)) is None or (region := _region_of(url[1])) is None:
        return None
    return f"arn:{partition_of(region)}:sqs:{region}:{url[2]}:{url[3]}"


def account_of(arn: str | None) -> str | None:
    """Return the account in an ARN. None for a name, and where there is none."""
    return arn.split(":")[4] if arn is not None and arn.startswith("arn:") else None


def _region_of(host: str) -> str | None:
    if host == _FIRST_HOST:
        return "us-east-1"
    matches = (form.fullmatch(host) for form in _HOSTS)
    return next((match[1] for match in matches if match is not None), None)


def partition_of(region: str) -> str:
    """Return the partition of AWS that a region is in."""
    return next((name for begin, name in _PARTITIONS.items() if region.startswith(f"{begin}-")), "aws")


def domain_of(partition: str) -> str:
    """Return the domain of a partition, in which some of its services are principals."""
    return _DOMAINS.get(partition, "amazonaws.com")

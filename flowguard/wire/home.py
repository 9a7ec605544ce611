"""The account and region that a function lives in, and which destinations are there."""

from __future__ import annotations

from typing import Final, assert_never

from flowguard.destinations import Bus, Destination, Function, Queue, Topic
from flowguard.startup.late_pattern import late_pattern
from flowguard.startup.named_tuple import NamedTuple


class Home(NamedTuple):
    """A partition (``aws`` or ``aws-cn``), region and account."""

    partition: str
    region: str
    account: str

    @classmethod
    def of(cls, *arns: str | None) -> Home | None:
        """Read from the first that is an ARN with all three; None where none is."""
        for arn in arns:
            if arn is not None and (match := _ARN.fullmatch(arn)):
                return cls(match["partition"], match["region"], match["account"])
        return None


def is_local(to: Destination, home: Home | None, *, beside: str | None = None) -> bool:
    """Answer whether the destination is in this account and region.

    It is where it is named barely, or by an ARN or URL that says so. A topic has no bare name. Anything that is not
    wholly of a known form is elsewhere. ``beside`` is the URL of a queue that is known to be here: one with the same
    host, port and account is here too, an emulator's for one.
    """
    match to:
        case Queue():
            by_url = _by_url(to.name, home) or (beside is not None and _is_beside(to.name, beside))
            return bool(_NAME.fullmatch(to.name)) or _by_arn(to.name, "sqs", home) or by_url
        case Topic():
            return _by_arn(to.arn, "sns", home)
        case Function():
            return bool(_FUNCTION.fullmatch(to.name)) or _by_arn(to.name, "lambda", home)
        case Bus():
            return bool(_BUS.fullmatch(to.name)) or _by_arn(to.name, "events", home)
        case _:
            assert_never(to)


def _by_arn(name: str, service: str, home: Home | None) -> bool:
    match = _ARN.fullmatch(name)
    if match is None or match["service"] != service:
        return False
    here = home == (match["partition"], match["region"], match["account"])
    return here and _RESOURCES[service].fullmatch(match["resource"]) is not None


def _by_url(url: str, home: Home | None) -> bool:
    match = _URL.fullmatch(url)
    if match is None or home is None:
        return False
    return (match["region"] or match["legacy"], match["account"]) == (home.region, home.account)


def _is_beside(url: str, known: str) -> bool:
    place, _, queue = url.rpartition("/")
    return place == known.rpartition("/")[0] and _NAME.fullmatch(queue) is not None


_ARN: Final = late_pattern(
    "arn:(?P<partition>aws[a-z-]*):(?P<service>[a-z]+):(?P<region>[a-z0-9-]+):(?P<account>[0-9]{12}):(?P<resource>.+)"
)
_NAME: Final = late_pattern(r"[A-Za-z0-9_-]{1,256}(?:\.fifo)?")
_FUNCTION: Final = late_pattern("[A-Za-z0-9_-]{1,64}")  # with a colon it could be of another account: 123456789012:name
_BUS: Final = late_pattern("[A-Za-z0-9_./-]{1,256}")
_RESOURCES: Final = {
    "sqs": _NAME,
    "sns": _NAME,
    "lambda": late_pattern(r"function:[A-Za-z0-9_-]{1,64}(?::(?:\$LATEST|[A-Za-z0-9_-]{1,128}))?"),
    "events": late_pattern("event-bus/[A-Za-z0-9_./-]{1,256}"),
}
_URL: Final = late_pattern(
    r"https://(?:sqs\.(?P<region>[a-z0-9-]+)|(?P<legacy>[a-z0-9-]+)\.queue)\.amazonaws\.com(?:\.cn)?"
    r"/(?P<account>[0-9]{12})/[A-Za-z0-9_-]{1,80}(?:\.fifo)?"
)

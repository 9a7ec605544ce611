"""Request ids that say which place in a series a request has, such as that of a change among those of its item.

::

    arn:aws:kinesis:…:stream/orders:shardId-000000000000;place=056.49590338…
    └───────────────────── series ──────────────────────┘       └── place ──┘

Places compare as texts, so a number has its length before it: ``2.10`` is behind ``1.9``.
"""

from __future__ import annotations

from typing import Final

from flowguard.names.ids import RequestId

_SERIES: Final = "arn:"
_PLACE: Final = ";place="


def id_in_series(series: str, place: str) -> str:
    """Return the id of the request that has the place in a series. ``series`` is an ARN, and what narrows it."""
    return f"{series}{_PLACE}{place}"


def place_of_number(digits: str) -> str:
    """Return the place that a whole number stands for."""
    return f"{len(digits):03}.{digits}"


def has_place(request_id: RequestId) -> bool:
    """Answer whether the request is one of a series."""
    return bool(_parts(request_id)[1])


def comes_after(request_id: RequestId, other: RequestId) -> bool:
    """Answer whether both are of one series, and the first has the later place. False where nothing orders the two."""
    series, place = _parts(request_id)
    other_series, other_place = _parts(other)
    return bool(place) and series == other_series and place > other_place


def series_of(request_id: str) -> str:
    """Return the series of a request. Empty where the request is of none."""
    return _parts(RequestId(request_id))[0]


def _parts(request_id: RequestId) -> tuple[str, str]:
    """Return the series and the place. The place is empty where the id has none."""
    series, mark, place = request_id.rpartition(_PLACE)
    return (series, place) if mark and series.startswith(_SERIES) else ("", "")

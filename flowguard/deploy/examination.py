"""The examination of a live deployment, all checks in order."""

from __future__ import annotations

from collections.abc import Iterator

from flowguard.deploy.account import Account
from flowguard.deploy.accounts import check_accounts
from flowguard.deploy.bucket_checks import check_buckets
from flowguard.deploy.codec_uses import check_asked_codecs
from flowguard.deploy.event_checks import check_events
from flowguard.deploy.finding import LiveFinding, error, warning
from flowguard.deploy.function_checks import check_functions
from flowguard.deploy.key_checks import check_keys
from flowguard.deploy.named_checks import check_named
from flowguard.deploy.needs import Deployment
from flowguard.deploy.open_queue_checks import check_open_queues
from flowguard.deploy.options import DeployOptions
from flowguard.deploy.queue_checks import check_left_over, check_queue_tags, check_queues
from flowguard.deploy.regions import check_regions
from flowguard.deploy.run_checks import check_runs
from flowguard.deploy.security_checks import check_security
from flowguard.deploy.table_checks import check_tables
from flowguard.worker.routing import CLOCKS_DIFFER_BY

MOST_OFF_BY = 60
"""Seconds by which a clock may differ without a finding."""


def examine(
    needed: Deployment, options: DeployOptions, live: Account, *, now: int, most_runs: int
) -> Iterator[LiveFinding]:
    """Yield all findings about a live deployment. ``now`` is this machine's time in ms since 1970."""
    yield from check_regions(needed, options, live)
    yield from check_accounts(needed, live)
    yield from check_tables(needed, live)
    yield from check_queues(needed, live)
    yield from check_open_queues(needed, options, live)
    yield from check_left_over(needed, live)
    yield from check_queue_tags(needed, live)
    yield from check_buckets(needed, live)
    yield from check_events(needed, live, now)
    yield from check_functions(needed, live)
    yield from check_named(needed, live)
    yield from check_security(needed, options, live)
    yield from check_keys(needed, options, live)
    yield from check_asked_codecs(needed)
    yield from _clock(live, now)
    if most_runs and needed.flows:
        yield from check_runs(needed, live, now, most_runs)
    yield from live.notes()


def _clock(live: Account, now: int) -> Iterator[LiveFinding]:
    theirs = live.clock()
    if theirs is None:
        return
    off = abs(now / 1000 - theirs)
    if off > MOST_OFF_BY:
        make = error if off > CLOCKS_DIFFER_BY.total_seconds() else warning
        yield make(
            "clock-off",
            "this machine",
            f"its clock differs from AWS's by {off:.0f} s",
            "a request that is sent from here is dated wrongly: it takes its object from newer ones, or is refused",
            "set the clock by NTP",
        )

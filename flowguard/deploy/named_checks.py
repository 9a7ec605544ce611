"""Checks of the secrets, the bucket and the roles that functions and schedules name."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Final

from flowguard.deploy.account import Account, known
from flowguard.deploy.finding import LiveFinding, error
from flowguard.deploy.needs import Deployment

_KEYS: Final = ("FLOWGUARD_SIGNING_KEYS", "FLOWGUARD_TOKEN_KEYS")
_STORE: Final = "secretsmanager:"


def check_named(needed: Deployment, live: Account) -> Iterator[LiveFinding]:
    """Yield the secrets, buckets and roles that are named and not there."""
    yield from known(
        *(_secret(secret, live) for secret in _secrets(needed)),
        *(_bucket(bucket, live) for bucket in _buckets(needed)),
        _roles(needed, live),
    )


def _secrets(needed: Deployment) -> list[str]:
    """Return the secrets of keys. Where keys are in a parameter, it is not looked at."""
    places = {value for each in needed.functions for name, value in each.environment if name in _KEYS}
    return sorted(place.removeprefix(_STORE) for place in places if place.startswith(_STORE))


def _buckets(needed: Deployment) -> list[str]:
    return sorted(
        {value for each in needed.functions for name, value in each.environment if name == "FLOWGUARD_BUCKET"}
    )


def _secret(secret: str, live: Account) -> Iterator[LiveFinding]:
    if live.has_secret(secret) is False:
        yield error(
            "secret-missing",
            secret,
            "the secret does not exist, or is to be deleted",
            "functions have no keys: they believe no answer, deadline or order, and make no links",
            f"bring it back: aws secretsmanager restore-secret --secret-id {secret}; with other keys nothing is "
            "believed that was signed before",
        )


def _bucket(bucket: str, live: Account) -> Iterator[LiveFinding]:
    if live.has_bucket(bucket) is False:
        yield error(
            "bucket-missing",
            bucket,
            "the bucket of long texts does not exist",
            "long texts are neither written nor read: runs that have one stop or fail",
            "create it in the same account: set FLOWGUARD_BUCKET_OWNER, for by now it may be a stranger's",
        )


def _roles(needed: Deployment, live: Account) -> Iterator[LiveFinding]:
    for role, uses in _used(needed, live).items():
        if live.has_role(role.rpartition("/")[2]) is False:
            yield error(
                "role-missing",
                role,
                f"the role does not exist; it is that of {', '.join(uses)}",
                "Lambda starts no function without its role, and the scheduler sends nothing without one: long delays, "
                "deadlines, and what begins by the clock",
                "make it, as the template does, and set its new ARN where it is named: flowguard iac",
            )


def _used(needed: Deployment, live: Account) -> Mapping[str, list[str]]:
    """Return the ARN of each role, with the names of the functions and schedules that use it."""
    uses: defaultdict[str, dict[str, None]] = defaultdict(dict)  # a name once, in order
    for function in needed.functions:
        if (there := live.function(function.name)) is not None:
            uses[str(there.get("Role", ""))][function.name] = None
            variables: Mapping[str, str] = there.get("Environment", {}).get("Variables", {})
            uses[str(variables.get("FLOWGUARD_SCHEDULER_ROLE", ""))]["the scheduler"] = None
    for schedule in needed.schedules:
        if (planned := live.schedule(needed.scheduler_group, schedule.name)) is not None:
            uses[str(planned.get("Target", {}).get("RoleArn", ""))][f"the schedule {schedule.name}"] = None
    return {role: [*names] for role, names in uses.items() if role.startswith("arn:")}

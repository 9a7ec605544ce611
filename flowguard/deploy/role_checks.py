"""Checks of the roles that a template makes: whom they trust, and what the options ask of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from flowguard.deploy.account import Account, known
from flowguard.deploy.arns import LAMBDA, SCHEDULER, Arn
from flowguard.deploy.finding import LiveFinding, error, note, warning
from flowguard.deploy.needs import Deployment
from flowguard.deploy.options import DeployOptions
from flowguard.deploy.planned.parties import NOBODY
from flowguard.deploy.planned.policies import lets_service
from flowguard.deploy.planned.resources import HERE
from flowguard.deploy.planned.statements import Context, others_trusted
from flowguard.wire.home import Home

ASSUMES: Final = "sts:AssumeRole"
_ASSUMING: Final = (ASSUMES, "sts:AssumeRoleWithSAML", "sts:AssumeRoleWithWebIdentity")
"""What gives somebody the role. Other actions of a trust policy say what may come along, such as tags."""


_KEEP_IT: Final = "; keep the old one until what is scheduled with it has been sent"


class _Made(NamedTuple):
    """A role of the template. ``of`` is the name of its function, or the scheduler."""

    of: str
    name: str
    service: str
    asks: Sequence[Context]
    """The requests of its service, each of which is to be let in."""
    strangers: Mapping[str, Context]
    """Requests that the role must refuse, by a description of who makes them: a schedule of another account."""


def check_roles(needed: Deployment, options: DeployOptions, live: Account) -> Iterator[LiveFinding]:
    """Yield the findings about the roles of functions and of the scheduler, as far as the template makes them."""
    for role in _made(needed, live):
        yield from known(
            _boundary(role, options, live),
            _path(role, options, live),
            _tags(role, options, live),
            _trust(role, live),
        )


def _made(needed: Deployment, live: Account) -> Iterator[_Made]:
    used: list[tuple[Home, str]] = []
    for function in needed.functions:
        there = live.function(function.name)
        if there is None or (home := Home.of(there.get("FunctionArn"))) is None:
            continue
        used.append((home, _in_environment(there)))
        if function.role is None and (role := str(there.get("Role", ""))):
            asks = [{"aws:SourceAccount": each.account} for each in _places(needed, home)]
            yield _Made(function.name, _short(role), LAMBDA, asks, {})
    if needed.makes_scheduler_role and used:
        senders = [sender for _, sender in used]
        yield from _of_scheduler(needed, [*senders, *_of_schedules(needed, live)], used[0][0])


def _places(needed: Deployment, home: Home) -> Iterator[Home]:
    """Yield where a role is used. A file leaves the account open, which the options may name."""
    yield home
    if home.account == HERE.account and needed.account is not None:
        yield home._replace(account=needed.account)


def _of_scheduler(needed: Deployment, roles: list[str], home: Home) -> Iterator[_Made]:
    group = Arn("scheduler", f"schedule-group/{needed.scheduler_group}")
    theirs = Arn("scheduler", f"schedule-group/{NOBODY}")
    strangers = {
        "schedules of any account": _acting(theirs.filled(*home._replace(account=NOBODY)), NOBODY),
        "schedules of any group of the account": _acting(theirs.filled(*home), home.account),
    }
    asks = [_acting(group.filled(*each), each.account) for each in _places(needed, home)]
    for role in dict.fromkeys(filter(None, roles)):
        yield _Made("EventBridge Scheduler", _short(role), SCHEDULER, asks, strangers)


def _acting(source: str, account: str) -> Context:
    return {"aws:SourceArn": source, "aws:SourceAccount": account}


def _in_environment(there: Mapping[str, Any]) -> str:
    return str(there.get("Environment", {}).get("Variables", {}).get("FLOWGUARD_SCHEDULER_ROLE", ""))


def _of_schedules(needed: Deployment, live: Account) -> Iterator[str]:
    for schedule in needed.schedules:
        there = live.schedule(needed.scheduler_group, schedule.name)
        if there is not None:
            yield str(there.get("Target", {}).get("RoleArn", ""))


def _short(arn: str) -> str:
    return arn.rpartition("/")[2]


def _boundary(role: _Made, options: DeployOptions, live: Account) -> Iterator[LiveFinding]:
    boundary = options.permissions_boundary
    if boundary is None or (there := live.role(role.name)) is None:
        return
    bounded_by = there.get("PermissionsBoundary", {}).get("PermissionsBoundaryArn")
    if bounded_by != boundary:
        yield warning(
            "boundary-other",
            role.of,
            f"its role {'has no permissions boundary' if bounded_by is None else f'is bounded by {bounded_by}'}",
            "who may change the role's policies can give it more than the account means to allow",
            f"put the boundary {boundary} on the role",
        )


def _path(role: _Made, options: DeployOptions, live: Account) -> Iterator[LiveFinding]:
    if options.role_path == "/" or (there := live.role(role.name)) is None:
        return
    kept = _KEEP_IT if role.service == SCHEDULER else ""
    if (path := there.get("Path", "/")) != options.role_path:
        yield warning(
            "role-path-other",
            role.of,
            f"its role has the path {path}",
            f"policies of the account that speak of roles under {options.role_path} do not mean it",
            f"make another role under {options.role_path}, for a path cannot be changed{kept}",
        )


def _tags(role: _Made, options: DeployOptions, live: Account) -> Iterator[LiveFinding]:
    if (there := live.role(role.name)) is not None:
        tags = {each["Key"]: each["Value"] for each in there.get("Tags", ())}
        yield from check_tags(role.of, "its role", tags, options, stack_may=live.adds_tags)


def check_tags(
    of: str, what: str, tags: Mapping[str, str], options: DeployOptions, *, stack_may: bool
) -> Iterator[LiveFinding]:
    """Yield the finding that something lacks tags of the options.

    It is a note where the stack may add what is lacking. It changes no tag that a resource has.
    """
    lacking = [name for name, value in options.tags.items() if tags.get(name) != value]
    if lacking and stack_may and not tags.keys() & lacking:
        yield note(
            "tags-other",
            of,
            f"{what} lacks the tags {', '.join(lacking)} in the file",
            "it has them if its stack is deployed with them, and else it is taken for another team's",
            f"deploy with --tags {' '.join(f'{name}={options.tags[name]}' for name in lacking)}, or tag it in the file",
        )
    elif lacking:
        told = ", ".join(f"{name} is {tags[name]!r}" if name in tags else f"no {name}" for name in lacking)
        yield warning(
            "tags-other",
            of,
            f"{what} has other tags: {told}",
            "what finds or bills resources by these tags, or allows by them, takes it for another team's",
            f"tag it: {', '.join(f'{name} = {options.tags[name]}' for name in lacking)}",
        )


def _trust(role: _Made, live: Account) -> Iterator[LiveFinding]:
    """Yield whom a role does not trust and should, and whom it trusts beside."""
    trust = live.trust(role.name)
    if trust is None:
        return
    answers = [lets_service([trust], role.service, ASSUMES, asks) for asks in role.asks]
    if False in answers:
        yield error(
            "trust-missing",
            role.of,
            f"its role does not let {role.service} assume it",
            "the function does not start" if role.service == LAMBDA else "what is late or by the clock is never sent",
            f"let {role.service} call {ASSUMES} by its trust policy: no Deny and no condition may keep it out",
        )
    elif answers[0] is None:
        yield note(
            "trust-missing",
            role.of,
            f"its role may not let {role.service} assume it",
            "a statement of its trust policy, or one of its conditions, is not known here",
            "look whether the policy lets it in",
        )
    if others := sorted({*others_trusted(trust, role.service, _ASSUMING)}):
        yield warning(
            "trust-other",
            role.of,
            f"its role may be assumed by {', '.join(others)} too",
            "they read and change all that the role may: runs, keys, letters",
            f"trust nobody but {role.service} by its trust policy",
        )
    for whose, request in role.strangers.items():
        if lets_service([trust], role.service, ASSUMES, request):
            yield warning(
                "trust-open",
                role.of,
                f"its role trusts {role.service} for {whose}",
                "who makes such a schedule with this role sends what they like to the queues",
                "compare aws:SourceAccount and aws:SourceArn in its trust policy, as the template does",
            )
            return

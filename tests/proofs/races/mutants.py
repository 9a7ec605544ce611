"""The store's guards, each taken away in turn: a race must show that it is missing.

Each part of an expression is replaced by one that uses the same values, for DynamoDB refuses values that are not used.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from flowguard.aws import expressions

_OWNER, _EPOCH = "#owner = :owner", "epoch = :epoch"
_ANOTHER, _LATER = "request_id <> :request_id", "requested_at < :requested_at"
_NEWER = f"{_ANOTHER} AND {_LATER}"
_ANY = "attribute_exists(pk)"


def _or_any(part: str) -> str:
    return f"({part} OR {_ANY})"


MUTANTS: Final[Mapping[str, tuple[tuple[str, str], ...]]] = {
    "a commit without the fence of epoch and owner": (
        (f"{_EPOCH} AND {_OWNER}", f"{_or_any(_EPOCH)} AND {_or_any(_OWNER)}"),
    ),
    "a commit of a hop that is committed": ((f"{_OWNER} AND done = :no", f"{_OWNER} AND {_or_any('done = :no')}"),),
    "a claim without the lease": (("lease_until <= :now", _or_any("lease_until <= :now")),),
    "requests without order": ((_NEWER, f"{_ANOTHER} AND {_or_any(_LATER)}"),),
    "a request of the same time": ((_NEWER, f"{_ANOTHER} AND requested_at <= :requested_at"),),
    "a claim that does not count the epoch": (
        ("if_not_exists(epoch, :zero) + :one", "if_not_exists(epoch, :one) + :zero"),
    ),
    "a claim of a committed hop": (("((done = :no AND", f"(({_or_any('done = :no')} AND"),),
    "a redrive twice": (("#status = :failed AND redrive < :redrive", "#status = :failed AND redrive <= :redrive"),),
    "an earlier attempt": (("retry < :retry", f"(retry < :retry OR {_ANY})"),),
    "a commit of what was read and has changed": (
        (
            "epoch = :read_epoch AND #owner = :read_owner",
            f"{_or_any('epoch = :read_epoch')} AND {_or_any('#owner = :read_owner')}",
        ),
        ("request_id = :read_request_id", _or_any("request_id = :read_request_id")),
        ("done = :read_done", _or_any("done = :read_done")),
    ),
    "an object that is not kept": ((expressions._FREE, _or_any(expressions._FREE)),),
}

_OVER_BY_COUNT = "attribute_exists(waiting) AND size(waiting) > #wait.spare"
_ITS_OWN, _ITS_TIME = "request_id = :request_id", "requested_at = :requested_at"

OF_WAITS: Final[Mapping[str, tuple[tuple[str, str], ...]]] = {
    "an answer to a name that has one": (("contains(waiting, :name)", _or_any("contains(waiting, :name)")),),
    "a wait that is over": ((_OVER_BY_COUNT, _ANY),),
    "a wait that has timed out": (("attribute_not_exists(#wait.timed_out)", _ANY),),
    "another request's wait": (
        (
            f"{_ITS_TIME} AND {_ITS_OWN} AND hop = :hop AND #status",
            f"{_or_any(_ITS_TIME)} AND {_or_any(_ITS_OWN)} AND hop = :hop AND #status",
        ),
    ),
}


_HELD: Final = "#status = :running AND #owner = :owner"

OF_ONCE: Final[Mapping[str, tuple[tuple[str, str], ...]]] = {
    "a key without its lease": (
        ("attribute_not_exists(#owner) OR lease_until <= :now", f"lease_until <= :now OR {_ANY}"),
    ),
    "a result of a call that was outrun": ((_HELD, f"#status = :running AND {_or_any('#owner = :owner')}"),),
    "a stored result twice": ((_HELD, f"{_or_any('#status = :running')} AND {_or_any('#owner = :owner')}"),),
    "a payload that is not compared": (("OR digest = :digest", f"OR digest = :digest OR {_ANY}"),),
}
"""Of keys of ``@once``."""


_PATCHED: Final = ("LATER_HOP", "COMMIT", "UNCHANGED", "CLAIM_FIRST_HOP", "CLAIM_LATER_HOP", "ANSWER", "TIME_OUT")
_OF_KEYS: Final = ("CLAIM_PAYLOADS_KEY", "HOLD_KEY")


def break_expressions(name: str) -> None:
    """Patches ``flowguard.aws.expressions`` in this process, for good."""
    changed = False
    for part, instead in {**MUTANTS, **OF_WAITS, **OF_ONCE}[name]:
        for attribute in _OF_KEYS if name in OF_ONCE else _PATCHED:
            text: str = getattr(expressions, attribute)
            changed |= part in text
            setattr(expressions, attribute, text.replace(part, instead))
        first = {policy: text.replace(part, instead) for policy, text in expressions.FIRST_HOP.items()}
        changed |= first != expressions.FIRST_HOP
        expressions.FIRST_HOP = first  # type: ignore[misc]  # that is what a mutant is
    if not changed:
        raise ValueError(f"{name!r} changes nothing: the expressions are written otherwise by now")

"""One deployment of everything, in which the scenes are played at the same time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import ModuleType
from typing import Final

from tests.proofs.e2e.cloud import Cloud
from tests.proofs.e2e.deployment import deployed
from tests.proofs.e2e.play import Check, Play
from tests.proofs.e2e.scenes import (
    appointments,
    approvals,
    caches,
    carts,
    depot,
    environments,
    ledger,
    orders,
    pages,
    payments,
    recount,
    shelves,
    tickets,
)

SCENES: Final[Mapping[str, ModuleType]] = {
    "depot": depot,
    "ledger": ledger,
    "payments": payments,
    "approvals": approvals,
    "carts": carts,
    "pages": pages,
    "recount": recount,
    "orders": orders,
    "environments": environments,
    "appointments": appointments,
    "caches": caches,
    "shelves": shelves,
    "answer-ticket": tickets,
}
"""Each module has ``MODULE``, where its handlers are, and ``scene``. Those that wait longest come first.

One with ``DEPLOYED`` has modules that are deployed once more, by the rule of the names under which they are.
"""


def played(names: Sequence[str]) -> Iterator[Check]:
    """Deploy what the scenes need, play them, and yield their checks as they are made."""
    chosen = [SCENES[name] for name in names]
    modules = [one.MODULE for one in chosen if not hasattr(one, "DEPLOYED")]
    renamed = {rule: some for one in chosen for rule, some in getattr(one, "DEPLOYED", {}).items()}
    with deployed(modules, renamed) as cloud:
        yield from Play({name: SCENES[name].scene(cloud) for name in names}).checks()
        yield from _of_clients(cloud)


def _of_clients(cloud: Cloud) -> Iterator[Check]:
    """Yield whether each function has called by the client that it was asked for. Every other one is asked."""
    lean, boto3 = cloud.clients("lean"), cloud.clients("boto3")
    asked = (lean | boto3) & cloud.lean_functions
    yield Check("functions that are asked to call by the lean client do, no others, and not boto3", asked, lean - boto3)
    yield Check("some are asked", True, bool(asked))

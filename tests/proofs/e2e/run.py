"""One deployment of everything, in which the scenes are played at the same time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import ModuleType
from typing import Final

from tests.proofs.e2e.deployment import deployed
from tests.proofs.e2e.play import Check, Play
from tests.proofs.e2e.scenes import (
    appointments,
    approvals,
    caches,
    carts,
    depot,
    ledger,
    orders,
    pages,
    payments,
    recount,
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
    "appointments": appointments,
    "caches": caches,
}
"""Each module has ``MODULE``, where its handlers are, and ``scene``. Those that wait longest come first."""


def played(names: Sequence[str]) -> Iterator[Check]:
    """Deploy what the scenes need, play them, and yield their checks as they are made."""
    with deployed([SCENES[name].MODULE for name in names]) as cloud:
        yield from Play({name: SCENES[name].scene(cloud) for name in names}).checks()

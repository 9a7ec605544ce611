"""In which order a mutant meets schedules and tests: what is quickest to notice most of them comes first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tests.proofs.prove.elsewhere import tested
from tests.proofs.prove.harmless import HARMLESS
from tests.proofs.prove.hunt import Hunt
from tests.proofs.prove.mutant import Mutant
from tests.proofs.prove.parts import Parts
from tests.proofs.prove.remembered import EXPLORER, remembered
from tests.proofs.prove.witnesses import Witnesses


class Limits(NamedTuple):
    """About how many schedules are tried at first on a mutant that has tests, and at all on a harmless one.

    With none of them a mutant that has tests is explored only where these do not notice it, or did not the last time.
    """

    tested: int
    harmless: int

    def of(self, mutants: Sequence[Mutant]) -> Mapping[int, int]:
        """Return the limits by number of those that have one."""
        explored = {name for name, test in remembered().items() if test == EXPLORER}
        found = {one.number: self.tested for one in mutants if tested(one.name) and one.name not in explored}
        return {**found, **{one.number: self.harmless for one in mutants if one.name in HARMLESS}}


def try_all(hunt: Hunt, witnesses: Witnesses, chosen: Sequence[Mutant], limits: Limits, parts: Parts) -> None:
    """Explore each mutant, a few schedules where tests are named for it; run these tests; explore what they left."""
    few = limits.of(chosen)
    with parts.timed("mutants explored"):
        hunt.run(chosen, few)
    with parts.timed("mutants tested"):
        witnesses.ask([one for one in chosen if one.number not in hunt.kills and one.name not in HARMLESS])
    with parts.timed("the rest explored"):
        hunt.run([one for one in chosen if one.number in few and _is_left(one, hunt, witnesses)], {})


def _is_left(mutant: Mutant, hunt: Hunt, witnesses: Witnesses) -> bool:
    is_noticed = mutant.number in hunt.kills or witnesses.noticed.get(mutant.number) is not None
    return not is_noticed and mutant.name not in HARMLESS

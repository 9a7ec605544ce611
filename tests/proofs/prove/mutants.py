"""Every mutant there is, by number."""

from __future__ import annotations

from collections.abc import Sequence

from tests.proofs.prove.code import Code
from tests.proofs.prove.harmless import HARMLESS
from tests.proofs.prove.left_alone import MODULES
from tests.proofs.prove.mutant import Mutant
from tests.proofs.prove.protocol import Expressions
from tests.proofs.prove.remembered import remembered
from tests.proofs.prove.renamed import with_names_of


class Mutants:
    """Made from the sources as they are now, under the names that the tables have for them."""

    def __init__(self, modules: Sequence[str] = MODULES) -> None:
        self._expressions = Expressions(0)
        self.all: list[Mutant] = [*self._expressions.mutants]
        self._codes: list[Code] = []
        for module in modules:
            self._codes.append(Code(module, len(self.all)))
            self.all += self._codes[-1].mutants
        self.all = with_names_of({*HARMLESS, *remembered()}, self.all)

    def by_number(self, number: int) -> Mutant:
        return self.all[number]

    def put_probes(self) -> None:
        """For good, in this process."""
        self._expressions.put_probes()
        for one in self._codes:
            one.put_probes()

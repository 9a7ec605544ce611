"""The expressions of flowguard's store as mutants, and the probes that see where they matter."""

from __future__ import annotations

import inspect
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final, TypeAlias

from flowguard.aws import expressions
from flowguard.sim.memory import requests
from flowguard.sim.memory.conditions import ConditionExpression, condition
from flowguard.sim.memory.updates import UpdateExpression, update
from tests.proofs.prove import probes
from tests.proofs.prove.expressions import (
    Loss,
    Text,
    comparisons,
    condition_losses,
    is_update,
    marked_constants,
    update_losses,
)
from tests.proofs.prove.mutant import Mutant, within

_CONDITION: Final = "ConditionExpression"
_UPDATE: Final = "UpdateExpression"

Holds: TypeAlias = Callable[..., bool]
Differing: TypeAlias = dict[tuple[bool, ...], list[int]]
"""Of one condition: by which of its single comparisons hold, the mutants whose answer is another."""


def allow_unused() -> None:
    """A lost condition leaves a placeholder without use, which DynamoDB would refuse: that is not what is proved."""
    requests._all_used = _any_use


def _any_use(kind: str, params: requests.Params, used: frozenset[str]) -> None:
    """In place of the engine's check."""


class TextChange:
    """An expression of the module, or of one of its dicts, in other words."""

    def __init__(self, name: str, key: Any, after: str) -> None:
        self._name = name
        self._key = key
        self._after = after
        self._before: Any = None

    def apply(self) -> None:
        value = getattr(expressions, self._name)
        self._before = value
        setattr(expressions, self._name, self._after if self._key is None else {**value, self._key: self._after})

    def undo(self) -> None:
        setattr(expressions, self._name, self._before)


class Expressions:
    """All mutants of the module ``flowguard.aws.expressions``, numbered from ``first``, and the probes for them."""

    def __init__(self, first: int) -> None:
        self.mutants: list[Mutant] = []
        self._conditions: dict[str, list[tuple[int, str]]] = defaultdict(list)
        self._updates: dict[str, list[int]] = defaultdict(list)
        path = str(inspect.getsourcefile(expressions))
        names: Counter[str] = Counter()
        for name, key, whole in _texts(path):
            losses = update_losses(whole) if is_update(whole.text) else condition_losses(whole)
            for loss in losses:
                self._add(name, key, whole, loss, first + len(self.mutants), path, names)

    def _add(self, name: str, key: Any, whole: Text, loss: Loss, number: int, path: str, names: Counter[str]) -> None:
        place = name if key is None else f"{name}[{key.name}]"
        said = f"expressions.{place}: {loss.guard} → {loss.change}"
        names[said] += 1
        if names[said] > 1:
            said += f" ({names[said]})"
        self.mutants.append(Mutant(number, said, within(path), loss.line, TextChange(name, key, loss.after)))
        if is_update(whole.text):
            self._updates[whole.text].append(number)
        else:
            self._conditions[whole.text].append((number, loss.after))

    def put_probes(self) -> None:
        """For good: the memory engine asks each mutant's condition too, and notes whose answer is another."""

        known: dict[str, Differing] = defaultdict(dict)
        single = {text: comparisons(text) for text in self._conditions}

        @lru_cache(maxsize=256)
        def watched(kind: str, text: str, names: Any) -> ConditionExpression:
            real = condition(kind, text, names)
            if text not in single:
                return real

            def others() -> list[tuple[int, Holds]]:
                return [(number, condition(kind, after, names).holds) for number, after in self._conditions[text]]

            each = [condition(kind, one, names).holds for one in single[text]]
            return replace(real, holds=asking(real.holds, others, each, known[text]))

        def updating(kind: str, text: str, names: Any) -> UpdateExpression:
            for number in self._updates.get(text, ()):
                probes.note(number)
            return update(kind, text, names)

        parsers: Any = requests._PARSERS
        parsers.update({_CONDITION: watched, _UPDATE: updating})


def asking(
    real: Holds, others: Callable[[], Iterable[tuple[int, Holds]]], single: Sequence[Holds], known: Differing
) -> Holds:
    """Note whose answer is another. Where all single comparisons hold as they did once, all answers are as they were.

    To ask each mutant each time, and to parse it for other names, takes longer than all the rest of a call. So
    ``known`` are the answers for all names that a condition is asked with.
    """

    def holds(item: Any, values: Any) -> bool:
        answer = real(item, values)
        state = tuple([one(item, values) for one in single])
        numbers = known.get(state)
        if numbers is None:
            numbers = known[state] = [number for number, other in others() if other(item, values) != answer]
        for number in numbers:
            probes.note(number)
        return answer

    return holds


def _texts(path: str) -> Iterator[tuple[str, Any, Text]]:
    """Every expression that the module offers: by its name, and its key where it stands in a dict."""
    for name, value in marked_constants(path).items():
        if not name.isupper() or name.startswith("_") or name.endswith("NAMES"):
            continue
        if isinstance(value, str):
            yield name, None, Text.marked(value)
        elif isinstance(value, dict):
            for key, text in value.items():
                yield name, key, Text.marked(text)

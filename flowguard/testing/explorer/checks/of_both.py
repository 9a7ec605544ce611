"""The comparison of an end that two versions of the code have led to with the undisturbed ends of each.

A run of which each version has handled a part ends in parts as either does::

    table bills, order o1    old 5 €    new 5.00 €    this 5 €       right: as the older code leaves it
    queue emails             1          1             2              wrong: no version sends two
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from flowguard.testing.explorer.checks.equivalence import End, differences
from flowguard.testing.explorer.checks.problem import EQUIVALENCE, Problem


def nearest_of_both(end: End, new: Sequence[End], old: Sequence[End]) -> list[Problem]:
    """Return how an end differs from a pair of undisturbed ends, one of each version: that which is most like it.

    What differs is in neither of the pair. Empty where each part is in one of them.
    """
    of_new = [(right, differences(end, right)) for right in new]
    of_old = [(right, differences(end, right)) for right in old]
    pairs = (_from_pair(end, newer, older) for newer in of_new for older in of_old)
    return min(pairs, key=len, default=[])


def _from_pair(end: End, new: tuple[End, list[Problem]], old: tuple[End, list[Problem]]) -> list[Problem]:
    (newer, differ), (older, too) = new, old
    places = {(problem.rule, problem.where, problem.text) for problem in too}
    return [
        *(problem for problem in differ if (problem.rule, problem.where, problem.text) in places),
        *_counted(end, newer, older),
    ]


def _counted(end: End, new: End, old: End) -> Iterator[Problem]:
    """Yield each table or destination with more entries than both ends have, or with fewer."""
    counts, of_new, of_old = _counts(end), _counts(new), _counts(old)
    for place in sorted(counts.keys() | of_new.keys() | of_old.keys()):
        least, most = sorted((of_new[place], of_old[place]))
        if not least <= counts[place] <= most:
            shown = str(least) if least == most else f"{least} or {most}"
            yield Problem(EQUIVALENCE, place, "how many there are", shown, str(counts[place]))


def _counts(end: End) -> Counter[str]:
    """Return how many items each table has, and how many messages each destination got."""
    counts = Counter({table: sum(map(len, items.values())) for table, items in end.tables.items()})
    counts.update(Counter(to for to, _ in end.messages))
    for (to, _), times in end.anonymous.items():
        counts[to] += times
    return counts

"""What must hold of the night's total at every end, for the explorer."""

from __future__ import annotations

from flowguard.testing import View, invariant
from flows.nightly_recount.flow import COUNTS, TOTALS


@invariant
def a_total_is_what_its_shops_have_counted(view: View) -> str | None:
    """Expect no shop twice, and none left out of a total that misses nobody."""
    for total in view.table(TOTALS):
        counts = [row["pieces"] for row in view.table(COUNTS) if row["night"] == total["night"]]
        if total["pieces"] > sum(counts) or total["counted"] > len(counts):
            return f"{total} is more than the shops have counted: {counts}"
        if not total["missing"] and total["pieces"] != sum(counts):
            return f"{total} misses nobody, and the shops have counted {counts}"
    return None

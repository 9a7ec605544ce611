"""A unit of CPU: what one fixed piece of Python takes. Machines, and days of one machine, differ by three times.

``.ci/within`` runs this file without anything else to measure one.
"""

import time


def seconds() -> float:
    """Burn a unit, and return the seconds of CPU that it took: from a sixth to half of one, by the machine."""
    began = time.process_time()
    counts: dict[str, int] = {}
    for number in range(500_000):
        counts[f"{number % 1000}"] = counts.get(f"{number % 997}", 0) + number
    return time.process_time() - began


if __name__ == "__main__":
    seconds()

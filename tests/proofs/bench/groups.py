"""What a request of a group costs, and whether that grows with the group: saved, answered and read, all told."""

from __future__ import annotations

import time
from collections import Counter
from typing import Final

from flowguard.protocol.groups import MOST_IN_SHARD
from tests.aws.engines import on_dynamodb_local
from tests.aws.test_group_costs import whole
from tests.engines.dynamodb_local import dynamodb_local
from tests.engines.process import EngineMissing
from tests.proofs.bench.figure import Figure

MARK: Final = 4
GROWN: Final = 1.2
NOISE: Final = 0.1
SHARDS: Final = (10, 50)
NAME: Final = "WRUs a request of a group"


def figures(shards: tuple[int, int] = SHARDS) -> list[Figure]:
    sizes = [shard * MOST_IN_SHARD for shard in shards]
    try:
        of_group(MOST_IN_SHARD)  # the first calls of a process load what all calls need
        (_, before), (units, more), (_, after) = map(of_group, (sizes[0], sizes[1], sizes[0]))
    except EngineMissing as missing:
        return [Figure(NAME, None, MARK, note=str(missing))]
    each = {what: written / sizes[1] for what, written in units.items()}
    grown = f"  CPU of one of {sizes[1]:,}, of one of {sizes[0]:,}"
    return [
        Figure(NAME, round(sum(each.values()), 2), MARK, note=", ".join(f"{a} {one:.2f}" for a, one in each.items())),
        Figure(grown, 2 * more / (before + after), GROWN, "×", "of the client, on DynamoDB Local", NOISE),
    ]


def of_group(size: int) -> tuple[Counter[str], float]:
    """Write units, and the CPU seconds of a request: a group of this size is saved, settled and read."""
    with dynamodb_local() as url:
        clients = on_dynamodb_local(url)
        begun = time.process_time()
        written = whole(clients, size).written
        return written, (time.process_time() - begun) / size

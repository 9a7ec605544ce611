"""The parts of a group that invocations of its hop have saved, one after another.

The hop remembers them under its fence, as what ``step.once`` remembers: a worker that lost its hop adds none.

::

    saves shards 0 … 9    part 0 remembered    lease over    message sent again      another invocation goes on
                                               dies here: its record comes again, and goes on
                          dies here: the same, when the lease is over
    dies here: shards 0 … 9 are saved anew, under another key
"""

from __future__ import annotations

from flowguard.outcome import WaitForGroup
from flowguard.protocol.groups import GroupPlan, SavedPart, part_name
from flowguard.protocol.run import Claim
from flowguard.startup.named_tuple import NamedTuple
from flowguard.worker.hop_memory import HopMemory


class SavedGroup(NamedTuple):
    """A wait for a group whose requests are saved."""

    outcome: WaitForGroup
    plan: GroupPlan


def read_parts(memory: HopMemory) -> tuple[SavedPart, ...]:
    """Read the parts that are saved, in order. A redrive starts over."""
    parts: list[SavedPart] = []
    while (text := memory.recall(_name_of(memory.claim, len(parts)))) is not None:
        parts.append(SavedPart.from_text(text))
    return tuple(parts)


def keep_part(memory: HopMemory, number: int, part: SavedPart) -> None:
    """Remember one more part. Raises :class:`flowguard.errors.WorkerFenced` where another has the hop by now."""
    memory.remember(_name_of(memory.claim, number), part.to_text())


def _name_of(claim: Claim, number: int) -> str:
    m = claim.message
    return part_name(m.requested_at, m.redrive, number)

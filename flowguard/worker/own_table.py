"""The changes of the run items' own table, which a mapping made by hand may bring. They begin no runs.

Each run writes its item, so each would begin others without end. No depth bounds that, for a stream's record says none.
"""

from __future__ import annotations

from typing import Final

from flowguard.events import EventType
from flowguard.wire.envelope import Envelope
from flowguard.worker.emitter import Emitter
from flowguard.worker.ending import Ending
from flowguard.worker.ports import Services

_TABLE: Final = ":table/"


def ending_of_own(services: Services, emitter: Emitter, envelope: Envelope) -> Ending | None:
    """Report and ack a change of the run items' table. None for all other records."""
    if not is_of_run_table(services, envelope):
        return None
    emitter.emit(EventType.OWN_TABLE, None, record=envelope.message_id, table=services.run_table)
    return Ending(envelope, ack=True)


def is_of_run_table(services: Services, envelope: Envelope) -> bool:
    """Answer whether the record is a change of the table in which the function keeps its runs."""
    if services.run_table is None or not envelope.source.is_stream:
        return False
    changed = str(envelope.source_arn).partition(_TABLE)[2].partition("/")[0]
    return changed == services.run_table.rpartition("/")[2]

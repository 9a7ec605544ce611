"""The statements of a hop, as its step asks for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flowguard.errors import FenceAhead, RunFailed, WorkerFenced
from flowguard.protocol.claims import committed_before, takes_object
from flowguard.protocol.run import Claim, FencedBy
from flowguard.recorded.remembered import idempotency_key
from flowguard.sql.fence import FenceIsNewer, SqlDatabase, SqlFence, made_once
from flowguard.startup.named_tuple import NamedTuple
from flowguard.wire.message import Message


class SqlOfHop(NamedTuple):
    """The hop whose statements run in a database, under a claim of that ``epoch``. ``now`` is in ms since 1970.

    ``reset_by`` is the last reset of its object: what was done before it counts no more. ``claim`` is that claim.
    """

    database: SqlDatabase
    message: Message
    epoch: int
    now: int
    is_current: Callable[[], bool]
    reset_by: str | None = None
    claim: Claim | None = None

    def once(self, name: str, make: Callable[[Any], str]) -> str:
        """Return the text that ``make`` returns, which is called in the first attempt that commits.

        The database does not know of claims that have written nothing there. So the run item is asked where the
        database refuses: a hop that is still current did not end because of it.
        """
        if type(self.database).__module__.partition(".")[0] in ("psycopg", "sqlite3", "builtins"):
            kind = type(self.database).__name__
            raise RunFailed(f"a {kind} is no database of flowguard.sql; give Postgres(…), DataApi(…) or SQLite(…)")
        m, reset_by = self.message, "" if self.reset_by is None else self.reset_by
        fence = SqlFence(m.flow, m.object_id, m.request_id, m.requested_at, m.hop, self.epoch, self.now, reset_by)
        if self.claim is not None:
            expired_since = self.now - (self.claim.item.ttl * 1000 - self.claim.at)
            begins, after = takes_object(self.claim), committed_before(self.claim)
            fence = fence._replace(begins=begins, after=after, expired_since=expired_since)
        try:
            return made_once(self.database, fence, idempotency_key(m, name, None), make)
        except FenceIsNewer as newer:
            if self.is_current():
                raise FenceAhead(f"{newer}, and the run item does not; delete its row there") from None
            raise WorkerFenced(FencedBy.OTHER_ATTEMPT.value) from None  # its record comes again, and is judged

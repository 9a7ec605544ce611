"""The SQL databases in which :meth:`flowguard.Step.sql` applies statements once in each hop.

::

    LEDGER = Postgres(lambda: psycopg.connect(os.environ["LEDGER"]))


    def handle(self, order: Order, step: Step) -> Outcome:
        step.sql("book", LEDGER, lambda cursor: cursor.execute("INSERT INTO bookings …"))

The database needs one table more, which ``SCHEMA`` makes. A name loads its module when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowguard.names.public import loader

if TYPE_CHECKING:
    from flowguard.sql.data_api import DataApi as DataApi
    from flowguard.sql.data_api import DataApiTransaction as DataApiTransaction
    from flowguard.sql.fence import SCHEMA as SCHEMA
    from flowguard.sql.fence import forget_fence as forget_fence
    from flowguard.sql.newest import is_newer as is_newer
    from flowguard.sql.postgres import Postgres as Postgres
    from flowguard.sql.sqlite import SQLite as SQLite

_HOME = {
    "SCHEMA": "sql.fence",
    "forget_fence": "sql.fence",
    "Postgres": "sql.postgres",
    "DataApi": "sql.data_api",
    "DataApiTransaction": "sql.data_api",
    "SQLite": "sql.sqlite",
    "is_newer": "sql.newest",
}

__all__ = list(_HOME)


if not TYPE_CHECKING:  # to a type checker, a name that is not above is a mistake
    __getattr__ = loader(__name__, _HOME)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME])

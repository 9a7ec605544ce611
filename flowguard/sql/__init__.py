"""SQL statements that are applied once in each hop, for :meth:`flowguard.Step.sql`.

::

    LEDGER = Postgres(lambda: psycopg.connect(os.environ["LEDGER"]))


    def handle(self, order: Order, step: Step) -> Outcome:
        step.sql("book", LEDGER, lambda cursor: cursor.execute("INSERT INTO bookings …"))

The database needs one table more: see :data:`SCHEMA`.
"""

from flowguard.sql.data_api import DataApi, DataApiTransaction
from flowguard.sql.fence import SCHEMA, FenceAhead
from flowguard.sql.newest import is_newer
from flowguard.sql.postgres import Postgres
from flowguard.sql.sqlite import SQLite

__all__ = ["SCHEMA", "DataApi", "DataApiTransaction", "FenceAhead", "Postgres", "SQLite", "is_newer"]

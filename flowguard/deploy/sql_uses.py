"""The databases of ``step.sql`` that functions reach by the Data API of RDS, with the permissions of their roles.

Who connects to PostgreSQL by psycopg does so with a password or a token of its own, of which nothing is known here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from flowguard.deploy.found import FoundFunction
from flowguard.deploy.needs import Permission, Target
from flowguard.deploy.uses import uses_of

DATA_API: Final = (
    *("rds-data:BeginTransaction", "rds-data:CommitTransaction"),
    *("rds-data:ExecuteStatement", "rds-data:RollbackTransaction"),
)
"""What a transaction of ``step.sql`` needs of the cluster."""

READS_USER: Final = "secretsmanager:GetSecretValue"
"""The Data API reads the secret with the database's user in the name of its caller."""


def sql_permissions(function: FoundFunction) -> Iterator[Permission]:
    """Yield what a function does with the clusters of its handlers, and with the secrets of these."""
    databases = {database for _, stage in function.stages for database in uses_of(stage).databases}
    for cluster in {database.cluster for database in databases}:
        yield Permission(Target.DATABASE.value, cluster, DATA_API)
    for secret in {database.secret for database in databases}:
        yield Permission(Target.SECRET.value, secret, (READS_USER,))

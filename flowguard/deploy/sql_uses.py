"""The databases of ``step.sql`` that functions reach by the Data API of RDS, with the permissions of their roles.

Who connects to PostgreSQL by psycopg has a password, of which nothing is known here, or a token of IAM. For that the
options name the database's user.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
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


CONNECTS: Final = "rds-db:connect"
"""What the token of a database's user needs, which is made of the function's own credentials."""


def connecting(users: Iterable[str]) -> Iterator[Permission]:
    """Yield what lets a function connect as these users of databases."""
    yield from (Permission(Target.DATABASE_USER.value, user, (CONNECTS,)) for user in users)


def sql_permissions(function: FoundFunction) -> Iterator[Permission]:
    """Yield what a function does with the clusters of its handlers, and with the secrets of these."""
    databases = {database for _, stage in function.stages for database in uses_of(stage).databases}
    for cluster in {database.cluster for database in databases}:
        yield Permission(Target.DATABASE.value, cluster, DATA_API)
    for secret in {database.secret for database in databases}:
        yield Permission(Target.SECRET.value, secret, (READS_USER,))

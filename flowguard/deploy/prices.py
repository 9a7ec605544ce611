"""The prices of what a flow uses at AWS. They stand in one table, with its date."""

from __future__ import annotations

import tomllib
from enum import StrEnum
from pathlib import Path
from typing import Annotated

from pydantic import Field, ValidationError

from flowguard.deploy.options import Frozen
from flowguard.deploy.problems import CannotDeploy
from flowguard.payload.encoding import problems_of


class Unit(StrEnum):
    """What AWS counts. Each is a price of :class:`Prices`."""

    WRITES = "dynamodb_writes"
    READS = "dynamodb_reads"
    SQS = "sqs_requests"
    SNS = "sns_publishes"
    EVENTS = "bus_events"
    SCHEDULES = "schedules"
    S3_WRITES = "s3_writes"
    S3_READS = "s3_reads"
    INVOCATIONS = "lambda_invocations"
    GB_SECONDS = "lambda_gb_seconds"
    LOGS = "log_megabytes"
    ALARMS = "alarm_months"


Dollars = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Prices(Frozen):
    """US dollars for a million of each, on demand, without free tiers and discounts."""

    region: str = "us-east-1"
    as_of: str = "2025-07"
    dynamodb_writes: Dollars = 0.625
    dynamodb_reads: Dollars = 0.125
    sqs_requests: Dollars = 0.40
    sns_publishes: Dollars = 0.50
    bus_events: Dollars = 1.00
    schedules: Dollars = 1.00
    s3_writes: Dollars = 5.00
    s3_reads: Dollars = 0.40
    lambda_invocations: Dollars = 0.20
    lambda_gb_seconds: Dollars = 13.3334
    log_megabytes: Dollars = 500
    alarm_months: Dollars = 100_000

    @classmethod
    def read(cls, file: Path) -> Prices:
        """Read the prices of a TOML file; it must say its region and date. Others stay as they are here.

        Raises :class:`CannotDeploy` with all that is wrong in it.
        """
        try:
            data = tomllib.loads(file.read_text(encoding="utf-8"))
            if missing := [name for name in ("region", "as_of") if name not in data]:
                raise CannotDeploy(str(file), (f"it does not say {' and '.join(missing)}",))
            return cls.model_validate(data)
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise CannotDeploy(str(file), (f"cannot be read: {error}",)) from None
        except ValidationError as error:
            raise CannotDeploy(str(file), (problems_of(error),)) from None

    def of(self, unit: Unit) -> float:
        """Return the price of one."""
        price: float = getattr(self, unit.value)
        return price / 1_000_000

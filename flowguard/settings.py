"""The settings, frozen. They are read once from the environment, or made by hand."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import cache
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr, ValidationError

from flowguard.errors import SettingsError, shown
from flowguard.names.at_aws import Names
from flowguard.text.setting_problems import ACCOUNT, KMS_KEY, LINKS, setting_problem

logger = logging.getLogger("flowguard")
_PREFIX = "FLOWGUARD_"

NameRule = Annotated[str, AfterValidator(lambda text: str(Names.parse(text)))]
"""The text of :class:`flowguard.names.at_aws.Names`."""


class Settings(BaseModel):
    """What differs from one deployment to the next. Each field is ``FLOWGUARD_<FIELD>`` in the environment."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    table: str = Field("flowguard", min_length=3, description="The table of the run items.")
    names: NameRule = Field(
        "*",
        description="The names of tables, queues, topics and functions at AWS, with * for those in the code, such as "
        "staging-*. Behind a comma single ones: queues.parcels=shared-parcels.",
    )
    bucket: str | None = Field(None, description="An S3 bucket for texts too long for an item; none: they are refused.")
    bucket_owner: str | None = Field(
        None, pattern=ACCOUNT, description="The account of the bucket. One that another owns is not touched."
    )
    offload_above: int = Field(
        32_768, ge=1_024, le=200_000, description="Texts above this many bytes, compressed, go to the bucket."
    )
    prefix: str = Field("flowguard/", description="What the keys in the bucket begin with.")
    scheduler_role: str | None = Field(
        None, description="The ARN of the role by which EventBridge Scheduler sends to SQS: for flows with long_delays."
    )
    scheduler_group: str = Field("default", description="The schedule group of long delays.")
    scheduler_undelivered: str | None = Field(
        None, description="The ARN of a standard queue that gets what EventBridge Scheduler cannot deliver."
    )
    scheduler_key: str | None = Field(
        None, pattern=KMS_KEY, description="The ARN of the KMS key that encrypts the messages of EventBridge Scheduler."
    )
    signing_keys: SecretStr | None = Field(
        None,
        description="Signs messages: id:secret[,id:secret…], or ssm:<parameter> or secretsmanager:<secret> with that.",
    )
    token_keys: SecretStr | None = Field(
        None, description="Makes tokens for those who answer from outside: as signing_keys, which it defaults to."
    )
    answers_url: str | None = Field(
        None,
        pattern=LINKS,
        description="The base of links to answer by: the URL above the tokens, of the function of answers.",
    )

    observers: str = Field(
        "logs",
        description="What watches: logs, and module:attribute for one of your own, with commas between them.",
    )

    client: Literal["auto", "boto3", "lean"] = Field(
        "auto",
        description="Who makes the calls of a message: boto3, lean for flowguard's own client, or auto, which takes "
        "that one in functions of Lambda alone.",
    )

    debug_sampled: bool = Field(
        False, description="Whether step.log writes the level DEBUG too, in runs whose trace is sampled."
    )

    @property
    def at_aws(self) -> Names:
        """Return the names that resources have at AWS."""
        return Names.parse(self.names)

    @property
    def run_table(self) -> str:
        """Return the name at AWS of the table of the run items."""
        return self.at_aws.table(self.table)

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Settings:
        """Read the settings from the environment. Raises :class:`SettingsError` naming the variable.

        A variable that looks like one and is none is logged as a warning, once in a process.
        """
        variables = {name: f"{_PREFIX}{name.upper()}" for name in cls.model_fields}
        for unknown in sorted(name for name in environment if name.startswith(_PREFIX)):
            if unknown not in variables.values():
                _warn_of_unknown(unknown)
        values = {name: environment[variable] for name, variable in variables.items() if variable in environment}
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            name = str(first["loc"][0])
            problem = f"it {setting_problem(first)}; it is for this: {cls.model_fields[name].description}"
            raise SettingsError(variables[name], problem) from None


@cache
def _warn_of_unknown(variable: str) -> None:
    import difflib  # loads in a millisecond, which a function without mistakes does not need

    known = [name.upper() for name in Settings.model_fields]
    nearest = difflib.get_close_matches(variable.removeprefix(_PREFIX)[:100], known, n=1)
    fix = f"did you mean {_PREFIX}{nearest[0]}?" if nearest else f"there are {_PREFIX}{', '.join(known)}"
    logger.warning("%s is no setting of flowguard, and changes nothing; %s", shown(variable)[1:-1], fix)

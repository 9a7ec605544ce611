"""The connection of a command to AWS. It has the options, the clients, and the errors that a user sees."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final, NamedTuple, TypeVar
from urllib.parse import urlsplit

import boto3
import click

from flowguard.aws.clients import Clients
from flowguard.aws.data_keys import KmsDataKeys
from flowguard.aws.dead_letter_queue import Unusable, explained
from flowguard.aws.services import aws_sender, aws_store
from flowguard.aws.signing_keys import aws_signer, aws_tokens
from flowguard.client import FlowClient
from flowguard.clock import Clock, SystemClock
from flowguard.codecs.kept_keys import data_keys_here, standing_in
from flowguard.codecs.reading import ReadingCodecs
from flowguard.errors import SettingsError
from flowguard.flow import AnyFlow
from flowguard.names.ids import name_problem
from flowguard.payload.data_keys import DataKeys
from flowguard.project.loading import NoSuchFlow, load_flows
from flowguard.settings import Settings
from flowguard.sim.simulated_keys import SIMULATED_DATA_KEYS
from flowguard.worker.ports import Sender


class CannotRun(click.ClickException):
    """The command cannot be run with these arguments and settings."""

    exit_code = click.UsageError.exit_code


class CommandTime(NamedTuple):
    """The time that a command goes by. A test hands in its own, as the ``obj`` of click's context."""

    clock: Clock = SystemClock()
    pause: Callable[[float], None] = time.sleep


def command_time() -> CommandTime:
    """Return the time of the running command."""
    return click.get_current_context().find_object(CommandTime) or CommandTime()


Command = TypeVar("Command", bound=Callable[..., Any])

CONNECTION: Final = (
    click.option("--endpoint-url", metavar="URL", help="Where all services are, if not at AWS."),
    click.option("--dynamodb-endpoint-url", metavar="URL", help="Where DynamoDB is, if not there."),
    click.option("--region", metavar="NAME", help="AWS's region; the environment's or the profile's by default."),
    click.option("--table", metavar="NAME", help="The table of the run items; FLOWGUARD_TABLE by default."),
)


def with_options(*options: Callable[[Any], Any]) -> Callable[[Command], Command]:
    """Return the decorator that gives a command these options, in this order."""

    def decorated(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorated


connected: Final = with_options(*CONNECTION)
"""Gives a command the options of the connection."""


def clients_of(options: Mapping[str, Any]) -> Clients:
    """Make the clients that the options ask for. Raises :class:`Unusable` where there is no region."""
    with explained("AWS"):
        session = boto3.session.Session(region_name=options["region"])
    services = ("sqs", "sns", "events", "kms", "lambda", "dynamodb", "s3", "ssm", "secretsmanager")
    urls = dict.fromkeys(services, options["endpoint_url"])
    urls["dynamodb"] = options["dynamodb_endpoint_url"] or options["endpoint_url"]
    return Clients(session, {service: url for service, url in urls.items() if url})


def settings_of(options: Mapping[str, Any]) -> Settings:
    """Read the settings of the environment. The table is that of the options, where one is given."""
    try:
        settings = Settings.from_environment(os.environ)
        return settings.model_copy(update={"table": options["table"]}) if options["table"] else settings
    except SettingsError as error:
        raise CannotRun(str(error)) from None


def table_errors(options: Mapping[str, Any]) -> AbstractContextManager[None]:
    """Turn errors of a call into errors of the command, which name the run table."""
    return connection_errors(f"table {settings_of(options).run_table}")


def flow_named(text: str, option: str = "FLOW") -> tuple[str, AnyFlow | None]:
    """Return the flow that FLOW names, and its class where it is MODULE:FLOW."""
    check_id(option, text)
    if ":" not in text:
        return text, None
    with connection_errors():
        flow = load_flows([text])[0]
    return flow.name, flow


def flow_class(text: str) -> AnyFlow:
    """Return the flow's class that MODULE:FLOW names."""
    with connection_errors():
        return load_flows([text])[0]


def reading_codecs(options: Mapping[str, Any], *flows: AnyFlow | None) -> ReadingCodecs:
    """Return what opens sealed values with the permissions of who has given the command."""
    return ReadingCodecs(lambda: data_keys_of(options), (flow for flow in flows if flow is not None))


def data_keys_of(options: Mapping[str, Any]) -> DataKeys:
    """Return what makes and opens the data keys of codecs: KMS, and on this machine what stands in for it.

    ``flowguard dev`` has no keys of KMS, so its functions use the same.
    """
    endpoint = options["endpoint_url"] or os.environ.get("AWS_ENDPOINT_URL", "")
    if urlsplit(endpoint).hostname in _THIS_MACHINE:
        return SIMULATED_DATA_KEYS
    return KmsDataKeys(lambda: clients_of(options).kms)


_THIS_MACHINE: Final = ("localhost", "127.0.0.1", "::1")


def flow_client(options: Mapping[str, Any], sender: Sender | None = None) -> FlowClient:
    """Build the client that the options ask for, at the time of the command. ``sender`` is used instead of AWS's.

    Codecs seal with the keys of the same connection until the command ends.
    """
    click.get_current_context().with_resource(standing_in(data_keys_here(lambda: data_keys_of(options))))
    clients, clock, settings = clients_of(options), command_time().clock, settings_of(options)
    return FlowClient(
        sender if sender is not None else aws_sender(settings, clients),
        clock=clock,
        signer=aws_signer(settings, clients, clock),
        store=lambda: aws_store(settings, clients),
        tokens=aws_tokens(settings, clients, clock),
    )


def check_id(option: str, text: str) -> None:
    """Check that the text can be a name or an id."""
    if problem := name_problem(text):
        raise click.BadParameter(f"it {problem}", param_hint=option)


@contextmanager
def connection_errors(subject: str = "AWS") -> Iterator[None]:
    """Turn errors of AWS, of settings and of loading a flow into errors of the command."""
    try:
        with explained(subject):
            yield
    except (Unusable, SettingsError, NoSuchFlow) as error:
        raise CannotRun(str(error)) from None

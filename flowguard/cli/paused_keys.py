"""What ``flowguard pause --key`` and ``flowguard resume --key`` have in common."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final
from uuid import uuid4

import click

from flowguard.aws.pause_rows import PauseRows
from flowguard.aws.services import aws_store
from flowguard.cli.connection import clients_of, connection_errors, settings_of
from flowguard.flow import AnyFlow
from flowguard.limit import PerKey
from flowguard.operate.key_pauses import KeyPauses
from flowguard.worker.place_store import PlaceKey

_PLACE: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}#[0-9a-f]{32}")


def key_of(flow: AnyFlow, names: Sequence[str], text: str) -> PlaceKey:
    """Return the key of ``LIMIT=VALUE`` or ``LIMIT#DIGEST``. The latter may be of a stage that is gone."""
    if len(names) != 1:
        raise click.UsageError("--key goes with one --stage, whose limit it is of")
    if _PLACE.fullmatch(text):
        return PlaceKey(flow.name, names[0], text)
    title, _, value = text.partition("=")
    limit = _limit(flow, names[0], title if value else "")
    return PlaceKey(flow.name, names[0], limit.place_of_value(value))


def check_limit(flow: AnyFlow, key: PlaceKey) -> PerKey:
    """Return the limit of a key. Refuse one of a limit that the stage has not: nothing would wait for it."""
    return _limit(flow, key.stage, key.place.partition("#")[0])


def shards_in(flow: AnyFlow, key: PlaceKey) -> int:
    """Return how many shards a key has in the code. 1 where its stage or limit is gone."""
    limits = [limit for stage in flow.stages if stage.name == key.stage for limit in stage.limits]
    return next((limit.shards for limit in limits if limit.title == key.place.partition("#")[0]), 1)


def _limit(flow: AnyFlow, name: str, title: str) -> PerKey:
    limits = {stage.name: stage.limits for stage in flow.stages}
    if name not in limits:
        raise click.BadParameter(f"{flow.name} has no stage {name!r}, but {', '.join(limits)}", param_hint="--stage")
    for limit in limits[name]:
        if limit.title == title:
            return limit
    titles = " or ".join(f"{limit.title}=VALUE" for limit in limits[name])
    problem = (
        f"write {titles}" if titles else f"{name} has no limit, so it has no keys; leave --key out for the whole stage"
    )
    raise click.BadParameter(problem, param_hint="--key")


@contextmanager
def key_pauses(options: dict[str, Any]) -> Iterator[KeyPauses]:
    """Open the pauses of keys. Errors of AWS become the command's own."""
    with connection_errors():
        settings, clients = settings_of(options), clients_of(options)
        rows = PauseRows(clients.dynamodb, settings.run_table)
        yield KeyPauses(rows, aws_store(settings, clients).places, lambda: uuid4().hex)

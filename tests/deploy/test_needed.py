"""Queues and permissions of deployments, as they stand in ``needed/``: who changes them sees that, and who reviews it.

``python -m tests.deploy.test_needed`` writes the files anew.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import pytest

from flowguard.deploy.needs import QueueNeed
from flowguard.deploy.options import DeployOptions
from tests.deploy import charging
from tests.deploy.everything import OPTIONS
from tests.deploy.exercised import granted, needs
from tests.deploy.test_permissions import OF_THE_WORLD, SHIPPED

PLAIN: Final = DeployOptions(reply_to=("shop-replies",), settings=OF_THE_WORLD)
MODULES: Final[Mapping[str, DeployOptions]] = {
    **{f"flows.{flow}.handlers": PLAIN for flow in SHIPPED},
    **{
        f"tests.deploy.{name}": PLAIN for name in ("test_permissions", "test_rarer_actions", "test_unleased", "unusual")
    },
    "tests.deploy.unusual": DeployOptions.model_validate({"tables": {"named": {"existing": True}}}),
    "tests.deploy.everything": DeployOptions.model_validate(OPTIONS),
    "tests.deploy.charging": DeployOptions.model_validate(tomllib.loads(charging.OPTIONS)),
}
FILES: Final = Path(__file__).with_name("needed")


def lines(module: str) -> Iterator[str]:
    """Yield a line for each queue, and for each resource of each function."""
    needed = needs(module, options=MODULES[module])
    yield from sorted(f"queue  {queue_line(one)}\n" for one in needed.queues)
    yield f"schedules that cannot be delivered  {needed.undelivered_schedules}\n"
    found: dict[tuple[str, str], list[str]] = {}
    for function, action, resource in sorted(granted(needed)):
        found.setdefault((function, resource), []).append(action)
    for (function, resource), actions in sorted(found.items()):
        yield f"{function}  {resource}  {' '.join(actions)}\n"


def queue_line(queue: QueueNeed) -> str:
    """Return what and whose a queue is, how long it keeps and hides records, who reads it, and where they go else."""
    place = f"{queue.name} ({queue.role.value}{', existing' if queue.existing else ''})"
    times = f"keeps {queue.retention} s, hides {queue.visibility} s"
    given_up = f"{queue.max_receive_count} receives, then {queue.give_up_to}"
    told = f"topics {queue.topics}, rules {[str(one) for one in queue.rules]}, arn {queue.arn}"
    others = f"undelivered {queue.undelivered}, further senders {queue.senders}"
    return f"{place} of {queue.owner}  {times}  read by {queue.reader}  {given_up}  {told}  {others}"


def file_of(module: str) -> Path:
    return FILES / f"{module}.txt"


@pytest.mark.parametrize("module", MODULES)
def test_what_is_needed_is_what_was_looked_at(module: str) -> None:
    assert "".join(lines(module)) == file_of(module).read_text(encoding="utf-8")


if __name__ == "__main__":
    for each in MODULES:
        file_of(each).write_text("".join(lines(each)), encoding="utf-8")

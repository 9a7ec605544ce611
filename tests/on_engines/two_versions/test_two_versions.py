"""Two versions of the library at work at once on the same runs: what landed last, and the working tree."""

from __future__ import annotations

import io
import json
import os
import random
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from flowguard.client import FlowClient
from flowguard.names.ids import ObjectId
from flowguard.protocol.run import RunItem, Status
from tests.engines.polling import comes_true
from tests.on_engines.two_versions.shared_flows import Night, Nightly, Order, Orders
from tests.proofs.soak.sandbox import SIGNING_KEYS, TOKEN_KEYS, Sandbox

pytestmark = pytest.mark.proof("processes carry out runs until all have ended")

HERE: Final = Path(__file__).parent
ROOT: Final = HERE.parents[2]

LANDED: Final = "7695ca07846799a19e8954434b8d93a41d976f7b"
"""The commit whose library is the other version. Let it be the last that was deployed, when another one is."""

QUEUES: Final = ("work", "answers", "payments", "charges", "told", "ended", "dead")
ORDERS, PRODUCTS, NIGHTS, CHARGED = 16, 4, 2, 8
COPIES: Final = 2
KILLS: Final = 4


def git(*words: str) -> bytes:
    command = ["git", "-C", str(ROOT), *words]
    done = subprocess.run(command, check=False, capture_output=True)
    assert done.returncode == 0, f"{done.stderr.decode()}; a clone without --depth has the commit {LANDED}"
    return done.stdout


@pytest.fixture(scope="session")
def landed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the library as it was in that commit, which a clone with its history has."""
    folder = tmp_path_factory.mktemp("landed")
    with tarfile.open(fileobj=io.BytesIO(git("archive", LANDED, "flowguard"))) as archive:
        archive.extractall(folder, filter="data")
    return folder


def test_the_other_version_is_one_from_which_this_one_came() -> None:
    git("merge-base", "--is-ancestor", LANDED, "HEAD")


class Worker:
    """A process with one version of the library. One that was killed is replaced."""

    def __init__(self, version: str, library: Path, environment: Mapping[str, str]) -> None:
        self._command = [sys.executable, str(HERE / "worker.py"), str(library)]
        self._environment = {**environment, "VERSION_AT_WORK": version, "PYTHONDONTWRITEBYTECODE": "1"}
        self.begin()

    def begin(self) -> None:
        self._process = subprocess.Popen(self._command, stdin=subprocess.PIPE, env=self._environment)

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()

    def is_alive(self) -> bool:
        return self._process.poll() is None

    def end(self) -> None:
        with suppress(subprocess.TimeoutExpired):
            self._process.communicate(timeout=10)
        self.kill()


@contextmanager
def both(sandbox: Sandbox, landed: Path) -> Iterator[list[Worker]]:
    settings = {
        "AWS_ENDPOINT_URL_DYNAMODB": sandbox.dynamodb_url,
        "AWS_ENDPOINT_URL_SQS": sandbox.sqs_url,
        "AWS_ACCESS_KEY_ID": sandbox.access_key,
        "AWS_SECRET_ACCESS_KEY": "local",
        "AWS_DEFAULT_REGION": "us-east-1",
        "FLOWGUARD_SIGNING_KEYS": SIGNING_KEYS.get_secret_value(),
        "FLOWGUARD_TOKEN_KEYS": TOKEN_KEYS.get_secret_value(),
    }
    environment = {**os.environ, **settings}
    workers = [Worker("old", landed, environment), Worker("new", ROOT, environment)]
    try:
        yield workers
    finally:
        for worker in workers:
            worker.end()


def send(sandbox: Sandbox, queue: str, body: Mapping[str, Any]) -> None:
    sandbox.clients.sqs.send_message(QueueUrl=sandbox.url(queue), MessageBody=json.dumps(body))


def begin(sandbox: Sandbox, draw: random.Random) -> list[Callable[[], None]]:
    """What is sent, in any order: copies of each order, its payment, before or after it, and calls under ``@once``."""
    client = FlowClient.of(sandbox.services())
    moment = time.time_ns() // 1_000_000
    sent: list[Callable[[], None]] = []

    def order(number: int) -> None:
        asked = Order(order=f"o{number}", product=f"product {number % PRODUCTS}")
        client.start(Orders, asked, request_id=f"order-{number}", requested_at=moment)

    def night(number: int) -> None:
        client.start(Nightly, Night(night=f"n{number}"), request_id=f"night-{number}", requested_at=moment)

    for number in range(ORDERS):
        sent += [partial(order, number)] * COPIES
        sent.append(partial(send, sandbox, "payments", {"order": f"o{number}", "pieces": number + 1}))
    for number in range(NIGHTS):
        sent += [partial(night, number)] * COPIES
    for number in range(CHARGED):
        sent += [partial(send, sandbox, "charges", {"order": f"c{number}"})] * 4
    draw.shuffle(sent)
    return sent


def runs(sandbox: Sandbox, flow: str, count: int) -> list[RunItem | None]:
    store, first = sandbox.store(), {"orders": "o", "nightly": "n"}[flow]
    return [store.read(flow, ObjectId(f"{first}{number}")) for number in range(count)]


def have_ended(sandbox: Sandbox) -> bool:
    found = [*runs(sandbox, "orders", ORDERS), *runs(sandbox, "nightly", NIGHTS)]
    return all(one is not None and one.status is Status.COMPLETED for one in found)


def are_empty(sandbox: Sandbox) -> bool:
    """Deadlines that lie ahead stay in the queue of answers."""
    return not any(sandbox.waiting(queue) for queue in ("work", "payments", "charges"))


@pytest.mark.parametrize("seed", [1])
def test_two_versions_at_once_lose_nothing_and_do_nothing_twice(
    dynamodb_local_url: str, elasticmq_url: str, landed: Path, seed: int
) -> None:
    sandbox, draw = Sandbox(dynamodb_local_url, elasticmq_url, signed=True), random.Random(seed)
    sandbox.create_tables("effects")
    for queue in QUEUES:
        sandbox.create_queue(queue, visibility=7)
    sent = begin(sandbox, draw)
    kills = {draw.randrange(len(sent)): number for number in range(KILLS)}
    with both(sandbox, landed) as workers:
        for place, one in enumerate(sent):
            one()
            if place in kills:
                killed = workers[kills[place] % 2]
                killed.kill()
                killed.begin()
        assert comes_true(lambda: have_ended(sandbox) and are_empty(sandbox), seconds=90, every=0.2), left(sandbox)
        assert all(worker.is_alive() for worker in workers)

    assert sandbox.take("dead") == []
    check_effects(sandbox.rows("effects"))
    check_results(sandbox)


def left(sandbox: Sandbox) -> str:
    found = {one.stage: one.status for one in runs(sandbox, "orders", ORDERS) if one is not None}
    letters = [one["MessageAttributes"]["flowguard"]["StringValue"] for one in sandbox.take("dead")]
    return f"{letters}; {found}; {[(queue, sandbox.waiting(queue)) for queue in QUEUES]}"


def check_effects(rows: Mapping[str, Mapping[str, Any]]) -> None:
    """Each stage is applied once, and runs went from one version to the other, in both directions."""
    orders = [rows[f"o{number}"] for number in range(ORDERS)]
    assert {row["times"] for row in orders} == {3}
    steps = {pair for row in orders for pair in ((row["take"], row["ship"]), (row["ship"], row["pack"]))}
    assert {("old", "new"), ("new", "old")} <= steps
    assert {rows[f"product {number}"]["times"] for number in range(PRODUCTS)} == {1}, "one run answers all who ask"
    assert {rows[f"n{number}"]["times"] for number in range(NIGHTS)} == {1}
    charged = [rows[f"charged c{number}"] for number in range(CHARGED)]
    assert all(len(row["results"]) == 1 and row["calls"] >= 4 for row in charged), "every repeat has the one result"


def check_results(sandbox: Sandbox) -> None:
    for number, run in enumerate(runs(sandbox, "orders", ORDERS)):
        assert run is not None
        result = json.loads(run.result or "null")
        assert result["total"] == 7 * (number + 1)
        assert len(result["by"]) == 3
    for run in runs(sandbox, "nightly", NIGHTS):
        assert run is not None
        assert json.loads(run.result or "null") == {"total": 5 * 7}
    ended = {(one["flow"], one["object_id"]) for one in (json.loads(one["Body"]) for one in sandbox.take("ended"))}
    assert len(ended) == ORDERS + NIGHTS, "each end is told"

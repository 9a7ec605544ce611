"""``flowguard ui --endpoint-url``, a process of its own, on an engine that listens on a port."""

from __future__ import annotations

import http.client
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import boto3
import pytest

from flowguard.aws.clients import Clients
from flowguard.aws.services import aws_services
from flowguard.client import FlowClient
from flowguard.dev.served import ACCESS_KEY, ServedEngine
from flowguard.handler import lambda_handler
from flowguard.settings import Settings
from flowguard.sim.moto import empty
from flowguard.sim.table_keys import create_run_table
from tests.ui.inspecting import read
from tests.ui.shop import HOSTILE, ShopOrder, ShopOrders

pytestmark = pytest.mark.proof("starts the inspector as a process, on an engine that is served")

ROOT = Path(__file__).parents[2]
LETTERS = "orders-dead-letters"


class Shop:
    """The shop's flow on the engine: orders are sent, and the function is called with what lies in the queue."""

    def __init__(self, engine: ServedEngine) -> None:
        empty(("dynamodb", "sqs"), seed=0)  # it serves what other tests of this process have left there
        session = boto3.session.Session(ACCESS_KEY, ACCESS_KEY, region_name=engine.region)
        clients = Clients(session, dict.fromkeys(("dynamodb", "sqs"), engine.url))
        create_run_table(clients.dynamodb, "flowguard")
        self.sqs = clients.sqs
        self.url = self.sqs.create_queue(QueueName="orders")["QueueUrl"]
        self.sqs.create_queue(QueueName=LETTERS)
        services = aws_services(Settings(), clients)
        self._function = lambda_handler(ShopOrders).using(services)
        self._client = FlowClient.of(services)

    def order(self, object_id: str, note: str = "") -> None:
        self._client.start(ShopOrders, ShopOrder(order_id=object_id, note=note))

    def work(self) -> int:
        """Handle what is visible, until nothing is. Return how many messages that were."""
        handled = 0
        while messages := self._received():
            assert self._function({"Messages": messages}) == {"batchItemFailures": []}
            for one in messages:
                self.sqs.delete_message(QueueUrl=self.url, ReceiptHandle=one["ReceiptHandle"])
            handled += len(messages)
        return handled

    def _received(self) -> Any:
        received = self.sqs.receive_message(
            QueueUrl=self.url,
            MaxNumberOfMessages=10,
            MessageAttributeNames=["All"],
            MessageSystemAttributeNames=["All"],
        )
        return received.get("Messages")


class Browser:
    """Opens pages of the inspector that listens on this port."""

    def __init__(self, port: int) -> None:
        self._port = port

    def page(self, path: str, code: int = 200, form: dict[str, str] | None = None) -> str:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=30)
        headers = {} if form is None else {"Content-Type": "application/x-www-form-urlencoded"}
        try:
            connection.request("GET" if form is None else "POST", path, urlencode(form or {}), headers)
            answer = connection.getresponse()
            text = answer.read().decode()
        finally:
            connection.close()
        assert answer.status == code, text
        return text

    def text(self, path: str) -> str:
        return read(self.page(path)).text


@contextmanager
def inspector(engine: ServedEngine, *options: str) -> Iterator[Browser]:
    """The command as a terminal runs it. Nothing but its option names the engine."""
    environment = {**os.environ, **engine.environment(), "PYTHONPATH": str(ROOT)}
    del environment["AWS_ENDPOINT_URL"]
    command = [sys.executable, "-m", "flowguard", "ui", "--endpoint-url", engine.url, *options]
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            said = process.stdout.readline()
            assert said.startswith("http://127.0.0.1:"), said
            yield Browser(int(said.split("/")[2].partition(":")[2]))
        finally:
            process.terminate()


def test_runs_waits_and_dead_letters_are_read_from_an_engine_on_a_port_and_a_letter_is_redriven() -> None:
    with ServedEngine() as engine:
        shop = Shop(engine)
        shop.order("waits")
        shop.order("declined", HOSTILE)
        assert shop.work() == 4
        with inspector(engine, "tests.ui.shop:ShopOrders", "--allow-changes") as browser:
            runs = browser.text("/")
            assert "waits" in runs
            assert "declined" in runs

            waiting = browser.text("/run?flow=orders&object=waits")
            assert "WAITING at take-payment, hop 2, attempt 1" in waiting
            assert "hop 1 at check-order (epoch 1): committed" in waiting
            failed = read(browser.page("/run?flow=orders&object=declined"))
            assert "hop 2 at take-payment (epoch 2): failed for good" in failed.text
            assert failed.tags["script"] == 0
            assert "payment/waits" in browser.text("/run?flow=orders&object=waits")
            assert "declined" not in browser.text("/waits")

            page = browser.page(f"/letters?queue={LETTERS}")
            form = read(page).fields
            assert "the card is declined" in page
            said = read(browser.page("/letters/redrive", 200, form)).text
            assert "REDRIVEN" in said, said
            assert "No letter is visible now." in browser.text(f"/letters?queue={LETTERS}")
            assert shop.work() == 1
            again = browser.text("/run?flow=orders&object=declined")
            assert "hop 2 at take-payment, redrive 1 (epoch 3): failed for good" in again


def test_a_table_that_is_not_there_is_named_by_the_page() -> None:
    with ServedEngine() as engine, inspector(engine, "--table", "nowhere") as browser:
        assert "nowhere" in browser.page("/", 502)

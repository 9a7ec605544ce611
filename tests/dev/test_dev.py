"""``flowguard dev`` as its user has it: one terminal, a boto3 client in another process, an editor, Ctrl-C."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import boto3
import pytest
from click.testing import CliRunner

from flowguard.cli import main
from flowguard.dev.saved_state import FILE
from tests.engines.polling import comes_true

SHOP = """
import os

from pydantic import BaseModel

from flowguard import Done, Flow, Outcome, Stage, Step, lambda_handler


class Order(BaseModel):
    order_id: str


class Place(Stage[Order], name="place"):
    def handle(self, order: Order, step: Step) -> Outcome:
        print("printed by the handler")
        if order.order_id == "deadly":
            os._exit(7)
        return Done("first")


class Shop(Flow, name="shop", object_id="order_id"):
    stages = (Place,)


place = lambda_handler(Shop)
"""


class Dev:
    """The command in a process, and the lines of JSON that it has printed."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.said: list[dict[str, Any]] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.said.append(json.loads(line))

    def wait(self, event: str, **facts: Any) -> dict[str, Any]:
        def found() -> list[dict[str, Any]]:
            wanted = {"event": event, **facts}
            return [one for one in self.said if all(one.get(name) == value for name, value in wanted.items())]

        assert comes_true(lambda: bool(found()), seconds=20), (event, facts, self.said)
        return found()[-1]

    def client(self, service: str) -> Any:
        make: Any = boto3.session.Session("local", "local", region_name="us-east-1").client
        return make(service, endpoint_url=self.wait("listening")["url"])

    def send(self, order_id: str) -> None:
        sqs = self.client("sqs")
        url = sqs.get_queue_url(QueueName="shop")["QueueUrl"]
        sqs.send_message(QueueUrl=url, MessageBody=json.dumps({"order_id": order_id}))

    def result(self, order_id: str) -> str:
        self.wait("delivery", object_id=order_id, outcome="completed")
        key: Mapping[str, Any] = {"pk": {"S": f"run#shop#{order_id}"}, "sk": {"S": "run"}}
        item = self.client("dynamodb").get_item(TableName="flowguard", Key=key)["Item"]
        return str(json.loads(item["result"]["S"]))

    def end(self, number: signal.Signals) -> int:
        self.process.send_signal(number)
        code = self.process.wait(15)
        self._reader.join(5)
        return code


@contextmanager
def started(directory: Path, *options: str) -> Iterator[Dev]:
    command = [sys.executable, "-m", "flowguard", "dev", "shop", "--port", "0", "--json", *options]
    root = str(Path(__file__).parents[2])
    environment = {**os.environ, "PYTHONPATH": root}
    with (
        (directory / "errors.txt").open("w") as errors,
        subprocess.Popen(
            command, cwd=directory, env=environment, stdout=subprocess.PIPE, stderr=errors, text=True
        ) as process,
    ):
        try:
            yield Dev(process)
        finally:
            process.kill()


@pytest.mark.proof("starts two processes each time, and waits for what they do in real time")
def test_a_terminal_an_editor_and_a_client(tmp_path: Path) -> None:
    source = tmp_path / "shop.py"
    source.write_text(SHOP)
    with started(tmp_path, "--state", "kept") as dev:
        assert dev.wait("loaded")["functions"] == {"shop-place": ["shop"]}
        assert [one["event"] for one in dev.said[:3]] == ["starting", "listening", "loaded"], "its queues are there"
        dev.send("o1")
        assert dev.result("o1") == "first"

        source.write_text(SHOP.replace('"first"', "1 +"))
        assert "shop.py" in dev.wait("not loaded")["why"]
        source.write_text(SHOP.replace('"first"', '"second"'))
        dev.send("o2")
        assert dev.result("o2") == "second"

        dev.send("deadly")
        assert dev.wait("died")["code"] == 7
        dev.send("o3")
        assert dev.result("o3") == "second", "the functions are there again"
        assert dev.end(signal.SIGINT) == 0
        assert dev.said[-1]["event"] == "stopped"
    assert "printed by the handler" in (tmp_path / "errors.txt").read_text(), "and not among the lines of JSON"

    source.write_text(SHOP.replace('== "deadly"', "is None"))
    with started(tmp_path, "--state", "kept") as dev:
        dev.wait("loaded")
        key = {"pk": {"S": "run#shop#o1"}, "sk": {"S": "run"}}
        assert dev.client("dynamodb").get_item(TableName="flowguard", Key=key)["Item"]["status"]["S"] == "COMPLETED"
        assert dev.end(signal.SIGTERM) == 0
    assert "deadly" in (tmp_path / "kept" / FILE).read_text(), "its message was in somebody's hands, and is kept"


ASKING = """
from datetime import timedelta

from pydantic import BaseModel

from flowguard import Done, Flow, Outcome, Stage, Step, callback_handler, lambda_handler

QUEUES = ("mails",)


class Claim(BaseModel):
    claim_id: str


class Decided(BaseModel):
    decision: dict[str, str]


class Ask(Stage[Claim], name="ask", then="note"):
    def handle(self, claim: Claim, step: Step) -> Outcome:
        token = step.token("decision", title="Pay it?")
        step.send("mails", {"link": token.link(choices=("pay", "decline"))})
        return Note.when_all(decision=token, within=timedelta(days=2))


class Note(Stage[Decided], name="note"):
    def handle(self, decided: Decided, step: Step) -> Outcome:
        step.send("mails", {"about": decided.decision["answer"]})
        return Done()


class Shop(Flow, name="shop", object_id="claim_id", trust_senders=True):
    stages = (Ask, Note)


ask = lambda_handler(Shop)
answers = callback_handler(Shop)
"""


@pytest.mark.proof("starts two processes, and waits for what they do in real time")
def test_a_person_opens_the_link_of_a_mail_and_answers(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(ASKING)
    with started(tmp_path) as dev:
        dev.wait("loaded")
        sqs = dev.client("sqs")
        url = sqs.get_queue_url(QueueName="shop")["QueueUrl"]
        sqs.send_message(QueueUrl=url, MessageBody=json.dumps({"claim_id": "c1"}))
        dev.wait("delivery", outcome="waiting")
        listening = dev.wait("listening")
        mails = f"{listening['mailbox']}.json"
        [mail] = _read_json(mails)
        [link] = mail["links"]
        assert link == mail["body"]["link"], "it is the base of links"
        assert link.startswith(f"{listening['answers']}/")
        page = Request(link, headers={"Accept": "text/html"})  # noqa: S310 - http
        with urlopen(page) as answer:  # noqa: S310 - http
            assert "Pay it?" in answer.read().decode()
        with urlopen(link, data=b"_page=1&answer=pay") as answer:  # noqa: S310 - http
            assert "Thank you" in answer.read().decode()
        dev.wait("delivery", stage="note", outcome="completed")
        assert [one["body"].get("about") for one in _read_json(mails)] == ["pay", None]
        assert dev.wait("answer", method="POST")["status"] == 200
        assert dev.end(signal.SIGINT) == 0


STARTING = (
    SHOP.replace("lambda_handler\n", "lambda_handler, start_handler\n")
    + """
start = start_handler(Shop, object_field="order_id", shows_result=True)
"""
)


@pytest.mark.proof("starts two processes, and waits for what they do in real time")
def test_a_run_is_started_and_watched_over_http(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(STARTING)
    with started(tmp_path) as dev:
        assert dev.wait("loaded")["starts"] == ["shop-start"]
        url = f"{dev.wait('listening')['url']}/_flowguard/starts/shop-start"
        headers = {"Content-Type": "application/json", "Idempotency-Key": "k"}
        links = set()
        for _ in range(2):
            asked = Request(url, b'{"order_id": "o1"}', headers)  # noqa: S310 - http
            with urlopen(asked) as answer:  # noqa: S310 - http
                assert answer.status == 202
                links.add(answer.headers["Location"])
        dev.wait("delivery", outcome="completed")
        [link] = links
        assert _read_json(f"{url}{link}") == {"state": "done", "result": "first"}
        assert dev.wait("start", method="GET")["status"] == 200
        assert dev.end(signal.SIGINT) == 0


def _read_json(url: str) -> Any:
    with urlopen(url) as answer:  # noqa: S310 - http
        return json.load(answer)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("shop", "--account", "12"), "an account has twelve digits"),
        (("shop", "--account", "²" * 12), "an account has twelve digits"),
        (("shop", "--options", "no-such.toml"), "no-such.toml is no file"),
        (("shop", "--port", "65536"), "--port"),
        ((), "Missing argument"),
    ],
)
def test_what_cannot_be_run(arguments: tuple[str, ...], says: str) -> None:
    result = CliRunner().invoke(main, ["dev", *arguments])
    assert (result.exit_code, result.stdout) == (2, "")
    assert says in result.stderr


def test_a_damaged_state_is_refused_before_anything_starts(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text("{")
    result = CliRunner().invoke(main, ["dev", "shop", "--port", "0", "--state", str(tmp_path)])
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"{FILE}: it is damaged, or of another version" in result.stderr


SEALING = """
from pydantic import BaseModel

from flowguard import Done, Flow, Outcome, Stage, Step, lambda_handler
from flowguard.codecs import Encrypted


class Patient(BaseModel):
    patient_id: str
    finding: str


class Treated(BaseModel):
    finding: str


class Examine(Stage[Patient], name="examine", then="treat"):
    def handle(self, patient: Patient, step: Step) -> Outcome:
        return Treat.message(Treated(finding=patient.finding))


class Treat(Stage[Treated], name="treat"):
    def handle(self, treated: Treated, step: Step) -> Outcome:
        return Done({"treated": treated.finding})


class Shop(Flow, name="shop", object_id="patient_id", codec=Encrypted("alias/shop")):
    stages = (Examine, Treat)


examine = lambda_handler(Shop)
"""


@pytest.mark.proof("starts three processes, and waits for what they do in real time")
def test_a_flow_with_a_codec_is_served_and_a_request_is_sent_to_it(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(SEALING)
    with started(tmp_path) as dev:
        dev.wait("loaded")
        url = dev.wait("listening")["url"]
        payload = '{"patient_id": "p1", "finding": "MARKERWORD"}'

        def command(*arguments: str) -> str:
            local = {"AWS_ACCESS_KEY_ID": "local", "AWS_SECRET_ACCESS_KEY": "local", "AWS_DEFAULT_REGION": "us-east-1"}
            environment = {**os.environ, **local, "PYTHONPATH": str(Path(__file__).parents[2])}
            line = [sys.executable, "-m", "flowguard", *arguments, "--endpoint-url", url]
            return subprocess.run(
                line, cwd=tmp_path, env=environment, check=True, capture_output=True, text=True
            ).stdout

        assert command("send", "shop:Shop", "--payload", payload).startswith("SENT  shop of p1")
        dev.wait("delivery", object_id="p1", outcome="completed")
        key = {"pk": {"S": "run#shop#p1"}, "sk": {"S": "run"}}
        item = dev.client("dynamodb").get_item(TableName="flowguard", Key=key)["Item"]
        assert "sealed" in item["result"]["M"]
        assert "MARKERWORD" not in str(item)
        assert json.loads(command("show", "shop:Shop", "p1", "--payloads", "--json"))["result"] == {
            "treated": "MARKERWORD"
        }
        assert "MARKERWORD" not in command("show", "shop:Shop", "p1")
        assert dev.end(signal.SIGTERM) == 0
    assert "MARKERWORD" not in json.dumps(dev.said)

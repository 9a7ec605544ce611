"""A flow gets another key while its runs are under way, in the orders that the page says and in the wrong one."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError
from click.testing import CliRunner
from pydantic import BaseModel

from flowguard import Done, Fixed, Flow, Outcome, RetryPolicy, Stage, Step
from flowguard.aws.data_keys import KmsDataKeys
from flowguard.cli import main
from flowguard.clock import ManualClock
from flowguard.codecs import Encrypted
from flowguard.errors import CannotOpen
from flowguard.payload.codec import About
from flowguard.protocol.run import Status
from flowguard.testing import FlowClock, FlowRunner, MemoryAWS
from tests.codecs.test_outage import first, sealed_scene, second
from tests.start_door import record_of

OLD, NEW = Encrypted("alias/old"), Encrypted("alias/new", opens=("alias/old",))
PREPARED = Encrypted("alias/old", opens=("alias/new",))

CALLS = 21
"""The calls of the run below to its codec."""


class Deployed:
    """The codec of whichever function makes the next call."""

    def __init__(self, choose: Callable[[int], Encrypted]) -> None:
        self.choose = choose
        self.calls = 0

    def seal(self, data: bytes, about: About) -> bytes:
        return self._codec().seal(data, about)

    def open(self, sealed: bytes, about: About) -> bytes:
        return self._codec().open(sealed, about)

    def _codec(self) -> Encrypted:
        self.calls += 1
        return self.choose(self.calls)


class Patient(BaseModel):
    patient_id: str
    finding: str


class Found(BaseModel):
    finding: str


class Seen(BaseModel):
    note: str = ""


class Examine(Stage[Patient, Seen], name="examine", then="treat"):
    def handle(self, patient: Patient, step: Step[Seen]) -> Outcome:
        step.state.note = step.once("look", lambda: "red spots")
        return Treat.message(Found(finding=patient.finding))


class Treat(Stage[Found, Seen], name="treat", retry=RetryPolicy(attempts=3, backoff=Fixed(1))):
    def handle(self, found: Found, step: Step[Seen]) -> Outcome:
        dose = step.once("dose", lambda: 2)
        if step.attempt == 1:
            raise ConnectionError("the second attempt has what the first one remembers")
        return Done({"treated": found.finding, "note": step.state.note, "dose": dose})


def played(codec: Deployed) -> tuple[str, Any]:
    """The end of a run whose state, payload, memory, result and restart text are sealed as it goes on."""

    class Patients(Flow, name="patients", object_id="patient_id", codec=codec):
        stages = (Examine, Treat)

    with FlowClock() as clock, MemoryAWS(clock) as aws, FlowRunner(aws, clock) as runner:
        runner.send(Patients, Patient(patient_id="p1", finding="measles"))
        end = runner.run(within=timedelta(hours=1)).run("p1")
        return end.status, end.result


END = ("COMPLETED", {"treated": "measles", "note": "red spots", "dose": 2})


@pytest.mark.parametrize("last", range(CALLS + 1))
def test_a_key_may_be_replaced_at_each_moment_of_a_run(last: int) -> None:
    codec = Deployed(lambda call: OLD if call <= last else NEW)
    assert (played(codec), codec.calls) == (END, CALLS)


@pytest.mark.parametrize("seed", range(10))
def test_functions_that_open_each_others_values_may_run_side_by_side(seed: int) -> None:
    draw = random.Random(seed)
    assert played(Deployed(lambda call: draw.choice((PREPARED, NEW)))) == END


def test_what_was_sealed_by_a_key_that_nobody_opens_any_more_goes_on_when_somebody_does() -> None:
    """The old key was taken out of opens= too early: nothing is lost, and no run has failed."""
    codec = Deployed(lambda call: OLD)
    with sealed_scene(codec) as at:
        at.deliver(first(at, codec))
        message = second(at, codec)
        at.sent("close-order")
        codec.choose = lambda call: Encrypted("alias/new")
        at.receives = 90
        at.clock.advance(seconds=3 * 86_400)
        assert at.deliver(message) == [True]
        item = at.item_of(codec)
        assert (item.status, item.hop) == (Status.RUNNING, 1)
        codec.choose = lambda call: NEW
        done = CliRunner().invoke(main, ["dlq", "redrive", "dead", "--all", "--yes", "--wait", "0"])
        assert done.exit_code == 0, done.output
        [again] = at.sent("close-order")
        at.receives = 1
        assert at.handler({"Records": [record_of("close-order", again)]}) == {"batchItemFailures": []}
        assert at.item_of(codec).status is Status.COMPLETED


class Kms:
    """Two keys and an alias, as KMS has them: who asks by a name that is another key's now is refused."""

    def __init__(self) -> None:
        self.aliases = {"alias/patients": "arn:old"}

    def generate_data_key(self, *, KeyId: str, **_: Any) -> Any:  # noqa: N803 - as boto3 calls it
        key = self.aliases.get(KeyId, KeyId)
        return {"Plaintext": key.encode().ljust(32), "CiphertextBlob": key.encode(), "KeyId": key}

    def decrypt(self, *, KeyId: str, CiphertextBlob: bytes, **_: Any) -> Any:  # noqa: N803
        if self.aliases.get(KeyId, KeyId).encode() != CiphertextBlob:
            raise ClientError({"Error": {"Code": "IncorrectKeyException", "Message": "no"}}, "Decrypt")
        return {"Plaintext": CiphertextBlob.ljust(32)}


def test_an_alias_that_is_moved_names_another_key_and_both_are_named_by_their_arns() -> None:
    about, kms = About("patients", "p1", "payload"), Kms()

    def process(*opens: str) -> Encrypted:
        return Encrypted("alias/patients", opens=opens, data_keys=KmsDataKeys(lambda: kms), clock=ManualClock())

    sealed = process().seal(b"measles", about)
    before = process("arn:old", "arn:new")
    assert before.open(sealed, about) == b"measles"
    kms.aliases["alias/patients"] = "arn:new"
    with pytest.raises(CannotOpen, match="arn:old' has sealed it, which may not open here"):
        process().open(sealed, about)
    after = process("arn:old", "arn:new")
    assert after.open(sealed, about) == b"measles"
    assert before.open(after.seal(b"mumps", about), about) == b"mumps"

"""botocore's errors, where they cannot be loaded when the first of them is named: an outage, and no record is lost."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import botocore
import botocore.exceptions
import pytest

from flowguard.aws import botocore_errors
from flowguard.aws.botocore_errors import ErrorsNotLoaded
from flowguard.aws.faults import is_outage
from flowguard.destinations import Queue
from flowguard.errors import FlowguardError
from flowguard.events import EventType
from flowguard.protocol.outbox import Kind, Send
from flowguard.sim.calls import ApiCall, Proceed, Response, intercept
from flowguard.wire.envelope import Envelope, normalize
from tests.scene import Scene, record, scene


class Refuses:
    """Finds no file for the errors' module, as where no file is free."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name == "botocore.exceptions":
            raise self.error
        return None


NO_FILE = OSError(errno.EMFILE, os.strerror(errno.EMFILE))


@pytest.fixture
def unload(monkeypatch: pytest.MonkeyPatch) -> Callable[[Exception], None]:
    def unloads(error: Exception) -> None:
        monkeypatch.setattr(sys, "meta_path", [Refuses(error), *sys.meta_path])
        monkeypatch.delitem(sys.modules, "botocore.exceptions")
        monkeypatch.delattr(botocore, "exceptions")

    return unloads


Unload = Callable[[Exception], None]


def test_an_error_is_botocores_own() -> None:
    assert botocore_errors.ClientError is botocore.exceptions.ClientError
    with pytest.raises(AttributeError):
        botocore_errors.__getattr__("nothing")


@pytest.mark.parametrize("why", [NO_FILE, ImportError("libssl.so: Too many open files")], ids=["file", "library"])
def test_errors_that_cannot_be_loaded_say_so(unload: Unload, why: Exception) -> None:
    unload(why)
    with pytest.raises(FlowguardError, match=f"errors cannot be loaded to say how: {type(why).__name__}: ") as caught:
        botocore_errors.__getattr__("ClientError")
    assert caught.value.__cause__ is why
    assert caught.type is ErrorsNotLoaded


@pytest.mark.parametrize("error", [ErrorsNotLoaded("OSError"), NO_FILE, ValueError("anything")], ids=type)
def test_where_they_cannot_be_loaded_each_error_is_an_outage(unload: Unload, error: Exception) -> None:
    unload(NO_FILE)
    assert is_outage(error)


def test_once_they_can_be_loaded_they_are_told_apart() -> None:
    assert is_outage(ErrorsNotLoaded("OSError"))
    assert not is_outage(ValueError("anything"))


def no_call(call: ApiCall, proceed: Proceed) -> Response:
    raise NO_FILE


def test_the_records_of_an_invocation_come_again(unload: Unload) -> None:
    with scene() as at:
        unload(NO_FILE)
        with intercept(no_call):
            assert at.deliver(at.order("a"), at.order("b")) == [False, False]
        assert (at.told(EventType.BROKEN), at.told(EventType.RETURNED)) == (1, 1), "the second is not asked for"


def sender(at: Scene) -> Any:
    return at.handler._services.sender


def test_what_was_to_be_sent_is_not_sent_for_now(unload: Unload) -> None:
    with scene() as at:
        unload(NO_FILE)
        with intercept(no_call):
            refused = sender(at).send([Send(Kind.SIDE, Queue("emails"), "{}", f"id-{n}", {}) for n in (1, 2)])
        assert sorted(refused) == [0, 1]
        assert all(not refusal.final and not refusal.for_minutes for refusal in refused.values())
        assert "errors cannot be loaded" in refused[0].why


def test_a_record_that_is_not_handed_back_is_seen_at_its_queues_own_pace(unload: Unload) -> None:
    with scene() as at:
        [envelope] = normalize({"Records": [record(at.order("a"))]})
        assert isinstance(envelope, Envelope)
        unload(NO_FILE)
        with intercept(no_call):
            sender(at).hand_back([(envelope, 5)])
            sender(at).postpone(envelope, 5)


def test_who_lets_records_be_seen_again_names_no_error_where_nothing_is_raised(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """To name one loads them all, in a start that may need none."""
    with scene() as at:
        read = normalize([record(at.message())])[0]
        assert isinstance(read, Envelope)
        monkeypatch.setattr(botocore_errors, "__getattr__", lambda name: pytest.fail(f"{name} is named"))

        def taken(call: ApiCall, proceed: Proceed) -> Response:
            return {"QueueUrl": "https://sqs", "Successful": [], "Failed": []}

        with intercept(taken):
            sender(at).postpone(read, 30)
            sender(at).hand_back([(read, 30)])


def test_another_error_at_a_call_that_shows_records_again_is_raised() -> None:
    def breaks(call: ApiCall, proceed: Proceed) -> Response:
        raise ValueError("a mistake of flowguard's")

    with scene() as at:
        [read] = normalize({"Records": [record(at.message())]})
        assert isinstance(read, Envelope)
        with intercept(breaks):
            with pytest.raises(ValueError, match="a mistake"):
                sender(at).postpone(read, 30)
            with pytest.raises(ValueError, match="a mistake"):
                sender(at).hand_back([(read, 30)])

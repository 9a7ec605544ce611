"""Keys that cannot be asked, and values that nobody opens: what that costs a run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from flowguard.clock import ManualClock
from flowguard.codecs import Encrypted
from flowguard.errors import CannotOpen, KeyUnavailable
from flowguard.events import EventType
from flowguard.flow import AnyFlow, Flow
from flowguard.outcome import Done, Outcome
from flowguard.payload.codec import About, Codec
from flowguard.protocol.run import Status
from flowguard.sim.memory.aws import MemoryAWS
from flowguard.stage import Stage
from flowguard.step import Step
from flowguard.testing import FlowClock, FlowRunner
from flowguard.wire.message import Message
from flowguard.wire.sealed_message import sealed_message
from tests.codecs.fakes import Vault
from tests.scene import Scene, Script, scene, two_stages

CALLS = range(1, 7)
"""More than the calls of a hop to its keys."""


class Every:
    """A codec that asks its keys at each call, of which one is not answered."""

    def __init__(self, vault: Vault) -> None:
        self._vault = vault
        self.calls = 0
        self.fails_at: int | None = None

    def seal(self, data: bytes, about: About) -> bytes:
        return self._codec().seal(data, about)

    def open(self, sealed: bytes, about: About) -> bytes:
        return self._codec().open(sealed, about)

    def _codec(self) -> Encrypted:
        self.calls += 1
        self._vault.away = self.calls == self.fails_at
        return Encrypted("k", data_keys=self._vault, clock=ManualClock())


def sealing(codec: Codec) -> Callable[[Script], AnyFlow]:
    def made(script: Script) -> AnyFlow:
        class Orders(
            Flow, name="orders", object_id="order_id", complete_to="completed", dead_letters="dead", codec=codec
        ):
            stages = two_stages(script)

        return Orders

    return made


@contextmanager
def sealed_scene(codec: Codec) -> Iterator[Scene]:
    with scene(sealing(codec)) as at:
        yield at


def first(at: Scene, codec: Codec, **changes: Any) -> Message:
    return sealed_message(codec, at.message(**changes))


def second(at: Scene, codec: Codec) -> Message:
    return sealed_message(codec, at.second())


@pytest.mark.parametrize("call", CALLS)
def test_an_outage_of_the_keys_at_whatever_call_costs_no_attempt(call: int) -> None:
    vault = Vault()
    codec = Every(vault)
    with sealed_scene(codec) as at:
        message = first(at, codec)
        codec.calls, codec.fails_at = 0, call
        acked = at.deliver(message)
        failed = codec.calls >= call
        assert acked == [not failed]
        codec.fails_at = None
        vault.away = False
        at.clock.advance(seconds=1)
        assert at.deliver(message) == [True]
        assert {attempt for _, _, attempt in at.script.handled} == {1}
        item = at.item_of(codec)
        assert (item.status, item.hop, item.retry, item.kills) == (Status.RUNNING, 1, 0, 0)
        assert at.priced() == 1
        assert at.sent("dead") == []
        assert at.told(EventType.RETRIED) == 0


@pytest.mark.parametrize("call", CALLS)
def test_and_so_it_is_in_the_second_hop(call: int) -> None:
    vault = Vault()
    codec = Every(vault)
    with sealed_scene(codec) as at:
        at.deliver(first(at, codec))
        message = second(at, codec)
        codec.calls, codec.fails_at = 0, call
        at.deliver(message)
        codec.fails_at = None
        vault.away = False
        at.clock.advance(seconds=1)
        assert at.deliver(message) == [True]
        assert {attempt for _, _, attempt in at.script.handled} == {1}
        assert at.item_of(codec).status is Status.COMPLETED
        assert at.sent("dead") == []


def test_after_an_outage_of_the_key_that_seals_the_records_of_an_invocation_are_left_alone() -> None:
    vault = Vault()
    codec = Every(vault)
    with sealed_scene(codec) as at:
        messages = [first(at, codec), sealed_message(codec, at.order("o2"))]
        codec.calls, codec.fails_at = 0, 2
        assert at.deliver(*messages) == [False, False]
        assert codec.calls == 2


@pytest.mark.parametrize("together", [False, True])
def test_a_record_whose_key_is_away_holds_up_no_other(together: bool) -> None:
    old, vault = Vault(), Vault()
    old.made = 100  # no data key of one is one of the other
    codec = Old(Encrypted("old", data_keys=old), Encrypted("new", data_keys=vault))
    with sealed_scene(codec) as at:
        at.handler.together = together
        by_old = sealed_message(Encrypted("old", data_keys=old), at.message())
        messages = [by_old, sealed_message(codec, at.order("o2")), at.order("o3")]
        old.away = True
        assert at.deliver(*messages) == [False, True, True]
        assert at.sent("dead") == []


class Old:
    """A codec that opens what another has sealed as well."""

    def __init__(self, old: Encrypted, new: Encrypted) -> None:
        self.old, self.new = old, new

    def seal(self, data: bytes, about: About) -> bytes:
        return self.new.seal(data, about)

    def open(self, sealed: bytes, about: About) -> bytes:
        try:
            return self.new.open(sealed, about)
        except CannotOpen:
            return self.old.open(sealed, about)


def test_a_state_that_nobody_opens_parks_the_message_and_the_run_stays() -> None:
    good, other = Encrypted("k", data_keys=Vault()), Encrypted("k", data_keys=Vault())
    codec = _Switched(good)
    with sealed_scene(codec) as at:
        at.deliver(first(at, codec))
        message = second(at, codec)
        codec.opener = other
        at.receives = 90
        at.clock.advance(seconds=3 * 86_400)
        assert at.deliver(message) == [True]
        [letter] = at.sent("dead")
        assert str(message.sealed)[30:80] in letter["Body"]
        assert [name for name, _, _ in at.script.handled] == ["price-order"]
        codec.opener = good
        item = at.item_of(codec)
        assert (item.status, item.hop) == (Status.RUNNING, 1)


class _Switched:
    """A codec whose opener can be another one."""

    def __init__(self, codec: Codec) -> None:
        self._sealer = self.opener = codec

    def seal(self, data: bytes, about: About) -> bytes:
        return self._sealer.seal(data, about)

    def open(self, sealed: bytes, about: About) -> bytes:
        return self.opener.open(sealed, about)


@pytest.mark.parametrize("call", range(1, 13))
def test_records_that_share_calls_survive_it_too(call: int) -> None:
    vault = Vault()
    codec = Every(vault)
    with sealed_scene(codec) as at:
        at.handler.together = True
        messages = [first(at, codec), sealed_message(codec, at.order("o2")), sealed_message(codec, at.order("o3"))]
        codec.calls, codec.fails_at = 0, call
        at.deliver(*messages)
        codec.fails_at = None
        vault.away = False
        at.clock.advance(seconds=1)
        assert at.deliver(*messages) == [True, True, True]
        for name in ("o1", "o2", "o3"):
            item = at.item_of(codec, name)
            assert (item.status, item.hop, item.retry, item.kills) == (Status.RUNNING, 1, 0, 0)
        assert {attempt for _, _, attempt in at.script.handled} == {1}
        assert at.sent("dead") == []
        assert at.told(EventType.RETRIED) == 0


class Stopping:
    """A codec whose key seals nothing while it is away. It opens."""

    def __init__(self) -> None:
        self.is_away = False

    def seal(self, data: bytes, about: About) -> bytes:
        if self.is_away:
            raise KeyUnavailable("k", "ThrottlingException: slow down")
        return b"sealed" + data

    def open(self, sealed: bytes, about: About) -> bytes:
        return sealed.removeprefix(b"sealed")


@pytest.mark.parametrize("is_async", [False, True])
def test_while_nothing_can_be_sealed_the_call_of_once_is_not_made(is_async: bool) -> None:
    codec, calls = Stopping(), list[str]()

    def charge() -> int:
        calls.append("charge")
        return 1

    async def charge_async() -> int:
        return charge()

    def begin(step: Step) -> None:
        calls.append("handler")
        codec.is_away = calls.count("handler") <= 3

    class Charge(Stage[dict[str, Any]], name="charge"):
        def handle(self, payload: dict[str, Any], step: Step) -> Outcome:
            begin(step)
            return Done({"charged": step.once("charge", charge)})

    class ChargeAsync(Stage[dict[str, Any]], name="charge"):
        async def handle(self, payload: dict[str, Any], step: Step) -> Outcome:
            begin(step)
            return Done({"charged": await step.once("charge", charge_async)})

    charging: Any = ChargeAsync if is_async else Charge

    class Take(Stage[dict[str, Any]], name="take", then="charge"):
        def handle(self, payload: dict[str, Any], step: Step) -> Outcome:
            sent: Outcome = charging.message(payload)
            return sent

    class Orders(Flow, name="orders", object_id="order_id", codec=codec):
        stages = (Take, charging)

    with FlowClock() as clock, MemoryAWS(clock) as aws, FlowRunner(aws, clock) as runner:
        runner.send(Orders, {"order_id": "o1"})
        assert runner.run().run("o1").result == {"charged": 1}
    assert calls == ["handler"] * 4 + ["charge"]


def test_a_handler_that_catches_the_outage_may_make_its_call_again() -> None:
    codec, calls = Stopping(), list[str]()

    class Charge(Stage[dict[str, Any]], name="charge"):
        def handle(self, payload: dict[str, Any], step: Step) -> Outcome:
            codec.is_away = True
            with pytest.raises(KeyUnavailable):
                step.once("charge", lambda: calls.append("charge"))
            codec.is_away = False
            step.once("charge", lambda: calls.append("charge"))
            return Done({})

    class Orders(Flow, name="orders", object_id="order_id", codec=codec):
        stages = (Charge,)

    with FlowClock() as clock, MemoryAWS(clock) as aws, FlowRunner(aws, clock) as runner:
        runner.send(Orders, {"order_id": "o1"})
        assert runner.run().run("o1").status == "COMPLETED"
    assert calls == ["charge"]

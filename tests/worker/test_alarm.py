"""An alarm rings in a thread of its own, at its time, unless it is called off."""

from __future__ import annotations

import threading

from flowguard.worker.alarm import ThreadAlarm

LONG = 5.0
"""Seconds that a test waits at most for what should come at once."""


def test_an_alarm_rings_while_its_setter_is_busy() -> None:
    rung = threading.Event()
    ThreadAlarm()(1, rung.set)
    assert rung.wait(LONG)


def test_an_alarm_that_was_called_off_does_not_ring() -> None:
    alarm, rung, later = ThreadAlarm(), threading.Event(), threading.Event()
    alarm(20, rung.set)()
    alarm(40, later.set)
    assert later.wait(LONG)
    assert not rung.is_set()


def test_an_alarm_set_later_but_due_sooner_rings_first() -> None:
    alarm, near, far = ThreadAlarm(), threading.Event(), threading.Event()
    before: list[bool] = []

    def ring_far() -> None:
        before.append(near.is_set())
        far.set()

    alarm(150, ring_far)
    alarm(1, near.set)
    assert far.wait(LONG)
    assert before == [True]


def test_one_that_fails_does_not_silence_the_others() -> None:
    alarm, rung = ThreadAlarm(), threading.Event()

    def fail() -> None:
        raise RuntimeError("nobody listens")

    alarm(1, fail)
    alarm(30, rung.set)
    assert rung.wait(LONG)


def test_a_thread_is_started_again_after_it_had_nothing_left_to_do() -> None:
    alarm = ThreadAlarm()
    for _ in range(3):
        rung = threading.Event()
        alarm(1, rung.set)
        assert rung.wait(LONG)


def test_alarms_that_are_called_off_at_once_share_a_thread() -> None:
    alarm, before = ThreadAlarm(), set(threading.enumerate())  # others may end meanwhile
    for _ in range(50):
        alarm(60_000, lambda: None)()
    assert len(set(threading.enumerate()) - before) == 1

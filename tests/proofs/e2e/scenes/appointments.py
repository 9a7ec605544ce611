"""Bookings come as events: a rule of EventBridge sends them to the flow's queue."""

from __future__ import annotations

import json

from tests.proofs.e2e.cloud import Cloud
from tests.proofs.e2e.play import Check, Scene, Until

MODULE = "flows.appointments.handlers"
PATIENTS = ("ada", "ben", "cleo", "dan")


def scene(cloud: Cloud) -> Scene:
    events = cloud.client("events")
    pattern = {"source": ["website"], "detail-type": ["Appointment wanted"]}
    rule = events.put_rule(Name="appointments-wanted", EventPattern=json.dumps(pattern))["RuleArn"]
    queue = cloud.let_send("appointment-requests", "events.amazonaws.com", rule)
    events.put_targets(Rule="appointments-wanted", Targets=[{"Id": "queue", "Arn": queue}])
    for patient in PATIENTS:
        booking = {"booking_id": f"booking-{patient}", "patient": patient, "doctor": "dr-lee", "days": ["2027-01-05"]}
        for _ in "12":
            cloud.put_event("website", "Appointment wanted", booking)
    yield Until("every booking is settled", lambda: len(cloud.distinct("appointments-settled")) >= len(PATIENTS))
    yield Until("the queue is empty", lambda: cloud.settled("appointment-requests"))
    [diary] = cloud.items("diaries")
    taken = sorted(diary["taken"].values())
    yield Check("each booking has one slot", [f"booking-{patient}" for patient in PATIENTS], taken)
    given = {one["booking_id"]: one["at"] for one in cloud.items("appointments")}
    yield Check(
        "each appointment is at the slot of its booking", {whose: at for at, whose in diary["taken"].items()}, given
    )
    letters = sorted(one.body["patient"] for one in cloud.distinct("patient-letters"))
    yield Check("one letter for each patient, copies apart", [*PATIENTS], letters)

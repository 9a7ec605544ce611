"""A flow for what the shipped ones do without: a FIFO queue as inbox, and texts that are too long for a run item."""

from __future__ import annotations

from typing import Final

from pydantic import BaseModel

from flowguard import Done, Fixed, Flow, Outcome, RetryPolicy, Stage, Step, lambda_handler

ACCOUNTS: Final = "accounts"
REPORTED: Final = "bookings-reported"

TABLES: Final = {ACCOUNTS: "account"}
QUEUES: Final = (REPORTED,)


class Booking(BaseModel):
    booking_id: str
    account: str
    number: int
    receipt: str = ""
    fails: int = 0


class Report(BaseModel):
    receipt: str


class Book(Stage[Booking], name="book", inbox="bookings.fifo", then="report", retry=RetryPolicy(backoff=Fixed(1))):
    """Add a booking to its account, in the order of the account's messages."""

    def handle(self, booking: Booking, step: Step) -> Outcome:
        if step.attempt <= booking.fails:
            raise ConnectionError("not now")
        values = {":none": [], ":number": [booking.number]}
        change = "SET numbers = list_append(if_not_exists(numbers, :none), :number)"
        step.update(ACCOUNTS, {"account": booking.account}, change, values=values)
        return Reporting.message(Report(receipt=booking.receipt))


class Reporting(Stage[Report], name="report", inbox="bookings-to-report"):
    """Say how long the receipt is."""

    def handle(self, report: Report, step: Step) -> Outcome:
        return Done({"booking_id": step.object_id, "receipt": len(report.receipt)})


class Ledger(Flow, name="ledger", object_id="booking_id", request_id="booking_id", complete_to=REPORTED):
    """Book, report."""

    stages = (Book, Reporting)


book = lambda_handler(Ledger, Book)
report = lambda_handler(Ledger, Reporting)

"""What the Lambda function points at."""

from __future__ import annotations

from flowguard import lambda_handler
from flows.appointments.flow import BookAppointment

give_appointments = lambda_handler(BookAppointment)

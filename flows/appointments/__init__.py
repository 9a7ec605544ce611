"""Give every request for an appointment one slot of a doctor's day, however many consumers read the queue."""

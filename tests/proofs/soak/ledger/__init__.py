"""Entries of a ledger: an account's are booked in the order in which they were sent, by way of a FIFO queue."""

"""The run of one schedule: its sandbox, its deliveries, its workers and their faults."""

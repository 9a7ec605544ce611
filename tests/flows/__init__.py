"""The flows that ship: their stages as plain methods, and whole flows through their queues."""

"""Eight processes that answer the same waits at once: the second part of ``python -m tests.proofs.races``."""

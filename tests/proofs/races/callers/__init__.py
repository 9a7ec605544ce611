"""Eight processes that ask for the same pages and reset them: the fourth part of ``python -m tests.proofs.races``."""

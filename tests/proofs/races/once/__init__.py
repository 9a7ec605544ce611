"""Eight processes that call a function under ``@once``: the fifth part of ``python -m tests.proofs.races``."""

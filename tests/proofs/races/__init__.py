"""Sixteen processes that want the same hops at once, on DynamoDB Local: ``python -m tests.proofs.races``."""

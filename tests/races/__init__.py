"""Sixteen processes that want the same hops at the same moments, on DynamoDB Local: ``python -m tests.races``."""

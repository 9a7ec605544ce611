"""One business, written five ways, each under the same explorer: ``python -m tests.proofs.compare``."""

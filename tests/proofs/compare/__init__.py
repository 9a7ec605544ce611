"""One business, written six ways, each under the same explorer: ``python -m tests.proofs.compare``."""

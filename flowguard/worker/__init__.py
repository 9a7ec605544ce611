"""One message at work: routed, claimed, handled, committed, sent, acknowledged."""

"""The work on one message. It is routed, claimed, handled, committed, sent and acknowledged."""

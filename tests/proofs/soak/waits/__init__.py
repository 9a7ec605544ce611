"""Waits: a run for each request, which waits for a flow, for a party outside, and for whoever has its token."""

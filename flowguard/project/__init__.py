"""A project of a user: its flows and what their modules declare."""

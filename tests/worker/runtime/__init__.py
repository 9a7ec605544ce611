"""The way of a message, end to end on the embedded engine: every verdict, every order, every lost answer."""

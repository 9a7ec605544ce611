"""What makes a function start quicker than with Python's own."""

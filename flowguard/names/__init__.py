"""Names of objects and resources."""

"""What is done with each deployed flow."""

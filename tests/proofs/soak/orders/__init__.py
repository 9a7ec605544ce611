"""Orders: a run for each request, every one of which has to be carried out."""

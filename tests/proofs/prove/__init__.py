"""`make prove`: each guard of flowguard is taken away once, and the explorer has to notice."""

"""The search: which schedules are run, in what order, and how a found one is made shorter."""

"""The inspector: pages that show the runs of a table in a browser. ``flowguard ui`` serves them."""

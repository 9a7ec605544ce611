"""AWS on this machine for development.

An engine listens on a port, and the functions of a module serve its queues.
"""

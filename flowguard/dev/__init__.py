"""AWS on this machine for development: an engine on a port, and the functions of a module on its queues."""

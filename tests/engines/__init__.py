"""Launchers of the stand-ins for AWS that `make engines` fetches. Each is its own process, on a port of its own."""

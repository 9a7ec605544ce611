"""Calls of the services that speak JSON over POST, made without botocore where that is certain to be right."""

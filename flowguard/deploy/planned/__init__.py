"""Reads from files what will be deployed, and answers the checks from it."""

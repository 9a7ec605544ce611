"""Types for the arguments of the commands below ``tests``: what argparse refuses with the argument's name."""

from __future__ import annotations

import argparse


def count(text: str) -> int:
    """At least one: none of something proves nothing, and would be called a success."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is no number of at least 1")
    return number


def share(text: str) -> float:
    """From 0 for never to 1 for always."""
    number = float(text)
    if not 0 <= number <= 1:
        raise argparse.ArgumentTypeError(f"{number} is no share from 0 to 1")
    return number


def duration(text: str) -> float:
    """Not less than nothing."""
    number = float(text)
    if not 0 <= number < float("inf"):
        raise argparse.ArgumentTypeError(f"{number} is no time of at least 0")
    return number

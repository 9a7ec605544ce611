"""A flow whose stages go without a lease."""

from __future__ import annotations

from flowguard import SUPERSEDE, Flow
from tests.proofs.prove.flows import Open, Shut


class OpenUnclaimed(Open, name="open", lease=False):
    """As its base."""


class ShutUnclaimed(Shut, name="shut", lease=False):
    """As its base."""


class Unleased(Flow, name="unleased", object_id="order_id", on_conflict=SUPERSEDE, complete_to="ended"):
    stages = (OpenUnclaimed, ShutUnclaimed)

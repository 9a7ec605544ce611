"""Signing keys that are kept in Systems Manager, in a world whose engine need not have it."""

from __future__ import annotations

from typing import Final

from flowguard.sim.account import SIMULATED_KEYS
from flowguard.sim.calls import ApiCall, Proceed, Response
from flowguard.wire.signing import Signer

KEYS_PARAMETER: Final = "/flowguard/simulated-keys"
"""The parameter in which a world keeps its keys where Systems Manager is to be away."""


class Believing:
    """A signer for recorded messages, which accepts any signature, and none.

    Their keys are elsewhere, and nothing that they ask for leaves the process.
    """

    is_on, is_required = True, False

    def sign(self, statement: str) -> str | None:
        return "recorded"

    def problem(self, statement: str, signature: str | None) -> str | None:
        return None


class BelievingWithKeys(Believing):
    """The same, but it needs the keys of another signer for whatever it signs or judges, as functions do."""

    def __init__(self, signer: Signer) -> None:
        self._signer = signer

    def sign(self, statement: str) -> str | None:
        return self._signer.sign(statement)

    def problem(self, statement: str, signature: str | None) -> str | None:
        self._signer.sign(statement)
        return None


def answer_for_keys(call: ApiCall, proceed: Proceed, /) -> Response:
    """Answer as an interceptor for the one parameter."""
    if (call.service, call.operation, call.params.get("Name")) == ("ssm", "GetParameter", KEYS_PARAMETER):
        return {"Parameter": {"Value": SIMULATED_KEYS}}
    return proceed()

"""What keeps ``flowguard dev`` from running."""

from __future__ import annotations

from flowguard.errors import FlowguardError


class CannotServe(FlowguardError):
    """The engine cannot be served there. Nothing was started."""

    def __init__(self, where: str, problem: str) -> None:
        super().__init__(where, problem)
        self.where = where
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.where}: {self.problem}"


class StateRefused(FlowguardError):
    """The state that a directory keeps cannot be used. Its file is left as it is."""

    def __init__(self, file: str, problem: str, fix: str = "") -> None:
        super().__init__(file, problem, fix)
        self.file = file
        self.problem = problem
        self.fix = fix

    def __str__(self) -> str:
        return f"{self.file}: {self.problem}" + (f"; {self.fix}" if self.fix else "")

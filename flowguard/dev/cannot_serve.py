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
    """The state that is kept in a directory cannot be used. The file is left as it is."""

    def __init__(self, file: str, problem: str) -> None:
        super().__init__(file, problem)
        self.file = file
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.file}: {self.problem}; move it away to begin without it"

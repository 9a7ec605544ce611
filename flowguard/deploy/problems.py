"""The error of a deployment that cannot be described."""

from __future__ import annotations

from flowguard.errors import FlowguardError


class CannotDeploy(FlowguardError):
    """What the modules or options say cannot be deployed. Nothing was written; each problem names its fix."""

    def __init__(self, what: str, problems: tuple[str, ...]) -> None:
        super().__init__(what, problems)
        self.what = what
        self.problems = problems

    def __str__(self) -> str:
        if len(self.problems) == 1:
            return f"{self.what}: {self.problems[0]}"
        return "\n".join((f"{self.what} cannot be deployed:", *(f"  - {problem}" for problem in self.problems)))


class CannotPackage(FlowguardError):
    """The code of the functions cannot be packed. Nothing was written; the problem names its fix."""

    def __init__(self, what: str, problem: str) -> None:
        super().__init__(what, problem)
        self.what = what
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.what}: {self.problem}; nothing was written"

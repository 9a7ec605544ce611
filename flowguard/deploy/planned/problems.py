"""The error of a file that does not say what is deployed."""

from __future__ import annotations

from flowguard.errors import FlowguardError


class NotReadable(FlowguardError):
    """A file is no template or plan, or something in it has another form. The problem names the place."""

    def __init__(self, file: str, problem: str) -> None:
        super().__init__(file, problem)
        self.file = file
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.file}: {self.problem}"

"""The process of the functions, as the one that starts it sees it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from queue import Queue
from typing import Any, Final

from flowguard.dev.functions import NOT_LOADED, Order

PATIENCE: Final = 10
"""Seconds in which functions may finish what they have begun. Lambda gives a function at least as long."""


class FunctionsProcess:
    """A process that serves an order. What it says goes to ``said``, and at last its end.

    ``environment`` has the engine's variables, which replace all of AWS's in this process's own.
    """

    def __init__(self, order: Order, environment: Mapping[str, str], said: Queue[dict[str, Any]]) -> None:
        own = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
        self._process = subprocess.Popen(  # noqa: S603 - this interpreter, and a module of this package
            [sys.executable, "-m", "flowguard.dev.functions", order.as_text()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**own, **environment},
        )
        self._said = said
        self._told_to_stop = False
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        for line in self._process.stdout or ():
            try:
                self._said.put(json.loads(line))
            except ValueError:  # the process was killed in the middle of a line
                continue
        code = self._process.wait()
        if not self._told_to_stop and code != NOT_LOADED:
            self._said.put({"event": "died", "code": code, "pid": self._process.pid})

    @property
    def pid(self) -> int:
        return self._process.pid

    def stop(self, patience: float = PATIENCE) -> bool:
        """Let the functions finish what they have begun. Return False where the process had to be killed."""
        self._told_to_stop = True
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(patience)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            return False
        finally:
            self._reader.join()
            if self._process.stdout is not None:
                self._process.stdout.close()
        return True

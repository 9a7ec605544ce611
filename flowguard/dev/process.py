"""The process of the functions, as the one that starts it sees it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from itertools import count
from queue import Empty, Queue
from typing import Any, Final

from flowguard.dev.functions import NOT_LOADED, Order

PATIENCE: Final = 10
"""Seconds in which functions may finish what they have begun. Lambda gives a function at least as long."""


class FunctionsProcess:
    """A process that serves an order. What it says goes to ``events``, and at last its end.

    ``environment`` has the engine's variables, which replace all of AWS's in this process's own.
    """

    def __init__(self, order: Order, environment: Mapping[str, str], events: Queue[dict[str, Any]]) -> None:
        variables = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
        self._process = subprocess.Popen(  # noqa: S603 - this interpreter, and a module of this package
            [sys.executable, "-m", "flowguard.dev.functions", order.as_text()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**variables, **environment},
        )
        self._said = events
        self._numbers = count(1)
        self._answers: dict[int, Queue[dict[str, Any]]] = {}
        self._asking = threading.Lock()
        self._told_to_stop = False
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        for line in self._process.stdout or ():
            try:
                data = json.loads(line)
            except ValueError:  # the process was killed in the middle of a line
                continue
            if (box := self._answers.get(data.get("answer_to", 0))) is not None:
                box.put(data["answer"])
            elif "answer_to" not in data:
                self._said.put(data)
        code = self._process.wait()
        if not self._told_to_stop and code != NOT_LOADED:
            self._said.put({"event": "died", "code": code, "pid": self._process.pid})

    @property
    def pid(self) -> int:
        return self._process.pid

    def ask(self, event: Mapping[str, Any], patience: float = 2 * PATIENCE) -> dict[str, Any] | None:
        """Hand the event of a function URL to its function. None where it does not answer in time."""
        number, box = next(self._numbers), Queue[dict[str, Any]](1)
        self._answers[number] = box
        try:
            with self._asking:
                if self._process.stdin is None:
                    return None
                self._process.stdin.write(f"{json.dumps({'ask': number, 'event': event})}\n".encode())
                self._process.stdin.flush()
            return box.get(timeout=patience)
        except (OSError, ValueError, Empty):  # it has ended, or was stopped meanwhile
            return None
        finally:
            del self._answers[number]

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

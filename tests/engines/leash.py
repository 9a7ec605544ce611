"""Run a command that must not outlive whoever started it, however that one dies.

The starter holds the other end of standard input and never writes. End of file means that it has let go, or is dead;
a signal could not tell of a killed starter. Must lead a process group of its own: all of it goes at the end, and with
it whatever the command had started.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

_SECONDS_TO_STOP = 3


def main(command: list[str]) -> None:
    engine = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    threading.Thread(target=_stop_when_let_go, args=(engine,), daemon=True).start()
    engine.wait()
    os.killpg(0, signal.SIGKILL)


def _stop_when_let_go(engine: subprocess.Popen[bytes]) -> None:
    sys.stdin.buffer.read()
    engine.terminate()
    try:
        engine.wait(_SECONDS_TO_STOP)
    except subprocess.TimeoutExpired:
        engine.kill()


if __name__ == "__main__":
    main(sys.argv[1:])

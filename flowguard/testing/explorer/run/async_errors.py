"""Errors that are raised in a thread from outside."""

from __future__ import annotations

import ctypes
import threading


def raise_in(thread: int, kind: type[BaseException]) -> None:
    """Raise an error in a thread, as soon as that runs Python again: not while it waits for a lock."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(kind))


class _Taken(BaseException):
    pass


def forget_signal() -> None:
    """Clear the flag by which Python looks for such errors. Call it before lines are traced.

    The flag is set for all threads until one of them raises its error, which a thread that waits for good never does.
    While it is set, Python 3.11 repeats the first instruction of each traced function without end. So this thread
    raises an error of its own.
    """
    try:
        raise_in(threading.get_ident(), _Taken)
        while True:
            pass
    except _Taken:
        return

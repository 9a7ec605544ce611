"""Notices who watches or changes botocore, such as a tracer. Such calls are botocore's, so that they are seen.

A tracer may come before the clients of a process are made, or after::

    modules that it has changed      asked before each call
    what will change modules, when   asked when the clients are made, and before each call where something has come
    they are imported                since then
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.machinery import BuiltinImporter, FrozenImporter, PathFinder
from operator import call, is_
from types import FunctionType
from typing import Any, Final

from flowguard.startup.named_tuple import NamedTuple

_IMPORTERS: Final = (BuiltinImporter, FrozenImporter, PathFinder)
_HARMLESS_IMPORTERS: Final = frozenset({"_SixMetaPathImporter", "DistutilsMetaFinder"})
"""Those of the packages six and setuptools, which change no module of botocore."""

_HARMLESS_INITIALIZERS: Final = "aws_lambda_powertools."
"""Where Powertools is imported, it puts its name into the user agent of each session."""

_WATCHED: Final = {
    ("botocore.client", "BaseClient"): ("__init__", "_make_api_call", "_make_request"),
    ("botocore.client", "ClientCreator"): ("create_client", "_create_api_method", "_create_methods"),
    ("botocore.endpoint", "Endpoint"): ("make_request", "prepare_request", "_send_request", "_get_response", "_send"),
    ("botocore.httpsession", "URLLib3Session"): ("send",),
    ("botocore.session", "Session"): ("__init__", "create_client"),
    ("http.client", "HTTPConnection"): ("_send_request", "getresponse", "putrequest", "request", "send"),
    ("urllib3.connectionpool", "HTTPConnectionPool"): ("urlopen",),
}
"""The functions of botocore through which each call goes, by module and class.

X-Ray, OpenTelemetry, Sentry, New Relic and recorders of HTTP replace one or more of them. A class may have no such
function in another release.
"""


def why_watched(modules: Mapping[str, Any], importers: Sequence[Any]) -> str | None:
    """Return what may change botocore, such as a tracer that waits for its import. None where nothing does."""
    if "moto" in modules:
        return "moto is loaded"
    for importer in importers:
        name = getattr(importer, "__name__", type(importer).__name__)
        if importer not in _IMPORTERS and name not in _HARMLESS_IMPORTERS:
            return f"{name} changes what is imported"
    for initializer in getattr(modules.get("botocore"), "_INITIALIZERS", ()):
        if not str(getattr(initializer, "__module__", "")).startswith(_HARMLESS_INITIALIZERS):
            return f"{getattr(initializer, '__qualname__', initializer)} changes the sessions of botocore"
    return "functions of botocore or of HTTP are replaced" if is_patched() else None


class _Place(NamedTuple):
    """What a name stands for at the moment, and where that is asked."""

    ask: Callable[[str], Any]
    name: str
    value: Any


class Watch:
    """Answers before each call whether somebody watches botocore since a client was made. Safe in threads.

    What was there before was judged by :func:`why_watched`.
    """

    def __init__(self) -> None:
        self._importers = list(sys.meta_path)
        self._had_moto = "moto" in sys.modules
        self._genuine: tuple[tuple[Any, ...], ...] | None = None

    def is_watched(self) -> bool:
        """Answer for this moment: who stops watching is not there any more."""
        if not self._had_moto and "moto" in sys.modules:
            return True
        if sys.meta_path != self._importers and self._has_come():
            return True
        return not self._is_genuine() and self._is_patched()

    def _has_come(self) -> bool:
        importers = list(sys.meta_path)
        if why_watched({}, [importer for importer in importers if importer not in self._importers]) is not None:
            return True
        self._importers = importers  # botocore brings one itself
        return False

    def _is_genuine(self) -> bool:
        """Answer whether each name stands for what it did when that was genuine: a tenth of looking at it again."""
        if self._genuine is None:
            return False
        asks, names, values = self._genuine
        return all(map(is_, map(call, asks, names), values))  # a tracer's proxy is equal to what it wraps

    def _is_patched(self) -> bool:
        places = tuple(_places())
        if is_patched():
            return True
        self._genuine = tuple(zip(*places, strict=True))
        return False


def is_patched() -> bool:
    """Answer whether somebody has replaced a function that botocore's calls pass through."""
    for (module, name), names in _WATCHED.items():
        loaded = sys.modules.get(module)
        kind = getattr(loaded, name, None)  # None too while another thread is still loading it
        if kind is None:
            continue
        if kind.__module__ != module or _is_foreign(loaded, tuple(map(vars(kind).get, names))):
            return True
    return False


def _places() -> Iterator[_Place]:
    """Yield all loaded modules, classes and functions through which a call passes."""
    for (module, name), names in _WATCHED.items():
        loaded = sys.modules.get(module)
        yield _Place(sys.modules.get, module, loaded)
        if loaded is not None:
            kind = vars(loaded).get(name)
            yield _Place(vars(loaded).get, name, kind)
            if kind is not None:
                yield from (_Place(vars(kind).get, function, vars(kind).get(function)) for function in names)


def _is_foreign(loaded: Any, functions: tuple[Any, ...]) -> bool:
    """Answer whether one of the functions is of another package than the module."""
    home = os.path.dirname(loaded.__file__) + os.sep  # noqa: PTH120 - loads no pathlib
    return any(
        type(function) is not FunctionType or not function.__code__.co_filename.startswith(home)
        for function in functions
        if function is not None
    )

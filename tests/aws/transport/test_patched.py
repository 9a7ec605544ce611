"""Whoever watches or changes botocore is noticed, before clients are made and after."""

from __future__ import annotations

import http.client
import importlib
import subprocess
import sys
from collections.abc import Callable
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import botocore
import pytest
from botocore.client import BaseClient

from flowguard.aws.transport import patched
from flowguard.aws.transport.patched import Watch, is_patched, why_watched
from flowguard.sim.calls import Recorder, intercept


class ATracer:
    """Finds modules, and changes some."""

    def find_spec(self, *_: Any) -> None:
        return None


class _SixMetaPathImporter(ATracer):
    """Is called as that of the package six."""


# -- before clients are made


def test_what_waits_for_the_import_of_botocore_is_noticed() -> None:
    assert why_watched({}, [PathFinder, _SixMetaPathImporter()]) is None
    assert why_watched({"moto": None}, []) == "moto is loaded"
    assert why_watched({}, [PathFinder, ATracer()]) == "ATracer changes what is imported"
    assert why_watched({}, [ATracer]) == "ATracer changes what is imported"


def test_what_changes_each_session_is_noticed() -> None:
    def changes(session: Any) -> None:
        pass

    def of_powertools(session: Any) -> None:
        pass

    botocore: Any = ModuleType("botocore")
    assert why_watched({"botocore": botocore}, []) is None
    botocore._INITIALIZERS = [of_powertools]
    of_powertools.__module__ = "aws_lambda_powertools.shared.user_agent"
    assert why_watched({"botocore": botocore}, []) is None
    botocore._INITIALIZERS.append(changes)
    why = why_watched({"botocore": botocore}, [])
    assert why is not None
    assert why.endswith("changes changes the sessions of botocore")


def test_what_is_patched_already_is_noticed() -> None:
    assert why_watched({}, []) is None
    with intercept(Recorder()):
        assert why_watched({}, []) == "functions of botocore or of HTTP are replaced"


def test_a_bare_process_has_nothing_that_watches_it() -> None:
    code = "from flowguard.aws.transport.patched import why_watched as w; print(w(sys.modules, sys.meta_path))"
    done = subprocess.run(
        [sys.executable, "-I", "-c", f"import sys; sys.path.insert(0, '.'); {code}"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "None"


# -- after


FUNCTIONS: Final = [(module, kind, name) for (module, kind), names in patched._WATCHED.items() for name in names]


@pytest.mark.parametrize(("module", "kind", "name"), FUNCTIONS, ids=[f"{kind}.{name}" for _, kind, name in FUNCTIONS])
def test_a_function_that_is_replaced_is_noticed_until_it_is_back(module: str, kind: str, name: str) -> None:
    owner: Any = getattr(importlib.import_module(module), kind)
    watch = Watch()
    assert not watch.is_watched()
    with pytest.MonkeyPatch.context() as patching:
        patching.setattr(owner, name, lambda *_, **__: None)
        assert watch.is_watched()
        assert watch.is_watched(), "it is not taken for the genuine one the second time"
        assert Watch().is_watched()
        assert is_patched()
    assert not watch.is_watched()
    assert not is_patched()


def test_all_of_them_are_there() -> None:
    for module, kind, name in FUNCTIONS:
        assert name in vars(getattr(importlib.import_module(module), kind)), f"{module} has no {kind}.{name} any more"


def test_one_that_another_release_does_not_have_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patched, "_WATCHED", {("botocore.client", "BaseClient"): ("__init__", "none")})
    assert not Watch().is_watched()
    assert not is_patched()


class AWrapper:
    """Is called in place of a function, as tracers' proxies are."""

    def __init__(self, wrapped: Any) -> None:
        self.__wrapped__ = wrapped
        self.__code__ = wrapped.__code__

    def __eq__(self, other: object) -> bool:
        return bool(self.__wrapped__ == other)

    def __hash__(self) -> int:
        return hash(self.__wrapped__)


def test_a_proxy_that_shows_the_code_of_what_it_wraps_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    base: Any = BaseClient
    watch = Watch()
    assert not watch.is_watched()
    monkeypatch.setattr(base, "_make_api_call", AWrapper(base._make_api_call))
    assert watch.is_watched()
    assert Watch().is_watched()


@pytest.fixture
def no_moto(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "moto", raising=False)


@pytest.mark.usefixtures("no_moto")
def test_an_engine_of_tests_that_is_loaded_later_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    watch = Watch()
    assert not watch.is_watched()
    monkeypatch.setitem(sys.modules, "moto", ModuleType("moto"))
    assert watch.is_watched()
    assert not Watch().is_watched(), "what was there before was judged before"


@pytest.fixture
def importers(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    monkeypatch.setattr(sys, "meta_path", importers := list(sys.meta_path))
    return importers


@pytest.mark.parametrize(("importer", "noticed"), [(ATracer, True), (_SixMetaPathImporter, False)])
def test_a_tracer_that_waits_for_imports_from_now_on_is_noticed(
    importers: list[Any], importer: Callable[[], Any], noticed: bool
) -> None:
    watch = Watch()
    importers.insert(0, importer())
    assert watch.is_watched() == noticed
    importers.insert(0, _SixMetaPathImporter())
    assert watch.is_watched() == noticed
    importers.pop(0)
    importers.pop(0)
    assert not watch.is_watched()


def test_one_that_was_there_before_was_judged_before(importers: list[Any]) -> None:
    importers.insert(0, ATracer())
    watch = Watch()
    importers.append(_SixMetaPathImporter())
    assert not watch.is_watched()
    importers.pop(0)
    assert not watch.is_watched(), "one that goes is none"


@pytest.mark.parametrize("left", ["the module", "the class", "the rest of a class"])
def test_what_is_not_loaded_or_only_half_is_not_patched(left: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread may be loading it."""
    half: Any = ModuleType("botocore.client")
    if left == "the module":
        monkeypatch.delitem(sys.modules, "botocore.client")
    elif left == "the class":
        monkeypatch.setitem(sys.modules, "botocore.client", half)
    else:
        half.__file__, half.BaseClient = "x", type("BaseClient", (), {"__module__": "botocore.client"})
        monkeypatch.setitem(sys.modules, "botocore.client", half)
        monkeypatch.setattr(patched, "_WATCHED", {("botocore.client", "BaseClient"): ("_make_api_call",)})
    assert not Watch().is_watched()
    assert not is_patched()


def test_a_class_that_stands_for_botocores_is_a_patch(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may inherit each method: so do the connections of a recorder of HTTP."""

    class Recording(http.client.HTTPConnection):
        """Has nothing of its own."""

    watch = Watch()
    assert not watch.is_watched()
    monkeypatch.setattr(http.client, "HTTPConnection", Recording)
    assert watch.is_watched()
    assert is_patched()


def test_code_of_a_package_whose_name_begins_alike_is_another(monkeypatch: pytest.MonkeyPatch) -> None:
    file = f"{Path(botocore.__file__).parent}_tracer/patch.py"
    names: dict[str, Any] = {}
    exec(compile("def _make_api_call(self, *given): ...", file, "exec"), names)  # noqa: S102 - a function of that file
    monkeypatch.setattr(BaseClient, "_make_api_call", names["_make_api_call"])
    assert is_patched()


def test_an_importer_that_changes_nothing_is_judged_once(importers: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    watch, judged = Watch(), []

    def noted(_: Any, new: list[Any]) -> None:
        judged.append(len(new))

    monkeypatch.setattr(patched, "why_watched", noted)
    importers.insert(0, _SixMetaPathImporter())
    watch.is_watched()
    watch.is_watched()
    assert judged == [1]


def test_the_look_is_cheap_where_nothing_has_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[Any] = []
    genuine = patched._is_foreign

    def noted(loaded: Any, functions: tuple[Any, ...]) -> bool:
        looked.append((loaded, functions))
        return genuine(loaded, functions)

    monkeypatch.setattr(patched, "_is_foreign", noted)
    watch = Watch()
    watch.is_watched()
    assert http.client in [module for module, _ in looked]
    first = len(looked)
    watch.is_watched()
    assert len(looked) == first

"""What a user has who installs flowguard from the wheel: a project of their own, and each extra without the others."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from flowguard.cli import COMMANDS
from tests.newcomer.environment import ROOT, FreshEnvironment, Ran, oldest_admitted
from tests.testing.plugin.project import COUNTING_LINE, ORDERS, TESTS

PROJECT: Final = Path(__file__).parent / "project"
FLOW: Final = ("--flow", "shop.orders:PlaceOrder")
FEW: Final = ("--bound", "1", "--walks", "1")
TRACING: Final = {"xray": "aws_xray_sdk", "opentelemetry": "opentelemetry"}
"""The extras of observers, and what each of them brings."""


@pytest.fixture
def fresh(tmp_path: Path) -> FreshEnvironment:
    """An environment with nothing in it."""
    return FreshEnvironment(tmp_path)


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """The project, in a folder of its own."""
    return Path(shutil.copytree(PROJECT, tmp_path / "shop", ignore=shutil.ignore_patterns("__pycache__", ".*_cache")))


def succeeded(ran: Ran) -> Ran:
    assert ran.code == 0, ran.told
    assert "Traceback" not in ran.told
    return ran


def says(ran: Ran, *told: str) -> None:
    """On standard error, and without its insides."""
    assert "Traceback" not in ran.told
    assert all(one in ran.err for one in told), ran.told


@pytest.mark.proof("builds a wheel, and installs it into an environment of its own, extra after extra", first=True)
def test_without_extras_then_with_the_command_line_then_with_all_of_it(fresh: FreshEnvironment, shop: Path) -> None:
    fresh.install()
    a_deployed_function_needs_no_extra(fresh, shop)
    the_command_names_its_extra(fresh, shop)
    observers_name_their_extras(fresh, shop)

    fresh.install("cli")
    assert not fresh.has("moto")
    assert not fresh.has("jinja2")
    every_command_has_its_help(fresh, shop)
    normalize_needs_no_more(fresh, shop)
    other_commands_name_what_they_need(fresh, shop)

    fresh.install("cli,local")
    assert not fresh.has("pytest")
    replay_tells_what_the_flow_does(fresh, shop)
    explore_writes_a_page(fresh, shop)
    a_handler_is_proved_from_an_empty_folder(fresh, shop.parent / "empty")
    the_demo_runs_in_a_clone(fresh, shop)


OLD: Final = ("cli", "local", "serve", "ui", "testing", *TRACING, "postgres", "codec")
"""Every extra but ``ai``, whose package needs a newer pydantic than a function does."""


@pytest.mark.proof("installs the oldest releases of all that the extras need")
def test_with_the_oldest_releases_that_the_extras_admit(fresh: FreshEnvironment, shop: Path) -> None:
    fresh.install_oldest(OLD)
    every_module_can_be_imported(fresh, shop)
    every_command_has_its_help(fresh, shop)
    replay_tells_what_the_flow_does(fresh, shop)
    the_projects_tests_pass(fresh, shop)
    the_inspector_serves_pages(fresh, shop)
    an_order_is_sent_to_the_engine(fresh, shop)
    assert all(succeeded(watch(fresh, shop, extra)).out == "True\n" for extra in TRACING)


@pytest.mark.long("a second environment: what each module imports is compared with its extra by tests/test_extras.py")
def test_local_alone_then_testing_alone_then_a_whole_project(fresh: FreshEnvironment, shop: Path) -> None:
    fresh.install("local")
    assert not fresh.has("click")
    assert not fresh.has("pytest")
    flows_run_without_pytest(fresh, shop)
    the_command_names_its_extra(fresh, shop)

    fresh.install("testing")  # as if alone: tests/test_extras.py says that it brings local
    assert not fresh.has("click")
    the_projects_tests_pass(fresh, shop)
    the_plugin_is_all_that_a_project_needs(fresh, shop.parent / "project")

    fresh.install("cli,testing")
    where = succeeded(fresh.run(shop, "python", "-c", "import flowguard; print(flowguard.__file__)")).out
    assert where.startswith(str(fresh.path)), "not the repository's own"
    the_projects_tests_pass(fresh, shop)
    the_project_is_typed(fresh, shop)
    both_names_of_the_command_work(fresh, shop)
    normalize_needs_no_more(fresh, shop)
    replay_tells_what_the_flow_does(fresh, shop)
    explore_finds_nothing(fresh, shop)


@pytest.mark.long("what each module imports is compared with its extra by tests/test_extras.py")
@pytest.mark.parametrize("extra", TRACING)
def test_an_observer_needs_its_own_extra_alone(extra: str, fresh: FreshEnvironment, shop: Path) -> None:
    fresh.install(extra)
    assert not fresh.has("moto")
    assert not any(fresh.has(module) for other, module in TRACING.items() if other != extra)
    assert succeeded(watch(fresh, shop, extra)).out == "True\n"


@pytest.mark.long("what each module imports is compared with its extra by tests/test_extras.py")
def test_the_inspector_needs_its_own_extra_alone(fresh: FreshEnvironment, shop: Path) -> None:
    fresh.install("ui")
    assert not any(fresh.has(module) for module in ("moto", "time_machine", "flask_cors", "pytest"))
    the_inspector_serves_pages(fresh, shop)
    says(fresh.run(shop, "flowguard", "dev", "shop.functions"), "pip install 'flowguard-aws[serve]'")


@pytest.mark.long("what each module imports is compared with its extra by tests/test_extras.py")
def test_the_engine_on_a_port_needs_its_own_extra_alone(fresh: FreshEnvironment, shop: Path) -> None:
    fresh.install("serve")
    assert not fresh.has("pytest")
    an_order_is_sent_to_the_engine(fresh, shop)


@pytest.mark.long("what each module imports is compared with its extra by tests/test_extras.py")
def test_sql_in_postgres_needs_its_own_extra_alone(fresh: FreshEnvironment, tmp_path: Path) -> None:
    fresh.install("postgres")
    assert not any(fresh.has(module) for module in ("moto", "pytest", "click"))
    (tmp_path / "ledger.py").write_text(
        "import psycopg\n"
        "from flowguard.sql import Postgres\n"
        "try:\n"
        "    with Postgres(lambda: psycopg.connect('postgresql://127.0.0.1:1/ledger')).transaction():\n"
        "        pass\n"
        "except psycopg.OperationalError as error:\n"
        "    print('refused' in str(error))\n"
    )
    assert succeeded(fresh.run(tmp_path, "python", "ledger.py")).out == "True\n"


@pytest.mark.long("what each module imports is compared with its extra by tests/test_extras.py")
def test_a_codec_that_encrypts_needs_its_own_extra_alone(fresh: FreshEnvironment, tmp_path: Path) -> None:
    fresh.install("codec")
    assert not any(fresh.has(module) for module in ("moto", "pytest", "click"))
    (tmp_path / "sealing.py").write_text(
        "from flowguard.codecs import About, Encrypted\n"
        "from flowguard.payload.data_keys import NewDataKey\n"
        "class Keys:\n"
        "    def make(self, key, context):\n"
        "        return NewDataKey(bytes(32), b'sealed', key)\n"
        "    def opened(self, sealed, keys, context):\n"
        "        return bytes(32)\n"
        "codec, about = Encrypted('k', data_keys=Keys()), About('orders', 'o1', 'state')\n"
        "print(codec.open(codec.seal(b'text', about), about).decode())\n"
    )
    assert succeeded(fresh.run(tmp_path, "python", "sealing.py")).out == "text\n"


@pytest.mark.long("what each module imports is compared with its extra by tests/test_extras.py")
def test_an_agent_needs_its_own_extra_alone(fresh: FreshEnvironment, tmp_path: Path) -> None:
    fresh.install("ai")
    assert not any(fresh.has(module) for module in ("moto", "pytest", "click", "openai", "anthropic"))
    (tmp_path / "agent.py").write_text(
        "from pydantic_ai import Agent\n"
        "from pydantic_ai.models.test import TestModel\n"
        "from flowguard.ai import RememberedCalls\n"
        "from flowguard.errors import RunFailed\n"
        "try:\n"
        "    Agent(TestModel()).run_sync('x', capabilities=[RememberedCalls(None, 'draft')])\n"
        "except RunFailed as error:\n"
        "    print('for its step' in str(error))\n"
    )
    assert succeeded(fresh.run(tmp_path, "python", "agent.py")).out == "True\n"


# -- what each of them has ---------------------------------------------------------------------------------------------


def a_deployed_function_needs_no_extra(fresh: FreshEnvironment, shop: Path) -> None:
    for extra in ("click", "rich", "moto", "jinja2", "time_machine", "pytest"):
        assert not fresh.has(extra)
    functions = "from shop.functions import order_desk, warehouse, killed_orders; from shop.gateway import post_order"
    assert succeeded(fresh.run(shop, "python", "-W", "error", "-c", functions)).told == ""
    stage = """
from flowguard.testing import step_for
from shop.orders import *
order = Order(order_id="o-1", sku="cup", quantity=1)
assert CheckOrder().handle(order, step_for(CheckOrder, object_id="o-1")) == ReserveStock.message(order)
"""
    succeeded(fresh.run(shop, "python", "-c", stage))


def watch(fresh: FreshEnvironment, shop: Path, name: str) -> Ran:
    """Load the observer of this name, and print whether it opens spans."""
    code = "from flowguard.observers.named import *; from flowguard.spans import opens_spans; "
    return fresh.run(shop, "python", "-c", f"{code} print(opens_spans(named_observers({name!r})))")


def observers_name_their_extras(fresh: FreshEnvironment, shop: Path) -> None:
    assert succeeded(watch(fresh, shop, "logs,timings,metrics")).told == "True\n"
    for extra in TRACING:
        ran = succeeded(watch(fresh, shop, extra))
        assert ran.out == "False\n"
        says(ran, f"pip install 'flowguard-aws[{extra}]'")


def the_command_names_its_extra(fresh: FreshEnvironment, shop: Path) -> None:
    for ran in (fresh.run(shop, "flowguard", "--help"), fresh.run(shop, "python", "-m", "flowguard", "demo")):
        assert ran.code == 2
        says(ran, "pip install 'flowguard-aws[cli]'")


def every_command_has_its_help(fresh: FreshEnvironment, shop: Path) -> None:
    """All in one process: what a command imports, and has not got, fails there too."""
    both_names_of_the_command_work(fresh, shop)
    asked = """
import sys
from flowguard.cli import main
for command in sys.argv[1:]:
    main([command, "--help"], prog_name="flowguard", standalone_mode=False)
"""
    helped = succeeded(fresh.run(shop, "python", "-c", asked, *COMMANDS)).out
    assert re.findall(r"^Usage: flowguard (\S+) ", helped, re.MULTILINE) == [*COMMANDS]


def every_module_can_be_imported(fresh: FreshEnvironment, shop: Path) -> None:
    """Those of the extra ``ai`` are left out."""
    imported = """
import importlib, pkgutil, flowguard
for module in pkgutil.walk_packages(flowguard.__path__, "flowguard."):
    if not module.name.startswith("flowguard.ai."):
        importlib.import_module(module.name)
print(importlib.metadata.version("click"))
"""
    ran = succeeded(fresh.run(shop, "python", "-c", imported))
    assert ran.out.strip() == oldest_admitted(OLD)["click"]


def both_names_of_the_command_work(fresh: FreshEnvironment, shop: Path) -> None:
    assert succeeded(fresh.run(shop, "flowguard", "--version")).out.startswith("flowguard, version ")
    helped = succeeded(fresh.run(shop, "flowguard", "--help")).out
    assert helped == succeeded(fresh.run(shop, "python", "-m", "flowguard", "--help")).out
    assert all(command in helped for command in COMMANDS)


def normalize_needs_no_more(fresh: FreshEnvironment, shop: Path) -> None:
    (line,) = succeeded(fresh.run(shop, "flowguard", "normalize", "samples/01-order.json")).out.splitlines()
    notification = json.loads(json.loads(line)["body"])
    assert json.loads(notification["Message"])["order_id"] == "o-100"


def other_commands_name_what_they_need(fresh: FreshEnvironment, shop: Path) -> None:
    calls = ((shop, "replay", "samples", *FLOW), (shop, "explore", "samples", *FLOW), (clone_beside(shop), "demo"))
    for folder, *arguments in calls:
        ran = fresh.run(folder, "flowguard", *arguments)
        assert (ran.code, ran.out) == (2, ""), arguments
        says(ran, "pip install 'flowguard-aws[", "local]'")


def replay_tells_what_the_flow_does(fresh: FreshEnvironment, shop: Path) -> None:
    told = succeeded(fresh.run(shop, "flowguard", "replay", "samples", *FLOW, "--failing", "o-101")).out
    assert "4 messages in, 9 deliveries, 8 executions, 2 effects, 1 duplicates refused" in told
    assert '{"in_stock": 7, "sku": "green-tea"}' in told
    assert '{"in_stock": 1, "sku": "cup"}' not in told, "it was not changed"
    assert "place-order-dead-letters: place-order/reserve-stock of o-101: ConditionFailed" in told
    assert "UNROUTABLE" not in told


def explore_finds_nothing(fresh: FreshEnvironment, shop: Path) -> None:
    told = succeeded(fresh.run(shop, "flowguard", "explore", "samples/01-order.json", *FLOW, *FEW)).out
    assert "undisturbed: place-order of o-100 COMPLETED" in told
    assert "0 violations" in told


def the_inspector_serves_pages(fresh: FreshEnvironment, shop: Path) -> None:
    """The pages that ask no AWS. Those that do are tested on engines."""
    opened = """
import os, subprocess, urllib.request
region = {name: "eu-west-1" for name in ("AWS_DEFAULT_REGION", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")}
command = ["flowguard", "ui", "shop.orders:PlaceOrder"]
with subprocess.Popen(command, env={**os.environ, **region}, stdout=subprocess.PIPE, text=True) as process:
    try:
        url = process.stdout.readline().split()[0]
        print("place-order" in urllib.request.urlopen(url + "flows", timeout=20).read().decode())
        print(urllib.request.urlopen(url + "style.css", timeout=20).status)
    finally:
        process.terminate()
"""
    assert succeeded(fresh.run(shop, "python", "-c", opened)).out == "True\n200\n"


def an_order_is_sent_to_the_engine(fresh: FreshEnvironment, shop: Path) -> None:
    """``flowguard dev`` in one process, ``flowguard send`` in another. Its order needs nothing from the stock.

    The topics are in the account and region of the shop's ARNs. What has not come after two minutes does not come.
    """
    played = """
import json, os, signal, subprocess, threading
place = ["--region", "eu-west-1", "--account", "123456789012"]
command = ["flowguard", "dev", "shop.functions", "--port", "0", "--json", *place]
with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
    given_up = threading.Timer(120, process.kill)
    given_up.start()
    try:
        said = map(json.loads, process.stdout)
        listening = next(one for one in said if one["event"] == "listening")
        loaded = next(one for one in said if one["event"] in ("loaded", "not loaded", "died"))
        print(loaded["event"])
        send = ["flowguard", "send", "shop.orders:PlaceOrder", "order.json"]
        subprocess.run(send, env={**os.environ, **listening["environment"]}, check=True, stdout=subprocess.DEVNULL)
        print(next(one["object_id"] for one in said if one.get("outcome") == "completed"))
        process.send_signal(signal.SIGINT)
        print(process.wait(30))
    finally:
        given_up.cancel()
        process.kill()
"""
    (shop / "order.json").write_text('{"order_id": "o-7", "sku": "cup", "quantity": 500}')
    assert succeeded(fresh.run(shop, "python", "-c", played)).out == "loaded\no-7\n0\n"


def a_handler_is_proved_from_an_empty_folder(fresh: FreshEnvironment, folder: Path) -> None:
    """As the page says: one install, a handler of ten lines, and the finding."""
    folder.mkdir()
    page = (ROOT / "docs" / "guides" / "prove-any-handler.md").read_text(encoding="utf-8")
    handler, search = re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE)[:2]
    (folder / "orders.py").write_text(handler + search)
    says_what_is_wrong(fresh.run(folder, "python", "orders.py"))

    (folder / "orders.py").write_text(handler)
    (folder / "order.json").write_text('{"order_id": "o1", "day": "monday", "amount": 5}')
    arguments = ("order.json", "--flow", "orders:handler", "--queue", "orders", "--table", "totals=day")
    ran = fresh.run(folder, "flowguard", "explore", *arguments, "--seconds", "10", *FEW)
    assert ran.code == 1, ran.told
    says_what_is_wrong(ran)


def says_what_is_wrong(ran: Ran) -> None:
    assert "Traceback" not in ran.told
    assert "violation 1 of 1: equivalence, schedule a1" in ran.out, ran.told
    assert "the line          orders.py:" in ran.out


def explore_writes_a_page(fresh: FreshEnvironment, shop: Path) -> None:
    found = fresh.run(shop, "flowguard", "explore", "samples/04-too-many.json", *FLOW, *FEW, "--html", "report.html")
    assert "0 violations" in succeeded(found).out
    assert (shop / "report.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


def the_demo_runs_in_a_clone(fresh: FreshEnvironment, shop: Path) -> None:
    elsewhere = fresh.run(shop, "flowguard", "demo")
    assert elsewhere.code == 2
    says(elsewhere, "run it in a clone of flowguard")
    assert "nothing was lost" in succeeded(fresh.run(clone_beside(shop), "flowguard", "demo")).out


def clone_beside(shop: Path) -> Path:
    """What of a clone is not in the wheel: the shipped flows, and their samples."""
    clone = shop.parent / "clone"
    for folder in ("flows", "samples"):
        shutil.copytree(ROOT / folder, clone / folder, dirs_exist_ok=True)
    return clone


def flows_run_without_pytest(fresh: FreshEnvironment, shop: Path) -> None:
    whole = """
from flowguard.testing import EmbeddedAWS, FlowClock, FlowRunner, MemoryAWS, explore
from shop.orders import Order, PlaceOrder
tea = Order(order_id="o-1", sku="green-tea", quantity=3)
with FlowClock() as clock:
    for engine in (MemoryAWS(clock), EmbeddedAWS()):
        with engine as aws, FlowRunner(aws, clock) as runner:
            runner.send(PlaceOrder, tea)
            print(runner.run().run("o-1").result)
print(explore(PlaceOrder, [tea], bound=0, walks=0, most=5).ok)
"""
    told = succeeded(fresh.run(shop, "python", "-c", whole)).out
    assert told.splitlines() == ["{'shipped': 3}", "{'shipped': 3}", "True"]


def the_projects_tests_pass(fresh: FreshEnvironment, shop: Path) -> None:
    told = succeeded(fresh.run(shop, "pytest")).out
    assert "12 passed" in told
    assert "0 violations" in told


def the_plugin_is_all_that_a_project_needs(fresh: FreshEnvironment, project: Path) -> None:
    """No repository, no AWS, no options."""
    project.mkdir()
    (project / "orders.py").write_text(ORDERS)
    (project / "test_orders.py").write_text(TESTS)
    where = fresh.run(project, "python", "-c", "import flowguard; print(flowguard.__file__)").out
    assert where.startswith(str(fresh.path)), "not the repository's own"

    done = fresh.run(project, "python", "-m", "pytest", "--strict-markers", "-W", "error")
    told = done.out
    assert "2 failed, 5 passed" in told, done.told
    assert "violation 1 of 1: equivalence, schedule a2" in told
    assert f"UpdateItem totals  orders.py:{COUNTING_LINE}  ╳ dies after it (applied)" in told
    assert "record it with step.update, or make it conditional" in told
    assert "flow time line" in told
    assert "0.020 s  pack of o1, hop 2: CLAIMED, completed" in told
    assert "schedules, 1 violation\n" in told


def the_project_is_typed(fresh: FreshEnvironment, shop: Path) -> None:
    """By this environment's mypy, on what the other one has: the wheel says that it is typed."""
    command = [sys.executable, "-m", "mypy", "--strict", "--no-incremental", f"--python-executable={fresh.python}"]
    done = subprocess.run(
        [*command, "shop", "tests"], cwd=shop, env={"HOME": str(shop)}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr

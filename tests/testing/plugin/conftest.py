"""A session of pytest in a user's project."""

from __future__ import annotations

import pytest

# What the inner sessions use is loaded here: they forget what they load, and botocore bears being loaded once only.
from flowguard.testing import Exploration, FlowRunner
from tests.testing.plugin.project import IMPORTS, ORDERS, Session

LOADED = (Exploration, FlowRunner)


@pytest.fixture
def session(pytester: pytest.Pytester) -> Session:
    """Runs these tests of the project, with pytest's strictest options."""

    def run(tests: str, *options: str) -> pytest.RunResult:
        pytester.makepyfile(orders=ORDERS, test_orders=IMPORTS + tests)
        return pytester.runpytest_inprocess("-p", "no:cacheprovider", "--strict-markers", "-Werror", *options)

    return run

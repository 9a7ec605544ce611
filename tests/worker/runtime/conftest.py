"""The scene of each test here."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.scene import Scene, scene


@pytest.fixture
def at() -> Iterator[Scene]:
    with scene() as found:
        yield found

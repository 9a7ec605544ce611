from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.scene import ENGINES, Scene, scene


@pytest.fixture(params=ENGINES)
def at(request: pytest.FixtureRequest) -> Iterator[Scene]:
    with scene(engine=request.param) as found:
        yield found

"""Dead letters of runs that were reset since."""

from __future__ import annotations

from typing import Any

import pytest

from flowguard.aws.clients import Clients
from flowguard.aws.items import run_key
from flowguard.aws.run_reader import RunReader
from flowguard.flow import ATTACH, AnyFlow, Flow
from flowguard.names.ids import ObjectId
from flowguard.operate.own_letters import letter_refusal
from flowguard.settings import Settings
from flowguard.worker.redrive import Fate
from tests.aws.dead_letters.letters import fates, put, reading, redrive
from tests.cli.test_many import run
from tests.scene import Script, scene, two_stages


def cached(script: Script) -> AnyFlow:
    class Orders(Flow, name="orders", object_id="order_id", dead_letters="dead", on_conflict=ATTACH):
        stages = two_stages(script)

    return Orders


Cached = cached(Script())


@pytest.mark.parametrize("took_callers", [True, False])
def test_a_letter_of_a_run_that_was_reset_goes_back_where_that_can_be_begun_anew(took_callers: bool) -> None:
    with scene(cached) as at:
        at.deliver(at.order("going"))
        put(at, "dead", at.second(object_id="going"))
        if not took_callers:
            at.aws.client("dynamodb").update_item(
                TableName="flowguard",
                Key=run_key("orders", ObjectId("going")),
                UpdateExpression="REMOVE first_message",
            )
        run(at, "reset", f"{__name__}:Cached", "going")
        refusal = refused(Cached)
        assert fates(redrive(flow=Cached)) == [Fate.REDRIVEN if took_callers else Fate.SUPERSEDED]
        assert refusal is None if took_callers else "its first message is not stored" in str(refusal)


def refused(flow: Any) -> str | None:
    """What the inspector says beside it."""
    with reading(flow=flow) as open_:
        [letter] = [letter for page in open_.pages() for letter in page]
    return letter_refusal(letter, RunReader.of(Settings(), Clients()).read("orders", "going"), 0)

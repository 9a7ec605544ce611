"""The events under samples/envelopes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from flowguard.wire.envelope import BadRecord, Envelope, Source, normalize
from tests.make_records import only

SAMPLES = Path(__file__).parents[3] / "samples" / "envelopes"


@pytest.mark.parametrize("path", sorted(SAMPLES.glob("*.json")), ids=lambda path: path.stem)
def test_every_sample_can_be_read(path: Path) -> None:
    found = normalize(json.loads(path.read_text(encoding="utf-8")))
    assert found
    for each in found:
        assert isinstance(each, Envelope), each
        assert only(each.record).record == each.record


@pytest.mark.parametrize("path", sorted(SAMPLES.glob("bad/*.json")), ids=lambda path: path.stem)
def test_every_bad_sample_holds_one_bad_record(path: Path) -> None:
    found = normalize(json.loads(path.read_text(encoding="utf-8")))
    assert [type(each) for each in found].count(BadRecord) == 1


@pytest.mark.parametrize(
    ("sample", "source"),
    [
        ("direct-sqs", Source.SQS),
        ("sns-to-sqs", Source.SNS_SQS),
        ("raw-delivery", Source.SQS),
        ("retry", Source.SQS),
        ("sns-to-lambda", Source.SNS_LAMBDA),
        ("invocation", Source.INVOCATION),
        ("receive-message", Source.SQS),
        ("eventbridge-to-sqs", Source.SQS),
        ("eventbridge", Source.INVOCATION),
        ("kinesis", Source.KINESIS),
    ],
)
def test_the_same_cart_comes_out_of_every_shape(sample: str, source: Source) -> None:
    envelope = only(json.loads((SAMPLES / f"{sample}.json").read_text(encoding="utf-8")))
    assert envelope.source is source
    assert json.loads(envelope.message)["cart_id"] == "cart-1001"

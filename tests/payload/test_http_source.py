"""Which service handed a request over, by its event and nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from flowguard.payload.http_source import HttpSource, http_source
from flowguard.testing import hostile

SAMPLES = Path(__file__).parents[2] / "samples" / "callbacks"
PREFIXES = {
    "rest-api": HttpSource.FORMAT_1,
    "http-api": HttpSource.FORMAT_2,
    "function-url": HttpSource.FUNCTION_URL,
    "load-balancer": HttpSource.LOAD_BALANCER,
    "late": HttpSource.FORMAT_2,
    "forged": HttpSource.FORMAT_2,
}


@pytest.mark.parametrize("sample", sorted(SAMPLES.glob("*.json")), ids=lambda path: path.stem)
def test_each_sample_is_recognised(sample: Path) -> None:
    (expected,) = {source for prefix, source in PREFIXES.items() if sample.stem.startswith(prefix)}
    assert http_source(json.loads(sample.read_text())) is expected


@pytest.mark.parametrize(
    "event",
    [
        None,
        [],
        "text",
        {},
        {"requestContext": {}},
        {"requestContext": {"http": {}}},
        {"requestContext": {"http": {}}, "rawPath": 7},
        {"requestContext": {"http": "POST"}, "rawPath": "/"},
        {"requestContext": {}, "httpMethod": "POST"},
        {"requestContext": {}, "path": "/", "httpMethod": 7},
        {"requestContext": {"connectionId": "c1"}, "httpMethod": "POST", "path": "/"},
        {"requestContext": "text", "httpMethod": "POST", "path": "/"},
        {"Records": [{"eventSource": "aws:sqs"}]},
    ],
)
def test_what_is_no_request_has_no_source(event: object) -> None:
    assert http_source(event) is None


@pytest.mark.parametrize("name", sorted(hostile.STRUCTURES))
def test_no_structure_breaks_it(name: str) -> None:
    assert http_source(hostile.STRUCTURES[name]) is None
    assert http_source({"requestContext": hostile.STRUCTURES[name]}) is None
    found = http_source({"requestContext": {"http": {}, "domainName": hostile.STRUCTURES[name]}, "rawPath": "/"})
    assert found is HttpSource.FORMAT_2

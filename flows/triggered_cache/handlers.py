"""What the Lambda functions point at, one for each stage."""

from __future__ import annotations

from flowguard import lambda_handler
from flows.triggered_cache.flow import BuildEntry, CollectParts, PublishEntry, TriggeredCache

collect_parts = lambda_handler(TriggeredCache, CollectParts)
build_entry = lambda_handler(TriggeredCache, BuildEntry)
publish_entry = lambda_handler(TriggeredCache, PublishEntry)

"""What the Lambda functions point at: one for each stage."""

from __future__ import annotations

from flowguard import lambda_handler
from flows.page_cache.flow import ChangeSource, CollectParts, PageCache, RenderPage, SearchCache

collect_parts = lambda_handler(PageCache, CollectParts)
render_page = lambda_handler(PageCache, RenderPage)
change_source = lambda_handler(ChangeSource)
search = lambda_handler(SearchCache)

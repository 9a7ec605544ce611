"""What the Lambda functions point at: one for each stage."""

from __future__ import annotations

from flowguard import lambda_handler
from flows.nightly_recount.flow import AddUp, AskShops, CountShop, RecountNight

ask_shops = lambda_handler(RecountNight, AskShops)
add_up = lambda_handler(RecountNight, AddUp)
count_stock = lambda_handler(CountShop)

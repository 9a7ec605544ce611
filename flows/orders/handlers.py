"""What the Lambda functions point at: one for each flow."""

from __future__ import annotations

from flowguard import lambda_handler
from flows.orders.flow import AddToOrder, PlaceOrder, ReceiveGoods

receive_goods = lambda_handler(ReceiveGoods)
place_order = lambda_handler(PlaceOrder)
add_to_order = lambda_handler(AddToOrder)

"""What Lambda points at: ``shop.functions.order_desk`` and so on."""

from flowguard import dlq_handler, lambda_handler
from shop.orders import CheckOrder, PlaceOrder, RefuseOrder, ReserveStock, ShipOrder

order_desk = lambda_handler(PlaceOrder, CheckOrder, ReserveStock)
warehouse = lambda_handler(PlaceOrder, ShipOrder, RefuseOrder)
killed_orders = dlq_handler(PlaceOrder)

"""The flow of an order: check it, reserve its pieces, then ship it or refuse it."""

from pydantic import BaseModel

from flowguard import IGNORE, Done, Fixed, Flow, Outcome, Reject, RetryPolicy, Stage, Step, Topic

WAREHOUSE = Topic("arn:aws:sns:eu-west-1:123456789012:warehouse")
PARCELS = Topic("arn:aws:sns:eu-west-1:123456789012:parcels")

TABLES = {"stock": "sku", "reservations": ("order_id", "sku")}
ITEMS = {"stock": [{"sku": "green-tea", "in_stock": 10}, {"sku": "cup", "in_stock": 1}]}


class Order(BaseModel):
    order_id: str
    sku: str
    quantity: int


class Refusal(BaseModel):
    order_id: str
    why: str


class Reserved(BaseModel):
    order_id: str


class OrderState(BaseModel):
    sku: str = ""
    quantity: int = 0


class CheckOrder(Stage[Order, OrderState], name="check-order", then=("reserve-stock", "refuse-order")):
    """Let pass what can be sold at all."""

    def handle(self, order: Order, step: Step[OrderState]) -> Outcome:
        if order.quantity < 1:
            raise Reject("nothing was ordered")
        step.state = OrderState(sku=order.sku, quantity=order.quantity)
        if order.quantity > 100:
            return RefuseOrder.message(Refusal(order_id=order.order_id, why="too many for one parcel"))
        return ReserveStock.message(order)


class ReserveStock(
    Stage[Order, OrderState],
    name="reserve-stock",
    then="ship-order",
    retry=RetryPolicy(attempts=2, backoff=Fixed(60)),
):
    """Take from the stock only what is there."""

    def handle(self, order: Order, step: Step[OrderState]) -> Outcome:
        step.update(
            "stock",
            {"sku": order.sku},
            "ADD in_stock :less",
            values={":less": -order.quantity, ":wanted": order.quantity},
            condition="in_stock >= :wanted",
        )
        step.put("reservations", {"order_id": order.order_id, "sku": order.sku, "quantity": order.quantity})
        return ShipOrder.message(Reserved(order_id=order.order_id))


class ShipOrder(Stage[Reserved, OrderState], name="ship-order", inbox=WAREHOUSE):
    """Announce the parcel, and write to the customer."""

    def handle(self, reserved: Reserved, step: Step[OrderState]) -> Outcome:
        step.send(PARCELS, {"order_id": reserved.order_id, "pieces": step.state.quantity})
        step.send("mails", {"order_id": reserved.order_id, "text": "on its way"})
        return Done({"shipped": step.state.quantity})


class RefuseOrder(Stage[Refusal, OrderState], name="refuse-order", inbox=WAREHOUSE):
    """Write to the customer why there will be no parcel."""

    def handle(self, refusal: Refusal, step: Step[OrderState]) -> Outcome:
        step.send("mails", {"order_id": refusal.order_id, "text": refusal.why})
        return Done({"refused": refusal.why})


class PlaceOrder(Flow, name="place-order", object_id="order_id", on_conflict=IGNORE, carry=("tenant",)):
    """An order takes its pieces once."""

    stages = (CheckOrder, ReserveStock, ShipOrder, RefuseOrder)

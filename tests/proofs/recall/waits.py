"""Handlers that wait, use threads or an event loop. The line to change ends in ``# here``."""

from __future__ import annotations

import asyncio
import json
import queue
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import boto3

from tests.proofs.recall.writes import orders

dynamodb = boto3.client("dynamodb", region_name="us-east-1")


def _add(order: Any) -> None:
    dynamodb.update_item(  # here
        TableName="totals",
        Key={"day": {"S": order["order_id"]}},
        UpdateExpression="ADD amount :n",
        ExpressionAttributeValues={":n": {"N": str(order["amount"])}},
    )


def _put(order: Any) -> None:
    dynamodb.put_item(TableName="orders", Item={"order_id": {"S": order["order_id"]}})  # here


def adds_in_threads(event: Any, context: object) -> None:
    with ThreadPoolExecutor(max_workers=4) as pool:
        list(pool.map(_add, orders(event)))


def adds_in_a_loop(event: Any, context: object) -> None:
    async def add(order: Any) -> None:
        await asyncio.sleep(0.5)
        await asyncio.to_thread(_add, order)

    async def every() -> None:
        await asyncio.gather(*(add(order) for order in orders(event)))

    asyncio.run(every())


def polls_until_a_time(event: Any, context: object) -> None:
    """Waits until a time is over, then adds."""
    for order in orders(event):
        end = time.time() + 2
        while time.time() < end:
            pass
        _add(order)


def waits_for_ever(event: Any, context: object) -> None:
    """Waits for what nobody brings."""
    queue.Queue[str]().get()  # here


def turns_for_ever(event: Any, context: object) -> None:
    while event:  # here
        pass  # here


def sleeps_and_looks(event: Any, context: object) -> None:
    """Sound: waits until an item is there, for so long and no longer."""
    for order in orders(event):
        _put(order)
        end = time.monotonic() + 5
        while time.monotonic() < end:
            key = {"order_id": {"S": order["order_id"]}}
            if "Item" in dynamodb.get_item(TableName="orders", Key=key, ConsistentRead=True):
                break
            time.sleep(1)


def puts_in_a_pool(event: Any, context: object) -> None:
    """Sound: the pool passes errors on."""
    with ThreadPoolExecutor(max_workers=4) as pool:
        list(pool.map(_put, orders(event)))


def puts_in_threads(event: Any, context: object) -> None:
    """Loses the error of a thread."""
    threads = [threading.Thread(target=_put, args=(order,)) for order in orders(event)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def puts_in_a_loop(event: Any, context: object) -> None:
    """Sound."""

    async def put(order: Any) -> None:
        await asyncio.sleep(0.1)
        _put(order)

    async def every() -> None:
        await asyncio.wait_for(asyncio.gather(*(put(order) for order in orders(event))), timeout=3)

    asyncio.run(every())


def does_nothing(event: Any, context: object) -> None:
    """Sound: makes no call at all."""


def tries_for_ever(event: Any, context: object) -> None:
    """Never ends while the table refuses."""
    for record in event["Records"]:
        item = {"order_id": {"S": json.loads(record["body"])["order_id"]}}
        while True:
            try:
                dynamodb.put_item(TableName="orders", Item=item)  # here
                break
            except dynamodb.exceptions.ClientError:
                continue


def tries_again_later(event: Any, context: object) -> None:
    """Sound: the function's time ends it, and its record goes to the dead letters."""
    for record in event["Records"]:
        item = {"order_id": {"S": json.loads(record["body"])["order_id"]}}
        while True:
            try:
                dynamodb.put_item(TableName="orders", Item=item)
                break
            except Exception:
                time.sleep(5)

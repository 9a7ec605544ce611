"""Handlers that reach parties outside AWS."""

from __future__ import annotations

import json
import os
import smtplib
import sqlite3
import urllib.request
from collections.abc import Callable, Iterator
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import boto3
import requests

PSP = "https://psp.example/charges"


def bodies(event: Any) -> Iterator[Any]:
    return (json.loads(record["body"]) for record in event["Records"])


def charges(event: Any, context: Any) -> None:
    for order in bodies(event):
        requests.post(PSP, json={"amount": order["amount"]}, timeout=5).raise_for_status()


def charges_in_parts(event: Any, context: Any) -> None:
    """Sends a body whose length it does not say."""
    for order in bodies(event):
        parts = iter([b'{"amount": ', str(order["amount"]).encode(), b"}"])
        key = {"X-Idempotency-Key": order["order_id"]}
        requests.post(PSP, data=parts, headers=key, timeout=5).raise_for_status()


def charges_under_a_key(event: Any, context: Any) -> None:
    for order in bodies(event):
        own = {"Idempotency-Key": order["order_id"], "Content-Type": "application/json"}
        request = urllib.request.Request(PSP, data=json.dumps(order).encode(), headers=own, method="POST")
        with urllib.request.urlopen(request, timeout=5) as answer:  # noqa: S310 - an address of our own
            assert json.load(answer) == {"status": "paid"}


def goes_on_after_a_refusal(event: Any, context: Any) -> None:
    for order in bodies(event):
        requests.put(f"{PSP}/{order['order_id']}", json={"amount": order["amount"]}, timeout=5)


def puts_and_asks(event: Any, context: Any) -> None:
    for order in bodies(event):
        requests.get(PSP, timeout=5).raise_for_status()
        requests.put(f"{PSP}/{order['order_id']}", json={"amount": order["amount"]}, timeout=5).raise_for_status()


def forgets_a_field_of_what_it_tries_again(event: Any, context: Any) -> None:
    """Sends what it could not look up once more by itself, and loses the currency on the way."""
    for order in bodies(event):
        try:
            requests.get(PSP, timeout=5)
        except requests.RequestException:
            again = json.dumps({"order_id": order["order_id"]})
            boto3.client("sqs").send_message(
                QueueUrl=boto3.client("sqs").get_queue_url(QueueName="orders")["QueueUrl"], MessageBody=again
            )
            continue
        boto3.resource("dynamodb").Table("quotes").put_item(
            Item={"id": order["order_id"], "currency": order.get("currency", "EUR")}
        )


def mails(event: Any, context: Any) -> None:
    for order in bodies(event):
        mail = EmailMessage()
        mail["Subject"], mail["To"], mail["From"] = order["order_id"], "buyer@home.example", "shop@shop.example"
        mail.set_content("Thanks")
        with smtplib.SMTP("smtp.example", 587, timeout=5) as server:
            server.starttls()
            server.login("shop", "secret")
            server.send_message(mail)


def mails_by_ses(event: Any, context: Any) -> None:
    ses: Any = boto3.client("ses", region_name="us-east-1")
    for order in bodies(event):
        ses.send_email(
            Source="shop@shop.example",
            Destination={"ToAddresses": ["buyer@home.example"]},
            Message={"Subject": {"Data": order["order_id"]}, "Body": {"Text": {"Data": "Thanks"}}},
        )


def exits_at_once(event: Any, context: Any) -> None:
    os._exit(3)


def counting(file: Path) -> Callable[[Any, Any], None]:
    def counts(event: Any, context: Any) -> None:
        with sqlite3.connect(file) as shop:
            for order in bodies(event):
                shop.execute("UPDATE totals SET n = n + ?", (order["amount"],))

    return counts


def noting(file: Path) -> Callable[[Any, Any], None]:
    """Sound: the row of the order and the sum are one transaction."""

    def notes(event: Any, context: Any) -> None:
        shop = sqlite3.connect(file, 5)
        shop.executescript("CREATE TABLE IF NOT EXISTS orders (id TEXT PRIMARY KEY, at INTEGER, raw BLOB)")
        for order in bodies(event):
            row = [(order["order_id"], 7, b"\x01")]
            if shop.executemany("INSERT OR IGNORE INTO orders VALUES (?, ?, ?)", row).rowcount:
                shop.cursor().execute("UPDATE totals SET n = n + ?", (order["amount"],))
            shop.execute("COMMIT")
        shop.close()

    return notes


def numbering(file: Path) -> Callable[[Any, Any], None]:
    """Sound but for the numbers, which the database gives."""

    def numbers(event: Any, context: Any) -> None:
        with sqlite3.connect(file) as shop:
            for order in bodies(event):
                shop.execute("CREATE TABLE IF NOT EXISTS log (n INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT UNIQUE)")
                shop.execute("DELETE FROM log WHERE id = ?", (order["order_id"],))
                shop.execute("INSERT INTO log (id) VALUES (?)", (order["order_id"],))

    return numbers

"""Handlers that ask a payment provider by httpx and aiohttp."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import aiohttp
import httpx
import httpx2

BASE = "https://psp.example"
PSP = f"{BASE}/charges"


def bodies(event: Any) -> Iterator[Any]:
    return (json.loads(record["body"]) for record in event["Records"])


def key_of(order: Any) -> dict[str, str]:
    return {"Idempotency-Key": order["order_id"]}


# -- httpx


def charges_by_httpx(event: Any, context: Any) -> None:
    for order in bodies(event):
        httpx.post(PSP, json={"amount": order["amount"]}).raise_for_status()


def charges_by_httpx_under_a_key(event: Any, context: Any) -> None:
    """Uses what a client adds: a base URL, a user, hooks, a stream, a time-out."""
    seen: list[int] = []

    def note(response: httpx.Response) -> None:
        seen.append(response.status_code)

    hooks = {"response": [note]}
    with httpx.Client(base_url=BASE, auth=("shop", "secret"), timeout=5, event_hooks=hooks) as client:
        for order in bodies(event):
            with client.stream(
                "POST", "/charges?a=1", json={"amount": order["amount"]}, headers=key_of(order)
            ) as answer:
                answer.raise_for_status()
                assert json.loads(b"".join(answer.iter_bytes())) == {"status": "paid"}
            assert client.head("/charges").content == b""
    assert seen[0] == 200


def charges_by_async_httpx(event: Any, context: Any) -> None:
    async def charge() -> None:
        async with httpx.AsyncClient() as client:
            for order in bodies(event):
                (await client.post(PSP, json={"amount": order["amount"]})).raise_for_status()

    asyncio.run(charge())


def charges_by_async_httpx_under_a_key(event: Any, context: Any) -> None:
    async def parts(order: Any) -> AsyncIterator[bytes]:
        yield b'{"amount": '
        await asyncio.sleep(1)
        yield f"{order['amount']}}}".encode()

    async def charge() -> None:
        async with httpx.AsyncClient(base_url=BASE) as client:
            for order in bodies(event):
                answer = await client.post("/charges", content=parts(order), headers=key_of(order))
                assert answer.raise_for_status().json() == {"status": "paid"}

    asyncio.run(charge())


def follows_by_httpx(event: Any, context: Any) -> None:
    for order in bodies(event):
        httpx.post(
            f"{BASE}/old", json={"amount": order["amount"]}, headers=key_of(order), follow_redirects=True
        ).raise_for_status()


def survives_a_timeout_by_httpx(event: Any, context: Any) -> None:
    for order in bodies(event):
        try:
            httpx.post(PSP, json={"amount": order["amount"]}, headers=key_of(order)).raise_for_status()
        except httpx.ReadTimeout as error:
            if str(error.request.url) != PSP:
                return
            raise


def upgrades_by_httpx(event: Any, context: Any) -> None:
    httpx.get(PSP, headers={"Upgrade": "websocket"})


# -- httpx2, which Pydantic AI brings


def charges_by_async_httpx2(event: Any, context: Any) -> None:
    async def charge() -> None:
        async with httpx2.AsyncClient() as client:
            for order in bodies(event):
                (await client.post(PSP, json={"amount": order["amount"]})).raise_for_status()

    asyncio.run(charge())


def survives_a_timeout_by_httpx2(event: Any, context: Any) -> None:
    for order in bodies(event):
        try:
            httpx2.post(PSP, json={"amount": order["amount"]}, headers=key_of(order)).raise_for_status()
        except httpx2.ReadTimeout as error:
            if str(error.request.url) != PSP:
                return
            raise


# -- aiohttp


def charges_by_aiohttp(event: Any, context: Any) -> None:
    async def charge() -> None:
        async with aiohttp.ClientSession(raise_for_status=True) as session:
            for order in bodies(event):
                await session.post(PSP, json={"amount": order["amount"]})

    asyncio.run(charge())


def charges_by_aiohttp_under_a_key(event: Any, context: Any) -> None:
    """Uses what a session adds: a base URL, a body in parts, time-outs."""

    async def parts(order: Any) -> AsyncIterator[bytes]:
        yield b'{"amount": '
        await asyncio.sleep(1)
        yield f"{order['amount']}}}".encode()

    async def charge() -> None:
        timeout = aiohttp.ClientTimeout(total=20, sock_read=5)
        async with aiohttp.ClientSession(BASE, timeout=timeout, raise_for_status=True) as session:
            for order in bodies(event):
                async with session.post("/charges?a=1", data=parts(order), headers=key_of(order)) as answer:
                    assert json.loads(b"".join([part async for part in answer.content.iter_any()])) == {
                        "status": "paid"
                    }
                async with session.head("/charges") as answer:
                    assert await answer.read() == b""

    asyncio.run(charge())


def follows_by_aiohttp(event: Any, context: Any) -> None:
    async def charge() -> None:
        async with aiohttp.ClientSession(raise_for_status=True) as session:
            for order in bodies(event):
                await session.post(f"{BASE}/old", json={"amount": order["amount"]}, headers=key_of(order))

    asyncio.run(charge())


def survives_a_timeout_by_aiohttp(event: Any, context: Any) -> None:
    async def charge() -> None:
        async with aiohttp.ClientSession(raise_for_status=True) as session:
            for order in bodies(event):
                try:
                    await session.post(PSP, json={"amount": order["amount"]}, headers=key_of(order))
                except aiohttp.ServerTimeoutError:
                    raise
                except TimeoutError:  # a time-out that aiohttp would not raise
                    return

    asyncio.run(charge())


def breaks_off_by_aiohttp(event: Any, context: Any) -> None:
    """Cannot make the second part of a body, and goes on."""

    async def parts() -> AsyncIterator[bytes]:
        yield b"{"
        raise ValueError("no second part")

    async def charge() -> None:
        async with aiohttp.ClientSession() as session:
            try:
                await session.post(PSP, data=parts())
            except aiohttp.ClientError:
                return
            raise AssertionError("a part of a body was answered")

    asyncio.run(charge())


def upgrades_by_aiohttp(event: Any, context: Any) -> None:
    async def connect() -> None:
        async with aiohttp.ClientSession() as session, session.ws_connect(PSP):
            pass

    asyncio.run(connect())


def asks_first_by_aiohttp(event: Any, context: Any) -> None:
    async def charge() -> None:
        async with aiohttp.ClientSession() as session:
            await session.post(PSP, data=b"5", expect100=True)

    asyncio.run(charge())

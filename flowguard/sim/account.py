"""The environment and sessions of a process in which an AWS is open. They name no real account."""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

import boto3
import botocore.session
from botocore.loaders import Loader, create_loader

from flowguard.errors import SettingsError

ACCOUNT_ID = "123456789012"
REGION = "us-east-1"
Variables = tuple[tuple[str, str], ...]
SIMULATED_KEYS = "simulated:every-reader-of-this-package-knows-it"
"""The keys of tokens and signatures where nothing is real. They are no secret."""
SIMULATED_ANSWERS: Final = "https://answers.example.com"
"""The base of links where nothing is real."""
SIMULATED_SECRETS: Mapping[str, str] = {
    "signing_keys": SIMULATED_KEYS,
    "token_keys": SIMULATED_KEYS,
    "answers_url": SIMULATED_ANSWERS,
}
"""The settings of keys and links where nothing is real."""
SIMULATED_ROLE = f"arn:aws:iam::{ACCOUNT_ID}:role/scheduler"
"""The role of EventBridge Scheduler where nothing is real."""


@contextmanager
def only_one(lock: threading.Lock) -> Iterator[None]:
    """Hold the lock for the block.

    Raises :class:`SettingsError` where another block holds it: what they replace belongs to the whole process.
    """
    if not lock.acquire(blocking=False):
        raise SettingsError("EmbeddedAWS", "another one is open in this process; close it first")
    try:
        yield
    finally:
        lock.release()


@contextmanager
def environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Replace all ``AWS_…`` variables of the environment by these for the block.

    Afterwards the old ones are restored.
    """
    before = {name: value for name, value in os.environ.items() if name.startswith("AWS_")}
    for name in before:
        del os.environ[name]
    os.environ.update(variables)
    try:
        yield
    finally:
        for name in [name for name in os.environ if name.startswith("AWS_")]:
            del os.environ[name]
        os.environ.update(before)


def isolated(region: str) -> dict[str, str]:
    """Return an environment in which nothing of the machine's AWS setup is found.

    That is no profile, config file, endpoint or instance role.
    """
    return {
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_DEFAULT_REGION": region,
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_REGION": region,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    }


def session_here() -> boto3.Session:
    """Return the session of the environment as it is now, which is one for all blocks with an equal one.

    To make it takes longer than most tests. Clients are not shared: a test may change what one does.
    """
    return _session(environment_here())


def environment_here() -> Variables:
    """Return the ``AWS_…`` variables as they are now."""
    return tuple(sorted((name, value) for name, value in os.environ.items() if name.startswith("AWS_")))


@functools.lru_cache(maxsize=8)
def _session(environment: Variables) -> boto3.Session:
    session = botocore.session.get_session()
    session.register_component("data_loader", _service_models())
    return boto3.Session(botocore_session=session)


@functools.cache
def _service_models() -> Loader:
    """Return the loader of service models, one for the process.

    Parsing them takes most of the time to create a client.
    """
    return create_loader()

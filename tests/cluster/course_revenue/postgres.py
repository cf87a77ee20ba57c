"""A PostgreSQL server of a test's own: data and socket in a directory, no port."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Self

_USER = "postgres"
"""Debian's package makes it. The server refuses to run as root, so that is who runs it there."""


class PostgresServer:
    """A context manager. Its files are below the system's temporary directory: a socket's path must be short, and a
    user other than root must get there."""

    def __enter__(self) -> Self:
        found = shutil.which("initdb") or max(map(str, Path("/usr/lib/postgresql").glob("*/bin/initdb")))
        self._programs = Path(found).parent
        self.directory = Path(tempfile.mkdtemp(prefix="pg-"))
        self._user: int | None = None
        self._group: int | None = None
        if os.geteuid() == 0:
            user = pwd.getpwnam(_USER)
            os.chown(self.directory, user.pw_uid, user.pw_gid)
            self._user, self._group = user.pw_uid, user.pw_gid
        try:
            self._run("initdb", "--no-sync", "--auth", "trust", "--username", _USER, "--encoding", "UTF8", "data")
            options = f"-c listen_addresses='' -c unix_socket_directories={self.directory} -c fsync=off"
            self._run("pg_ctl", "start", "--wait", "--pgdata", "data", "--log", "server.log", "--options", options)
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._run("pg_ctl", "stop", "--wait", "--mode", "immediate", "--pgdata", "data")
        finally:
            self._remove()

    @property
    def dsn(self) -> str:
        """For libpq."""
        return f"host={self.directory} user={_USER} dbname={_USER}"

    def _run(self, program: str, *arguments: str) -> None:
        with (self.directory / f"{program}.log").open("w+b") as out:
            done = subprocess.run(
                [str(self._programs / program), *arguments],
                cwd=self.directory,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                timeout=120,
                check=False,
                user=self._user,
                group=self._group,
            )
            out.seek(0)
            assert done.returncode == 0, out.read().decode(errors="replace")

    def _remove(self) -> None:
        shutil.rmtree(self.directory, ignore_errors=True)

"""What the commands share: their options, and what the options come to."""

from __future__ import annotations

import getpass
import re
import shlex
import socket
import sys
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from course_revenue.errors import RefusedError
from course_revenue.formats import Formats, formats
from course_revenue.settings import Settings, without_product_keys
from headrace import StreamsConfig
from headrace.cli.common import FAILED, note, read_properties, say
from headrace.errors import ConfigException

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

Config = Annotated[Path | None, typer.Option("--config", help="A .properties file; Java's loads unmodified.")]
ConfigFile = Annotated[Path, typer.Option("--config", help="A .properties file; Java's loads unmodified.")]
Set = Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="A setting; wins over the file.")]
Brokers = Annotated[str | None, typer.Option("--bootstrap-server", help="host:port list; else that of --config.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be done; change nothing.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask; needed where nobody can be asked.")]
LogFile = Annotated[Path, typer.Option("--log-file", help="Where the output of the command's own instance goes.")]
By = Annotated[str | None, typer.Option("--by", help="Who does this, for the record; else user@host.")]

_HANDLER: Final = ("deserialization.exception.handler", "default.deserialization.exception.handler")
_SECRET: Final = re.compile(r"password|secret|jaas|token|passphrase|user\.info|keystore\.(key|certificate)")


ASKED: Final[ContextVar[Settings | None]] = ContextVar("ASKED", default=None)
"""The settings that a command was given, once it has asked ``target`` for them: the first, where it makes others."""


@dataclass(frozen=True, slots=True)
class Target:
    """Which brokers and topics a command is about.

    ``client`` are the settings of connections to the brokers, security among them; ``properties`` is everything that
    was given, ``streams_config`` what Kafka Streams makes of it (the application id is ``check`` where there is none).
    """

    brokers: str
    client: dict[str, Any]
    settings: Settings
    properties: dict[str, Any]
    streams_config: StreamsConfig

    @property
    def values(self) -> Formats:
        """How values are written."""
        return formats(self.settings.format, self.properties)

    @property
    def stops_at_undecodable(self) -> bool:
        """Whether the deserialization handler lets a record that does not decode stop the job."""
        given = [str(self.properties[key]) for key in _HANDLER if self.properties.get(key)]
        return not given or given[0].rpartition(".")[2] == "LogAndFailExceptionHandler"

    @property
    def application_id(self) -> str:
        """The job's id.

        Raises:
            ConfigException: it was not given.
        """
        found = self.properties.get("application.id")
        if not found:
            raise ConfigException("application.id is not known: give --config with it, or --set application.id=…")
        return str(found)


def target(config: Path | None, settings: list[str] | None, bootstrap_server: str | None) -> Target:
    """What the options say.

    Raises:
        ConfigException: no brokers are named, or a setting is wrong.
    """
    properties: dict[str, Any] = read_properties(config, settings or ())
    brokers = bootstrap_server or properties.get("bootstrap.servers")
    if not brokers:
        raise ConfigException("which brokers? Give --bootstrap-server host:port, or --config with bootstrap.servers")
    # an address without a port, or a wrong password module, is said at once, not once the brokers do not answer
    streams_config = StreamsConfig.load(
        {"application.id": "check"}, without_product_keys(properties), {"bootstrap.servers": brokers}
    )
    product = Settings.of(properties)
    if ASKED.get() is None:
        ASKED.set(product)
    return Target(
        ",".join(streams_config.bootstrap_servers),
        streams_config.admin_config(),
        product,
        properties,
        streams_config,
    )


def as_given(config: Path, settings: Iterable[str] | None) -> str:
    """The options by which another command is about the same job, for a shell; secrets are left for who knows them."""
    parts = ["--config", shlex.quote(str(config))]
    for text in settings or ():
        key, _, value = text.partition("=")
        parts += ["--set", f"{key}=…" if _SECRET.search(key) else shlex.quote(f"{key}={value}")]
    return " ".join(parts)


def propose(lines: Iterable[str], refusals: Collection[str], question: str, *, dry_run: bool, yes: bool) -> int | None:
    """Shows a plan and asks whether to carry it out.

    Returns:
        None when it is to be carried out; with ``dry_run`` the exit code.

    Raises:
        RefusedError: the plan has refusals, or nobody can be asked.
        Abort: the answer is no.
    """
    for line in lines:
        say(line)
    if dry_run:
        note("dry run: nothing was changed")
        return FAILED if refusals else 0
    if refusals:
        raise RefusedError(f"nothing was changed: {len(refusals)} reasons above")
    if not yes:
        if not sys.stdin.isatty():
            raise RefusedError("nothing was changed: nobody is at a terminal to be asked, so add --yes")
        typer.confirm(question, abort=True)
    return None


def who(by: str | None) -> str:
    """Who runs a command, unless they say."""
    return by or f"{getpass.getuser()}@{socket.gethostname()}"

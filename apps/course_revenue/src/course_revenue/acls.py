"""``course-revenue acls``: the commands that allow a principal what the product's commands need, and no more."""

from __future__ import annotations

from typing import Annotated

import typer

from course_revenue import preflight
from course_revenue.options import ConfigFile, Set, target
from course_revenue.permissions import COMMANDS, Job, grants, script
from course_revenue.shadow import shadow_of
from headrace.cli.common import say
from headrace.errors import ConfigException

_ALL = ", ".join(COMMANDS)


def acls(
    config: ConfigFile,
    settings: Set = None,
    wanted: Annotated[
        list[str] | None, typer.Option("--for", metavar="COMMAND", help=f"Repeatable; else run. One of: {_ALL}.")
    ] = None,
    principal: Annotated[
        str, typer.Option(help="Whom: User: and the name, the token's subject or the certificate's name.")
    ] = "User:NAME",
    topics_exist: Annotated[
        bool, typer.Option("--internal-topics-exist", help="They are made beforehand: without Create.")
    ] = False,
    command_config: Annotated[
        str | None, typer.Option(metavar="FILE", help="For kafka-acls.sh: how whoever may change ACLs connects.")
    ] = None,
    remove: Annotated[bool, typer.Option("--remove", help="Commands that take them away again.")] = False,
) -> None:
    """Print the kafka-acls.sh commands that allow what commands need, with these settings. Asks no broker."""
    kind, _, name = principal.partition(":")
    if not kind or not name:
        raise ConfigException(f"--principal {principal}: give the kind, too, as in User:{name or kind or 'NAME'}")
    at = target(config, settings, None)
    job = Job(
        preflight.wanted(at.brokers, None, at.settings, at.streams_config),
        makes_topics=not topics_exist,
        shadow=shadow_of(config, settings or ()).job.needs,
    )
    chosen = wanted or ["run"]
    unknown = [command for command in chosen if command not in COMMANDS]
    if unknown:
        raise ConfigException(f"--for {unknown[0]}: there is no such command; there are {_ALL}")
    for line in script(
        (grant for command in chosen for grant in grants(command, job)),
        brokers=at.brokers,
        principal=principal,
        command_config=command_config,
        remove=remove,
    ):
        say(line)

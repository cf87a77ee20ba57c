"""What commands share, headrace's own and those of applications: output, exit codes, settings, a user's functions."""

from __future__ import annotations

import importlib
import inspect
import logging
import os
import sys
import tempfile
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from headrace.config.own_keys import HTTP_SOCKET
from headrace.config.sources import Environment, read_source
from headrace.errors import ConfigException, KafkaException, StreamsException
from headrace.http import configured_address
from headrace.tools.instances import SharedPort
from headrace.tools.service import SUPERVISOR
from headrace.tools.supervisor import own_settings, supervise
from headrace.topology import Topology

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from types import TracebackType

    from headrace.config import StreamsConfig

FAILED = 1
USAGE = 2

# soft_wrap: a long line stays one line, for grep and for copying
out = Console(soft_wrap=True, highlight=False)
err = Console(stderr=True, soft_wrap=True, highlight=False)


def say(line: str) -> None:
    """One plain line on standard output, whatever it contains."""
    print(line, file=out.file, flush=True)  # the console would make spaces of tabs


def note(line: str) -> None:
    """One plain line on standard error: progress and the like."""
    err.print(line, markup=False)


def run_app(app: Callable[[], object]) -> int:
    """Runs a command line, such as a typer app.

    Returns:
        The exit code. Errors of headrace are one message without a traceback; any other exception is a defect and is
        not caught.
    """
    # a command's own messages say what failed; only what runs for long shows log lines, see log_to_stderr
    logging.basicConfig(level=logging.ERROR, stream=sys.stderr, format="%(levelname)s %(name)s: %(message)s")
    # it says at each attempt that it cannot connect, many times a second
    logging.getLogger("kafka").setLevel(logging.CRITICAL)
    try:
        app()
    except ConfigException as wrong:
        note(f"error: {wrong}")
        return USAGE
    except (KafkaException, OSError) as failed:
        note(f"error: {failed}")
        return FAILED
    except SystemExit as ended:
        # typer's own way out: usage errors are 2, interrupts 130
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    return 0


Instances = Annotated[
    int, typer.Option(min=1, help="Processes, each an instance; failed ones start again. One core each is used.")
]


def run_instances(
    arguments: Sequence[str],
    config: Path,
    settings: Sequence[str] | None,
    log_level: str,
    loaded: StreamsConfig,
    instances: int,
) -> int:
    """Runs several instances of a command that runs one, each with what it may not share set last; see ``supervise``.

    Args:
        arguments: the interpreter's, up to the command's own; ``--config``, ``--log-level`` and settings follow.
        config: as the command was given it.
        settings: likewise.
        log_level: likewise.
        loaded: the configuration they make.
        instances: how many.
    """
    common = [sys.executable, *arguments, "--config", str(config), "--log-level", log_level]

    address = configured_address(loaded)
    with tempfile.TemporaryDirectory(prefix="headrace-") as directory:
        port = None if address is None else SharedPort(address, Path(directory))

        def command(k: int) -> list[str]:
            own = own_settings(loaded, k) + ([] if port is None else [f"{HTTP_SOCKET}={port.socket(k)}"])
            return common + [part for one in (*(settings or ()), *own) for part in ("--set", one)]

        return supervise(command, instances, port=port)


def load_function(reference: str) -> Callable[..., Any]:
    """The function that ``MODULE:FUNCTION`` names; the current directory is looked in, as by ``python -m``.

    Raises:
        ConfigException: the text has another form, or there is no such module or function.
    """
    module_name, colon, function_name = reference.partition(":")
    if not (module_name and colon and function_name):
        raise ConfigException(
            f"'{reference}' does not name a function: write MODULE:FUNCTION, such as my_app.topology:build"
        )
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as e:
        if e.name is None or not f"{module_name}.".startswith(f"{e.name}."):
            raise
        raise ConfigException(f"there is no module {module_name} on the import path or in {here}") from e
    found: Any = module
    for part in function_name.split("."):
        found = getattr(found, part, None)
    if not callable(found):
        raise ConfigException(f"module {module_name} has no function {function_name}")
    function: Callable[..., Any] = found
    return function


def call_with_config(function: Callable[..., Any], config: Any) -> Any:
    """Calls a topology function: with the configuration if it takes an argument, else with none.

    Raises:
        ConfigException: it takes more than one.
    """
    required = [
        p
        for p in inspect.signature(function).parameters.values()
        if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) and p.default is p.empty
    ]
    optional = [
        p
        for p in inspect.signature(function).parameters.values()
        if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD, p.VAR_POSITIONAL) and p not in required
    ]
    if len(required) > 1:
        raise ConfigException(
            f"{function.__qualname__} takes {len(required)} arguments:"
            " a topology function takes the configuration, or nothing"
        )
    return function(config) if required or optional else function()


def _users_frames(error: Exception) -> TracebackType | None:
    """The traceback without what called the user's code."""
    trace = error.__traceback__
    while trace is not None and str(trace.tb_frame.f_globals.get("__name__")).startswith(("headrace.cli", "importlib")):
        trace = trace.tb_next
    return trace


def topology_of(reference: str, config: StreamsConfig) -> Topology:
    """The topology that the function ``MODULE:FUNCTION`` returns for a configuration.

    Raises:
        ConfigException: there is no such function, or it returns something else.
        StreamsException: it raised, or its module did; the traceback has been printed.
    """
    try:
        built = call_with_config(load_function(reference), config)
    except (KafkaException, OSError):
        raise
    except Exception as e:
        note("".join(traceback.format_exception(type(e), e, _users_frames(e))).rstrip())
        raise StreamsException(f"{reference} raised {type(e).__name__}") from e
    if not isinstance(built, Topology):
        raise ConfigException(
            f"{reference} returned a {type(built).__name__}, not a Topology: end it with builder.build()"
        )
    return built


def read_properties(file: Path | None, settings: Iterable[str]) -> dict[str, Any]:
    """Settings of a properties file, the environment (``HEADRACE_…``) and ``key=value`` texts; later ones win.

    Raises:
        ConfigException: the file cannot be read, or a text has no ``=``.
    """
    merged: dict[str, Any] = {}
    if file is not None:
        merged |= read_source(file)
    merged |= read_source(Environment(_own_environment()))
    for text in settings:
        key, sign, value = text.partition("=")
        if not (sign and key.strip()):
            raise ConfigException(f"--set {text}: write --set key=value")
        merged[key.strip()] = value.strip()
    return merged


def _own_environment() -> Mapping[str, str]:
    """The environment without the variables that are about tools and tests, not about an application."""
    tools = ("HEADRACE_KAFKA_LIB", "HEADRACE_BOOTSTRAP", "HEADRACE_JAVA_WORK", SUPERVISOR)
    return {name: value for name, value in os.environ.items() if name not in tools}


def log_to_stderr(level: str) -> None:
    """Sends the library's log lines to standard error; those of the membership client from warnings on.

    Raises:
        ConfigException: there is no such level.
    """
    number = logging.getLevelNamesMapping().get(level.upper())
    if number is None:
        raise ConfigException(f"--log-level {level}: allowed are debug, info, warning, error")
    logging.basicConfig(
        force=True,
        level=number,
        stream=sys.stderr,
        format="%(asctime)s %(levelname)s [%(threadName)s] %(name)s: %(message)s",
    )
    logging.getLogger("kafka").setLevel(max(number, logging.WARNING) if number > logging.DEBUG else logging.NOTSET)

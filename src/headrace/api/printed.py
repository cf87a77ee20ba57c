"""Where and how a stream is printed. Source: ``org.apache.kafka.streams.kstream.Printed`` (4.4)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from headrace.api.option_parts import HasName
from headrace.errors import TopologyException

if TYPE_CHECKING:
    from collections.abc import Callable
    from os import PathLike

K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class Printed(HasName, Generic[K, V]):
    """Lines ``[label]: text`` on standard output or in a file.

    The label is the name of the node above unless another is given; the text is ``key, value`` unless a mapper makes
    it.

    Example:
        >>> Printed.to_sys_out().with_label("lines")
        Printed(path=None, label='lines', mapper=None, name=None)
    """

    path: Path | None = None
    label: str | None = None
    mapper: Callable[[K, V], str] | None = None
    name: str | None = None

    @staticmethod
    def to_sys_out() -> Printed[Any, Any]:
        """Print to standard output."""
        return Printed()

    @staticmethod
    def to_file(path: str | PathLike[str]) -> Printed[Any, Any]:
        """Print to a file. It is emptied now, and lines are added as records come.

        Raises:
            TopologyException: The path is empty, or the file cannot be written.
        """
        if not str(path).strip():
            raise TopologyException("the path of a file to print to must not be empty")
        file = Path(path)
        try:
            file.write_bytes(b"")
        except OSError as e:
            raise TopologyException(f"cannot write to the file {file} that a stream is printed to: {e}") from e
        return Printed(path=file)

    def with_label(self, label: str) -> Printed[K, V]:
        """Another label."""
        return replace(self, label=label)

    def with_key_value_mapper(self, mapper: Callable[[K, V], str]) -> Printed[K, V]:
        """Another text: ``mapper(key, value)``."""
        return replace(self, mapper=mapper)

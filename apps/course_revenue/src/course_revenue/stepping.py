"""Bringing the job right in front of a record that stops it.

A record that fails takes with it what its transaction has done since the last commit, and at the next start the same
lines and the same record come within one commit interval again: the job would never stand in front of the record, where
alone it can be moved past it. There are two ways:

* With ``course.revenue.wait.at.broken`` a record that this release cannot read, or that breaks the contract, stops its
  own task alone: the record waits as one does whose schema registry does not answer, while the others go on, and what
  is before it is committed as ever. However many such records there are in other partitions, the job comes to each.
* With ``course.revenue.commit.before`` an instance commits after each line that is next to a place. That is for what
  fails only when it is processed, such as a total that overflows, and for a job that is to stop.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from headrace import FixedKeyProcessor
from headrace.errors import SerializationException, TimeoutException
from headrace.serdes import Deserializer, Serde

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from course_revenue.headers import Place
    from headrace import FixedKeyRecord
    from headrace.records import Headers

T = TypeVar("T")

LINES: Final = "commit-before-lines"
REPARTITIONED: Final = "commit-before-repartitioned-lines"

_NEAR: Final = 16
"""Offsets that records do not have (transaction markers) may lie between two of them; some commits more do no harm."""


class CommitBefore(FixedKeyProcessor[Any, Any, Any]):
    """Hands on every record, and asks for a commit after those that lie shortly before one of the places."""

    def __init__(self, places: Collection[Place]) -> None:
        self._places = places

    def process(self, record: FixedKeyRecord[Any, Any]) -> None:
        """Forwards the record."""
        self.context.forward(record)
        at = self.context.record_metadata()
        if at is not None and any(
            0 < place.offset - at.offset <= _NEAR and (place.topic, place.partition) == (at.topic, at.partition)
            for place in self._places
        ):
            self.context.commit()


def waiting(serde: Serde[T], judge: Callable[[T], object] | None = None) -> Serde[T]:
    """The same serde, by which a record that it cannot read is waited for.

    Args:
        serde: the one that reads.
        judge: raises ValueError for what it reads and the job refuses.
    """
    return Serde(
        serde.serializer,
        _Waiting(serde.deserializer, judge),
        immutable=serde.immutable,
        exact=serde.exact,
        faithful=serde.faithful,
    )


class _Waiting(Deserializer[T], Generic[T]):
    def __init__(self, inner: Deserializer[T], judge: Callable[[T], object] | None) -> None:
        self._inner = inner
        self._judge = judge

    def deserialize(self, topic: str, data: bytes | None) -> T | None:
        return None if data is None else self.bind(topic)(data)

    def bind(self, topic: str) -> Callable[[bytes], T]:
        decode = self._inner.bind(topic)
        return lambda data: self._read(lambda: decode(data))

    def bind_with_headers(self, topic: str) -> Callable[[bytes, Headers | None], T] | None:
        decode = self._inner.bind_with_headers(topic)
        return None if decode is None else lambda data, headers: self._read(lambda: decode(data, headers))

    def _read(self, decode: Callable[[], T]) -> T:
        try:
            read = decode()
            if self._judge is not None:
                self._judge(read)
        except SerializationException as error:
            raise TimeoutException("it does not decode: the job cannot go past it") from error
        except ValueError as error:
            raise TimeoutException(f"the job cannot go past it: {error}") from error
        return read

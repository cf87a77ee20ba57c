"""Between processes and brokers: requests take their time, get lost, or are carried out and their answers lost."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, TypeVar

from simulation.clock import Signal
from simulation.log import Refused

if TYPE_CHECKING:
    from collections.abc import Callable

    from simulation.clock import Clock
    from simulation.process import Process

T = TypeVar("T")

_SLOW = 0.01


class Unreachable(Exception):
    """The connection broke: nobody knows whether the request was carried out."""


def answering(work: Callable[[], object]) -> Callable[[Callable[[Any], None]], None]:
    """The work of a request that is answered at once."""
    return lambda reply: reply(work())


class Network:
    """See the module.

    Args:
        clock: Of the world.
        loss: Share of requests whose connection breaks.
    """

    def __init__(self, clock: Clock, loss: float) -> None:
        self._clock = clock
        self.loss = loss
        self.outage_until = 0.0
        """Until then no broker answers."""
        self.counts: Counter[str] = Counter()

    def call(
        self, process: Process, work: Callable[[Callable[[Any], None]], None], answered: Callable[[Any], None]
    ) -> None:
        """Send a request.

        Args:
            process: Who asks.
            work: Carries it out at the brokers; takes the function to answer with, which may be called later.
            answered: Called in the process with the answer, a :class:`Refused` or an :class:`Unreachable`.
        """
        random, clock = self._clock.random, self._clock
        self.counts["requests"] += 1
        process.request()
        there, back = self._delay(), self._delay()
        done = False

        def tell(answer: Any) -> None:
            nonlocal done
            if not done:
                done = True
                answered(answer)

        def breaks() -> None:
            clock.at(random.uniform(0.05, 0.6), lambda: tell(Unreachable()), process)

        if process.cut_until > clock.now:
            breaks()
            return
        fate = random.random()
        if fate < self.loss / 3:
            self.counts["lost requests"] += 1
            breaks()
            return

        def reply(answer: Any) -> None:
            if process.cut_until > clock.now or fate < self.loss * 2 / 3:
                self.counts["lost answers"] += 1
                breaks()
            else:
                clock.at(back, lambda: tell(answer), process)

        def arrives() -> None:
            if self.outage_until > clock.now:
                breaks()
                return
            try:
                work(reply)
            except Refused as e:
                reply(e)

        clock.at(there, arrives)

    def ask(self, process: Process, work: Callable[[], T]) -> T:
        """Send a request and wait for its answer, on a strand.

        Raises:
            Refused: The brokers refuse.
            Unreachable: The connection broke.
        """
        signal = Signal()
        found: list[Any] = []

        def answered(answer: Any) -> None:
            found.append(answer)
            self._clock.notify(signal)

        self.call(process, answering(work), answered)
        while not found:
            self._clock.wait(signal, None)
        if isinstance(found[0], Exception):
            raise found[0]
        answer: T = found[0]
        return answer

    def _delay(self) -> float:
        random = self._clock.random
        if random.random() < _SLOW:
            return random.uniform(0.1, 3.0)
        return random.uniform(0.0003, 0.004)

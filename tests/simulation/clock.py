"""Virtual time and virtual threads: one runs at a time, and who is next follows from the seed.

A strand is a thread of the product. It runs until it waits (for an answer, a notice, a time); then the next event of
the heap is taken: a call that is made at once, or a strand that goes on. Strands are carried by operating system
threads, which pass one baton; nothing here depends on how those are scheduled.

An event or strand of a frozen process waits until the process thaws. A strand of a dead process is resumed by an
exception that nothing catches for good, and whatever it does on its way out has no effect.
"""

from __future__ import annotations

import heapq
import itertools
import random
import threading
import uuid
from typing import TYPE_CHECKING, Any, Protocol, Self

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

_MOST_EVENTS = 400_000


class Killed(BaseException):
    """The process of this strand is dead."""


class Owner(Protocol):
    """Whose events and strands these are: a process."""

    dead: bool
    frozen_until: float


class Strand:
    """A virtual thread."""

    def __init__(self, name: str, owner: Owner | None, baton: threading.Lock) -> None:
        self.name = name
        self.owner = owner
        self.baton = baton
        self.turn = 0
        self.woken = False
        self.done = False
        self.joined = Signal()

    def check(self) -> None:
        if self.owner is not None and self.owner.dead:
            raise Killed


class Signal:
    """Strands that wait for something to happen."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Strand, int]] = []


class _Worker:
    """An operating system thread that carries one strand after the other."""

    idle: list[_Worker] = []  # noqa: RUF012  # one pool for all runs

    def __init__(self) -> None:
        self.baton = threading.Lock()
        self.baton.acquire()
        self.work: Callable[[], None] = lambda: None
        threading.Thread(target=self._run, daemon=True, name="strand").start()

    def _run(self) -> None:
        while True:
            self.baton.acquire()
            self.work()


class Clock:
    """See the module.

    Args:
        seed: Of everything that is random in the world.
    """

    def __init__(self, seed: int) -> None:
        self.now = 1_000.0
        self.wall_offset_s = 1_700_000_000.0
        self.random = random.Random(seed)
        self.failure: BaseException | None = None
        self.events = 0
        baton = threading.Lock()
        baton.acquire()
        self.main = self.current = Strand("main", None, baton)
        self._nobody = Strand("a call", None, threading.Lock())
        self.owner: Owner | None = None
        """Whose strands are made now, by a call that is not made by a strand of its own."""
        self._heap: list[tuple[float, int, Owner | None, Strand | None, Any]] = []
        self._order = itertools.count()

    def at(self, delay_s: float, action: Callable[[], None], owner: Owner | None = None) -> None:
        """Call ``action`` later: nothing in it may wait. Of a dead ``owner`` it is never called."""
        heapq.heappush(self._heap, (self.now + delay_s, next(self._order), owner, None, action))

    def sleep(self, seconds: float) -> None:
        """Let time pass for the current strand."""
        self.wait(None, seconds)

    def wait(self, signal: Signal | None, timeout_s: float | None) -> bool:
        """Wait for a signal or a time; returns whether it was the signal."""
        me = self.current
        assert me is not self._nobody, "a call of the clock must not wait"
        me.check()
        me.turn += 1
        me.woken = False
        if signal is not None:
            signal.waiting.append((me, me.turn))
        if timeout_s is not None:
            heapq.heappush(self._heap, (self.now + max(timeout_s, 0.0), next(self._order), me.owner, me, me.turn))
        self._pass_on(me)
        me.check()
        if me is self.main and self.failure is not None:
            raise self.failure
        return me.woken

    def notify(self, signal: Signal, delay_s: float = 0.0) -> None:
        """Let those go on that wait for it."""
        waiting, signal.waiting = signal.waiting, []
        for strand, turn in waiting:
            if strand.turn == turn and not strand.done:
                strand.woken = True
                heapq.heappush(self._heap, (self.now + delay_s, next(self._order), strand.owner, strand, turn))

    def start(self, name: str, owner: Owner | None, body: Callable[[], None]) -> Strand:
        """Start a strand; it runs when the current one waits."""
        worker = _Worker.idle.pop() if _Worker.idle else _Worker()
        strand = Strand(name, owner, worker.baton)

        def work() -> None:
            try:
                strand.check()
                body()
            except Killed:
                pass
            except BaseException as e:
                self.fail(e)
            strand.done = True
            self.notify(strand.joined)
            _Worker.idle.append(worker)
            self._pass_on(None)

        worker.work = work
        heapq.heappush(self._heap, (self.now, next(self._order), owner, strand, strand.turn))
        return strand

    def kick(self, strand: Strand) -> None:
        """Resume a strand now, whatever it waits for: its process has died."""
        if not strand.done:
            heapq.heappush(self._heap, (self.now, next(self._order), None, strand, strand.turn))

    def fail(self, error: BaseException) -> None:
        """The run is over: the main strand raises this."""
        if self.failure is None:
            self.failure = error
            heapq.heappush(self._heap, (-1.0, next(self._order), None, self.main, self.main.turn))

    def _pass_on(self, me: Strand | None) -> None:
        """Take events until one lets a strand go on, and let it; returns when ``me`` does."""
        heap = self._heap
        while True:
            self.events += 1
            if self.events == _MOST_EVENTS:
                self.fail(AssertionError(f"{_MOST_EVENTS} events and no end"))
            if not heap:
                self.fail(AssertionError("everybody waits for ever"))
            time, _, owner, strand, what = heapq.heappop(heap)
            self.now = max(self.now, time)
            if owner is not None:
                if owner.dead:
                    if strand is None:
                        continue
                elif owner.frozen_until > self.now:
                    heapq.heappush(heap, (owner.frozen_until, next(self._order), owner, strand, what))
                    continue
            if strand is None:
                self.current = self._nobody
                try:
                    what()
                except BaseException as e:
                    self.fail(e)
                continue
            if strand.done or strand.turn != what:
                continue
            self.current = strand
            if strand is me:
                return
            strand.baton.release()
            if me is not None:
                me.baton.acquire()
            return


class VirtualThread:
    """``threading.Thread`` of the product."""

    def __init__(self, clock: Clock, target: Callable[[], None], name: str, daemon: bool = True) -> None:
        self._clock = clock
        self._target = target
        self._owner = clock.owner or clock.current.owner
        self.name = name
        self.daemon = daemon
        self.ident: int | None = None
        self.strand: Strand | None = None

    def start(self) -> None:
        self.ident = 1
        self.strand = self._clock.start(self.name, self._owner, self._target)
        owner: Any = self._owner
        if owner is not None:
            owner.strands.append(self.strand)

    def is_alive(self) -> bool:
        return self.strand is not None and not self.strand.done

    def join(self, timeout: float | None = None) -> None:
        if self.strand is not None and not self.strand.done:
            self._clock.wait(self.strand.joined, timeout)


class VirtualEvent:
    """``threading.Event`` of the product."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._set = False
        self._signal = Signal()

    def is_set(self) -> bool:
        return self._set

    def set(self) -> None:
        self._set = True
        self._clock.notify(self._signal)

    def clear(self) -> None:
        self._set = False

    def wait(self, timeout: float | None = None) -> bool:
        if not self._set:
            self._clock.wait(self._signal, timeout)
        return self._set


class VirtualCondition:
    """``threading.Condition`` of the product. No lock: strands give way only where they wait."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._signal = Signal()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        pass

    def wait(self, timeout: float | None = None) -> bool:
        return self._clock.wait(self._signal, timeout)

    def wait_for(self, predicate: Callable[[], bool], timeout: float | None = None) -> bool:
        deadline = None if timeout is None else self._clock.now + timeout
        while not predicate():
            left = None if deadline is None else deadline - self._clock.now
            if left is not None and left <= 0:
                return False
            self._clock.wait(self._signal, left)
        return True

    def notify_all(self) -> None:
        self._clock.notify(self._signal)


class VirtualLock:
    """``threading.Lock`` of the product, where somebody waits while holding it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._holder: Strand | None = None
        self._signal = Signal()

    def __enter__(self) -> Self:
        while self._holder is not None:
            self._clock.wait(self._signal, None)
        self._holder = self._clock.current
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._holder = None
        self._clock.notify(self._signal)


class VirtualThreading:
    """The module ``threading`` for product modules."""

    def __init__(self, clock: Clock) -> None:
        self.Event = lambda: VirtualEvent(clock)
        self.Condition = lambda: VirtualCondition(clock)
        self.Lock = lambda: VirtualLock(clock)
        self._clock = clock

    def Thread(self, target: Callable[[], None], name: str, daemon: bool = True) -> VirtualThread:
        return VirtualThread(self._clock, target, name, daemon)

    def current_thread(self) -> object:
        return self._clock.current


class VirtualTime:
    """The module ``time`` for product modules."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.sleep = clock.sleep

    def monotonic(self) -> float:
        return self._clock.now

    def time(self) -> float:
        return self._clock.now + self._clock.wall_offset_s

    def time_ns(self) -> int:
        return int((self._clock.now + self._clock.wall_offset_s) * 1_000_000_000)


class VirtualUuid:
    """The module ``uuid`` for product modules."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def uuid4(self) -> uuid.UUID:
        return uuid.UUID(int=self._clock.random.getrandbits(128))

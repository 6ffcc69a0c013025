"""How a run is asked to end, by its terminal or from elsewhere: signals become requests."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from bisectperf.errors import Interrupted

AT_ONCE = (signal.SIGINT, signal.SIGTERM)
"""End now; the launch in hand goes on alone and is adopted by the next `run`."""
AFTER_LAUNCH = signal.SIGUSR1
"""End once the launch in hand has its outcome."""
CANCEL = signal.SIGUSR2
"""End now, and end the launch in hand too."""
ALL = (*AT_ONCE, AFTER_LAUNCH, CANCEL)


class Cancelled(Interrupted):
    """The user asked for an end of the launch in hand as well."""


class Control:
    """What was asked so far. Inside `listening`, a request that cannot wait is raised where the program stands."""

    def __init__(self) -> None:
        self._end = threading.Event()

    @property
    def ending(self) -> bool:
        """Return whether an end was asked for, at the latest before the next launch."""
        return self._end.is_set()

    def pause(self, seconds: float) -> None:
        """Wait; raises `Interrupted` as soon as an end is asked for: nothing is in hand that could be awaited."""
        if self._end.wait(seconds):
            raise Interrupted

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Turn signals into requests."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self._asked) for number in ALL}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _asked(self, number: int, _frame: FrameType | None) -> None:
        self._end.set()
        if number == CANCEL:
            raise Cancelled
        if number in AT_ONCE:
            raise Interrupted


def undisturbed(act: Callable[[], None]) -> None:
    """Do what must not be left half done: a request that arrives meanwhile is heard afterwards."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ALL)
    try:
        act()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)

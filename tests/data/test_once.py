"""Values that one thread computes while the others wait."""

import os
import pickle
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from ebboost.data.once import SharedLock, compute_once, lazy_property


class Crossed:
    """Either of two properties may be the one that reads the other."""

    def __init__(self, first, barrier=None):
        self.first = first
        self.barrier = barrier
        self.computed = []

    def _compute(self, name, other):
        self.computed.append(name)
        if name != self.first:
            return 1
        if self.barrier is not None:
            self.barrier.wait(10)  # both threads are computing their first property now
        return 1 + getattr(self, other)

    @lazy_property
    def left(self):
        return self._compute("left", "right")

    @lazy_property
    def right(self):
        return self._compute("right", "left")


def test_properties_of_two_objects_that_read_each_other_do_not_wait_for_each_other():
    barrier = threading.Barrier(2)
    one, other = Crossed("left", barrier), Crossed("right", barrier)
    values = []
    threads = [
        threading.Thread(target=lambda: values.append(one.left), daemon=True),
        threading.Thread(target=lambda: values.append(other.right), daemon=True),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert values == [2, 2] and one.computed == ["left", "right"]
    assert isinstance(vars(Crossed)["left"], type(Crossed.left))


def test_many_threads_compute_a_value_once():
    calls, barrier = [], threading.Barrier(6)

    def slowly():
        calls.append(1)
        time.sleep(0.02)  # so that all threads arrive before there is a value
        return object()

    def read(_):
        barrier.wait(10)
        return compute_once(cache, "value", slowly)

    cache = {}
    with ThreadPoolExecutor(6) as pool:
        values = list(pool.map(read, range(6)))
    assert len(calls) == 1 and all(value is values[0] for value in values)


def test_a_computation_that_raised_is_repeated():
    cache, answers = {}, iter([ZeroDivisionError, None])

    def compute():
        if error := next(answers):
            raise error
        return 5

    with pytest.raises(ZeroDivisionError):
        compute_once(cache, 0, compute)
    assert cache == {} and compute_once(cache, 0, compute) == 5


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_process_finds_locks_released_and_what_they_guard_complete():
    outer, inner, parts, stop = SharedLock(), SharedLock(), [0, 0], threading.Event()

    def write():
        while not stop.is_set():
            with outer, inner:
                parts[0] += 1
                time.sleep(0.002)
                parts[1] += 1

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(5):
            child = os.fork()
            if child == 0:
                signal.alarm(10)  # ends a child that waits
                with outer, inner:
                    os._exit(parts[0] != parts[1])
            assert os.waitpid(child, 0)[1] == 0
    finally:
        stop.set()
        writer.join()
    with pickle.loads(pickle.dumps(outer)), outer:
        pass  # a lock of its own

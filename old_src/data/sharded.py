"""Arrays whose rows are divided among workers that run the same program at the same time."""

from collections.abc import Sequence
from typing import Any, Protocol, SupportsIndex, TypeVar

import numpy as np
from numpy.typing import NDArray

from ebboost.data.types import AnyArray

T = TypeVar("T")
Axis = SupportsIndex | Sequence[SupportsIndex] | None
#: Labels of all workers from which the spread of residuals is estimated, about.
SAMPLED = 200_000


class Reducer(Protocol):
    """What sharded arrays need of the workers."""

    rank: int
    count: int

    def allreduce(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return the sum over all workers, the same bits in each."""

    def allgather(self, values: NDArray[Any]) -> list[NDArray[Any]]:
        """Return the arrays of all workers, by rank."""

    def allgather_objects(self, value: object) -> list[Any]:
        """Return the objects of all workers, by rank."""


class ShardedArray(np.ndarray):
    """A worker's rows of an array; sums, means and extremes over rows are those of all workers.

    The counterpart of an array on a GPU: objectives, solvers and losses compute on it unchanged.
    Every worker must reduce the same arrays in the same order. Functions of numpy that mix rows in
    another way raise TypeError; :func:`of_all_rows` gathers the rows where one is needed.
    """

    workers: Reducer

    def __array_finalize__(self, other: Any) -> None:
        self.workers = getattr(other, "workers", None)  # type: ignore[assignment]

    def __reduce__(self) -> Any:
        return np.asarray(self).__reduce__()

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if func in CREATION:
            return shard(func(*args, **kwargs), self.workers)
        if func is np.bincount:
            plain = {name: np.asarray(value) for name, value in kwargs.items()}
            return self.workers.allreduce(func(*map(np.asarray, args), **plain))
        if func not in ROWWISE:
            raise TypeError(
                f"numpy's {func.__name__} of rows that are divided among workers is not supported."
            )
        result = super().__array_function__(func, types, args, kwargs)
        is_rows = type(result) is np.ndarray and result.ndim > 0 and func not in REDUCTIONS
        return shard(result, self.workers) if is_rows else result

    def sum(self, axis: Axis = None, *args: Any, **options: Any) -> Any:
        """Return the sum along an axis."""
        local = np.asarray(self).sum(axis, *args, **options)
        if not _reduces_rows(axis):
            return shard(local, self.workers)
        is_count = local.dtype.kind in "biu"
        total = self.workers.allreduce(np.asarray(local, dtype=np.float64))
        return (total.astype(np.int64) if is_count else total)[()]

    def mean(self, axis: Axis = None, *args: Any, **options: Any) -> Any:
        """Return the mean along an axis."""
        if not _reduces_rows(axis):
            return shard(np.asarray(self).mean(axis, *args, **options), self.workers)
        width = int(np.prod(self.shape[1:])) if axis is None else 1
        return self.sum(axis, *args, **options) / (total_rows(self) * width)

    def std(self, axis: Axis = None, *args: Any, **options: Any) -> Any:
        """Return the standard deviation along an axis."""
        if not _reduces_rows(axis):
            return shard(np.asarray(self).std(axis, *args, **options), self.workers)
        deviation = self - self.mean(axis)
        return np.sqrt((deviation * deviation).mean(axis))

    def max(self, axis: Axis = None, out: Any = None, **options: Any) -> Any:
        """Return the maximum along an axis."""
        return self._extreme(np.max, -np.inf, axis, **options)

    def min(self, axis: Axis = None, out: Any = None, **options: Any) -> Any:
        """Return the minimum along an axis."""
        return self._extreme(np.min, np.inf, axis, **options)

    def _extreme(self, pick: Any, limit: float, axis: Axis, **options: Any) -> Any:
        local = np.asarray(self)
        if not _reduces_rows(axis):
            return shard(pick(local, axis=axis, **options), self.workers)
        numbers = local.astype(np.float64) if local.dtype.kind in "biu" else local
        local = pick(numbers, axis=axis, **{"initial": limit} | options)
        of_all = np.zeros((self.workers.count, *np.shape(local)))
        of_all[self.workers.rank] = local
        result = pick(self.workers.allreduce(of_all), axis=0)
        return result.astype(self.dtype) if np.isfinite(result).all() else result

    def any(self, axis: Axis = None, *args: Any, **options: Any) -> Any:
        """Return whether any entry along an axis is true."""
        return (self != 0).sum(axis, *args, **options) > 0

    def all(self, axis: Axis = None, *args: Any, **options: Any) -> Any:
        """Return whether all entries along an axis are true."""
        return (self == 0).sum(axis, *args, **options) == 0


def _reduces_rows(axis: Any) -> bool:
    return axis is None or 0 in np.atleast_1d(axis)


def shard(local: AnyArray, workers: Reducer) -> AnyArray:
    """Return a worker's rows as a sharded array; None stays None."""
    if local is None or np.ndim(local) == 0:
        return local
    rows = np.asarray(local).view(ShardedArray)
    rows.workers = workers
    return rows


def shard_like(local: AnyArray, like: AnyArray) -> AnyArray:
    """Return a worker's rows as a sharded array if ``like`` is one."""
    return shard(local, like.workers) if isinstance(like, ShardedArray) else local


def sum_over_workers(values: AnyArray, like: AnyArray) -> AnyArray:
    """Return the sum of the values of all workers, or the values if ``like`` is not sharded."""
    return like.workers.allreduce(values) if isinstance(like, ShardedArray) else values


def of_first_worker(values: AnyArray, like: AnyArray) -> AnyArray:
    """Return the values of the first worker, where those of others may differ in the last bits."""
    is_first = not isinstance(like, ShardedArray) or like.workers.rank == 0
    return sum_over_workers(values if is_first else np.zeros_like(values), like)


def total_rows(values: AnyArray) -> int:
    """Return the number of rows, those of other workers included."""
    if not isinstance(values, ShardedArray):
        return int(values.shape[0])
    return int(values.workers.allreduce(np.array([len(values)], dtype=np.float64))[0])


def of_all_rows(values: AnyArray) -> AnyArray:
    """Return the rows of all workers as an ordinary array, in the order of the workers."""
    if not isinstance(values, ShardedArray):
        return values
    return np.concatenate(values.workers.allgather(np.asarray(values)))


def sampled(values: AnyArray, n_rows: int = SAMPLED) -> slice:
    """Return a slice of the rows, so that those of all workers are about ``n_rows``; all if here.

    Rows of one process are at hand, those of workers are sent for.
    """
    if not isinstance(values, ShardedArray):
        return slice(None)
    return slice(None, None, max(1, total_rows(values) // n_rows))


def rows_before(values: AnyArray) -> int:
    """Return the number of rows of the workers before this one."""
    if not isinstance(values, ShardedArray):
        return 0
    lengths = values.workers.allgather(np.array([len(values)]))
    return int(sum(own[0] for own in lengths[: values.workers.rank]))


def inner_products(one: AnyArray, other: AnyArray) -> NDArray[Any]:
    """Return the inner products of the columns of two arrays."""
    # Not BLAS, whose threads wait for each other for seconds where other programs use the cores.
    products = np.einsum("ij,i...->j...", np.asarray(one), np.asarray(other))
    if not isinstance(one, ShardedArray):
        return products
    return one.workers.allreduce(products)


def order_statistics(values: AnyArray, ranks: Sequence[int]) -> list[float]:
    """Return the smallest, second smallest … of float64 values by rank from 1; −∞ for rank 0."""
    local = np.sort(np.asarray(values))
    if not isinstance(values, ShardedArray):
        return np.append(-np.inf, local)[list(ranks)].tolist()
    return sorted_statistics([local], [np.array(ranks)], values)[0].tolist()


def sorted_statistics(
    columns: Sequence[NDArray[np.float64]], ranks: Sequence[NDArray[np.int64]], like: AnyArray
) -> list[NDArray[np.float64]]:
    """Return order statistics of each of some sorted columns, with ranks of its own from 1.

    If ``like`` is divided among workers, so are the columns, and statistics are found bit after
    bit by counting smaller numbers, of all columns at once.
    """
    if not isinstance(like, ShardedArray):
        return [one[own - 1] for one, own in zip(columns, ranks, strict=True)]
    wanted = np.concatenate(ranks).astype(np.float64)
    ends = np.cumsum([len(own) for own in ranks])[:-1]
    # Unsigned integers in the order of the numbers.
    top = np.uint64(1 << 63)
    bits = [one.view(np.uint64) for one in columns]
    keys = [np.where(one & top, ~one, one | top) for one in bits]
    number = np.zeros(wanted.size, dtype=np.uint64)
    for bit in range(63, -1, -1):
        larger = number | np.uint64(1 << bit)
        pairs = zip(keys, np.split(larger, ends), strict=True)
        n_smaller = np.concatenate([np.searchsorted(*pair) for pair in pairs]).astype(np.float64)
        number = np.where(like.workers.allreduce(n_smaller) < wanted, larger, number)
    statistics = np.where(number & top, number ^ top, ~number).view(np.float64)
    return np.split(np.where(wanted > 0, statistics, -np.inf), ends)


def standard_error(values: AnyArray) -> float:
    """Return the standard error of the mean of a column."""
    return float(values.std() / np.sqrt(total_rows(values)))


def average(arrays: list[T]) -> T:
    """Return the mean of arrays of one shape, sharded if they are."""
    return sum(arrays[1:], start=arrays[0]) / len(arrays)  # type: ignore[call-overload]


CREATION = {np.zeros, np.ones, np.empty, np.full, np.arange, np.asarray, np.array}
CREATION |= {np.ascontiguousarray, np.asanyarray}
REDUCTIONS = {np.sum, np.mean, np.std, np.max, np.min, np.amax, np.amin, np.any, np.all, np.average}
#: Functions that compute each row by itself, or call the methods above.
ROWWISE = REDUCTIONS | {np.where, np.clip, np.isin, np.copy, np.copyto, np.broadcast_to, np.ravel}
ROWWISE |= {np.zeros_like, np.ones_like, np.empty_like, np.full_like, np.result_type}
ROWWISE |= {np.hstack, np.column_stack, np.concatenate, np.array_split, np.may_share_memory}
ROWWISE |= {np.ndim, np.shape, np.size, np.atleast_1d, np.atleast_2d}

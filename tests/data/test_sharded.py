"""Arrays whose rows are divided among workers."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ebboost.data.sharded import order_statistics, shard
from ebboost.data.splitting import latest_blocks
from tests.backends.dask.threads import in_threads

numbers = st.floats(allow_nan=False, width=32) | st.sampled_from([0.0, -0.0, 1.0, 2.0])


@settings(max_examples=30, deadline=None)
@given(st.lists(numbers, min_size=1, max_size=30), st.integers(1, 3), st.data())
def test_order_statistics_are_those_of_the_sorted_values(values, count, data):
    values = np.array(values)
    ranks = data.draw(st.lists(st.integers(0, len(values)), min_size=1, max_size=4))
    cuts = np.sort(data.draw(st.lists(st.integers(0, len(values)), min_size=2, max_size=2)))
    parts = np.split(values, cuts)[:count] if count == 3 else [values, values[:0]][:count]

    def work(workers):
        return order_statistics(shard(parts[workers.rank], workers), ranks)

    expected = np.append(-np.inf, np.sort(values))[ranks]
    for found in in_threads(count, work):
        np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(order_statistics(values, ranks), expected)


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 60), st.integers(1, 30), st.floats(0.05, 0.9), st.integers(1, 5))
def test_latest_blocks_hold_equally_many_labels(n_labels, n_times, share, n_blocks):
    time = np.random.default_rng(n_labels).integers(0, n_times, n_labels).astype(float)
    # The block by the number of earlier labels.
    n_held_out = max(round(share * n_labels), 1)
    n_earlier = (time[:, None] > time).sum(axis=1)
    block = np.maximum((n_earlier - (n_labels - n_held_out)) * n_blocks // n_held_out, -1)
    if block.max() < 0:
        block[time == time.max()] = 0
    expected = np.unique(np.append(block, -1), return_inverse=True)[1][:-1] - 1
    np.testing.assert_array_equal(latest_blocks(time, share, n_blocks), expected)
    half = n_labels // 2

    def work(workers):
        own = time[:half] if workers.rank == 0 else time[half:]
        return np.asarray(latest_blocks(shard(own, workers), share, n_blocks))

    np.testing.assert_array_equal(np.concatenate(in_threads(2, work)), expected)

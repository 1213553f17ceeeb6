import numpy as np
from scipy import sparse

from ebboost.data.low_rank import LowRank
from ebboost.data.table import Table


def test_the_projection_keeps_nearly_as_much_as_the_best_of_its_rank():
    X = sparse.random_array((80, 40), density=0.2, format="csr", rng=np.random.default_rng(0))
    table = Table(X, tuple(map(str, range(40))), (), tuple(range(40)))
    projection = LowRank(8)
    first = projection.fit_transform(table, seed=0)
    assert first.values.shape == (80, 8)
    np.testing.assert_allclose(projection.transform(table).values, first.values)
    rarity = np.log(81.0 / (np.bincount(X.indices, minlength=40) + 1.0))
    weighted = X.toarray() * rarity
    weighted /= np.linalg.norm(weighted, axis=1, keepdims=True)
    best = (np.linalg.svd(weighted, compute_uv=False)[:8] ** 2).sum()
    assert 0.95 * best <= np.linalg.norm(first.values) ** 2 <= best * (1 + 1e-9)

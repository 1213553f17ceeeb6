import pytest

pytest.importorskip("distributed")
pytest.importorskip("xgboost")
pytest.importorskip("pyarrow")

from tests.cluster.problems import dask_client, grid


@pytest.fixture(scope="session")
def client():
    """Three worker processes; of tables in two parts two take part."""
    with dask_client(3) as one:
        yield one


@pytest.fixture(scope="session")
def large():
    """The size at which 0.2.0 and one machine differed."""
    return grid(20_000)


@pytest.fixture(scope="session")
def small():
    return grid(900)

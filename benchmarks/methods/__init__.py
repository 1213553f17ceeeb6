"""Methods by name: the function, its grid of configurations, and what it needs.

Configurations are those of the published experiments (Boost then Convolve's grids for its
baselines, the paper's table for EBBS); for each split the configuration with the best validation
error counts.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from benchmarks.problem import Outcome, Problem

Grid = Mapping[str, Sequence[Any]]

NETWORKS = ("gcn", "gat", "agnn", "appnp")
TORCH = ("torch", "torch_geometric")
WORDS = (
    "coauthor_cs",
    "coauthor_phy",
    "ogbn_arxiv",
)  # the paper's own networks: three wide layers, not tuned
UNTUNED: Grid = {"learning_rate": [0.005], "dropout": [0.5], "hidden": [256], "layers": [3]}
NETWORK: Grid = {"learning_rate": [0.01, 0.1], "dropout": [0.0, 0.5]}
BOOSTED: Grid = {"network": ["gat", "gcn", "agnn", "appnp"], **NETWORK, "replace": [False, True]}


@dataclass(frozen=True)
class Method:
    """A method: ``fit`` is "module:function" below this package, imported only when it is run.

    Attributes
    ----------
    grid : mapping
        Values for each setting; the configurations are their product, the first one the default.
    by_data : mapping
        Grids that certain data sets have instead.
    fixed : mapping
        Settings that are part of the method.
    needs : tuple of str
        Modules that must be importable.
    needs_coordinates : bool
        Whether it needs coordinates of the nodes.
    in_tables : bool
        False for methods that are run for a figure.
    """

    name: str
    fit: str
    grid: Grid = field(default_factory=dict)
    by_data: Mapping[str, Grid] = field(default_factory=dict)
    fixed: Mapping[str, Any] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    needs_coordinates: bool = False
    in_tables: bool = True

    def configurations(self, dataset: str) -> list[dict[str, Any]]:
        """Return the settings to try on a data set."""
        grid = self.by_data.get(dataset.removesuffix("-rewired"), self.grid)
        return [
            dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())
        ]

    def missing(self) -> str:
        """Return the modules that it needs and that are not installed."""
        return ", ".join(module for module in self.needs if find_spec(module) is None)

    def __call__(self, problem: Problem, **settings: Any) -> Outcome:
        """Fit and predict."""
        module, function = self.fit.split(":")
        return getattr(import_module(f"benchmarks.methods.{module}"), function)(
            problem, **self.fixed, **settings
        )


def _network(name: str) -> Method:
    by_data = dict.fromkeys(WORDS, UNTUNED)
    return Method(name.upper(), "networks:network", NETWORK, by_data, {"network": name}, TORCH)


METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Method(
            "LightGBM", "trees:lightgbm", {"learning_rate": [0.1, 0.01], "num_leaves": [15, 63]}
        ),
        Method(
            "CatBoost",
            "trees:catboost",
            {"learning_rate": [0.1, 0.01], "depth": [6, 4]},
            needs=("catboost",),
        ),
        Method(
            "XGBoost",
            "trees:xgboost",
            {"learning_rate": [0.3, 0.1], "max_depth": [6]},
            needs=("xgboost",),
        ),
        Method(
            "LightGBM, neighbours",
            "trees:lightgbm",
            {"learning_rate": [0.1, 0.01], "num_leaves": [15, 63]},
            fixed={"neighbours": True},
        ),
        Method(
            "CatBoost, graph",
            "trees:catboost",
            {"learning_rate": [0.1, 0.01], "depth": [6, 4]},
            fixed={"graph": True},
            needs=("catboost",),
        ),
        Method("CatBoost+", "posthoc:catboost_plus", needs=("catboost",)),
        Method(
            "Correct and smooth",
            "posthoc:correct_and_smooth",
            {"correct": [0.5, 0.8, 0.95], "smooth": [0.0, 0.5, 0.8]},
            needs=("catboost",),
        ),
        Method(
            "GPBoost",
            "gaussian_process:gpboost",
            {"learning_rate": [0.1, 0.01]},
            needs=("gpboost",),
            needs_coordinates=True,
        ),
        Method(
            "MLP",
            "networks:network",
            NETWORK,
            dict.fromkeys(WORDS, UNTUNED),
            {"network": "mlp"},
            TORCH,
        ),
        *(_network(name) for name in NETWORKS),
        Method("Res-GNN", "boosted:residual", BOOSTED, needs=(*TORCH, "catboost")),
        Method("BGNN", "boosted:bgnn", {**BOOSTED, "steps": [10, 20]}, needs=(*TORCH, "catboost")),
        Method(
            "BGNN, one step",
            "boosted:bgnn",
            {**BOOSTED, "trees": [10, 20]},
            fixed={"steps": 1},
            needs=(*TORCH, "catboost"),
        ),
        Method("EBBS, paper", "ebbs:paper", needs=("catboost",)),
        Method("EBBS, momentum", "ebbs:paper", fixed={"momentum": True}, needs=("catboost",)),
        Method("EBBS, smoothing alone", "ebbs:smoothing"),
        Method("EBBS", "ebbs:default", by_data={"wiki": {"similarity": [True, False]}}),
        Method(
            "EBBS, strength",
            "ebbs:paper",
            {"lam": [0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0]},
            needs=("catboost",),
            in_tables=False,
        ),
    )
}

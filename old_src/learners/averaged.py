"""The average of several ensembles: the models of cross-fitting as one."""

from collections.abc import Mapping, Sequence

import numpy as np

from ebboost.data.table import Table
from ebboost.learners.base import Array, Ensemble, Learner
from ebboost.learners.lightgbm import LightGBMEnsemble, joined_text
from ebboost.learners.network import NetworkEnsemble, RandomNetwork, join


class AveragedEnsemble(Ensemble):
    """The mean of ensembles on the same columns."""

    def __init__(self, ensembles: Sequence[Ensemble]) -> None:
        self.ensembles = list(ensembles)

    def predict(self, table: Table) -> Array:
        """Return the mean of the scores; see :meth:`Ensemble.predict`."""
        return np.mean([one.predict(table) for one in self.ensembles], axis=0)

    def importances(self) -> Array:
        """Return the mean of the importances; see :meth:`Ensemble.importances`."""
        return np.mean([one.importances() for one in self.ensembles], axis=0)

    def contributions(self, table: Table) -> Array | None:
        """Return the mean of the TreeSHAP values; see :meth:`Ensemble.contributions`."""
        parts = [one.contributions(table) for one in self.ensembles]
        known = [part for part in parts if part is not None]
        return np.mean(known, axis=0) if len(known) == len(parts) else None

    def files(self) -> dict[str, bytes]:
        """Return the files of all ensembles, each with its number before the name."""
        return {
            f"{number}-{name}": content
            for number, one in enumerate(self.ensembles)
            for name, content in one.files().items()
        }

    def check(self, n_columns: int, n_outputs: int, categories: Mapping[int, int]) -> None:
        """Check each ensemble; see :meth:`Ensemble.check`."""
        for one in self.ensembles:
            one.check(n_columns, n_outputs, categories)


def average(ensembles: Sequence[Ensemble]) -> Ensemble:
    """Return the mean of ensembles; of one library's, one ensemble with the trees of all."""
    texts = [one.weighted_text for one in ensembles if isinstance(one, LightGBMEnsemble)]
    if len(ensembles) == 1:
        return ensembles[0]
    if len(texts) == len(ensembles):
        return LightGBMEnsemble(*joined_text(texts, 1.0 / len(texts)))
    networks = [one for one in ensembles if isinstance(one, NetworkEnsemble)]
    joined = None
    if len(networks) == len(ensembles):
        joined = join(networks, 1.0 / len(networks))
    return joined or AveragedEnsemble(ensembles)


def add(one: Ensemble, other: Ensemble) -> Ensemble:
    """Return the sum of two ensembles of LightGBM."""
    texts = [part.weighted_text for part in (one, other) if isinstance(part, LightGBMEnsemble)]
    return LightGBMEnsemble(*joined_text(texts, 1.0))


def load_ensemble(learner: Learner, files: dict[str, bytes]) -> Ensemble:
    """Return the ensemble in a model file; see :meth:`Learner.load`.

    A model of trees may have members that are networks.
    """
    numbers = {name.partition("-")[0] for name in files if name.partition("-")[0].isdecimal()}
    if not numbers:
        is_network = "network-weights.npy" in files
        return (RandomNetwork if is_network else learner).load(files)
    parts: list[dict[str, bytes]] = []
    for prefix in (f"{number}-" for number in sorted(numbers, key=int)):
        own = [name for name in files if name.startswith(prefix)]
        parts.append({name.removeprefix(prefix): files[name] for name in own})
    return AveragedEnsemble([load_ensemble(learner, part) for part in parts])

"""What regressor and classifier share of ``fit``: checks what it is given, sets the parts to work, keeps what they found."""

import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from numbers import Integral
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone, is_classifier
from sklearn.model_selection import train_test_split
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_feature_names

from ebboost.backends.dask import Cluster, gathered, is_dask
from ebboost.backends.devices import Cpu, as_device
from ebboost.boosting.callbacks import (
    Callback,
    EarlyStopping,
    History,
    Interrupt,
    ProgressBar,
    RoundInfo,
)
from ebboost.boosting.label_use import objective_for
from ebboost.boosting.latent_field import LatentField
from ebboost.boosting.loop import Boosting, boost
from ebboost.boosting.losses import Loss, SquaredError
from ebboost.boosting.masked_labels import MaskedLabels
from ebboost.boosting.momentum import Momentum, as_momentum
from ebboost.boosting.objective import Objective
from ebboost.data import validation as checks
from ebboost.data.features import NeighborFeatures
from ebboost.data.labels import Labels
from ebboost.data.pipeline import FeaturePipeline
from ebboost.data.reader import TableReader
from ebboost.data.table import Table
from ebboost.estimators._fitted import Fitted, named
from ebboost.graph import Graphs, check_strengths
from ebboost.learners import TreeGrower
from ebboost.model.environment import environment
from ebboost.propagation import Propagation, Smoother, threads
from ebboost.training import selection as choosing
from ebboost.training.checkpoint import (
    Checkpoint,
    CheckpointCallback,
    checkpoint_session,
    describe_parameters,
    fingerprint_of,
)
from ebboost.training.selection import Candidate

Array = NDArray[np.float64]
MIN_LABELS_TO_HOLD_OUT = 50
FOLDS = 5
ROUNDS_FOR_FEW = 50
LABEL_USES: dict[str, Any] = {
    "none": None,
    "field": LatentField(),
    "leave-one-out": LatentField(leave_one_out=True),
    "masked": MaskedLabels(),
}


@dataclass
class _Prepared:
    """What the trees of a choice see, binned."""

    choice: Candidate
    preparation: FeaturePipeline
    seen: Table
    growing: TreeGrower


@dataclass
class _Entrant(_Prepared):
    """One choice, made ready to train."""

    smoother: Propagation
    objective: Objective
    boosting: Boosting


class _Lineup(Mapping[str, tuple[Objective, Boosting]]):
    """The entrants of a race: made when their turn comes, dropped when they have lost, but for what others share."""

    def __init__(
        self,
        choices: Iterable[Candidate],
        make: Callable[[Candidate, Sequence[_Prepared]], _Entrant],
    ) -> None:
        self._choices, self._make = {choice.name: choice for choice in choices}, make
        self._made: dict[str, _Entrant] = {}
        self._prepared: list[_Prepared] = []

    def entrant(self, name: str) -> _Entrant:
        """Return one of them."""
        if name not in self._made:
            made = self._made[name] = self._make(self._choices[name], self._prepared)
            self._prepared.append(_Prepared(made.choice, made.preparation, made.seen, made.growing))
        return self._made[name]

    def lost(self, name: str) -> None:
        """Drop one of them."""
        self._made.pop(name).growing.free()

    def __getitem__(self, name: str) -> tuple[Objective, Boosting]:
        entrant = self.entrant(name)
        return entrant.objective, entrant.boosting

    def __contains__(self, name: object) -> bool:
        return name in self._choices

    def __iter__(self) -> Iterator[str]:
        return iter(self._choices)

    def __len__(self) -> int:
        return len(self._choices)


def _has_state(callback: Callback) -> bool:
    """Whether a checkpoint keeps something of it."""
    return type(callback).state is not Callback.state


class BaseEBBS(Fitted):
    """Everything but the meaning of y."""

    #: The other workers, while a worker of a cluster trains.
    _peers: Any = None

    def __init__(
        self,
        n_estimators: int = 1000,
        learning_rate: float | None = None,
        *,
        smoothing: Smoother | str | None = "auto",
        labels: LatentField | MaskedLabels | str = "auto",
        neighbor_features: NeighborFeatures | str | None = "auto",
        feature_smoothing: Smoother | str | None = "auto",
        relations: Mapping[str, float] | str = "auto",
        learner: Any = "lightgbm",
        loss: Loss | str = "auto",
        momentum: Momentum | str | bool = False,
        penalty: float = 0.0,
        early_stopping: bool = True,
        validation_fraction: float = 0.1,
        n_iter_no_change: int | None = None,
        categorical_features: Any = "auto",
        device: str = "cpu",
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_estimators = n_estimators
        self.learning_rate = learning_rate
        self.smoothing = smoothing
        self.labels = labels
        self.neighbor_features = neighbor_features
        self.feature_smoothing = feature_smoothing
        self.relations = relations
        self.learner = learner
        self.loss = loss
        self.momentum = momentum
        self.penalty = penalty
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.categorical_features = categorical_features
        self.device = device
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @classmethod
    def from_preset(cls, name: str, **changes: Any) -> Self:
        """Return an estimator with settings made for a purpose, changed where you say so.

        Parameters
        ----------
        name : {"paper"}
            ``"paper"``: the settings of the published experiments, with CatBoost's trees.
        **changes
            Constructor parameters to set otherwise.

        Examples
        --------
        >>> import ebboost as eb
        >>> eb.EBBSRegressor.from_preset("paper", n_estimators=200).labels
        MaskedLabels(from_zero=True)
        """
        if name != "paper":
            raise ValueError(f"There is no preset {name!r}; there is 'paper'.")
        return cls(**cls._paper() | changes)

    # ------------------------------------------------------------------ fit

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        graph: Graphs | None = None,
        nodes: Any = None,
        eval_set: tuple[Any, Any] | None = None,
        callbacks: Sequence[Callback] = (),
        checkpoint: str | os.PathLike[str] | Checkpoint | None = None,
        resume: bool = False,
    ) -> Self:
        """Train on a table whose rows are the nodes of ``graph``.

        Ctrl-C ends the training after the round at hand with a model that can be used, and a warning; a second one raises
        KeyboardInterrupt at once. A fit that raises leaves the estimator as it was.

        Parameters
        ----------
        X : dataframe, array, sparse matrix or ParquetTable of shape (n_nodes, n_features)
            Every node, labelled or not: row i is node i of the graph. A Dask dataframe or array is trained on where it lies,
            by all workers of the current ``distributed.Client`` that have rows of it; needs ``learner="xgboost"``.
        y : array-like
            Labels: of every row, with NaN or None where unknown; or of the rows in ``nodes``.
        sample_weight : array-like, optional
            A weight for each entry of ``y``; a node of weight 0 counts as unlabelled.
        graph : Graph or dict of Graph, optional
            Which rows influence each other; several relations by name, each with a strength (see ``relations``). Without
            it this is plain gradient boosting.
        nodes : array-like of int or bool, optional
            The rows that ``y`` speaks of.
        eval_set : (nodes, y), optional
            Labelled nodes that are not trained on, to choose and to stop on. Without it, and if ``early_stopping``, a
            share ``validation_fraction`` of the labelled nodes is held out once there are 50 of them.
        callbacks : sequence of Callback, optional
            On a cluster they run in one of the workers, and what they have noted comes back.
        checkpoint : path or Checkpoint, optional
            A folder of this fit's own, in which what is needed to resume it is kept every 30 seconds, or as often as
            ``eb.Checkpoint`` says.
        resume : bool, default=False
            Go on from the newest checkpoint in that folder, or from the beginning where there is none. The model is, bit for
            bit, the one that the same fit would have found undisturbed, with as many threads. Other data or parameters are
            refused. On a cluster the first worker writes, in a folder that all of them can see.

        Returns
        -------
        self
        """
        before = self.__dict__.copy()
        try:
            checks.parameters(self)
            cluster = Cluster(X, self.learner, checkpoint, resume) if is_dask(X) else None
            with checkpoint_session(
                *(checkpoint, resume) if cluster is None else (None, False)
            ) as keeper:
                return self._fit(
                    X, y, sample_weight, graph, nodes, eval_set, callbacks, keeper, cluster
                )
        except BaseException:
            self.__dict__ = before
            raise

    def _fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any,
        graph: Graphs | None,
        nodes: Any,
        eval_set: tuple[Any, Any] | None,
        callbacks: Sequence[Callback],
        keeper: CheckpointCallback | None,
        cluster: Cluster | None,
    ) -> Self:
        callbacks = checks.callback_list(callbacks)
        self._reader = TableReader(self.categorical_features)
        if cluster is not None:
            X, table = cluster.columns, cluster.outline
        else:
            table, self.cluster_ = self._reader.fit(X), None
        y, sample_weight, nodes, eval_set = gathered(y, sample_weight, nodes, eval_set)
        _check_feature_names(self, named(X), reset=True)
        self.n_features_in_ = len(table.names)
        checks.check_graph(graph, table.n_rows, X)
        checks.check_label_order(X, y)
        seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        if keeper is not None and not isinstance(
            self.random_state, Integral
        ):  # another would be drawn each time
            seed = keeper.seed(seed)
        training, validation = self._labels(y, nodes, eval_set, sample_weight, table.n_rows, seed)
        self.relation_strengths_ = self._strengths(graph, training)
        self.graph_, self.loss_ = self._one_graph(graph), self._loss(training)
        keeps = keeper is not None or (cluster is not None and cluster.keeps)
        fingerprint = (
            self._fingerprint(table, training, validation, seed, callbacks) if keeps else {}
        )
        if keeper is not None:
            keeper.same(fingerprint)
        self._environment = environment(self._threads(table))
        with threads(self._threads(table)), as_device("cpu" if cluster else self.device) as device:
            if cluster is None:
                out_of_fold = self._train(
                    table, training, validation, seed, callbacks, keeper, device
                )
            else:
                out_of_fold = cluster.train(
                    self, training, validation, seed, callbacks, fingerprint
                )
            self._training, self._device = training, device
            self._learn_from_held_out(validation, out_of_fold)
            self._keep_validation(validation)
            if (
                validation is not None and eval_set is None
            ):  # held out to choose and stop, but given to be used
                self._training = training.concat(self._held_back)
                del self._held_back
                self.raw_predictions_ = self._predicted_fitted_nodes()
            del self._device
        return self

    def _train(
        self,
        table: Table,
        training: Labels,
        validation: Labels | None,
        seed: int,
        callbacks: Sequence[Callback],
        keeper: CheckpointCallback | None,
        device: Cpu,
    ) -> Array | None:
        """Choose how to use the graph, boost, keep what was found; returns predictions of each label without it, if any."""
        n_labelled, interrupt, history = training.nodes.size, Interrupt(), History()
        watchers: list[Callback] = [history, *callbacks]
        if self.early_stopping and validation is not None:
            watchers.append(self._stopping(n_labelled))
        if self.verbose:
            watchers.append(ProgressBar())
        choices = choosing.choices(
            self._asked(training), self.graph_, training, is_classifier(self), table
        )
        self.selection_: dict[str, float] = {}
        out_of_fold: Array | None = None
        states: list[dict[str, Any]] = []
        done: list[RoundInfo] = []
        if keeper is not None and keeper.choice is not None:
            (choice,) = (choice for choice in choices if choice.name == keeper.choice)
            entrant = self._entrant(choice, table, training, validation, seed, device)
            kept = keeper.loaded(entrant.objective)
            entrant.boosting.restore(kept["boosting"])
            self.selection_, told = kept["race"], iter(kept["callbacks"])
            out_of_fold = (
                None if kept["out_of_fold"] is None else device.to_host(kept["out_of_fold"])
            )
            states = [next(told) if _has_state(watcher) else {} for watcher in watchers]
        else:
            lineup = _Lineup(
                choices,
                lambda choice, made: self._entrant(
                    choice, table, training, validation, seed, device, made
                ),
            )
            if keeper is not None:
                keeper.check(lineup.entrant(choices[0].name).growing.state())
            winner, done = self._winner(
                lineup, table, training, validation, interrupt, bool(callbacks)
            )
            entrant = lineup.entrant(winner)
            del lineup
            if (
                interrupt.is_set
            ):  # who would have won the whole race is not known: it is to be run again
                keeper = None
            if self.early_stopping and validation is None:
                cross_fitted = self._cross_fitted(entrant.choice, table, training, seed, device)
                entrant.boosting.n_rounds, out_of_fold = cross_fitted
        if keeper is not None:
            keeper.interrupt = interrupt
            keeper.collect = lambda: {
                "choice": entrant.choice.name,
                "race": self.selection_,
                "out_of_fold": out_of_fold,
                "boosting": entrant.boosting.state(),
                "callbacks": [watcher.state() for watcher in watchers if _has_state(watcher)],
            }
        with interrupt:
            after = [interrupt] if keeper is None else [keeper, interrupt]
            found = boost(entrant.boosting, watchers, done, after=after, states=states)
        if interrupt.is_set:
            going_on = "" if keeper is None else f" resume=True goes on from {keeper.folder}."
            warnings.warn(
                f"fit was interrupted after round {entrant.boosting.n_done}: the model is the best of the rounds run."
                + going_on,
                stacklevel=4,
            )
        self.best_candidate_ = entrant.choice.name
        self.smoothing_, self.labels_ = entrant.choice.smoothing, entrant.choice.labels
        self.ensemble_ = entrant.growing.compile(found.best.weights)
        self.init_score_ = device.to_host(entrant.objective.init_score)
        self.scores_ = device.to_host(found.best.scores)
        self.n_iter_ = found.n_rounds
        self.history_ = history.losses
        self.stop_reason_ = interrupt.reason if interrupt.is_set else found.stop_reason
        self._preparation, self._column_origin = entrant.preparation, entrant.seen.origin
        # A table in files stays there: what needs it later asks for it, as of a model that was loaded.
        self._fitted_table, self._from_disk = None if table.on_disk else table, table.on_disk
        self._fitted_columns = (
            entrant.seen.materialize() if entrant.preparation.encoder is not None else None
        )
        self.propagated_scores_ = device.to_host(entrant.smoother.apply(found.best.scores))
        return out_of_fold

    def _winner(
        self,
        lineup: _Lineup,
        table: Table,
        training: Labels,
        validation: Labels | None,
        interrupt: Interrupt,
        watched: bool,
    ) -> tuple[str, list[RoundInfo]]:
        """The way of using the graph to go on with, and its rounds in the race, with all models if others watch them."""
        winner, done, n_labelled = next(iter(lineup)), list[RoundInfo](), training.nodes.size
        if len(lineup) > 1 and validation is not None:
            lineup.entrant(winner)  # while Ctrl-C still raises at once
            n_scores = table.n_rows * training.target.shape[1]
            stages = choosing.sized_stages(is_classifier(self), n_labelled, n_scores)
            stages = [min(rounds, self.n_estimators) for rounds in stages]
            stopping = (
                partial(self._stopping, n_labelled) if self.early_stopping and not watched else None
            )
            with interrupt:
                winner, done, self.selection_ = choosing.race(
                    lineup, stages, lambda: interrupt.is_set, stopping, lineup.lost
                )
        elif (
            "graph" in lineup
        ):  # nothing to compare on: let the labels say whether neighbours are alike
            alike = choosing.label_correlation(self.graph_, training) > 2.0 / np.sqrt(n_labelled)  # type: ignore[arg-type]
            winner = "graph" if alike else winner
        return winner, done

    def _fingerprint(
        self,
        table: Table,
        training: Labels,
        validation: Labels | None,
        seed: int,
        callbacks: Sequence[Callback],
    ) -> dict[str, Any]:
        """What two fits must share for one to go on where the other was left."""
        told = {
            name: describe_parameters(value) for name, value in self.get_params(deep=False).items()
        }
        for name in ("n_jobs", "random_state", "verbose"):
            del told[name]
        held = (
            () if validation is None else (validation.nodes, validation.target, validation.weight)
        )
        categories = [
            part
            for column in sorted(self._reader.categories)
            for part in (column, self._reader.categories[column])
        ]
        return {
            "estimator": type(self).__name__,
            "X": fingerprint_of(
                *(fingerprint_of(block.values) for block in table.blocks()),
                table.names,
                *categories,
            ),
            "y": fingerprint_of(
                training.nodes,
                training.target,
                training.weight,
                *held,
                getattr(self, "classes_", ()),
            ),
            "graph": None if self.graph_ is None else fingerprint_of(self.graph_.adjacency),
            "random_state": seed,
            "n_jobs": self._threads(table),
            "callbacks": [
                describe_parameters(callback) for callback in callbacks if _has_state(callback)
            ],
            "parameters": told,
        }

    def _keep_validation(self, validation: Labels | None) -> None:
        """What was held out, and what was predicted there before any of it was used."""
        nothing = np.zeros((0, self.raw_predictions_.shape[1]))
        self.validation_nodes_, self.validation_target_ = (
            np.zeros(0, dtype=np.int64),
            nothing[:, :1],
        )
        self.validation_prediction_ = nothing
        if validation is not None:
            self.validation_nodes_, self.validation_target_ = validation.nodes, validation.target
            self.validation_prediction_ = self.raw_predictions_[validation.nodes]

    def _strengths(self, graph: Graphs | None, training: Labels) -> dict[str, float] | None:
        """What each relation's weights are multiplied by, as given or read off the labels; None for a single graph."""
        if not isinstance(graph, Mapping):
            if self.relations != "auto":
                raise ValueError(
                    f"relations={self.relations!r} gives strengths, but graph is not a dict of relations: pass "
                    'graph={"name": graph, …}.'
                )
            return None
        if isinstance(self.relations, str):
            return choosing.relation_strengths(graph, training)
        check_strengths(self.relations, graph)
        return {name: float(self.relations[name]) for name in graph}

    def _stopping(self, n_labelled: int) -> EarlyStopping:
        if self.n_iter_no_change is not None:
            return EarlyStopping(self.n_iter_no_change)
        stopping = choosing.sized_stopping(is_classifier(self), n_labelled)
        if (
            type(self.loss_) is not SquaredError
        ):  # of other losses, a share says little: some have no natural zero
            stopping.min_improvement = 0.0
        return stopping

    def _cross_fitted(
        self, choice: Candidate, table: Table, training: Labels, seed: int, device: Cpu
    ) -> tuple[int, Array | None]:
        """Where labels are too few to hold any out: rounds, and predictions of each label without it, from 5 folds."""
        n_labelled = training.nodes.size
        if n_labelled < 2 * FOLDS:
            return min(self.n_estimators, ROUNDS_FOR_FEW), None
        fold = np.random.default_rng(seed).permutation(n_labelled) % FOLDS
        predicted, rounds = np.zeros_like(training.target), []
        for number in range(FOLDS):
            held = training.subset(fold == number)
            entrant = self._entrant(
                choice, table, training.subset(fold != number), held, seed, device
            )
            found = boost(entrant.boosting, [self._stopping(n_labelled)])
            rounds.append(found.n_rounds)
            predicted[fold == number] = device.to_host(entrant.objective.predict(found.best))[
                held.nodes
            ]
        return max(int(np.median(rounds)), 1), predicted

    def _labels(
        self, y: Any, nodes: Any, eval_set: Any, sample_weight: Any, n_rows: int, seed: int
    ) -> tuple[Labels, Labels | None]:
        """Split what is known into labels to train on and labels to stop on."""
        known, values, weight = checks.labelled_nodes(
            y, nodes, sample_weight, n_rows, is_classifier(self), type(self).__name__
        )
        self._learn_classes(values)
        validation = None
        weighted = weight * self._class_weight(values)
        if eval_set is not None:
            held_nodes, held_values = checks.extra_labels(
                eval_set, known, n_rows, is_classifier(self)
            )
            validation = Labels(
                held_nodes, self._target(held_values, "eval_set"), np.ones(held_nodes.size)
            )
        elif self.early_stopping and known.size >= MIN_LABELS_TO_HOLD_OUT:
            train, held = self._held_out(values, seed)
            validation = Labels(known[held], self._target(values[held], "y"), weight[held])
            self._held_back = Labels(known[held], validation.target, weighted[held])
            known, values, weighted = known[train], values[train], weighted[train]
        return Labels(known, self._target(values, "y"), weighted), validation

    def _held_out(
        self, values: NDArray[Any], seed: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        everyone = np.arange(values.size)
        if not 1 <= round(self.validation_fraction * values.size) <= values.size - 10:
            raise ValueError(
                f"validation_fraction={self.validation_fraction} leaves too few of {values.size} labels to train or to "
                "validate on: use something like 0.1, or early_stopping=False."
            )
        train, held = train_test_split(
            everyone,
            test_size=self.validation_fraction,
            random_state=seed,
            stratify=self._strata(values),
        )
        return np.sort(train), np.sort(held)

    def _asked(self, training: Labels) -> dict[str, Any]:
        """What the user says of the graph: parts, or "auto"."""
        asked = {
            "smoothing": checks.part(self.smoothing, "smoothing", Smoother, "eb.Laplacian(lam=2.0)")
        }
        if isinstance(asked["smoothing"], Smoother):
            spread = partial(self.loss_.label_scale, training.target, training.weight)
            asked["smoothing"] = asked["smoothing"].prepared(spread)
        asked["labels"] = self._label_use()
        for name, kind, example in (
            ("neighbor_features", NeighborFeatures, "eb.NeighborFeatures()"),
            ("feature_smoothing", Smoother, "eb.Laplacian(20.0, 5)"),
        ):
            asked[name] = checks.part(getattr(self, name), name, kind, example)
            if not getattr(asked[name], "linear", True):
                raise ValueError(
                    f"{name}={asked[name]!r} goes by differences of scores, and columns are none: use {example}."
                )
            if asked[name] == "auto" and "auto" not in (asked["smoothing"], asked["labels"]):
                asked[name] = None
        return asked

    def _label_use(self) -> Any:
        use: LatentField | MaskedLabels | None
        if isinstance(self.labels, (LatentField, MaskedLabels)):
            use = self.labels
        elif isinstance(self.labels, str) and self.labels in LABEL_USES:
            use = clone(LABEL_USES[self.labels]) if LABEL_USES[self.labels] is not None else None
        elif isinstance(self.labels, str) and self.labels == "auto":
            # The field is a quadratic form of errors: with another loss it has no closed form.
            return "auto" if is_classifier(self) or type(self.loss_) is SquaredError else None
        else:
            raise ValueError(
                f"labels must be 'auto', one of {sorted(LABEL_USES)}, "
                f"eb.LatentField(...) or eb.MaskedLabels(...), got {self.labels!r}."
            )
        if use is not None and not is_classifier(self) and type(self.loss_) is not SquaredError:
            raise ValueError(
                f"labels={self.labels!r} needs loss='squared_error'; with {self.loss_!r} use labels='none'."
            )
        if isinstance(use, MaskedLabels) and is_classifier(self):
            raise ValueError(
                "labels='masked' is for regression; a classifier takes 'field', 'none' or 'auto'."
            )
        if isinstance(use, MaskedLabels) and self.penalty:
            raise ValueError(
                "penalty has no part in the published objective: leave it at 0 with labels='masked'."
            )
        if isinstance(use, MaskedLabels) and not 0.0 < use.share < 1.0:
            raise ValueError(f"MaskedLabels's share must lie between 0 and 1, got {use.share!r}.")
        return use

    def _entrant(
        self,
        choice: Candidate,
        table: Table,
        training: Labels,
        validation: Labels | None,
        seed: int,
        device: Cpu,
        others: Sequence[_Prepared] = (),
    ) -> _Entrant:
        """Prepare the table, bin it and set up the objective for one choice; what another one has prepared, it shares."""
        classes, n_labelled = is_classifier(self), training.nodes.size
        learner = choosing.sized_learner(self.learner, n_labelled, choice, classes)
        if table.on_disk and not learner.takes_blocks:
            raise ValueError(
                f"X is a ParquetTable, which learner={learner.name!r} cannot read a block at a time: use 'lightgbm' or "
                "'xgboost', or pass a dataframe."
            )
        alike = next((other for other in others if other.choice.prepares_like(choice)), None)
        preparation = choice.preparation() if alike is None else alike.preparation
        growing, seen = None, None
        if alike is not None:
            seen, growing = alike.seen, alike.growing.clone_with_shared_bins()
        if seen is None:
            seen = preparation.fit(table, self.graph_, training, learner.takes_categories, seed)
            seen = seen if learner.same_from_blocks else seen.materialize()
        n_outputs = training.target.shape[1]
        device.expect(choice.name, seen.n_rows, len(seen.names), n_outputs)
        graph, known, held = (
            device.graph(self.graph_),
            device.labels(training),
            device.labels(validation),
        )
        smoother = self._operator(choice.smoothing, graph, table.n_rows)
        objective = objective_for(
            choice.labels, graph, smoother, self.loss_, known, held, self.penalty, seed
        )
        if self._peers is not None:
            objective = self._peers.rank0_objective(objective)
        growing = growing or learner.start(
            seen, n_outputs=n_outputs, seed=seed, n_jobs=self._threads(seen), device=self.device
        )
        seen.release()  # what is binned is hardly asked for again
        boosting = Boosting(
            objective,
            growing,
            n_rounds=self.n_estimators,
            learning_rate=self.learning_rate
            or choosing.sized_rate(classes, n_labelled, table.is_sparse),
            momentum=as_momentum(self.momentum),
        )
        return _Entrant(choice, preparation, seen, growing, smoother, objective, boosting)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        return tags

    # ------------------------------------------------------------------ what y means: defined by the two below

    _paper: Any
    _learn_classes: Any
    _target: Any
    _loss: Any
    _learn_from_held_out: Any
    _predicted_fitted_nodes: Any
    _finished: Any
    _said: Any
    _heard: Any
    _summary_lines: Any
    _explained_scores: Any

    def _strata(self, values: NDArray[Any]) -> NDArray[Any] | None:
        return None

    def _class_weight(self, values: NDArray[Any]) -> Array | float:
        return 1.0

"""What regressor and classifier share: checks what the user hands over, sets the parts to work, keeps what they found."""

import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from html import escape
from numbers import Integral
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.model_selection import train_test_split
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_feature_names, check_is_fitted

from ebbflow import checks, choosing, cores, modelfile
from ebbflow.boosting import Boosting, boost
from ebbflow.callbacks import Callback, EarlyStopping, History, Interrupt, Progress, ProgressBar
from ebbflow.checkpoint import Checkpoint, Keeper, described, fingerprint_of, keeping
from ebbflow.choosing import Choice
from ebbflow.devices import Cpu, as_device
from ebbflow.distributed import Cluster, gathered, is_dask, scores_of
from ebbflow.estimators._predictor import Predictor
from ebbflow.explaining import Explanation, explain
from ebbflow.features import NeighborFeatures
from ebbflow.graph import Graph, Graphs, check_strengths
from ebbflow.labels import Field, FieldOperator, Masked, objective_for
from ebbflow.learners import Growing
from ebbflow.losses import Loss, SquaredError
from ebbflow.momentum import Momentum, as_momentum
from ebbflow.objective import Labels, Objective
from ebbflow.preparation import Preparation
from ebbflow.smoothing import EdgeWeights, IdentityOperator, Propagation, Robust, Smoother, threads
from ebbflow.table import ParquetTable, Table, TableReader, count_rows, rows_of

Array = NDArray[np.float64]
MIN_LABELS_TO_HOLD_OUT = 50
FOLDS = 5
ONE_THREAD_UP_TO = 4_000_000  # entries of a table
ROUNDS_FOR_FEW = 50
LABEL_USES: dict[str, Any] = {
    "none": None,
    "field": Field(),
    "leave-one-out": Field(left_out=True),
    "masked": Masked(),
}


@dataclass
class _Entrant:
    """One choice, made ready to train."""

    choice: Choice
    preparation: Preparation
    seen: Table
    smoother: Propagation
    objective: Objective
    growing: Growing
    boosting: Boosting


def _has_state(callback: Callback) -> bool:
    """Whether a checkpoint keeps something of it."""
    return type(callback).state is not Callback.state


class BaseEBBS(BaseEstimator):
    """Everything but the meaning of y."""

    #: The other workers, while a worker of a cluster trains.
    _peers: Any = None

    def __init__(
        self,
        n_estimators: int = 1000,
        learning_rate: float | None = None,
        *,
        smoothing: Smoother | str | None = "auto",
        labels: Field | Masked | str = "auto",
        neighbor_features: NeighborFeatures | str | None = "auto",
        feature_smoothing: Smoother | str | None = "auto",
        relations: Mapping[str, float] | str = "auto",
        learner: Any = "lightgbm",
        loss: Loss | str = "auto",
        momentum: Momentum | str | bool = False,
        penalty: float = 0.0,
        early_stopping: bool = True,
        validation_fraction: float = 0.1,
        patience: int | None = None,
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
        self.patience = patience
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
        >>> import ebbflow as eb
        >>> eb.EBBSRegressor.from_preset("paper", n_estimators=200).labels
        Masked(from_zero=True)
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
            with keeping(*(checkpoint, resume) if cluster is None else (None, False)) as keeper:
                return self._fit(X, y, sample_weight, graph, nodes, eval_set, callbacks, keeper, cluster)
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
        keeper: Keeper | None,
        cluster: Cluster | None,
    ) -> Self:
        self._reader = TableReader(self.categorical_features)
        if cluster is not None:
            X, table = cluster.columns, cluster.outline
        else:
            table, self.cluster_ = self._reader.fit(X), None
        y, sample_weight, nodes, eval_set = gathered(y, sample_weight, nodes, eval_set)
        _check_feature_names(self, _named(X), reset=True)
        self.n_features_in_ = len(table.names)
        checks.graph_fits(graph, table.n_rows, X)
        checks.same_order(X, y)
        seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        if keeper is not None and not isinstance(self.random_state, Integral):  # another would be drawn each time
            seed = keeper.seed(seed)
        training, validation = self._labels(y, nodes, eval_set, sample_weight, table.n_rows, seed)
        self.relation_strengths_ = self._strengths(graph, training)
        self.graph_, self.loss_ = self._one_graph(graph), self._loss(training)
        if keeper is not None:
            keeper.same(self._fingerprint(table, training, validation, seed, callbacks))
        self._environment = modelfile.environment(self._threads(table))
        with threads(self._threads(table)):
            if cluster is None:
                with as_device(self.device) as device:
                    out_of_fold = self._train(table, training, validation, seed, callbacks, keeper, device)
            else:
                fingerprint = self._fingerprint(table, training, validation, seed, callbacks) if cluster.keeps else {}
                out_of_fold = cluster.train(self, training, validation, seed, callbacks, fingerprint)
            self._training = training
            self._learn_from_held_out(validation, out_of_fold)
            self._keep_validation(validation)
        if validation is not None and eval_set is None:  # held out to choose and stop, but given to be used
            self._training = training.joined(self._held_back)
            del self._held_back
            self.predicted_ = self._predicted_fitted_nodes()
        return self

    def _train(
        self,
        table: Table,
        training: Labels,
        validation: Labels | None,
        seed: int,
        callbacks: Sequence[Callback],
        keeper: Keeper | None,
        device: Cpu,
    ) -> Array | None:
        """Choose how to use the graph, boost, keep what was found; returns predictions of each label without it, if any."""
        n_labelled, interrupt, history = training.nodes.size, Interrupt(), History()
        watchers: list[Callback] = [history, *checks.callback_list(callbacks)]
        if self.early_stopping and validation is not None:
            watchers.append(self._stopping(n_labelled))
        if self.verbose:
            watchers.append(ProgressBar())
        choices = choosing.choices(self._asked(training), self.graph_, training, is_classifier(self), table)
        self.race_: dict[str, float] = {}
        out_of_fold: Array | None = None
        states: list[dict[str, Any]] = []
        done: list[Progress] = []
        if keeper is not None and keeper.choice is not None:
            (choice,) = (choice for choice in choices if choice.name == keeper.choice)
            entrant = self._entrant(choice, table, training, validation, seed, device)
            kept = keeper.loaded(entrant.objective)
            entrant.boosting.restore(kept["boosting"])
            self.race_, out_of_fold, told = kept["race"], kept["out_of_fold"], iter(kept["callbacks"])
            states = [next(told) if _has_state(watcher) else {} for watcher in watchers]
        else:
            entrants: dict[str, _Entrant] = {}
            for choice in choices:
                entrants[choice.name] = self._entrant(
                    choice, table, training, validation, seed, device, entrants.values()
                )
            if keeper is not None:
                keeper.check(next(iter(entrants.values())).growing.state())
            with interrupt:
                winner, done = self._winner(entrants, table, training, validation, interrupt)
            entrant = entrants[winner]
            del entrants
            if interrupt.asked:  # who would have won the whole race is not known: it is to be run again
                keeper = None
            if self.early_stopping and validation is None:
                cross_fitted = self._cross_fitted(entrant.choice, table, training, seed, device)
                entrant.boosting.n_rounds, out_of_fold = cross_fitted
        if keeper is not None:
            keeper.interrupt = interrupt
            keeper.collect = lambda: {
                "choice": entrant.choice.name, "race": self.race_, "out_of_fold": out_of_fold,
                "boosting": entrant.boosting.state(),
                "callbacks": [watcher.state() for watcher in watchers if _has_state(watcher)],
            }  # fmt: skip
        with interrupt:
            after = [interrupt] if keeper is None else [keeper, interrupt]
            found = boost(entrant.boosting, watchers, done, after=after, states=states)
        if interrupt.asked:
            going_on = "" if keeper is None else f" resume=True goes on from {keeper.folder}."
            warnings.warn(
                f"fit was interrupted after round {entrant.boosting.n_done}: the model is the best of the rounds run."
                + going_on,
                stacklevel=4,
            )
        self.choice_ = entrant.choice.name
        self.smoothing_, self.labels_ = entrant.choice.smoothing, entrant.choice.labels
        self.ensemble_ = entrant.growing.compile(found.best.weights)
        self.base_ = device.host(entrant.objective.base)
        self.scores_ = device.host(found.best.scores)
        self.n_iter_ = found.n_rounds
        self.history_ = history.losses
        self.stopped_because_ = interrupt.reason if interrupt.asked else found.stopped_because
        self._preparation, self._column_origin = entrant.preparation, entrant.seen.origin
        # A table in files stays there: what needs it later asks for it, as of a model that was loaded.
        self._fitted_table, self._from_disk = None if table.on_disk else table, table.on_disk
        self._fitted_columns = entrant.seen if entrant.preparation.encoder is not None else None
        self.smoothed_ = device.host(entrant.smoother.apply(found.best.scores))
        return out_of_fold

    def _winner(
        self,
        entrants: Mapping[str, _Entrant],
        table: Table,
        training: Labels,
        validation: Labels | None,
        interrupt: Interrupt,
    ) -> tuple[str, list[Progress]]:
        """The way of using the graph to go on with, and its rounds in the race."""
        winner, done, n_labelled = next(iter(entrants)), list[Progress](), training.nodes.size
        if len(entrants) > 1 and validation is not None:
            racing = {name: (entrant.objective, entrant.boosting) for name, entrant in entrants.items()}
            n_scores = table.n_rows * training.target.shape[1]
            stages = choosing.sized_stages(is_classifier(self), n_labelled, n_scores)
            stages = [min(rounds, self.n_estimators) for rounds in stages]
            winner, done, self.race_ = choosing.race(racing, stages, lambda: interrupt.asked)
        elif "graph" in entrants:  # nothing to compare on: let the labels say whether neighbours are alike
            alike = choosing.label_correlation(self.graph_, training) > 2.0 / np.sqrt(n_labelled)  # type: ignore[arg-type]
            winner = "graph" if alike else winner
        return winner, done

    def _fingerprint(
        self, table: Table, training: Labels, validation: Labels | None, seed: int, callbacks: Sequence[Callback]
    ) -> dict[str, Any]:
        """What two fits must share for one to go on where the other was left."""
        told = {name: described(value) for name, value in self.get_params(deep=False).items()}
        for name in ("n_jobs", "random_state", "verbose"):
            del told[name]
        held = () if validation is None else (validation.nodes, validation.target, validation.weight)
        categories = [
            part for column in sorted(self._reader.categories) for part in (column, self._reader.categories[column])
        ]
        return {
            "estimator": type(self).__name__,
            "X": fingerprint_of([fingerprint_of(block.values) for block in table.blocks()], table.names, *categories),
            "y": fingerprint_of(training.nodes, training.target, training.weight, *held, getattr(self, "classes_", ())),
            "graph": None if self.graph_ is None else fingerprint_of(self.graph_.adjacency),
            "random_state": seed,
            "n_jobs": self._threads(table),
            "callbacks": [described(callback) for callback in callbacks if _has_state(callback)],
            "parameters": told,
        }

    def _keep_validation(self, validation: Labels | None) -> None:
        """What was held out, and what was predicted there before any of it was used."""
        nothing = np.zeros((0, self.predicted_.shape[1]))
        self.validation_nodes_, self.validation_target_ = np.zeros(0, dtype=np.int64), nothing[:, :1]
        self.validation_prediction_ = nothing
        if validation is not None:
            self.validation_nodes_, self.validation_target_ = validation.nodes, validation.target
            self.validation_prediction_ = self.predicted_[validation.nodes]

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

    def _one_graph(self, graph: Graphs | None) -> Graph | None:
        """The graph itself, or the fitted mixture of its relations."""
        fitted = self.relation_strengths_
        if graph is None or (isinstance(graph, Graph) and fitted is None):
            return graph
        if fitted is None:
            raise TypeError(f"This model was fitted on one graph, got the relations {list(graph)}.")  # type: ignore[arg-type]
        if isinstance(graph, Graph):
            raise TypeError(
                f"This model was fitted on the relations {list(fitted)}: pass a dict with a graph for each."
            )
        return Graph.mix(graph, fitted)

    def _stopping(self, n_labelled: int) -> EarlyStopping:
        if self.patience is not None:
            return EarlyStopping(self.patience)
        stopping = choosing.sized_stopping(is_classifier(self), n_labelled)
        if not isinstance(self.loss_, SquaredError):  # of other losses, a share says little: some have no natural zero
            stopping.least_gain = 0.0
        return stopping

    def _cross_fitted(
        self, choice: Choice, table: Table, training: Labels, seed: int, device: Cpu
    ) -> tuple[int, Array | None]:
        """Where labels are too few to hold any out: rounds, and predictions of each label without it, from 5 folds."""
        n_labelled = training.nodes.size
        if n_labelled < 2 * FOLDS:
            return min(self.n_estimators, ROUNDS_FOR_FEW), None
        fold = np.random.default_rng(seed).permutation(n_labelled) % FOLDS
        predicted, rounds = np.zeros_like(training.target), []
        for number in range(FOLDS):
            held = training.only(fold == number)
            entrant = self._entrant(choice, table, training.only(fold != number), held, seed, device)
            found = boost(entrant.boosting, [self._stopping(n_labelled)])
            rounds.append(found.n_rounds)
            predicted[fold == number] = device.host(entrant.objective.predict(found.best))[held.nodes]
        return max(int(np.median(rounds)), 1), predicted

    def _labels(
        self, y: Any, nodes: Any, eval_set: Any, sample_weight: Any, n_rows: int, seed: int
    ) -> tuple[Labels, Labels | None]:
        """Split what is known into labels to train on and labels to stop on."""
        known, values, weight = checks.labelled(y, nodes, sample_weight, n_rows, self)
        self._learn_classes(values)
        validation = None
        weighted = weight * self._class_weight(values)
        if eval_set is not None:
            held_nodes, held_values = checks.evaluation(eval_set, known, n_rows, self)
            validation = Labels(held_nodes, self._target(held_values, "eval_set"), np.ones(held_nodes.size))
        elif self.early_stopping and known.size >= MIN_LABELS_TO_HOLD_OUT:
            train, held = self._held_out(values, seed)
            validation = Labels(known[held], self._target(values[held], "y"), weight[held])
            self._held_back = Labels(known[held], validation.target, weighted[held])
            known, values, weighted = known[train], values[train], weighted[train]
        return Labels(known, self._target(values, "y"), weighted), validation

    def _held_out(self, values: NDArray[Any], seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        everyone = np.arange(values.size)
        if not 1 <= round(self.validation_fraction * values.size) <= values.size - 10:
            raise ValueError(
                f"validation_fraction={self.validation_fraction} leaves too few of {values.size} labels to train or to "
                "validate on: use something like 0.1, or early_stopping=False."
            )
        train, held = train_test_split(
            everyone, test_size=self.validation_fraction, random_state=seed, stratify=self._strata(values)
        )
        return np.sort(train), np.sort(held)

    def _asked(self, training: Labels) -> dict[str, Any]:
        """What the user says of the graph: parts, or "auto"."""
        asked = {"smoothing": checks.part(self.smoothing, "smoothing", Smoother, "eb.Laplacian(lam=2.0)")}
        if isinstance(asked["smoothing"], Smoother):
            spread = partial(self.loss_.spread, training.target, training.weight)
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
        use: Field | Masked | None
        if isinstance(self.labels, (Field, Masked)):
            use = self.labels
        elif isinstance(self.labels, str) and self.labels in LABEL_USES:
            use = clone(LABEL_USES[self.labels]) if LABEL_USES[self.labels] is not None else None
        elif isinstance(self.labels, str) and self.labels == "auto":
            # The field is a quadratic form of errors: with another loss it has no closed form.
            return "auto" if is_classifier(self) or isinstance(self.loss_, SquaredError) else None
        else:
            raise ValueError(
                f"labels must be 'auto', one of {sorted(LABEL_USES)}, eb.Field(...) or eb.Masked(...), got {self.labels!r}."
            )
        if use is not None and not is_classifier(self) and not isinstance(self.loss_, SquaredError):
            raise ValueError(
                f"labels={self.labels!r} needs loss='squared_error'; with {self.loss_!r} use labels='none'."
            )
        if isinstance(use, Masked) and is_classifier(self):
            raise ValueError("labels='masked' is for regression; a classifier takes 'field', 'none' or 'auto'.")
        if isinstance(use, Masked) and self.penalty:
            raise ValueError("penalty has no part in the published objective: leave it at 0 with labels='masked'.")
        if isinstance(use, Masked) and not 0.0 < use.share < 1.0:
            raise ValueError(f"Masked's share must lie between 0 and 1, got {use.share!r}.")
        return use

    def _entrant(
        self,
        choice: Choice,
        table: Table,
        training: Labels,
        validation: Labels | None,
        seed: int,
        device: Cpu,
        others: Iterable[_Entrant] = (),
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
            seen, growing = alike.seen, alike.growing.beside()
        if seen is None:
            seen = preparation.fit(table, self.graph_, training, learner.takes_categories, seed)
        n_outputs = training.target.shape[1]
        device.expect(choice.name, seen.n_rows, len(seen.names), n_outputs)
        graph, known, held = device.graph(self.graph_), device.labels(training), device.labels(validation)
        smoother = self._operator(choice.smoothing, graph, table.n_rows)
        objective = objective_for(choice.labels, graph, smoother, self.loss_, known, held, self.penalty, seed)
        if self._peers is not None:
            objective = self._peers.agreeing(objective)
        growing = growing or learner.start(
            seen, n_outputs=n_outputs, seed=seed, n_jobs=self._threads(seen), device=self.device
        )
        boosting = Boosting(
            objective,
            growing,
            n_rounds=self.n_estimators,
            learning_rate=self.learning_rate or choosing.sized_rate(classes, n_labelled, table.is_sparse),
            momentum=as_momentum(self.momentum),
        )
        return _Entrant(choice, preparation, seen, smoother, objective, growing, boosting)

    @staticmethod
    def _operator(smoothing: Smoother | None, graph: Graph | None, n_rows: int) -> Propagation:
        return IdentityOperator(n_rows) if smoothing is None or graph is None else smoothing.on(graph)

    def _threads(self, table: Table) -> int:
        """A number that was given; otherwise the cores that are ours, or one where threads cost more than they bring."""
        if self.n_jobs is None:
            small = table.values.size < ONE_THREAD_UP_TO
            return 1 if small else cores.usable(only_physical=True)
        return cores.usable() if self.n_jobs == -1 else int(self.n_jobs)

    # ------------------------------------------------------------------ predict

    def predictor(self, X: Any = None, *, graph: Graphs | None = None, known: Any = None) -> Predictor:
        """Return an object that keeps the predictions of every node and answers for a few of them at once.

        Parameters
        ----------
        X, graph, known
            As in :meth:`predict`; default: the fitted nodes.

        Returns
        -------
        Predictor
            ``predict(nodes)`` looks predictions up, ``update(nodes, rows)`` takes rows that have changed; any number of
            threads may share one.

        Examples
        --------
        >>> import ebbflow as eb, numpy as np
        >>> X = np.random.default_rng(0).normal(size=(300, 3))
        >>> g = eb.Graph.build_knn(X[:, :1], k=5)
        >>> m = eb.EBBSRegressor(20, smoothing=eb.Laplacian(), labels="none", random_state=0).fit(X, X[:, 0], graph=g)
        >>> predictor = m.predictor()
        >>> before = predictor.predict([7])
        >>> predictor.update([7], X[[7]] + 1.0)
        >>> bool(predictor.predict([7]) > before)
        True
        """
        return Predictor(self, X, graph, known)

    def _predicted(self, X: Any, graph: Graphs | None, nodes: Any, known: Any) -> Array:
        """Predictions, of the nodes asked for; of another table, what they do not need is not computed."""
        check_is_fitted(self, "ensemble_")
        if X is None and graph is None and known is None:
            predicted = self.predicted_
        elif X is not None and nodes is not None and known is None:
            return self._predicted_near(X, graph, nodes)
        else:
            scores, smoothed, one = self._uncorrected(X, graph)
            predicted = self._finished(scores, smoothed, one, self._known(X, known, len(scores)))
        return predicted if nodes is None else predicted[checks.node_positions(nodes, len(predicted), repeats=True)]

    def _predicted_near(self, X: Any, graph: Graphs | None, nodes: Any) -> Array:
        """Predictions of some rows of another table, from those rows alone that they are made of."""
        _check_feature_names(self, _named(X), reset=False)
        n_rows = count_rows(X)
        one = None if n_rows is None else self._graph_of(X, n_rows, graph)
        columns, scores_from = self._preparation.hops(one), self._smoothing_hops(one)
        if n_rows is None or columns is None or scores_from is None:
            scores, smoothed, one = self._uncorrected(X, graph)
            rows = checks.node_positions(nodes, len(scores), repeats=True)
            return self._finished(scores, smoothed, one, None)[rows]
        rows = checks.node_positions(nodes, n_rows, repeats=True)
        centre = np.unique(rows) if rows.size else np.zeros(1, dtype=np.int64)  # no table is without a row
        if one is None:
            scores = self._scores(self._preparation.apply(self._read_rows(X, centre), None))
            return self._finished(scores, self.base_ + scores, None, None)[np.searchsorted(centre, rows)]
        wide = one.around(centre, columns + scores_from)
        seen = self._preparation.apply(self._read_rows(X, wide.nodes), wide.graph)
        near = one.around(centre, scores_from) if columns else wide
        scores = self._scores(seen.only(wide.distance <= scores_from) if columns else seen)
        smoothed = self.base_ + self._operator(self.smoothing_, near.graph, len(scores)).apply(scores)
        return self._finished(scores, smoothed, near.graph, None)[np.searchsorted(near.nodes, rows)]

    def _smoothing_hops(self, graph: Graph | None) -> int | None:
        return 0 if graph is None or self.smoothing_ is None else self.smoothing_.hops(graph)

    def _scores(self, table: Table) -> Array:
        """Scores f of a prepared table."""
        return np.vstack([self.ensemble_.predict(block) for block in table.blocks()])

    def _read(self, X: Any) -> Table:
        """Another table, refused if its columns are not those fitted on."""
        _check_feature_names(self, _named(X), reset=False)
        table = self._reader.read(X)
        checks.same_columns(table, self)
        return table

    def _read_rows(self, X: Any, rows: NDArray[np.int64]) -> Table:
        """Some rows of another table."""
        try:
            return self._read(rows_of(X, rows))
        except (TypeError, ValueError):
            self._read(X)  # to name the place as the user counts
            raise

    def _graph_of(self, X: Any, n_rows: int, graph: Graphs | None) -> Graph | None:
        """The graph of another table, refused if it is missing, does not fit, or is one too many."""
        if self.graph_ is not None and graph is None:
            raise ValueError(
                "This model was fitted on a graph, so a prediction needs one: call predict() for the fitted nodes, or "
                "predict(X_new, graph=g_new) with the graph of the new rows."
            )
        if self.graph_ is None and graph is not None:
            raise ValueError("graph was given, but this model was fitted without one: call predict(X).")
        checks.graph_fits(graph, n_rows, X)
        return self._one_graph(graph)

    def _uncorrected(self, X: Any, graph: Graphs | None) -> tuple[Array, Array, Graph | None]:
        """Base scores f, smoothed scores and graph: of the fitted nodes, or of another table and graph."""
        check_is_fitted(self, "ensemble_")
        if X is None:
            if graph is not None:
                raise ValueError("graph was given without X: pass predict(X_new, graph=g_new), or neither.")
            return self.scores_, self.base_ + self.smoothed_, self.graph_
        if is_dask(X) and not self._preparation.uses_graph:
            return self._uncorrected_blocks(X, graph)
        (X,) = gathered(X)  # columns of neighbours are made here, not where the blocks are
        table = self._read(X)
        one = self._graph_of(X, table.n_rows, graph)
        with threads(self._threads(table)):
            scores = self._scores(self._preparation.apply(table, one))
            smoothed = self._operator(self.smoothing_, one, table.n_rows).apply(scores)
        return scores, self.base_ + smoothed, one

    def _uncorrected_blocks(self, X: Any, graph: Graphs | None) -> tuple[Array, Array, Graph | None]:
        """The same of a Dask collection, whose trees are summed where its blocks are."""
        _check_feature_names(self, X._meta, reset=False)
        scores = scores_of(X, self)
        one = self._graph_of(None, len(scores), graph)
        return scores, self.base_ + self._operator(self.smoothing_, one, len(scores)).apply(scores), one

    def _field(self, graph: Graph | None, known: Labels | None) -> FieldOperator | None:
        """The field of known labels, if there are any and the model uses it."""
        if graph is None or known is None or not isinstance(self.labels_, Field):
            return None
        return self.labels_.on(graph, known.nodes, known.weight)

    def _known(self, X: Any, known: Any, n_rows: int) -> Labels | None:
        """Labels that a prediction may use: the training labels of fitted nodes, and those handed over."""
        own = self._training if X is None and self.labels_ is not None else None
        if known is None:
            return own
        if self.labels_ is None:
            raise ValueError(
                "known was given, but this model makes no use of labels at prediction (labels='none', or 'auto' found them "
                "of no use). Fit with labels='field' to let it."
            )
        taken = np.zeros(0, dtype=np.int64) if own is None else own.nodes
        nodes, values = checks.evaluation(known, taken, n_rows, self, "known")
        handed = Labels(nodes, self._target(values, "known"), np.ones(nodes.size))
        if own is None:
            return handed
        return own.joined(Labels(nodes, handed.target, np.full(nodes.size, own.weight.mean())))

    def explain(self, nodes: Any, X: Any = None) -> list[Explanation]:
        """Take the predictions of fitted nodes apart, each as an exact sum.

        Parameters
        ----------
        nodes : array-like of int
            Rows to explain.
        X : table, optional
            The table fitted on; needed after loading from a file or a pickle, which do not keep it.

        Returns
        -------
        list of Explanation
            For each node what its own columns, its neighbours' columns and its neighbours' labels add to the score, which
            together with the base are the score itself.
        """
        check_is_fitted(self, "ensemble_")
        table = self._fitted_table
        if X is not None:
            table = self._reader.read(X)
            checks.same_columns(table, self)
            checks.same_rows(table, len(self.scores_))
        with threads(1 if table is None else self._threads(table)):
            return explain(self, checks.node_positions(np.atleast_1d(nodes), len(self.scores_)), table)

    def edge_weights(self) -> EdgeWeights:
        """Which edges robust smoothing trusts: the attention weight of each, the mean of ρ' over the steps.

        Returns
        -------
        EdgeWeights(source, target, weight)
            Each edge of the fitted graph once, source < target, by rows. 1 leaves it as it is, 0 cuts it.

        Examples
        --------
        >>> import ebbflow as eb, numpy as np
        >>> X = np.repeat([[0.0], [1.0]], 30, axis=0)  # two groups, each a path, and one edge between them
        >>> g = eb.Graph.from_edges(np.arange(59), np.arange(1, 60))
        >>> robust = eb.Robust(penalty="geman-mcclure", scale=0.5)
        >>> m = eb.EBBSRegressor(50, smoothing=robust, labels="none", random_state=0).fit(X, 10 * X[:, 0], graph=g)
        >>> source, target, weight = m.edge_weights()
        >>> int(source[weight.argmin()]), int(target[weight.argmin()])
        (29, 30)
        """
        check_is_fitted(self, "ensemble_")
        if not isinstance(self.smoothing_, Robust) or self.graph_ is None:
            raise ValueError(
                f"Only robust smoothing gives edges weights of their own, and this model was fitted with {self.smoothing_}: "
                "use smoothing=eb.Robust(...) and a graph."
            )
        return self.smoothing_.on(self.graph_).edge_weights(self.scores_)

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        return state | {"_fitted_table": None, "_fitted_columns": None} if "_fitted_table" in state else state

    @property
    def feature_importances_(self) -> Array:
        """Share of each column of X in the gain of the trees, what was made of it included; adds up to 1."""
        check_is_fitted(self, "ensemble_")
        folded = self._preparation.folded(self.ensemble_.importances(), self._column_origin, self.n_features_in_)
        total = folded.sum()
        return folded / total if total > 0 else folded

    def summary(self) -> str:
        """Describe the fitted model in a few lines: what was chosen and why, and which labels a prediction uses."""
        check_is_fitted(self, "ensemble_")
        lines = [f"{type(self).__name__}: {self.n_iter_} rounds, {self.stopped_because_}"]
        how = {"none": "not used", "as given": "used as given"}.get(self.choice_, f"used ({self.choice_})")
        lines.append(f"graph       {'none given' if self.graph_ is None else how}")
        if self.relation_strengths_ is not None:
            shares = ", ".join(f"{name} {strength:.3g}" for name, strength in self.relation_strengths_.items())
            lines.append(f"relations   {shares}; {'read off the labels' if self.relations == 'auto' else 'as given'}")
        if self.race_:
            reached = ", ".join(f"{name} {loss:.4g}" for name, loss in sorted(self.race_.items(), key=lambda kv: kv[1]))
            lines.append(f"chosen by   validation loss after a few rounds: {reached}")
        if self.graph_ is not None and getattr(self, "_from_disk", False):
            lines.append("columns     those of the file: what is made from neighbours' needs the table in memory")
        told = getattr(self, "cluster_", None)  # a file does not keep it
        if told is not None:
            lines.append(f"trained by  {told['n_workers']} workers; {told['calls']:,} sums of {told['bytes']:,} bytes")
        lines.append(f"smoothing   {self.smoothing_}")
        uses = "the labels given to fit, and what predict(known=...) adds"
        lines.append(f"labels      {self.labels_}; at prediction: {uses if self.labels_ is not None else 'none'}")
        return "\n".join(lines + self._summary_lines())

    def _repr_html_inner(self) -> str:
        """scikit-learn's diagram and, once fitted, the summary below it."""
        diagram: str = super()._repr_html_inner()
        if not hasattr(self, "ensemble_"):
            return diagram
        return (
            f'{diagram}<pre style="margin:0.5em 0 0;font-size:85%;white-space:pre-wrap">{escape(self.summary())}</pre>'
        )

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**kwargs)
        return bundle | ({"text/html": self._repr_html_inner()} if "text/html" in bundle else {})

    # ------------------------------------------------------------------ save

    def save(self, path: str | os.PathLike[str], *, table: bool = False) -> None:
        """Write the fitted model to one file, without pickle; read it back with ``ebbflow.load``.

        Parameters
        ----------
        path : path
        table : bool, default=False
            Whether the file also holds the table fitted on, so that predictions can be explained without it. The graph and
            the labels are always in it.
        """
        check_is_fitted(self, "ensemble_")
        if table and self._fitted_table is None:
            raise ValueError(
                "table=True, but this model was itself loaded from a file or a pickle that has no table, or fitted from "
                "files or on a cluster: leave table=True out, and pass X where the table is needed."
            )
        modelfile.save(self, path, table)

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


def _named(X: Any) -> Any:
    """What scikit-learn reads the names of columns from."""
    return X.empty if isinstance(X, ParquetTable) else X._meta if is_dask(X) else X

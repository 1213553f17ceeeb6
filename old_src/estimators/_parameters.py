"""Documentation of the parameters that both estimators share."""

from collections.abc import Callable

PARAMETERS = """n_estimators : int, default=3000
        Maximum number of rounds of each model; early stopping usually ends earlier.
    learning_rate : float, optional
        Share of the line-search step that is taken, in (0, 1]. Default: 0.3 for classes; else 0.05
        for 1 000 to 5 000 labels (not for sparse tables), else 0.1.
    smoothing : Smoother, "auto" or None, default="auto"
        Propagation of the scores over the graph, e.g. ``eb.Laplacian(lam=2.0, n_steps=5)``,
        ``eb.Kernel("diffusion")``, or ``eb.Robust()`` where some edges are wrong. None: no
        propagation.
    labels : "auto", "none", "field", "leave-one-out", "masked", LatentField or MaskedLabels
        How known labels inform the predictions of other nodes: ``"field"`` adds a latent Gaussian
        Markov random field (:class:`LatentField`), ``"masked"`` is the published procedure (for
        regression). Default: ``"auto"``.
    neighbor_features : NeighborFeatures, "auto" or None, default="auto"
        Columns with statistics of the neighbours' columns.
    feature_smoothing : Smoother, "auto" or None, default="auto"
        Smoothed copies [X, P_x X] of the numeric columns; the paper's regressions use
        ``eb.Laplacian(20.0, 5)``. While ``smoothing`` or ``labels`` is ``"auto"``, ``selection``
        decides about all parts that are ``"auto"``; where both are given, ``"auto"`` columns are
        left out.
    spectral_features : SpectralFeatures, "auto" or None, default="auto"
        Columns of the graph's spectral embedding, e.g. ``eb.SpectralFeatures(64)``: where in the
        graph a node is. New nodes have them from their edges to fitted nodes.
    relations : "auto" or dict of float, default="auto"
        For ``graph={{"friend": g1, "city": g2}}``: what the weights of each relation are multiplied
        by, e.g. ``{{"friend": 1.0, "city": 0.2}}``; negative for heterophily. ``"auto"`` estimates
        them from the labels.
    neighbors : "auto", int or "delaunay", default="auto"
        For ``fit(coordinates=...)``: the number of nearest rows that each row is connected to, or
        Delaunay triangles. ``"auto"``: 8, or 5 or 20 if a latent field on that graph predicts
        held-out labels better, beyond chance. Equal weights are compared with those by distance in
        the same way. Nothing is compared with ``selection="rules"``, where parts that use the graph
        are fixed, and on a cluster.
    learner : str, Learner, regressor or list of regressors, default="lightgbm"
        ``"lightgbm"`` (with settings for the number of labels; ``eb.LightGBM()`` has LightGBM's
        own), ``"xgboost"``, ``"catboost"``, an ``eb.LightGBM``, ``eb.XGBoost`` or ``eb.CatBoost``
        with parameters, a scikit-learn regressor, or a list of them to draw from. CatBoost and
        scikit-learn get target-encoded categories, which can carry a label back to its own node
        through propagation: prefer LightGBM or XGBoost for tables with categories.
    loss : {loss}
    momentum : bool, "simple", "corrected" or CorrectedMomentum, default=False
        Nesterov acceleration, for fewer rounds. ``True`` and ``"simple"`` grow one tree a round;
        ``"corrected"`` has a convergence guarantee and grows two.
    penalty : float, default=0.0
        ε of Corollary 1: adds ½ ε ‖f‖² to the loss.
    early_stopping : bool, default=True
        Stop when the validation loss has not improved for ``n_iter_no_change`` rounds, and restore
        the best round. False: one model, trained on all labels for ``n_estimators`` rounds.
    selection : {{"search", "rules", "thorough"}}, default="search"
        How the parts that are ``"auto"`` are selected. ``"search"`` adds one part after another and
        keeps it if it lowers the loss at held-out labels, with strengths of the field estimated
        from out-of-fold predictions. Candidates are compared at a higher learning rate than the
        selected one is trained with. ``"thorough"`` averages four such searches with other folds.
        ``"rules"``: a field if neighbours have similar labels, and columns of neighbours if a few
        trees gain from them. Only with few labels propagation and another loss are compared.
    n_folds : int or "auto", default="auto"
        Folds of the labels. A model is trained for each, without its labels, and the final model is
        their mean. 1: one model, for which a share ``validation_fraction`` is held out. ``"auto"``:
        5 up to 500 labels, 8 up to 5 000, 5 up to 50 000, else 3; 1 for learners that
        encode categories, and where neither ``smoothing`` nor ``labels`` is ``"auto"``.
    eval_metric : str or function, default="loss"
        What early stopping and the selection follow on the validation nodes: the loss, a metric of
        :meth:`score` by name, or a function ``metric(y_true, y_predicted)``, smaller is better. The
        column ``loss`` of ``selection_`` then holds it, or 1 minus it if more is better.
    validation_fraction : float, default=0.1
        Share of the labelled nodes that is held out for one model without ``eval_set``.
    n_iter_no_change : int, optional
        Rounds of early stopping. Default: 10 for classes, 50 for 1 000 to 5 000 labels, else 25.
    categorical_features : "auto" or list, default="auto"
        Columns that hold categories, by name or position; text and category columns always
        do.{extra}
    device : {{"cpu", "cuda"}}, default="cpu"
        Where to train. ``"cuda"``: one NVIDIA GPU, with ``learner="xgboost"`` and CuPy. The fitted
        model needs no GPU.
    n_jobs : int, optional
        Threads; −1: the cores that this process may use. Default: its physical cores. With tables
        of up to four million entries they train the models of several folds at once, which are
        then the same for any number; a single model has one thread unless you ask for more.
    random_state : int, RandomState or None, default=None
        Seed. The same seed, data and ``n_jobs`` give the same model, bit for bit.
    verbose : int, default=0
        1 shows a progress bar."""
LOSSES = """str or Loss, default="auto"
        ``"squared_error"``, ``"huber"``, ``"quantile"``, ``"poisson"``, ``"negative_binomial"``,
        ``"gamma"``, ``"tweedie"``, or a :class:`Loss`. All use the labels of neighbours."""
CLASS_LOSSES = """"auto", "log_loss" or Loss, default="auto"
        Log loss on one score for two classes, cross-entropy on a score for each class for more."""
CLASS_WEIGHT = """
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes."""


def fill_docstring(**parts: str) -> Callable[[type], type]:
    """Insert the shared parameters into the docstring of a class."""

    def fill(cls: type) -> type:
        text = PARAMETERS.format(**parts)
        cls.__doc__ = (cls.__doc__ or "").replace("%(parameters)s", text)
        return cls

    return fill

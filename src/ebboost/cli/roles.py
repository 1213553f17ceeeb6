"""What the columns of a file mean to a model: features, labels, new rows; and predictions as columns again."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ebboost.cli import tables as files
from ebboost.inspection.graph_check import infer_task

MOST_DIFFERENT = 0.5  # of the labels of a text target: more of them are no classes
FEW_ROWS = 20
SECONDS_A_DAY = 86_400


# ---------------------------------------------------------------------- before a fit


def features(
    table: Any, target: str, drop: list[str], categorical: list[str], path: Path
) -> tuple[Any, list[str]]:
    """Return the columns that the trees may see, and notes on what was left out or changed unasked."""
    names = [str(name) for name in table.columns]
    files.column_of(names, target, "--target", path)
    for name in drop:
        files.column_of(names, name, "--drop", path)
    X = _dates_as_days(table.drop(columns=[target, *drop]))
    for name in categorical:
        files.column_of([str(column) for column in X.columns], name, "--categorical", path)
        X[name] = files.as_names(X[name]).astype("category")
    notes = []
    for name in list(X.columns):
        known = X[name].dropna()
        if (
            X[name].dtype.kind not in "biuf"
            and len(known) > FEW_ROWS
            and known.nunique() == len(known)
        ):
            notes.append(
                f"Column {name!r} is text that is different in every row, like a name: left out."
            )
            del X[name]
        elif (
            name not in categorical
            and X[name].dtype.kind not in "biuf"
            and len(known)
            and _mostly_numbers(known)
        ):
            row = int(
                np.flatnonzero((files.numbers(X[name]).isna() & X[name].notna()).to_numpy())[0]
            )
            stray = f"line {row + files.FIRST_LINE} holds {str(X[name].iloc[row])!r}, not a number"
            notes.append(f"Column {name!r} is taken as names, because {stray}.")
    if not X.shape[1]:
        raise ValueError(f"{path} has no column left to learn from beside the ids and {target!r}.")
    return X, notes


def _mostly_numbers(known: Any) -> bool:
    return bool(0.5 < files.numbers(known).notna().mean() < 1.0)


def _dates_as_days(table: Any) -> Any:
    """Dates as days since 1970: trees need an order."""
    dates = [name for name in table.columns if table[name].dtype.kind == "M"]
    seconds = {
        name: table[name].astype("datetime64[s]").astype("int64").where(table[name].notna())
        for name in dates
    }
    return table.assign(**{name: values / SECONDS_A_DAY for name, values in seconds.items()})


def labels(column: Any, task: str, path: Path) -> tuple[NDArray[Any], str]:
    """Return the target as an array, NaN or None where unknown, and whether it is numbers or classes."""
    name, known = str(column.name), column.dropna()
    if not len(known):
        raise ValueError(
            f"{path}: the target {name!r} is empty in every row. Fill it in where it is known."
        )
    kind = infer_task(known) if task == "auto" else task
    if task == "auto" and _is_spoilt_number(known):
        kind = "regression"  # and say below which entry is not a number
    if kind == "regression":
        return _numbers(column, path), kind
    if known.nunique() < 2:
        raise ValueError(
            f"{path}: the target {name!r} is {str(known.iloc[0])!r} wherever it is known: there is nothing to learn."
        )
    whole = column.dtype.kind == "f" and bool(
        (known % 1 == 0).all()
    )  # gaps made floats of whole numbers
    found = np.full(len(column), None, dtype=object)
    found[column.notna().to_numpy()] = known.astype(int).tolist() if whole else known.tolist()
    return found, kind


def _is_spoilt_number(known: Any) -> bool:
    """Whether text cannot be classes: numbers for the most part, or hardly two entries alike."""
    if known.dtype.kind in "biuf":
        return False
    mostly = _mostly_numbers(known) and known.nunique() > FEW_ROWS
    return mostly or (len(known) > FEW_ROWS and known.nunique() > MOST_DIFFERENT * len(known))


def _numbers(column: Any, path: Path) -> NDArray[np.float64]:
    numbers = column.astype(float) if column.dtype.kind == "b" else files.numbers(column)
    bad = (numbers.isna() & column.notna()).to_numpy()
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise ValueError(
            f"{path}, line {row + files.FIRST_LINE}: the target {str(column.name)!r} is {str(column.iloc[row])!r}, not a "
            "number. Correct it, or take the target as classes: --task classification."
        )
    found: NDArray[np.float64] = numbers.to_numpy(dtype=np.float64)
    return found


# ---------------------------------------------------------------------- after a fit


def name_of(model: Any, what: str, default: str) -> str:
    """Return what the column of ids or labels was called."""
    return (getattr(model, "names_", None) or {}).get(what) or default


def id_texts(model: Any) -> list[str]:
    """Return the ids of the fitted nodes as text."""
    ids = model.graph_.node_ids if model.graph_ is not None else np.arange(len(model.scores_))
    return [str(value) for value in ids.tolist()]


def held_out_quality(model: Any, interval: float) -> dict[str, Any]:
    """Return how good the model is on labels that were held out, beside the best constant."""
    nodes, truth, stated = (
        model.validation_nodes_,
        model.validation_target_,
        model.validation_prediction_,
    )
    trained = model._training.target
    found: dict[str, Any] = {"held_out": int(nodes.size)}
    if hasattr(model, "classes_"):
        if nodes.size:
            right = truth.argmax(axis=1) if truth.shape[1] > 1 else truth[:, 0]
            commonest = (
                trained.sum(axis=0).argmax()
                if trained.shape[1] > 1
                else round(float(trained.mean()))
            )
            found |= {
                "accuracy": float((stated.argmax(axis=1) == right).mean()),
                "accuracy_of_commonest_class": float((right == commonest).mean()),
                "calibration_error": model.calibration_error_,
            }
        return found
    errors = (
        model.conformity_scores_
    )  # of validation nodes or, where labels are few, of each label left out once
    if errors.size:
        away = (truth[:, 0] if nodes.size else trained[:, 0]) - trained.mean()
        found |= {
            "held_out": int(errors.size),
            "rmse": float(np.sqrt((errors**2).mean())),
            "rmse_of_mean": float(np.sqrt((away**2).mean())),
            "mae": float(errors.mean()),
            "interval": interval,
            "half_width": model._half_width(interval),
        }
    return found


def predictions(model: Any, ids: list[str], asked: dict[str, Any], interval: float | None) -> Any:
    """Return a dataframe: id, prediction, and lower and upper or a probability for each class."""
    import pandas

    found: dict[str, Any] = {name_of(model, "id", "id"): ids}
    if hasattr(model, "classes_"):
        stated = model.predict_proba(**asked)
        found["prediction"] = np.asarray(model.classes_)[stated.argmax(axis=1)]
        found |= {
            f"probability_{label}": stated[:, place]
            for place, label in enumerate(model.classes_.tolist())
        }
    elif interval is None:
        found["prediction"] = model.predict(**asked)
    else:
        found |= dict(
            zip(
                ("prediction", "lower", "upper"),
                model.predict(**asked, interval=interval),
                strict=True,
            )
        )
    return pandas.DataFrame(found)


# ---------------------------------------------------------------------- rows that are new to a model


def new_rows(
    model: Any, data: files.NodesAndEdges, attach: bool, path: Path
) -> tuple[Any, tuple[Any, Any]]:
    """Return the columns the model knows, and which rows of the new table come with a label.

    With ``attach`` the table that the model was fitted on follows the new rows.
    """
    import pandas

    present = [str(name) for name in data.table.columns]
    wanted = [
        files.column_of(present, name, "the model needs it", path) for name in model._reader.names
    ]
    X = _dates_as_days(data.table[wanted])
    for place in model._reader.categories:
        name = model._reader.names[place]
        X = X.assign(**{name: files.as_names(X[name])})
    target = name_of(model, "target", "")
    rows, values = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=object)
    if target in present:
        column = data.table[target]
        rows = np.flatnonzero(column.notna().to_numpy())
        if not hasattr(model, "classes_"):
            column = column.astype(object).where(column.isna(), _numbers(column, path))
        values = column.to_numpy(dtype=object)[rows]
    return (pandas.concat([X, _fitted_frame(model)], ignore_index=True) if attach else X), (
        rows,
        values,
    )


def _fitted_frame(model: Any) -> Any:
    """The table that the model was fitted on, its codes turned into categories again."""
    import pandas

    table = model._fitted_table
    if table is None:
        raise ValueError(
            "--attach needs the table that the model was fitted on: write the model with ebboost fit."
        )
    found: dict[str, Any] = {}
    for place, name in enumerate(table.names):
        found[name] = table.values[:, place]
        if place in model._reader.categories:
            categories = model._reader.categories[place]
            found[name] = [
                None if code != code else categories[int(code)] for code in found[name].tolist()
            ]
    return pandas.DataFrame(found)


def known_labels(
    model: Any, given: tuple[Any, Any], n_new: int, attach: bool
) -> tuple[Any, Any] | None:
    """Return the labels that a prediction may use: those in the new table and, if attached, those of the fit."""
    if model.labels_ is None:
        return None
    rows, values = given
    if attach:
        target = model._training.target
        if hasattr(model, "classes_"):
            place = target.argmax(axis=1) if target.shape[1] > 1 else target[:, 0].astype(int)
            old = np.asarray(model.classes_)[place]
        else:
            old = target[:, 0]
        rows = np.concatenate([rows, n_new + model._training.nodes])
        values = np.concatenate([values, old.astype(object)])
    if not len(rows):
        return None
    return rows, values if hasattr(model, "classes_") else values.astype(np.float64)

"""The text of ``model.summary()``."""

import numpy as np

from ebboost.boosting.latent_field import LatentField
from ebboost.boosting.losses import SquaredError
from ebboost.data.coordinates import DELAUNAY, Coordinates
from ebboost.model.intervals import half_widths
from ebboost.model.output import ClassOutput
from ebboost.model.state import FittedState, GraphGain

Rows = list[tuple[str, str]]
MAX_CANDIDATES = 8


def summarize(state: FittedState) -> str:
    """Describe a fitted model in short lines: selected parts, errors, use of labels."""
    rows = [("", f"{state.estimator}: {models_text(state.rounds)}"), ("ended", state.stop_reason)]
    if state.gain is not None and state.uses_graph and state.gain.is_harm:
        rows.insert(0, ("warning", f"the graph does harm: {error_text(state.gain)}"))
    first, *others = graph_use(state)
    rows += [("graph", first), *(("", f"{'':12}{other}") for other in others)]
    if state.coordinates is not None:
        rows += _coordinate_rows(state.coordinates)
    if state.gain is not None:
        rows.append(("error", error_text(state.gain)))
    for one in state.candidates:
        if one.candidate.smoothing is not None:
            rows.append(("smoothing", f"{one.candidate.smoothing}"))
            break
    rows += _field_rows(state)
    if state.relation_strengths is not None:
        strengths = state.relation_strengths.items()
        shares = ", ".join(f"{name} {strength:.3g}" for name, strength in strengths)
        estimated = state.parameters.get("relations") == "auto"
        origin = "estimated from the labels" if estimated else "as given"
        rows.append(("relations", f"{shares}; {origin}"))
    rows += _selection_rows(state)
    if state.cluster is not None:
        calls = (
            f"{state.cluster['calls']:,} messages, halo of {state.cluster['halo_bytes']:,} bytes"
        )
        rows.append(("cluster", f"{state.cluster['n_workers']} workers; {calls}"))
    rows += _output_rows(state)
    return "\n".join(f"{name:<12}{text}" if name else text for name, text in rows)


def models_text(rounds: tuple[int, ...]) -> str:
    """Return the number of models and of their rounds in words."""
    if len(rounds) == 1:
        return f"{rounds[0]:,} rounds"
    return f"mean of {len(rounds)} models with {min(rounds):,} to {max(rounds):,} rounds"


def graph_use(state: FittedState) -> list[str]:
    """Return which parts of the model use the graph, a line for each candidate."""
    if state.graph is None:
        return ["none given"]
    if not state.uses_graph:
        return ["not used: plain boosting is as good" if state.gain is not None else "not used"]
    names = state.candidate_names
    if len(names) == 1:
        return [f"used: {names[0]}"]
    return [f"used: mean of {len(names)} candidates", *names]


def error_text(gain: GraphGain) -> str:
    """Return the error without and with the graph, and the difference with its standard error."""
    levels = f"{gain.metric} {gain.without:.4g} without the graph, {gain.with_graph:.4g} with it"
    if gain.gain == 0.0 or gain.without == 0.0:
        return levels
    change = -100.0 * gain.relative
    error = 100.0 * gain.standard_error / abs(gain.without)
    return f"{levels}: {change:+.1f} ± {error:.1f} %"


def field_range(field: LatentField) -> float:
    """Return the range of the field in edges: where its correlation has fallen to 1/e.

    Exact on a path, where the correlation of nodes h edges apart is e^(−κh), cosh κ = 1 + τ/λ (with
    weights that are not normalised, 1 + τ/2λ).
    """
    if field.lam == 0.0:
        return 0.0
    ratio = field.tau / (field.lam if field.normalized else 2.0 * field.lam)
    return float(1.0 / np.arccosh(1.0 + ratio))


def variance_shares(state: FittedState) -> tuple[float, float] | None:
    """Return the variances of the field and of the noise at labelled nodes.

    With residuals e = y − P f and z = K W e, eᵀWz and eᵀW(e − z) estimate the traces of their
    covariances without bias. None for other models than a field of squared error.
    """
    state = state.candidates[0]
    field = state.candidate.labels
    is_field = isinstance(field, LatentField) and not field.unlabelled
    if not is_field or type(state.training_loss) is not SquaredError or state.is_classifier:
        return None
    labels = state.labels
    if not labels.nodes.size:  # on the workers of a cluster
        return None
    scores = (state.fixed_scores + state.propagated_scores)[labels.nodes]
    residual = labels.target - scores
    field_mean = state.raw_predictions[labels.nodes] - scores
    weight = (labels.weight / labels.weight.mean())[:, None]
    of_field = float((weight * residual * field_mean).mean())
    of_noise = float((weight * residual * (residual - field_mean)).mean())
    return max(of_field, 0.0), max(of_noise, 0.0)


def _field_rows(state: FittedState) -> Rows:
    use = state.candidate.labels
    if use is None:
        return []
    at_prediction = "the labels of fit, and predict(new_labels=...)"
    rows = [("labels", f"{use}"), ("", f"{'':12}at prediction: {at_prediction}")]
    variances = variance_shares(state)
    if not isinstance(use, LatentField) or variances is None or sum(variances) == 0.0:
        return rows
    share = variances[0] / sum(variances)
    deviations = [f"{np.sqrt(variance):.3g}" for variance in variances]
    text = f"{share:.0%} of the residual variance; range {field_range(use):.3g} edges"
    rows.append(("field", text))
    rows.append(("", f"{'':12}standard deviation {deviations[0]}, of the noise {deviations[1]}"))
    return rows


def _coordinate_rows(coordinates: Coordinates) -> Rows:
    """The graph of the coordinates, and those that it was compared with."""
    chosen = (coordinates.neighbors, coordinates.weighted)
    rows = [("coordinates", coordinate_graph(*chosen))]
    if coordinates.compared:
        text = "deviance of plain boosting with a field on it at labels that were not trained on:"
        rows.append(("", f"{'':12}{text}"))
    for neighbors, weighted, deviance in coordinates.compared:
        mark = "*" if (neighbors, weighted) == chosen else " "
        text = f"{deviance:<10.4g}{coordinate_graph(neighbors, weighted)}"
        rows.append(("", f"{'':10}{mark} {text}"))
    return rows


def coordinate_graph(neighbors: int, weighted: bool) -> str:
    """Return a graph of coordinates in words."""
    kind = "Delaunay triangles" if neighbors == DELAUNAY else f"{neighbors} nearest rows"
    return f"{kind}, {'weighted by distance' if weighted else 'equal weights'}"


def _selection_rows(state: FittedState) -> Rows:
    """The candidates, best first."""
    names = state.selection.get("candidate", [])
    if len(names) < 2:
        return []
    columns = (state.selection[name] for name in ("candidate", "loss", "folds"))
    rows = [("selection", "loss at labels that were not trained on; * selected:")]
    for name, loss, folds in list(zip(*columns, strict=True))[:MAX_CANDIDATES]:
        mark = "*" if name in state.candidate_names else " "
        n_folds = state.n_compared_folds
        part = "" if folds == n_folds else f" ({folds} of {n_folds} folds)"
        rows.append(("", f"{'':10}{mark} {loss:<10.4g}{name}{part}"))
    return rows


def _output_rows(state: FittedState) -> Rows:
    if isinstance(state.output, ClassOutput):
        temperature, exponent, _, damping = state.output.calibration
        scores = f"temperature {temperature:.3g}, exponent {exponent:.2g}"
        rows = [("scores", f"{scores}, damping {damping:.2g}" if damping else scores)]
        if state.calibration_error is not None:
            text = f"expected error {state.calibration_error:.3f} on the validation nodes"
            rows.append(("calibration", text))
        return rows
    rows = []
    if shift := state.output.calibration.shift:
        text = f"times {np.exp(shift):.3g}, from labels not trained on"
        rows.append(("means", text))
    if state.spread is None:
        return [*rows, ("intervals", "none: every label was trained on")]
    widths = half_widths(state, 0.9)
    low, middle, high = np.quantile(widths.values, [0.1, 0.5, 0.9], method="nearest")
    text = f"90 % within ±{middle:.4g} ({low:.4g} to {high:.4g} for most) at {widths.rows}; "
    text += f"calibrated on {state.spread.n_calibration:,} labels not trained on"
    return [*rows, ("intervals", text)]

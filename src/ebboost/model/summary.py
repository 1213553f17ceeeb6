"""The text of ``model.summary()``."""

from ebboost.model.intervals import half_width
from ebboost.model.output import ClassOutput
from ebboost.model.state import FittedState


def summarize(state: FittedState) -> str:
    """Describe a fitted model in a few lines: what was selected and why, which labels it uses."""
    n_trained = len(state.history.get("training", ())) or state.n_iter
    best = "" if state.n_iter == n_trained else f" (the best of {n_trained})"
    rows = [("", f"{state.estimator}: {state.n_iter} rounds{best}, {state.stop_reason}")]
    name = state.candidate.name
    uses = {"none": "not used", "as given": "used as given"}
    graph_use = "none given" if state.graph is None else uses.get(name, f"used ({name})")
    rows.append(("graph", graph_use))
    if state.relation_strengths is not None:
        strengths = state.relation_strengths.items()
        shares = ", ".join(f"{name} {strength:.3g}" for name, strength in strengths)
        estimated = state.parameters.get("relations") == "auto"
        origin = "estimated from the labels" if estimated else "as given"
        rows.append(("relations", f"{shares}; {origin}"))
    if state.selection:
        losses = sorted(state.selection.items(), key=lambda item: item[1])
        text = ", ".join(f"{name} {loss:.4g}" for name, loss in losses)
        rows.append(("selection", f"validation loss of each candidate: {text}"))
    if state.graph is not None and state.from_disk:
        rows.append(("columns", "those of the file; neighbour columns need the table in memory"))
    if state.cluster is not None:
        calls = f"{state.cluster['calls']:,} reductions of {state.cluster['bytes']:,} bytes"
        rows.append(("cluster", f"{state.cluster['n_workers']} workers; {calls}"))
    rows.append(("smoothing", f"{state.candidate.smoothing}"))
    at_prediction = "none"
    if state.candidate.labels is not None:
        at_prediction = "the labels passed to fit, and predict(new_labels=...)"
    rows.append(("labels", f"{state.candidate.labels}; at prediction: {at_prediction}"))
    rows += _output_rows(state)
    return "\n".join(f"{name:<12}{text}" if name else text for name, text in rows)


def _output_rows(state: FittedState) -> list[tuple[str, str]]:
    if isinstance(state.output, ClassOutput):
        rows = [("scores", f"temperature {state.output.temperature:.3g}")]
        if state.calibration_error is not None:
            text = f"expected error {state.calibration_error:.3f} on the validation nodes"
            rows.append(("calibration", text))
        return rows
    if not state.conformity_scores.size:
        return [("intervals", "none: every label was trained on")]
    half = half_width(state, 0.9)
    text = f"90 % within ±{half:.4g}, from the residuals of {state.conformity_source}"
    return [("intervals", text)]

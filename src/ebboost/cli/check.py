"""``ebboost check``: look at the data, and estimate what the graph adds."""

from typing import Annotated, Any

from rich.text import Text

from ebboost.cli import inputs
from ebboost.cli.console import column_table, print_facts, print_json, progress, terminal
from ebboost.inspection.formatting import figure
from ebboost.inspection.graph_check import GraphCheck, check_graph

_FOLDS = "Folds of the comparison with and without the graph."
_ESTIMATE = "Whether to make that comparison, which takes most of the time."


@inputs.with_options
def check(
    nodes: inputs.NodesFile,
    target: inputs.Target,
    graph_options: inputs.GraphOptions,
    column_options: inputs.ColumnOptions,
    edges: inputs.EdgesFile = None,
    folds: Annotated[int, inputs.option("--folds", "NUMBER", _FOLDS, min=2)] = 3,
    estimate: Annotated[bool, inputs.option("--estimate/--no-estimate", None, _ESTIMATE)] = True,
    seed: inputs.Seed = 0,
    as_json: inputs.Json = False,
) -> None:
    """Check the data, and estimate whether the graph improves predictions."""
    data, X, y, task = inputs.read_problem(nodes, edges, target, graph_options, column_options)
    assert data.graph is not None
    with progress("comparing with and without the graph") as update:
        options: dict[str, Any] = {"task": task, "n_folds": folds, "random_state": seed}
        options["progress"] = lambda done, total: update(completed=done, total=total)
        result = check_graph(X, y, data.graph, estimate=estimate, **options)
    if as_json:
        print_json(result.to_dict())
    else:
        _print_check(result, f"{nodes.name}, target {target}")


def _print_check(result: GraphCheck, title: str) -> None:
    print_facts(title, result.facts())
    screen = terminal()
    for warning in result.warnings:
        screen.print(Text.assemble(("! ", "bold yellow"), warning))
    estimate = result.estimate
    if estimate is None:
        return
    folds = f"{len(estimate.choices)} folds of {estimate.n_labels:,} labels"
    if estimate.folds == "blocks":
        folds += ", blocks of the graph"
    if estimate.n_nodes < result.n_nodes:
        folds += f" ({estimate.n_nodes:,} nodes)"
    metric = f"{estimate.metric}, held-out labels"
    table = column_table(metric, ">without graph", ">with graph", ">gain")
    table.add_row(folds, figure(estimate.without), figure(estimate.with_graph), estimate.gain_text)
    screen.print(table)
    screen.print(Text(estimate.verdict, style="bold"))

"""``ebboost check``: look at the data, and estimate what the graph adds."""

from collections.abc import Mapping
from typing import Annotated, Any

from rich.text import Text

from ebboost.cli import inputs
from ebboost.cli.console import ModelsBar, column_table, print_facts, print_json, progress, terminal
from ebboost.inspection.formatting import figure
from ebboost.inspection.graph_check import GraphCheck, check_graph

_ESTIMATE = "Whether to fit models without and with the graph, which takes most of the time."


@inputs.with_options
def check(
    nodes: inputs.NodesFile,
    target: inputs.Target,
    graph_options: inputs.GraphOptions,
    column_options: inputs.ColumnOptions,
    edges: inputs.EdgesFile = None,
    estimate: Annotated[bool, inputs.option("--estimate/--no-estimate", None, _ESTIMATE)] = True,
    seed: inputs.Seed = 0,
    as_json: inputs.Json = False,
) -> None:
    """Check the data, and estimate whether the graph improves predictions."""
    data, X, y, task = inputs.read_problem(nodes, edges, target, graph_options, column_options)
    assert data.graph is not None
    with progress("comparing models without and with the graph") as update:
        options: dict[str, Any] = {"task": task, "random_state": seed}
        options["callbacks"] = [ModelsBar(update)]
        result = check_graph(X, y, data.graph, estimate=estimate, **options)
    if as_json:
        print_json(result.to_dict() | {"read": data.read})
    else:
        _print_check(result, f"{nodes.name}, target {target}", data.read)


def _print_check(result: GraphCheck, title: str, read: Mapping[str, str]) -> None:
    screen = terminal()
    estimate = result.estimate
    if estimate is not None:
        screen.print(Text(estimate.verdict, style="bold"))
    print_facts(title, [*read.items(), *result.facts()])
    for warning in result.warnings:
        screen.print(Text.assemble(("! ", "bold yellow"), warning))
    if estimate is None:
        return
    labels = f"{estimate.n_labels:,} held-out labels"
    if estimate.n_nodes < result.n_nodes:
        labels += f" ({estimate.n_nodes:,} nodes)"
    table = column_table(estimate.metric, ">without graph", ">with graph", ">gain")
    table.add_row(labels, figure(estimate.without), figure(estimate.with_graph), estimate.gain_text)
    screen.print(table)
    print_facts("", [("selected", estimate.choice)])

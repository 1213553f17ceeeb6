"""``ebboost report`` and ``ebboost inspect``: what is in a model file."""

import webbrowser
from pathlib import Path
from typing import Annotated

from ebboost.cli import console, inputs, outputs, tables
from ebboost.cli.formats import on_disk
from ebboost.inspection.formatting import file_size
from ebboost.inspection.report import write_report
from ebboost.model.serialization import describe
from ebboost.model.summary import models_text

MAX_COLUMNS_SHOWN = 12
_TITLE = "Heading. Default: the target's name."
_NODES = "Id of a node to explain besides those that the report chooses; may be repeated."
_OUTPUT = "HTML file to write. Default: MODEL.html."


def report(
    model_file: inputs.ModelFile,
    output: Annotated[Path | None, inputs.option("--output -o", "FILE", _OUTPUT)] = None,
    title: Annotated[str | None, inputs.option("--title", "TEXT", _TITLE)] = None,
    nodes: Annotated[list[str] | None, inputs.option("--node", "ID", _NODES)] = None,
    show: Annotated[bool, inputs.option("--open", None, "Open it in a browser.")] = False,
    as_json: inputs.Json = False,
) -> None:
    """Write a report on a model as one HTML file."""
    path = output or model_file.with_suffix(".html")
    outputs.check_output(path, model_file)
    model = inputs.load_model(model_file)
    target = inputs.column_name(model, "target")
    title = title or (f"{target}: what the model learned" if target else None)
    rows = inputs.rows_of(model, model_file, nodes or [])
    with console.progress("writing the report"), outputs.replacing(path) as temporary:
        write_report(model, temporary, title=title, nodes=rows)
    if as_json:
        console.print_json({"output": path})
    else:
        print(path)
    if show and not webbrowser.open(path.resolve().as_uri()):
        console.print_note(f"no browser was found: open {path} yourself.")


def inspect(model_file: inputs.ModelFile, as_json: inputs.Json = False) -> None:
    """Show the contents of a model file, without loading the model."""
    facts = describe(on_disk(tables.existing(model_file)))
    if as_json:
        console.print_json(facts)
        return
    names = facts["source"] or {}
    more = " …" if len(facts["columns"]) > MAX_COLUMNS_SHOWN else ""
    columns = ", ".join(facts["columns"][:MAX_COLUMNS_SHOWN]) + more
    edges = "no graph"
    if facts["n_edges"] is not None:
        edges = f"{facts['n_edges']:,}; use: {facts['best_candidate']}"
    in_file = "in the file: share it only with those who may see the data"
    versions = (f"{name} {version}" for name, version in facts["environment"].items())
    rows = [
        ("estimator", f"{facts['estimator']}, {models_text(facts['rounds'])}"),
        ("ended", facts["stop_reason"]),
        ("target", str(names.get("target", "not named"))),
        ("nodes", f"{facts['n_nodes']:,}, {facts['n_labels']:,} of them labelled"),
        ("node ids", str(names.get("id") or "row numbers")),
        ("edges", edges),
        ("columns", f"{len(facts['columns'])}: {columns}"),
        ("table", in_file if facts["has_table"] else "not in the file"),
        ("fitted with", ", ".join(versions)),
        ("format", f"{facts['format_version']}, {file_size(facts['file_bytes'])}"),
    ]
    if facts["classes"] is not None:
        rows.append(("classes", ", ".join(str(label) for label in facts["classes"])))
    rows += [(f"  {name}", file_size(size)) for name, size in facts["bytes"].items()]
    console.print_facts(str(model_file), rows)

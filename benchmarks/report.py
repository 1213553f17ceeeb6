"""Tables made from the database, and the pages that show them.

On a page, what stands between ``<!-- table: NAME -->`` and ``<!-- end -->`` is replaced by a table,
and between ``<!-- value: DATA, METHOD -->`` and ``<!-- end -->`` by a mean error, or with
``, seconds`` after it by processor seconds of a fit.
"""

import re
import sys
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from benchmarks import database
from benchmarks.database import Key, Row

ROOT = Path(__file__).parents[1]
MARK = re.compile(r"<!-- (table|value): (.+?) -->(.*?)<!-- end -->", re.DOTALL)
#: What is predicted, by data, in the order of the tables.
NUMBERS = {
    "county": "County: unemployment rate",
    "avazu": "Avazu: click-through rate",
    "house": "House: value of a block's houses",
    "wiki": "Wiki: page views",
    "lucas": "Lucas: log price, graph",
    "lucas, coordinates": "Lucas: log price, coordinates",
    "elect80": "Elections: turnout of counties",
    "kchouse": "King County: log price",
    "twitch_de": "Twitch: log views",
    "modis": "Temperature under clouds",
}
CLASSES = {
    "elect80 thirds": "Elections: turnout in thirds",
    "kchouse thirds": "King County: price in thirds",
    "walls": "Lucas: outer wall, 2 000 labels",
    "coauthor_cs": "Coauthors, computer science",
    "coauthor_phy": "Coauthors, physics",
}
COUNTS = {
    "ncovr": "Homicides of counties",
    "bemtpl random": "Insurance claims, random policies",
    "bemtpl unseen": "Insurance claims, unseen postcodes",
}
FEW = {
    "lucas 1000": "Lucas, 1 000 labels",
    "lucas 300": "Lucas, 300 labels",
    "lucas 100": "Lucas, 100 labels",
}
ALL = {**NUMBERS, **CLASSES, **COUNTS, **FEW}
METHODS = ("LightGBM", "+ neighbours", "+ labels", "CatBoost", "GPBoost", "GNN")
METHODS += ("ebboost fast", "ebboost")
OTHERS = ("CatBoost", "GPBoost", "GNN")
README = ("county", "avazu", "house", "lucas", "lucas, coordinates", "kchouse", "walls")
README += ("coauthor_cs", "ncovr", "lucas 300")
Rows = dict[Key, Row]


def measured(rows: Rows, methods: Iterable[str] = METHODS) -> list[str]:
    """Return those of the methods that have results."""
    names = {row["method"] for key, row in rows.items() if key[0] == "accuracy"}
    return [method for method in methods if method in names]


def number(value: float) -> str:
    """Return a number with four digits, or a dash for NaN."""
    if np.isnan(value):
        return "–"
    return f"{value:,.0f}" if abs(value) >= 1_000 else f"{value:.4g}"


def short(value: float) -> str:
    """Return seconds with two digits, or a dash for NaN."""
    if np.isnan(value):
        return "–"
    return f"{value:.0f}" if value >= 10 else f"{value:.2g}"


def table(head: Iterable[str], lines: Iterable[Iterable[str]]) -> str:
    """Return a Markdown table."""
    head = list(head)
    rows = [head, ["---"] * len(head), *lines]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


class Means:
    """Means over the splits of a group, by method."""

    def __init__(self, rows: Rows, data: str) -> None:
        own = [row for key, row in rows.items() if key[:2] == ("accuracy", data)]
        self.n_splits = max((row["split"] + 1 for row in own), default=0)
        self.metric = own[0]["metric"] if own else ""
        self.rows: dict[str, list[Row]] = {}
        for row in own:
            self.rows.setdefault(row["method"], []).append(row)

    def error(self, method: str) -> float:
        """Return the mean error, NaN where a split lacks."""
        return self._mean(method, "error")

    def seconds(self, method: str) -> float:
        """Return the mean of processor seconds."""
        return self._mean(method, "processor_seconds")

    def _mean(self, method: str, entry: str) -> float:
        own = self.rows.get(method, [])
        complete = own and len(own) == self.n_splits
        return float(np.mean([row.get(entry, np.nan) for row in own])) if complete else np.nan

    def cells(self, methods: Iterable[str]) -> list[str]:
        """Return the errors, the best in bold."""
        errors = {method: self.error(method) for method in methods}
        least = min((error for error in errors.values() if error == error), default=np.nan)
        shown = {method: number(error) for method, error in errors.items()}
        return [
            f"**{shown[method]}**" if error == least else shown[method]
            for method, error in errors.items()
        ]


def errors(rows: Rows, groups: dict[str, str]) -> str:
    """Return the table of errors of some groups."""
    lines = []
    for data, title in groups.items():
        means = Means(rows, data)
        if means.rows:
            lines.append([title, means.metric, str(means.n_splits), *means.cells(measured(rows))])
    return table(["", "error", "splits", *measured(rows)], lines)


def seconds(rows: Rows) -> str:
    """Return the table of processor seconds."""
    lines = []
    for data, title in ALL.items():
        means = Means(rows, data)
        if means.rows:
            labels = next(iter(means.rows.values()))[0]["labels"]
            cells = [short(means.seconds(method)) for method in measured(rows)]
            lines.append([title, f"{labels:,}", *cells])
    return table(["", "labels", *measured(rows)], lines)


def readme(rows: Rows) -> str:
    """Return the table of the README: some data, and the best of the other methods."""
    lines = []
    for data in README:
        means = Means(rows, data)
        if "LightGBM" not in means.rows:
            continue
        found = {method: means.error(method) for method in OTHERS}
        found = {method: error for method, error in found.items() if error == error}
        best = min(found, key=lambda method: found[method]) if found else "none"
        by_hand = {method: means.error(method) for method in ("+ neighbours", "+ labels")}
        better = min(by_hand, key=lambda method: np.nan_to_num(by_hand[method], nan=np.inf))
        cells = means.cells(["LightGBM", better, best, "ebboost fast", "ebboost"])
        cells[2] += f" ({best})" if found else ""
        time = [means.seconds(method) for method in ("LightGBM", "ebboost fast", "ebboost")]
        lines.append([f"{ALL[data]}, {means.metric}", *cells, " / ".join(map(short, time))])
    best_of = f"best of {', '.join(measured(rows, OTHERS))}"
    head = ["", "LightGBM", "+ columns, labels of neighbours", best_of]
    head += ["ebboost fast", "ebboost", "seconds: LightGBM / fast / ebboost"]
    return table(head, lines)


def rewired(rows: Rows) -> str:
    """Return the table of graphs whose edges were shuffled."""
    lines = []
    for data, title in NUMBERS.items():
        shuffled = Means(rows, f"rewired {data}")
        if shuffled.rows:
            plain = Means(rows, data).error("LightGBM")
            found = [shuffled.error(method) for method in ("ebboost fast", "ebboost")]
            lines.append([title, *map(number, (plain, *found, found[1] / plain))])
    head = ["", "LightGBM", "ebboost fast", "ebboost", "ebboost over LightGBM"]
    return table(head, lines)


def speed(rows: Rows) -> str:
    """Return the table of seconds and memory by size."""
    own = [row for key, row in rows.items() if key[0] == "speed"]
    lines = [
        [f"{row['rows']:,}", row["method"], number(row["error"])]
        + [f"{row['seconds']:.2g}", f"{row['processor_seconds']:.2g}", f"{row['memory_mb']:,.0f}"]
        for row in sorted(own, key=lambda row: (row["rows"], row["seconds"]))
    ]
    return table(["rows", "", "RMSE", "seconds", "processor seconds", "memory, MB"], lines)


def intervals(rows: Rows) -> str:
    """Return the table of coverage and scores of 90 % intervals."""
    lines = []
    for data, title in NUMBERS.items():
        own = [row for key, row in rows.items() if key[:2] == ("intervals", data)]
        if own:
            names = ("coverage", "constant_coverage", "error", "constant_error")
            mean = [float(np.mean([row[name] for row in own])) for name in names]
            shares = [f"{100 * share:.1f} %" for share in mean[:2]]
            lines.append([title, str(len(own)), *shares, f"{mean[2] / mean[3]:.3f}"])
    head = ["", "splits", "covered", "covered with one width", "interval score over one width"]
    return table(head, lines)


def machines(rows: Rows) -> str:
    """Return versions and machines."""
    versions = sorted({row["version"] for row in rows.values() if row["version"]})
    names = sorted({row["machine"] for row in rows.values()})
    return f"Versions: {', '.join(versions)}. Measured on: {'; '.join(names)}."


def tables(rows: Rows) -> dict[str, str]:
    """Return all tables by name."""
    return {
        "readme": readme(rows),
        "results": errors(rows, ALL),
        "numbers": errors(rows, NUMBERS),
        "classes": errors(rows, CLASSES),
        "counts": errors(rows, COUNTS),
        "few labels": errors(rows, FEW),
        "seconds": seconds(rows),
        "rewired": rewired(rows),
        "speed": speed(rows),
        "intervals": intervals(rows),
        "machines": machines(rows),
    }


def filled(page: str, rows: Rows) -> str:
    """Return a page with its marked tables and values."""
    made = tables(rows)

    def replaced(match: re.Match[str]) -> str:
        kind, name, _ = match.groups()
        if kind == "table":
            if name not in made:
                raise ValueError(f"there is no table {name!r}; there are: {', '.join(made)}")
            return f"<!-- table: {name} -->\n{made[name]}\n<!-- end -->"
        data, method = name.removesuffix(", seconds").rsplit(", ", 1)
        means = Means(rows, data)
        shown = number(means.error(method))
        if name.endswith(", seconds"):
            shown = short(means.seconds(method))
        return f"<!-- value: {name} -->{shown}<!-- end -->"

    return MARK.sub(replaced, page)


def pages() -> list[Path]:
    """Return the README and the pages of the documentation."""
    return [
        ROOT / "README.md",
        *sorted((ROOT / "docs").glob("*.md")),
        database.RESULTS / "results.md",
    ]


def check(paths: Iterable[Path] | None = None, rows: Rows | None = None) -> list[str]:
    """Return what is wrong: pages that differ from the database, and runs of another version."""
    import ebboost

    rows = database.read() if rows is None else rows
    wrong = []
    for path in pages() if paths is None else paths:
        if path.exists():
            text = path.read_text(encoding="utf-8")
            if filled(text, rows) != text:
                wrong.append(f"{path.name} differs: run python -m benchmarks report")
    wanted = f"ebboost {ebboost.__version__}"
    old = {row["version"] for row in rows.values() if row["version"].startswith("ebboost ")}
    return wrong + [f"there are runs of {version}" for version in sorted(old - {wanted})]


def write() -> int:
    """Write results.md and the marked tables of all pages; return 1 if runs are out of date."""
    rows = database.read()
    parts = ["# Results\n\nWritten by `python -m benchmarks report`.\n"]
    for name in list(tables(rows))[2:]:
        parts.append(f"## {name.capitalize()}\n\n<!-- table: {name} --><!-- end -->\n")
    (database.RESULTS / "results.md").write_text("\n".join(parts), encoding="utf-8")
    for path in pages():
        text = path.read_text(encoding="utf-8")
        new = filled(text, rows)
        if new != text:
            path.write_text(new, encoding="utf-8")
            print(path.relative_to(ROOT))
    wrong = check()
    print("\n".join(wrong), file=sys.stderr)
    return 1 if wrong else 0

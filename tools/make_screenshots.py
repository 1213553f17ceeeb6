"""Make the pictures in docs/images: the report on a laptop and a phone, its map, two commands.

    python tools/make_screenshots.py

Needs Chromium and Pillow. The model is the first one of the README, on the house sales that ship
with the package; for the map it also has their coordinates. The commands run on the files of
``ebboost demo --files``.
"""

import io
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image
from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

import ebboost as eb

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))
from tests.browser import Browser  # noqa: E402

FOLDER = ROOT / "docs" / "images"
COLUMNS = 80
TERMINAL_WIDTH = 780
TERMINAL = """<!DOCTYPE html><meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<body style="margin:0;background:{background};color:{foreground}">
<pre style="margin:0;padding:18px 24px;font:15px/1.4 'DejaVu Sans Mono',monospace">
{code}</pre></body>
"""
MOST_BYTES = 300_000
LAPTOP = (1280, 1500)
PHONE = (390, 1300)
MAP = (1280, 1180)


def compressed(png: bytes, width: int) -> bytes:
    """Return a picture no wider than ``width``, in 256 colours."""
    picture = Image.open(io.BytesIO(png)).convert("RGB")
    if picture.width > width:
        picture = picture.resize(
            (width, round(picture.height * width / picture.width)), Image.Resampling.LANCZOS
        )
    out = io.BytesIO()
    picture.quantize(256, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(
        out, "png", optimize=True
    )
    return out.getvalue()


def write_report(folder: Path, coordinates: bool) -> Path:
    """Write a report on the Lucas houses, with a map if the coordinates are columns."""
    X, y, graph, splits = eb.datasets.load_lucas(coordinates=coordinates)
    train = splits[0]["train"]
    model = eb.EBBSRegressor(random_state=0, n_jobs=1).fit(X, y[train], nodes=train, graph=graph)
    report = folder / f"report-{coordinates}.html"
    eb.write_report(model, report, title="House prices in Lucas County")
    return report


def save(name: str, browser: Browser, width: int) -> None:
    """Write a screenshot of the browser."""
    picture = compressed(browser.screenshot(), width)
    if browser.errors or len(picture) > MOST_BYTES:
        sys.exit(f"{name}: {len(picture):,} bytes; {browser.errors}")
    path = FOLDER / f"{name}.png"
    path.write_bytes(picture)
    print(f"{path.relative_to(ROOT)}: {len(picture) / 1e3:.0f} kB")


def ebboost(folder: Path, *words: str) -> str:
    """Run a command and return what it prints, colours and all."""
    environment = {
        **os.environ,
        "FORCE_COLOR": "1",
        "COLUMNS": str(COLUMNS),
        "PYTHONPATH": str(ROOT / "src"),
    }
    command = [sys.executable, "-m", "ebboost", *words]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=True
    ).stdout


def terminal(folder: Path, *words: str) -> Path:
    """The output of a command in a terminal, as a page."""
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True)
    console.print(Text.assemble(("$ ", "green"), (" ".join(("ebboost", *words)), "bold")))
    console.print(Text.from_ansi(ebboost(folder, *words).rstrip("\n")))
    page = folder / f"{words[0]}.html"
    page.write_text(
        console.export_html(theme=MONOKAI, inline_styles=True, code_format=TERMINAL),
        encoding="utf-8",
    )
    return page


def main() -> None:
    """Write the reports, run the commands, and take the screenshots."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, Browser() as browser:
        plain, mapped = (write_report(Path(folder), coordinates) for coordinates in (False, True))
        for scheme in ("light", "dark"):
            browser.open(plain, *LAPTOP, dark=scheme == "dark")
            save(f"report-laptop-{scheme}", browser, 1280)
            browser.open(plain, *PHONE, dark=scheme == "dark", phone=True)
            save(f"report-phone-{scheme}", browser, 585)
            browser.open(mapped, *MAP, dark=scheme == "dark")
            browser.run(
                "Object.assign(document.getElementById('layer'), {value: 2})"
                ".dispatchEvent(new Event('change'))"
            )
            browser.run("document.getElementById('map').scrollIntoView({behavior: 'instant'})")
            save(f"report-map-{scheme}", browser, 1280)
        ebboost(Path(folder), "demo", "--files", ".")
        for command in ("check", "fit"):
            page = terminal(
                Path(folder), command, "nodes.csv", "edges.csv", "--target", "pc_turnout"
            )
            browser.open(page, TERMINAL_WIDTH, 100, phone=True)
            height = browser.run("document.querySelector('pre').offsetHeight")
            browser.open(page, TERMINAL_WIDTH, height, phone=True)
            save(f"terminal-{command}", browser, 2 * TERMINAL_WIDTH)


if __name__ == "__main__":
    main()

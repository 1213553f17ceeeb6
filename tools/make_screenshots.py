"""Make the pictures of the report in docs/images: on a laptop and on a phone, in light and dark. Needs Chromium and Pillow.

    python tools/make_screenshots.py

The model is that of the README's first lines, on the house sales that ship with the package.
"""

import io
import sys
import tempfile
from pathlib import Path

from PIL import Image

import ebbflow as eb

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))
from tests.browser import Browser  # noqa: E402

FOLDER = ROOT / "docs" / "images"
MOST_BYTES = 300_000
LAPTOP, PHONE = (1280, 1560), (390, 1300)


def compressed(png: bytes, width: int) -> bytes:
    """The picture no wider than ``width``, in 256 colours: a fraction of the size, and hardly to be told from it."""
    picture = Image.open(io.BytesIO(png)).convert("RGB")
    if picture.width > width:
        picture = picture.resize((width, round(picture.height * width / picture.width)), Image.Resampling.LANCZOS)
    out = io.BytesIO()
    picture.quantize(256, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(out, "png", optimize=True)
    return out.getvalue()


def main() -> None:
    """Fit, write the report, and look at it."""
    X, y, graph, splits = eb.datasets.load_lucas()
    train = splits[0]["train"]
    model = eb.EBBSRegressor(random_state=0, n_jobs=1).fit(X, y[train], nodes=train, graph=graph)
    FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, Browser() as browser:
        report = Path(folder, "report.html")
        eb.write_report(model, report, title="House prices in Lucas County, and who their neighbours are")
        for device, (width, height) in {"laptop": LAPTOP, "phone": PHONE}.items():
            for scheme in ("light", "dark"):
                browser.open(report, width, height, dark=scheme == "dark", phone=device == "phone")
                picture = compressed(browser.screenshot(), 1280 if device == "laptop" else 585)
                if browser.errors or len(picture) > MOST_BYTES:
                    sys.exit(f"{device}, {scheme}: {len(picture):,} bytes; {browser.errors}")
                path = FOLDER / f"report-{device}-{scheme}.png"
                path.write_bytes(picture)
                print(f"{path.relative_to(ROOT)}: {len(picture) / 1e3:.0f} kB")


if __name__ == "__main__":
    main()

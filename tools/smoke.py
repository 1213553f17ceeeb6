"""Install the files of a release in a clean environment and fit a model without a compiler.

    python tools/smoke.py [FOLDER]  # default: dist

The wheel that pip selects for this platform, the pure one and the sdist are installed one after the
other. Each must be of the same version and predict equally well.
"""

import json
import os
import subprocess
import sys
import venv
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parents[1]
FIT = """
import json
import numpy as np
import ebboost as eb
from ebboost import _native

X, y, graph, splits = eb.datasets.load_elect80()
train, test = splits[0]["train"], splits[0]["test"]
model = eb.EBBSRegressor.from_preset("fast", n_estimators=50, random_state=0)
model.fit(X, y[train], nodes=train, graph=graph).save("model.ebb")
again = eb.load("model.ebb")
assert np.array_equal(again.predict(), model.predict())
score = again.score(y=y[test], nodes=test)
print(json.dumps([eb.__version__, _native.sweep is not None, score]))
"""


def main(dist: Path) -> None:
    """Try the files in a folder."""
    with TemporaryDirectory() as folder:
        environment = Path(folder, "environment")
        venv.create(environment, with_pip=True)
        scripts = environment / ("Scripts" if os.name == "nt" else "bin")
        pip = [str(scripts / "python"), "-m", "pip", "--quiet", "--disable-pip-version-check"]
        local = ["--no-index", "--no-deps", "--find-links", str(dist), "--dest", folder]
        subprocess.run([*pip, "download", "--only-binary", ":all:", *local, "ebboost"], check=True)
        selected = next(Path(folder).glob("*.whl"))
        files = [selected, *dist.glob("*-any.whl"), *dist.glob("*.tar.gz")]
        subprocess.run([*pip, "install", str(selected), "pandas"], check=True)
        results = []
        for file in files:
            again = ["install", "--force-reinstall", "--no-deps", str(file)]
            subprocess.run([*pip, *again], check=True)
            bare = {
                key: value for key, value in os.environ.items() if key in ("SYSTEMROOT", "TEMP")
            }
            output = subprocess.run(
                [str(scripts / "python"), "-c", FIT],
                cwd=folder,
                env=bare | {"PATH": str(scripts), "HOME": folder},
                check=True,
                stdout=subprocess.PIPE,
            ).stdout
            results.append(json.loads(output))
            print(f"{file.name}: version, compiled, R² = {results[-1]}", flush=True)
    versions, compiled, scores = zip(*results, strict=True)
    if len(set(versions)) > 1 or compiled[:2] != (True, False):
        raise SystemExit("smoke: versions differ, or the wrong wheel is compiled.")
    if max(scores) - min(scores) > 0.01:
        raise SystemExit(f"smoke: R² differs: {scores}")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else ROOT / "dist")

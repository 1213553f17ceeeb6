#!/usr/bin/env -S uv run --script
# /// script
# dependencies = ["nox"]
# ///
"""Sessions for those who use nox: ``nox`` checks style and types, ``nox -s tests-3.14`` runs tests.

The Makefile has the same and more, with pinned versions; here they are the newest.
"""

import nox

nox.needs_version = ">=2025.5.1"
nox.options.default_venv_backend = "uv|virtualenv"
PYPROJECT = nox.project.load_toml()
DEVELOPMENT = nox.project.dependency_groups(PYPROJECT, "dev")
DOCS = nox.project.dependency_groups(PYPROJECT, "docs")
# What the tests need at least; the others are skipped where a package is not there.
FEW = ("pytest>=8.3", "pytest-xdist>=3.6", "hypothesis>=6.110")


@nox.session(python="3.11")
def lint(session: nox.Session) -> None:
    """Style, types and import layers."""
    session.install(*DEVELOPMENT, "-e", ".[cli]")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("mypy")
    session.run("lint-imports")


@nox.session(python=["3.11", "3.12", "3.13", "3.14", "3.14t", "3.15"], default=False)
def tests(session: nox.Session) -> None:
    """Run the tests of the library."""
    session.install(*FEW, "-e", ".[cli]")
    paths = ("--ignore", "tests/benchmarks", "--ignore", "tests/project")
    session.run("pytest", "-n", "2", *paths, *session.posargs, env={"OMP_NUM_THREADS": "1"})


@nox.session(python="3.11", default=False)
def docs(session: nox.Session) -> None:
    """Build the pages."""
    session.install(*DOCS, "-e", ".[cli]")
    session.run("sphinx-build", "-W", "--keep-going", "docs", "build/docs")


if __name__ == "__main__":
    nox.main()

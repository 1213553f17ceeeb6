"""Lock files pin every package to one version and its hashes; the Makefile uses them."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LOCKS = sorted(ROOT.glob("requirements*.lock"))


def test_one_lock_for_each_environment():
    assert {lock.name for lock in LOCKS} == {
        "requirements.lock",
        "requirements-demo.lock",
        "requirements-deploy.lock",
        "requirements-docs.lock",
        "requirements-lowest.lock",
        "requirements-release.lock",
        "requirements-report.lock",
    }


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
def test_every_line_of_a_lock_is_one_version_with_hashes(lock):
    text = re.sub(r"^\s*#.*\n?", "", lock.read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    requirements = [line for line in text.splitlines() if line.strip()]
    assert requirements
    for requirement in requirements:
        assert re.fullmatch(
            r"[\w.\[\],-]+==[\w.!+-]+( ;[^#]*?)?( +--hash=sha256:[0-9a-f]{64})+ *", requirement
        ), requirement


def test_locks_are_installed_by_hash():
    recipes = (ROOT / "Makefile").read_text().replace("\\\n", " ").splitlines()
    installs = [line for line in recipes if "$(PIP)" in line and ".lock" in line]
    assert len(installs) >= 5
    for line in installs:
        assert "--require-hashes" in line, line


def versions(lock):
    return set(re.findall(r"^([\w-]+==[\w.]+)", (ROOT / lock).read_text(), flags=re.MULTILINE))


@pytest.mark.parametrize("name", ["demo", "report"])
def test_the_demo_installs_versions_of_the_development_lock(name):
    assert versions(f"requirements-{name}.lock") <= versions("requirements.lock")


def test_the_demo_does_not_install_development_tools():
    names = {pin.split("==")[0] for pin in versions("requirements-demo.lock")}
    assert names >= {"lightgbm", "pandas", "typer"}
    assert not names & {"pytest", "mypy", "ruff", "xgboost-cpu", "catboost", "dask"}
    assert not names & {"matplotlib", "ziglang"}


def test_the_lowest_lock_holds_the_lower_bounds():
    pyproject = (ROOT / "pyproject.toml").read_text()
    lowest = dict(
        re.findall(
            r"^([\w-]+)==([\w.]+)",
            (ROOT / "requirements-lowest.lock").read_text(),
            flags=re.MULTILINE,
        )
    )
    needed = re.search(r"^dependencies = \[(.*?)\]", pyproject, flags=re.MULTILINE | re.DOTALL)[1]
    for name, bound in re.findall(r'"([\w-]+)>=([\w.]+)[^"]*"', needed):
        assert (lowest[name] + ".").startswith(bound + "."), (
            f"{name} is {lowest[name]}, the bound {bound}: make lock"
        )

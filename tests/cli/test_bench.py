"""``ebboost bench``."""

import ebboost as eb
import ebboost.__main__
from tests.cli.commands import error_line, run


def test_bench_runs_the_benchmarks_of_a_checkout(tmp_path, monkeypatch):
    source = tmp_path / "src" / "ebboost" / "__init__.py"
    monkeypatch.setattr(eb, "__file__", str(source))
    assert "run this from a checkout" in error_line("bench")
    (tmp_path / "benchmarks").mkdir()
    (
        tmp_path / "benchmarks" / "__init__.py"
    ).touch()  # as ours has: some libraries install a package of that name
    (tmp_path / "benchmarks" / "__main__.py").write_text(
        "import sys; sys.exit(5 if sys.argv[1:] == ['--fast', 'x'] else 1)"
    )
    run("bench", "--fast", "x", code=5)

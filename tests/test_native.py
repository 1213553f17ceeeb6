import pytest

from ebboost import _native as compiled


def test_a_library_of_another_version_is_not_used(monkeypatch):
    monkeypatch.setattr(compiled, "VERSION", -1)
    assert compiled._load() is None


def test_a_broken_library_is_not_used(monkeypatch, tmp_path):
    (tmp_path / "libkernels.so").write_bytes(b"not a library")
    monkeypatch.setattr(compiled, "FOLDER", tmp_path)
    assert compiled._load() is None


def test_without_a_library_nothing_is_loaded(monkeypatch, tmp_path):
    monkeypatch.setattr(compiled, "FOLDER", tmp_path)
    assert compiled._load() is None


@pytest.mark.parametrize("ends", [[0, 10], [0, 4, 10], [0, 1, 2, 3, 10]])
def test_every_range_is_run_once(ends):
    seen = []
    compiled.by_threads(
        lambda first, last, by: seen.extend(by * row for row in range(first, last)), ends, (2,)
    )
    assert sorted(seen) == list(range(0, 20, 2))


def test_an_error_in_a_thread_is_raised():
    def loop(first, last):
        if first == 0:
            raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        compiled.by_threads(loop, [0, 5, 10], ())


def test_threads_are_those_of_the_innermost_block():
    assert compiled.allowed_threads() == 1
    with compiled.threads(3):
        with compiled.threads(2):
            assert compiled.allowed_threads() == 2
        assert compiled.allowed_threads() == 3

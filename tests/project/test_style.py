"""Rules checked on the syntax tree: private names, vocabulary, sizes, docstrings."""

import ast
import inspect
import re
from functools import cache
from pathlib import Path

import pytest

import ebboost as eb

ROOT = Path(__file__).parents[2] / "src" / "ebboost"
MODULES = sorted(ROOT.rglob("*.py"))
MAX_COLUMNS = 100
MAX_MODULE_LINES = 500
MAX_CLASS_LINES = 350
MAX_FUNCTION_LINES = 60
LONG_CLASSES = {"Graph"}
# Private names of third-party libraries for which there is no public equivalent.
THIRD_PARTY = {
    "_check_feature_names",  # sklearn.utils.validation, as the next three
    "_check_method_params",
    "_get_feature_names",
    "_num_samples",
    "_safe_indexing",  # sklearn.utils
    "_meta",  # dask: an empty collection of the same type
    "_replace",  # collections.namedtuple: public despite its name
    "_asdict",  # collections.namedtuple
    "_exit",  # os
}
FORBIDDEN = {
    *("alike", "asked", "bend", "beside", "entrant", "everyone", "everyones", "found", "given"),
    *("heard", "keeper", "kept", "lineup", "lost", "made", "place", "places", "race", "rehearse"),
    *("room", "said", "slope", "tied", "told", "whole", "winner"),
}
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@cache
def syntax_tree(path):
    return ast.parse(path.read_text(encoding="utf-8"))


def violations(check):
    """All that ``check(path, tree)`` yields, as ``file:line text``."""
    return [
        f"{path.relative_to(ROOT)}:{line} {text}"
        for path in MODULES
        for line, text in check(path, syntax_tree(path))
    ]


def is_private(name):
    return name.startswith("_") and not name.startswith("__")


def defined_names(tree):
    """Names of functions and classes, attributes set on self or cls, and fields of classes."""
    names = {node.name for node in ast.walk(tree) if isinstance(node, (*FUNCTIONS, ast.ClassDef))}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and is_own(node.value):
            names.add(node.attr)
        if isinstance(node, ast.ClassDef):
            names |= {
                field.target.id
                for field in node.body
                if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
            }
    return names


def is_own(node):
    return isinstance(node, ast.Name) and node.id in ("self", "cls")


def is_super(node):
    return isinstance(node, ast.Call) and getattr(node.func, "id", "") == "super"


def private_reads(path, tree):
    defined = defined_names(tree)
    for node in ast.walk(tree):
        if not isinstance(node, ast.Attribute) or not is_private(node.attr):
            continue
        if is_own(node.value) or is_super(node.value):
            continue
        if node.attr not in defined | THIRD_PARTY:
            yield node.lineno, f"reads .{node.attr}"


def private_imports(path, tree):
    package = ("ebboost", *path.relative_to(ROOT).parts[:-1])
    for node in ast.walk(tree):
        if not isinstance(node, ast.ImportFrom) or not node.module:
            continue
        parts = node.module.split(".")
        for depth, part in enumerate(parts):
            outside = tuple(parts[:depth]) != package[:depth]
            if parts[0] == "ebboost" and is_private(part) and part != "_native" and outside:
                yield node.lineno, f"imports the private module {node.module}"
        for alias in node.names:
            is_module = (ROOT.joinpath(*parts[1:]) / f"{alias.name}.py").exists()
            if not is_private(alias.name) or alias.name in THIRD_PARTY | {"_native"}:
                continue
            if not (parts[0] == "ebboost" and is_module and tuple(parts) == package):
                yield node.lineno, f"imports the private name {node.module}.{alias.name}"


def forbidden_identifiers(path, tree):
    for node in ast.walk(tree):
        name = getattr(node, "name", None)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            name = node.id
        if isinstance(node, ast.arg):
            name = node.arg
        if isinstance(name, str) and name.strip("_") in FORBIDDEN:
            yield getattr(node, "lineno", 0), f"is named {name}"


def wide_lines(path, tree):
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if len(line) > MAX_COLUMNS:
            yield number, f"has {len(line)} columns"


def long_units(path, tree):
    n_lines = len(path.read_text(encoding="utf-8").splitlines())
    if n_lines > MAX_MODULE_LINES:
        yield 1, f"module of {n_lines} lines"
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and node.name not in LONG_CLASSES:
            size = node.end_lineno - node.lineno + 1
            if size > MAX_CLASS_LINES:
                yield node.lineno, f"class {node.name} of {size} lines"
        if isinstance(node, FUNCTIONS):
            docstring = ast.get_docstring(node, clean=False)
            size = node.end_lineno - node.lineno + 1
            size -= docstring.count("\n") + 1 if docstring else 0
            if size > MAX_FUNCTION_LINES:
                yield node.lineno, f"function {node.name} of {size} lines without its docstring"


def has_section(docstring, *titles):
    return any(re.search(rf"^{title}\n-+$", docstring, flags=re.MULTILINE) for title in titles)


def function_gaps(name, function, docstrings):
    """What none of the docstrings says: the function's own and, for an override, its bases'."""
    signature = inspect.signature(function)
    parameters = [p for p in signature.parameters if p not in ("self", "cls")]
    returns = signature.return_annotation not in (None, "None", inspect.Signature.empty)
    if not any(docstrings):
        yield f"{name} has no docstring"
    if parameters and not any(has_section(text, "Parameters") for text in docstrings):
        yield f"{name} has no Parameters section"
    if returns and not any(has_section(text, "Returns", "Yields") for text in docstrings):
        yield f"{name} has no Returns section"


def class_gaps(name, cls):
    docstring = inspect.cleandoc(cls.__doc__ or "")
    has_parameters = "__init__" in vars(cls) and not issubclass(cls, (tuple, Exception))
    if not docstring:
        yield f"{name} has no docstring"
    elif has_parameters and not has_section(docstring, "Parameters", "Attributes"):
        yield f"{name} has no Parameters section"
    for attribute, member in inspect.getmembers_static(cls):
        function = getattr(member, "__func__", member)
        if attribute.startswith("_"):
            continue
        if isinstance(function, property) and not inspect.getdoc(function):
            yield f"{name}.{attribute} has no docstring"
        if inspect.isfunction(function) and function.__module__.startswith("ebboost"):
            bases = [vars(base)[attribute] for base in cls.__mro__ if attribute in vars(base)]
            docstrings = [inspect.cleandoc(base.__doc__ or "") for base in bases]
            yield from function_gaps(f"{name}.{attribute}", function, docstrings)


def docstring_gaps():
    for name in eb.__all__:
        public = getattr(eb, name)
        if inspect.isclass(public):
            yield from class_gaps(name, public)
        elif inspect.isfunction(public):
            yield from function_gaps(name, public, [inspect.getdoc(public) or ""])


def test_no_module_reads_a_private_attribute_of_another():
    assert violations(private_reads) == []


def test_no_private_name_or_module_is_imported_from_another_package():
    assert violations(private_imports) == []


def test_identifiers_are_nouns_of_the_field():
    assert violations(forbidden_identifiers) == []


def test_lines_have_at_most_100_columns():
    assert violations(wide_lines) == []


def test_modules_classes_and_functions_are_short():
    assert violations(long_units) == []


def test_public_api_has_numpydoc_docstrings():
    assert sorted(set(docstring_gaps())) == []


SAMPLE = """
from ebboost.graph._edges import merge
from ebboost.model import _state


class Model:
    def fit(self, found):
        self._weights = found
        return found._labels, self._weights, found._weights
"""


@pytest.mark.parametrize(
    ("check", "expected"),
    [
        (private_reads, ["reads ._labels"]),
        (
            private_imports,
            [
                "imports the private module ebboost.graph._edges",
                "imports the private name ebboost.model._state",
            ],
        ),
        (forbidden_identifiers, ["is named found"]),
    ],
)
def test_the_checks_notice_violations(check, expected):
    path = ROOT / "training" / "sample.py"
    assert [text for _, text in check(path, ast.parse(SAMPLE))] == expected

"""Defaults of losses, uses of labels, momentum and callbacks."""

import pytest

import ebboost as eb
from tests.problems import documented_defaults, own_defaults


@pytest.mark.parametrize(
    "kind",
    [
        *(eb.Huber, eb.Quantile, eb.NegativeBinomial, eb.Tweedie),
        *(eb.LatentField, eb.MaskedLabels, eb.CorrectedMomentum),
        *(eb.EarlyStopping, eb.ProgressBar, eb.LogMetrics),
    ],
)
def test_defaults_are_those_of_the_documentation(kind):
    assert documented_defaults(kind) == own_defaults(kind)


@pytest.mark.parametrize("kind", [eb.LatentField, eb.MaskedLabels])
def test_uses_of_labels_print_what_differs_from_the_defaults_and_are_keys_of_dicts(kind):
    use = kind()
    assert repr(use) == f"{kind.__name__}()"
    assert {use: 1, kind(): 2}[use] == 1

"""What the panels of the report are made from, and how they say that something is missing."""

from dataclasses import dataclass
from html import escape
from typing import Any

from sklearn.base import is_classifier

from ebboost.data.table import Table
from ebboost.inspection.diagnostics import HeldOut

NO_HELD_OUT = (
    "No node was held out in this fit, so nothing here can be measured honestly. With at least 50 labels and "
    "early_stopping=True a tenth of them is held out by itself; or pass eval_set=(nodes, y) to fit."
)


@dataclass(frozen=True)
class Known:
    """All that the panels are made from."""

    model: Any
    table: Table | None
    held: HeldOut | None
    plain: HeldOut | None
    quality: dict[str, float]
    plain_quality: dict[str, float]

    @property
    def classes(self) -> bool:
        """Whether classes are predicted."""
        return bool(is_classifier(self.model))


def told(text: str) -> str:
    """A paragraph that says what is missing and how to get it."""
    return f'<p class="missing">{escape(text)}</p>'


def paragraph(text: str) -> str:
    """A paragraph."""
    return f"<p>{escape(text)}</p>"

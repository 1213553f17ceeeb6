"""Options that commands share: fields of a dataclass become options."""

from dataclasses import dataclass
from typing import Annotated

import typer
from typer.testing import CliRunner

from ebboost.cli.inputs import option, with_options


@dataclass(frozen=True)
class Limits:
    low: Annotated[int, option("--low", "NUMBER", "Lower limit.", min=0)] = 1
    high: Annotated[int, option("--high", "NUMBER", "Upper limit.")] = 2


def call(*words):
    app = typer.Typer()

    @app.command()
    @with_options
    def show(name: str, limits: Limits, loud: bool = False) -> None:
        print(name, limits, loud)

    return CliRunner().invoke(app, list(words))


def test_fields_of_a_dataclass_are_options_with_their_defaults():
    assert call("a").stdout == "a Limits(low=1, high=2) False\n"
    assert call("a", "--high", "9", "--loud").stdout == "a Limits(low=1, high=9) True\n"


def test_limits_of_an_option_are_checked():
    result = call("a", "--low", "-1")
    assert result.exit_code == 2 and "--low" in result.stderr

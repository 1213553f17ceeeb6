"""Numbers as text, the same in ``summary``, ``check_graph``, the report and the command line."""

import numpy as np

LONGEST_NAME = 150


def figure(value: float, digits: int = 4) -> str:
    """Return a number with so many significant digits, zeros at the end included.

    Thousands are separated from 10,000 up, so that years stay as they are: 18,410 and 0.05358.
    """
    if not np.isfinite(value):
        return "∞" if value > 0 else "-∞" if value < 0 else "–"
    if not 1e-4 <= abs(value) < 1e9:
        return f"{value:.{digits}g}"
    decimals = digits - 1 - int(np.floor(np.log10(abs(value))))
    rounded = round(value, decimals)
    return f"{rounded:{',' if abs(rounded) >= 10_000 else ''}.{max(decimals, 0)}f}"


def number(value: float, digits: int = 4) -> str:
    """Return a number like :func:`figure`, integers whole, without zeros at the end."""
    if np.isfinite(value) and value == int(value) and abs(value) < 1e9:
        return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:.0f}"
    text = figure(value, digits)
    return text.rstrip("0").rstrip(".") if "." in text and "e" not in text else text


def date(days: float) -> str:
    """Return days since 1970 as a date, with the time of day if it is not midnight."""
    if not abs(days) < 3e6:  # years of four digits
        return number(days)
    minutes = np.datetime64(round(days * 1440), "m")
    day = minutes.astype("datetime64[D]")
    return str(day) if day == minutes else str(minutes).replace("T", " ")


def percent(share: float, decimals: int | None = None) -> str:
    """Return a share in percent; by default with decimals below 10 % and just below 100 %."""
    if decimals is not None:
        return f"{100 * share:.{decimals}f}%"
    if 0.99 <= share < 1:  # less than all is never rounded to all
        return f"{min(100 * share, 99.9):.1f}%"
    return f"{100 * share:.3g}%" if 0 < abs(share) < 0.1 else f"{100 * share:.0f}%"


def file_size(n_bytes: int) -> str:
    """Return a number of bytes in kB or MB."""
    return f"{n_bytes / 1e6:.1f} MB" if n_bytes >= 1e6 else f"{n_bytes / 1e3:.1f} kB"


def duration(seconds: float) -> str:
    """Return seconds, or minutes from two on, without decimals."""
    return f"{seconds:.0f} s" if seconds < 119.5 else f"{seconds / 60:.0f} minutes"


def count(n: int, noun: str) -> str:
    """Return a number of things, in the plural where it is not 1."""
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def listed(names: list[str], most: int = 5) -> str:
    """Return the first names of a list, and how many more there are."""
    rest = len(names) - most
    return ", ".join(names[:most]) + (f" and {rest:,} more" if rest > 0 else "")


def shorten(name: object, longest: int = LONGEST_NAME) -> str:
    """Return a name as one line of at most ``longest`` characters."""
    text = " ".join(str(name).split())
    return text if len(text) <= longest else f"{text[:longest]}…"

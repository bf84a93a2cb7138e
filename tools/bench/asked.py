"""Arguments of a benchmark's command line."""

from __future__ import annotations

import sys


def arguments() -> list[str]:
    """Return the arguments behind the script's name; -h and --help print the script's docstring and end it."""
    given = sys.argv[1:]
    if {"-h", "--help"} & set(given):
        print(sys.modules["__main__"].__doc__)
        sys.exit(0)
    return given

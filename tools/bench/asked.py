"""What a benchmark was asked for on its command line."""

from __future__ import annotations

import sys


def arguments() -> list[str]:
    """What stands behind the script's name; -h and --help print what the script says of itself, and end it."""
    given = sys.argv[1:]
    if {"-h", "--help"} & set(given):
        print(sys.modules["__main__"].__doc__)
        sys.exit(0)
    return given

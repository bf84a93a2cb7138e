"""Run all bad inputs; write expected.yaml and docs/bad-input.md.

python -m tests.support.bad_inputs      # then read the difference
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import yaml

from tests.support.bad_inputs.bad_input import tried
from tests.support.bad_inputs.page import ALL, EXPECTED, PAGE, page, without_lists


def main() -> None:
    expected: dict[str, str] = {}
    for bad in ALL:
        with tempfile.TemporaryDirectory() as folder:
            try:
                got = tried(bad, Path(folder))
            except Exception as error:
                print(f"{bad.name}: {type(error).__name__}: {str(error)[:200]}")
                continue
        if got.code != 2 or got.said.count("\n") != 1 or got.left:
            print(f"{bad.name}: exit code {got.code}, left {got.left}: {got.said[:300]!r}")
            continue
        expected[bad.name] = without_lists(got.said).removesuffix("\n")
    if len(expected) < len(ALL):
        raise SystemExit(f"{len(ALL) - len(expected)} of {len(ALL)} do not end as they should")
    PAGE.write_text(page(expected), encoding="utf-8")
    EXPECTED.write_text(yaml.safe_dump(expected, sort_keys=False, allow_unicode=True, width=10_000), encoding="utf-8")
    print(f"{len(expected)} of {len(ALL)} end as they should")


if __name__ == "__main__":
    main()

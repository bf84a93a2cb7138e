"""Run the lessons (docs/lessons) and keep what they print and draw. Usage: tools/lessons.py [NOTEBOOK...]; all by default.

Needs `pip install -e '.[lessons]'`. Stored notebooks hold neither dates nor the number of a run, so that a second run of the
same version changes nothing.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import nbformat
from nbclient import NotebookClient

ROOT = Path(__file__).resolve().parents[1]
TIMEOUT_SECONDS = 300


def run(path: Path) -> None:
    """Execute one notebook in place; an error of a cell ends it and leaves the file as it was."""
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(
        notebook, timeout=TIMEOUT_SECONDS, kernel_name="python3", record_timing=False, coalesce_streams=True
    )
    client.execute(cwd=str(path.parent))
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    for number, cell in enumerate(notebook.cells):
        cell.id = f"cell-{number:02d}"
        tags = cell.metadata.get("tags")
        cell.metadata = {"tags": tags} if tags else {}
    nbformat.write(notebook, path)


def main() -> None:
    """Run the notebooks named on the command line, or all."""
    for path in [Path(name) for name in sys.argv[1:]] or sorted((ROOT / "docs" / "lessons").glob("*.ipynb")):
        begin = time.monotonic()
        run(path)
        print(f"{path.name}: {time.monotonic() - begin:.1f} s", file=sys.stderr)


if __name__ == "__main__":
    main()

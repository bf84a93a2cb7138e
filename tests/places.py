"""Where the tests find what is no module."""

from pathlib import Path

TESTS = Path(__file__).resolve().parent
ROOT = TESTS.parent
DATA = TESTS / "data"
DOCS = ROOT / "docs"
TOOLS = ROOT / "tools"

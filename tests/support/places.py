"""Where the tests find what is no module."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests"
DATA = TESTS / "data"
DOCS = ROOT / "docs"
TOOLS = ROOT / "tools"

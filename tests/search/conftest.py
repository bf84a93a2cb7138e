"""Lets the tests of this directory import what they share (importlib mode adds no directory to the path)."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

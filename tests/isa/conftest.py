"""Makes the helper modules of these tests importable: pytest runs with --import-mode=importlib."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))

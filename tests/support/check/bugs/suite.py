"""All pairs: importing this enters them."""

from importlib import import_module
from pathlib import Path

FILES = sorted(path.stem for path in Path(__file__).parent.glob("*_bugs.py"))
for name in FILES:
    import_module(f"{__package__}.{name}")

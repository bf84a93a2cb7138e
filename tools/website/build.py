"""`tools/site`: gathers the pages, lets MkDocs build them, and checks every link of what it built."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import commands
import gathered
import links
import live
import reference
import yaml

HERE = Path(__file__).resolve().parent
NAVIGATION = {
    "Start": ["index.md", "glossary.md", "commands.md", "python.md", "design.md", "changelog.md"],
    "Live pages": ["live.md"],
    "Uses": [
        "reading-a-run.md", "tiling-search.md", "sweep.md", "compare.md", "networks.md", "precision.md", "explain.md",
        "torch.md", "acl.md", "writing-a-kernel.md", "ascend-c.md", "judge.md", "check.md", "msprof.md",
    ],
    "What to trust": [
        "accuracy.md", "accuracy-tables.md", "measured-bandwidth.md", "conformance.md", "performance.md", "mutants.md",
    ],
    "Reference": [
        "files.md", "chips.md", "adding-a-chip.md", "instructions.md", "operators.md", "extending.md", "bad-input.md",
    ],
}  # fmt: skip
"""Pages by chapter; lessons and pages that are named nowhere here follow in chapters of their own."""


def main() -> int:
    """Build into the folder that is given; returns the exit code."""
    out = Path(sys.argv[1])
    with tempfile.TemporaryDirectory() as scratch:
        pages = Path(scratch) / "pages"
        pages.mkdir()
        lessons = gathered.gather(pages)
        reference.write(pages)
        commands.write(pages)
        live.write(pages)
        shutil.copyfile(HERE / "site.css", pages / "site.css")
        config = Path(scratch) / "mkdocs.yml"
        config.write_text(_config(pages, lessons), encoding="utf-8")
        built = Path(scratch) / "site"
        subprocess.run(
            [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "-f", str(config), "-d", str(built)],
            check=True,
        )
        (built / "404.html").unlink()  # what a server would show; its links begin at the server's root
        dead = links.dead(built)
        for line in dead:
            print(line, file=sys.stderr)
        if dead:
            return 1
        shutil.rmtree(out, ignore_errors=True)
        shutil.copytree(built, out)
    count = sum(1 for _ in out.rglob("*.html"))
    print(f"{count} pages, no dead link: {out / 'index.html'}")
    return 0


def _config(pages: Path, lessons: list[str]) -> str:
    """mkdocs.yml with the pages' folder and the navigation; what MkDocs reads itself stays as it is."""
    named = {page for chapter in NAVIGATION.values() for page in chapter}
    others = sorted(path.name for path in pages.glob("*.md") if path.name not in named)
    chips = sorted(f"chips/{path.name}" for path in (pages / "chips").glob("*.md"))
    chapters = {**NAVIGATION, "Lessons": lessons, **({"More": others} if others else {}), "Chips": chips}
    navigation = [{name: chapter} for name, chapter in chapters.items()]
    plain = (HERE / "mkdocs.yml").read_text(encoding="utf-8")
    return f"{plain}docs_dir: {pages}\n{yaml.safe_dump({'nav': navigation}, sort_keys=False)}"


if __name__ == "__main__":
    sys.exit(main())

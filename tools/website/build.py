"""`tools/site`: gathers the pages, lets MkDocs build them, and checks every link of what it built."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import commands
import finding
import gathered
import links
import live
import reference
import yaml

HERE = Path(__file__).resolve().parent
NAVIGATION = {
    "Start": ["index.md", "reading-a-run.md", "what-to-trust.md", "glossary.md", "live.md"],
    "Lessons": [],
    "Uses": [
        "networks.md", "tiling-search.md", "sweep.md", "compare.md", "precision.md", "torch.md", "acl.md", "explain.md",
        "writing-a-kernel.md", "ascend-c.md", "check.md", "judge.md", "msprof.md",
    ],
    "Reference": ["commands.md", "python.md", "files.md", "instructions.md", "conformance.md", "bad-input.md"],
}  # fmt: skip
"""Pages by chapter. Lessons come from their folder; what is named nowhere here stands in Reference, folded, and so do chips."""


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
        for name in ("site.css", "find.js"):
            shutil.copyfile(HERE / name, pages / name)
        config = Path(scratch) / "mkdocs.yml"
        config.write_text(_config(pages, lessons), encoding="utf-8")
        built = Path(scratch) / "site"
        subprocess.run(
            [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "-f", str(config), "-d", str(built)], check=True
        )
        (built / "404.html").unlink()  # what a server would show; its links begin at the server's root
        finding.write_index(built)
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
    others = sorted(path.name for path in pages.glob("*.md") if path.name not in (*named, "chips.md"))
    chips = ["chips.md", *sorted(f"chips/{path.name}" for path in (pages / "chips").glob("*.md"))]
    folded = [{"Accuracy, design, extending": others}, {"Chips": chips}]
    chapters = {**NAVIGATION, "Lessons": lessons, "Reference": [*NAVIGATION["Reference"], *folded]}
    navigation = [{name: chapter} for name, chapter in chapters.items()]
    plain = (HERE / "mkdocs.yml").read_text(encoding="utf-8")
    return f"{plain}docs_dir: {pages}\n{yaml.safe_dump({'nav': navigation}, sort_keys=False)}"


if __name__ == "__main__":
    sys.exit(main())

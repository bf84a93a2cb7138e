"""The lines of Python files that a change touches, as git gives them."""

from __future__ import annotations

import keyword
import re
import subprocess
from pathlib import Path

from generic import OTHER_NAMES

SOURCES = ("--", "*.py", "*.c", "*.h")
_WORDS = re.compile(r"""[rbf]?"[^"\n]*"|[rbf]?'[^'\n]*'|\w+|[^\w\s]""")


def start_of_work(root: Path) -> str:
    """Return the commit where this branch left main; on main, the commit before the last."""
    heads = _git(root, "for-each-ref", "--format=%(refname)", "refs/heads/main", "refs/remotes/origin/main").split()
    base = _git(root, "merge-base", "HEAD", heads[-1]).strip() if heads else ""
    return "HEAD~1" if base in ("", _git(root, "rev-parse", "HEAD").strip()) else base


def touched_lines(root: Path, revision: str) -> dict[str, set[int]]:
    """Return the lines that the working tree has otherwise than a revision, by file; new files are all lines.

    A hunk in which only names or line breaks differ touches none. ValueError, of one line, if git cannot compare.
    """
    _git(root, "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}", missing=f"there is no revision {revision}")
    found = {}
    for file in _git(root, "ls-files", "--others", "--exclude-standard", *SOURCES).splitlines():
        found[file] = set(range(1, (root / file).read_bytes().count(b"\n") + 2))
    text = _git(root, "diff", "-U0", "-M", "--no-color", "--no-ext-diff", "--relative", "--dst-prefix=b/", revision, *SOURCES)
    for part in re.split(r"^diff --git ", text, flags=re.MULTILINE)[1:]:
        file = re.search(r"^\+\+\+ b/(.*)$", part, re.MULTILINE)
        for hunk in re.split(r"^(?=@@ )", part, flags=re.MULTILINE)[1:]:
            first, _, count = re.match(r"@@ -\S+ \+(\d+)(,(\d+))?", hunk).groups()
            old, new = (re.findall(rf"^\{sign}(.*)$", hunk, re.MULTILINE) for sign in "-+")
            if file and _shape(old) != _shape(new):
                found.setdefault(file[1], set()).update(range(int(first), int(first) + int(count or 1)))
    return found


def _shape(lines: list[str]) -> list[str]:
    """Return the words of some lines, names as one and the same word."""
    words = _WORDS.findall("\n".join(lines))
    plain = {word for word in words if word.isidentifier() and not keyword.iskeyword(word)} - OTHER_NAMES.keys()
    return ["name" if word in plain else word for word in words]


def _git(root: Path, *arguments: str, missing: str = "") -> str:
    try:
        done = subprocess.run(
            ["git", "-c", "core.quotePath=false", *arguments], cwd=root, capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        raise ValueError("git is not installed") from None
    if done.returncode:
        raise ValueError(missing if not done.stderr else done.stderr.splitlines()[0])
    return done.stdout

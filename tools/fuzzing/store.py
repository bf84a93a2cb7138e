"""Store of tried calls, in a file that a later run continues."""

from __future__ import annotations

import json
import os
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fuzzing.outcome import FuzzOutcome

VERSION = 1


class StoreError(Exception):
    """A file that is no store, or that of other calls."""


@dataclass
class Tally:
    """The calls of one kind and seed that were made: which, how they ended, which were wrong."""

    kind: str
    seed: int
    labels: tuple[str, ...]
    done: list[list[int]] = field(default_factory=list)
    """Indices from (included) to (excluded), in order, with gaps between."""
    counts: Counter[tuple[str, ...]] = field(default_factory=Counter)
    cpu: float = 0.0
    slowest: tuple[float, int] = (0.0, -1)
    wrong: list[dict[str, Any]] = field(default_factory=list)

    @property
    def calls(self) -> int:
        return self.counts.total()

    def add(self, index: int, outcome: FuzzOutcome, seconds: float, line: str | None = None) -> None:
        """One call that came to an end; `line` is how to make it again, where it is wrong."""
        self._mark(index)
        self.counts[outcome.labels] += 1
        self.cpu += seconds
        self.slowest = max(self.slowest, (seconds, index))
        if outcome.wrong is not None:
            self.wrong.append({"index": index, "labels": list(outcome.labels), "said": outcome.wrong, "line": line})

    def _mark(self, index: int) -> None:
        for place in self.done:
            if place[1] == index:
                place[1] += 1
                break
        else:
            self.done.append([index, index + 1])
        self.done.sort()
        merged = self.done[:1]
        for start, stop in self.done[1:]:
            if merged[-1][1] == start:
                merged[-1][1] = stop
            else:
                merged.append([start, stop])
        self.done = merged

    def missing(self, count: int, block: int) -> list[tuple[int, int]]:
        """Return the missing ones of the first `count` calls, in pieces of at most `block` calls."""
        gaps, at = [], 0
        for start, stop in [*self.done, [count, count]]:
            gaps += [(first, min(first + block, start, count)) for first in range(at, min(start, count), block)]
            at = max(at, stop)
        return gaps

    def by(self, label: str) -> Counter[str]:
        """Calls by one of the labels."""
        place, found = self.labels.index(label), Counter[str]()
        for labels, count in self.counts.items():
            found[labels[place]] += count
        return found

    def save(self, path: Path) -> None:
        """Write the file anew under a temporary name, and give it its own when it is whole."""
        data = {
            "version": VERSION, "kind": self.kind, "seed": self.seed, "labels": self.labels, "done": self.done,
            "cpu_s": self.cpu, "slowest": self.slowest,
            "counts": [[*labels, count] for labels, count in sorted(self.counts.items())], "wrong": self.wrong,
        }  # fmt: skip
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = path.with_name(f"{path.name}.{os.getpid()}.tmp")
        beside.write_text(json.dumps(data, indent=1), encoding="utf-8")
        beside.replace(path)


def load(path: Path, kind: str, seed: int | None, labels: tuple[str, ...]) -> Tally:
    """The tally of a file, or an empty one where there is none. `seed` None takes the file's, or 0."""
    if not path.exists():
        return Tally(kind, seed or 0, labels)
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if data["version"] != VERSION:
            raise StoreError(f"{path}: version {data['version']}, this program writes {VERSION}")
        if (data["kind"], tuple(data["labels"])) != (kind, labels):
            raise StoreError(f"{path}: holds calls of the kind {data['kind']!r}, not {kind!r}")
        if seed is not None and seed != data["seed"]:
            raise StoreError(f"{path}: holds calls of seed {data['seed']}, not {seed}")
        counts = Counter({tuple(labels): count for *labels, count in data["counts"]})
        seconds, index = data["slowest"]
        return Tally(kind, data["seed"], labels, data["done"], counts, data["cpu_s"], (seconds, index), data["wrong"])
    except (KeyError, TypeError, ValueError) as error:
        raise StoreError(f"{path}: no file of tools/fuzz ({type(error).__name__}: {error})") from None

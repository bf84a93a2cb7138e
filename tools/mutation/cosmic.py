"""Generic planted mistakes by cosmic-ray: a sample of its operators on one file, in a copy of the tree.

    pip install cosmic-ray          # in an environment of its own: `--cosmic-ray PATH` says where
    python tools/mutation/cosmic.py ops/kernels/cube/capacity.py --sample 20 --seed 1

The tests run with the Python of this process. A session file holds what was chosen and what came of it; the same command
goes on with it.
"""

from __future__ import annotations

import argparse
import random
import shlex
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import listed
import trial

ROOT = Path(__file__).resolve().parents[2]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", help="a source file, from the root of the tree")
    parser.add_argument("--tests", nargs="+", default=(), help="otherwise those that the list names for the file")
    parser.add_argument("--sample", type=int, default=20, help="how many of all changes (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="which (%(default)s)")
    parser.add_argument("--seconds", type=float, default=120, help="the longest that the tests may take (%(default)s)")
    parser.add_argument("--session", type=Path, help="(default: out/cosmic/FILE.SEED.sqlite)")
    parser.add_argument("--cosmic-ray", default="cosmic-ray", help="its command (%(default)s)")
    return parser.parse_args()


def tests_of(file: str) -> tuple[str, ...]:
    """What the list names for a file."""
    named = (test.partition("::")[0] for one in listed.read_list() if one.file == file for test in one.tests)
    return tuple(dict.fromkeys(named))


def keep(session: Path, count: int, seed: int) -> int:
    """Leave `count` of the changes in a session that is new, every one as likely as another; how many there were."""
    with closing(sqlite3.connect(session)) as database, database:
        jobs = [job for (job,) in database.execute(
            "select job_id from mutation_specs order by start_pos_row, start_pos_col, operator_name, occurrence"
        )]  # fmt: skip
        gone = set(jobs) - set(random.Random(seed).sample(jobs, min(count, len(jobs))))
        for table in ("mutation_specs", "work_items"):
            database.executemany(f"delete from {table} where job_id = ?", [(job,) for job in gone])
    return len(jobs)


def report(session: Path) -> int:
    """Print each change that survived and the share that was found; how many survived."""
    with closing(sqlite3.connect(session)) as database:
        rows = database.execute(
            "select r.test_outcome, s.operator_name, s.module_path, s.start_pos_row, r.diff from work_results r "
            "join mutation_specs s on s.job_id = r.job_id order by s.start_pos_row"
        ).fetchall()
        (chosen,) = database.execute("select count(*) from mutation_specs").fetchone()
    survivors = [row for row in rows if "SURVIVED" in str(row[0]).upper()]
    for _, operator, module, line, diff in survivors:
        changed = [text for text in (diff or "").splitlines() if text[:1] in "+-" and text[:3] not in ("+++", "---")]
        print(f"survived: {module}:{line} {operator}")
        print("\n".join(f"    {text}" for text in changed))
    print(f"{len(rows)} of {chosen} run, {len(rows) - len(survivors)} found")
    return len(survivors)


def main() -> int:
    options = arguments()
    tests = tuple(options.tests) or tests_of(options.file)
    ray = shutil.which(options.cosmic_ray)
    if ray is None or not (ROOT / options.file).is_file() or not tests:
        missing = "no cosmic-ray" if ray is None else f"no tests for {options.file}, or no such file"
        print(f"{missing}; see --help", file=sys.stderr)
        return 2
    name = options.file.replace("/", ".").removesuffix(".py")
    session = (options.session or ROOT / "out" / "cosmic" / f"{name}.{options.seed}.sqlite").resolve()
    session.parent.mkdir(parents=True, exist_ok=True)
    run = shlex.join([sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests])
    with trial.copy_of(ROOT) as copy:
        config = copy.root / "cosmic.toml"
        config.write_text(
            f'[cosmic-ray]\nmodule-path = "{options.file}"\ntimeout = {options.seconds}\nexcluded-modules = []\n'
            f'test-command = "env PYTHONPATH={copy.root} PYTHONDONTWRITEBYTECODE=1 {run}"\n'
            '[cosmic-ray.distributor]\nname = "local"\n',
            encoding="utf-8",
        )
        commands = [] if session.exists() else [("baseline", str(config)), ("init", str(config), str(session))]
        for command in commands:
            subprocess.run([ray, *command], cwd=copy.root, check=True)
        if commands:
            print(f"{options.sample} of {keep(session, options.sample, options.seed)} changes of {options.file}")
        subprocess.run([ray, "exec", str(config), str(session)], cwd=copy.root, check=True)
    return int(report(session) > 0)


if __name__ == "__main__":
    sys.exit(main())

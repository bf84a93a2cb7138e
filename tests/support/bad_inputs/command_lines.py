"""Bad command lines, and bad files besides descriptions: kernels, measured rows, earlier runs, places and names."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tests.support.bad_inputs.bad_input import Bad
from tests.support.bad_inputs.contents import KERNEL, ROWS, database, report, run_folder, timeline, write_bytes


def options() -> Iterator[Bad]:
    """Yield wrong words of command lines."""
    big = 1 << 70
    for what, command in {
        "no case of that name": "run nothing_like_it",
        "no case at all": "run",
        "an empty case": "run ''",
        "a folder": "run .",
        "an unknown command": "runs by_hand",
        "an unknown option": "run by_hand --fast",
        "an option of the program behind its command": "run by_hand --engine simpy",
        "an unknown chip": "run by_hand --chip ascend911",
        "a family for a chip": "run by_hand --chip dav-2201",
        "a chip file that is not there": "run by_hand --chip mine.yaml",
        "an unknown mode": "run by_hand --mode quick",
        "an unknown engine": "--engine fast run by_hand",
        "an unknown conformance": "run by_hand --conformance strict",
        "an unknown l2": "run by_hand --l2 hot",
        "an unknown model of sums": "run by_hand --accumulate kahan",
        "an unknown overflow": "run by_hand --overflow wrap",
        "an overflow that the chip lacks": "run by_hand --overflow inf_nan --chip ascend910a",
        "a cubeMathType that is a text": "run by_hand --cube-math-type high",
        "a cubeMathType of 2^70": f"run by_hand --cube-math-type {big}",
        "a cubeMathType of 9": "run by_hand --cube-math-type 9",
        "a limit of 0 cycles": "run by_hand --max-cycles 0",
        "a limit that is a text": "run by_hand --max-cycles many",
        "a limit that is reached": "run by_hand --max-cycles 10",
        "a limit of memory that is a text": "--max-memory much run by_hand",
        "a limit of memory of 0": "--max-memory 0 run by_hand",
        "no events in the trace": "run by_hand --trace-limit 0",
        "a tiling without value": "run by_hand --tiling grad_input.baseM",
        "a tiling without kernel": "run by_hand --tiling baseM=16",
        "a tiling of an unknown kernel": "run by_hand --tiling x.baseM=16",
        "a tiling with a text": "run by_hand --tiling grad_input.baseM=x",
        "a tiling of 19 digits": "run by_hand --tiling grad_input.baseM=9999999999999999999",
        "a tiling with a leading zero": "run by_hand --tiling grad_input.baseM=016",
        "a tiling twice": "run by_hand --tiling grad_input.baseM=16,grad_input.baseM=32",
        "a tiling file that is not there": "run by_hand --tiling t.yaml",
        "an empty tiling": "run by_hand --tiling ''",
        "blocks that are a text": "run by_hand --block-dim many",
        "blocks of 0": "run by_hand --block-dim 0",
        "blocks of -1": "run by_hand --block-dim -1",
        "blocks of an unknown kernel": "run by_hand --block-dim x=3",
        "a tensor file that is not there": "run by_hand --input t.npz",
        "a tensor file that is a folder": "run by_hand --input .",
        "msprof without a folder": "run by_hand --msprof",
        "msprof in functional mode": "run by_hand --mode functional --msprof --out out",
        "lines that nobody gets to see": "run by_hand --lines",
        "a flag without its kernel": "run by_hand --disarm full",
        "a flag of a kernel that is not there": "run by_hand --mode timing --disarm missing.full",
        "a flag that is not there": "run by_hand --mode timing --disarm 'grad_input.A1[0] half'",
        "the beginning of a flag's name": "run by_hand --mode timing --disarm grad_input.A1",
        "a flag in functional mode": "run by_hand --mode functional --disarm 'grad_input.A1[0] full'",
        "flags to list and one to disarm": "run by_hand --flags --disarm 'grad_input.A1[0] full'",
        "flags to list into a folder": "run by_hand --flags --out out",
        "a page in functional mode": "run by_hand --mode functional --html page.html",
        "a page in no folder": "run by_hand --html no/page.html",
        "a page that is a folder": "run by_hand --html .",
        "explain: an element of another rank": "explain by_hand --element 1,2",
        "explain: an element outside": "explain by_hand --element 0,0,0,99",
        "explain: an element that is a text": "explain by_hand --element a,b,c,d",
        "explain: an element of 30 digits": f"explain by_hand --element 0,0,0,{10**30}",
        "explain: an unknown case": "explain nothing_like_it",
        "explain-status: an unknown case": "explain-status nothing_like_it",
        "explain-status: an unknown conformance": "explain-status by_hand --conformance strict",
        "format: an unknown format": "format float12",
        "format: a value that is a text": "format float16 --value one",
        "format: a rounding that it lacks": "format float16 --rounding hybrid --value 1",
        "format: bits that hf32 has not": "format hf32 --mantissa-bits 99",
        "format: a value of 400 digits": f"format float16 --value 1{'0' * 400}e1000000000",
        "chips: an unknown name": "chips ascend911",
        "chips: two without --compare": "chips ascend910a ascend910b3",
        "chips: one to compare": "chips --compare ascend910a",
        "precision: an unknown distribution": "precision by_hand --inputs gauss",
        "precision: an unknown model": "precision by_hand --accumulate kahan",
        "precision: an unknown chip": "precision by_hand --chips ascend910b3,x",
        "precision: an empty chip": "precision by_hand --chips ascend910b3,",
        "precision: JSON and CSV": "precision by_hand --json --csv",
        "precision: a file that is not there": "precision by_hand --inputs t.npz",
        "sweep: values in base 60": "sweep by_hand --vary batch=1:2:3:4",
        "sweep: values in octal": "sweep by_hand --vary batch=010,020",
        "sweep: a column that is none": "sweep by_hand --vary batch=1,2 --columns us,nope",
        "run-network: an unknown network": "run-network resnet5000",
        "run-network: a batch of 0": "run-network resnet50 --batch 0",
        "run-network: a batch of 2^70": f"run-network resnet50 --batch {big} --jobs 1",
        "run-network: a batch of a billion": "run-network resnet50 --batch 1000000000 --jobs 1",
        "run-network: no processes": "run-network resnet50 --jobs 0",
        "run-network: an unknown chip": "run-network resnet50 --chip x",
        "run-network: an unknown l2": "run-network resnet50 --l2 hot --jobs 1",
        "run-network: an unknown conformance": "run-network resnet50 --conformance strict --jobs 1",
        "tile: an unknown kernel": "tile by_hand --kernel matmul",
        "tile: a forward convolution": "tile forward_2d",
        "tile: an unknown field": "tile by_hand --field baseQ=16",
        "tile: a field without a number": "tile by_hand --field baseM=x",
        "tile: a field that fits nothing": "tile by_hand --kernel grad_input --field baseM=4096,baseN=16,baseK=16",
        "tile: a negative time": "tile by_hand --time-limit -1",
        "tile: a time that is a text": "tile by_hand --time-limit soon",
        "tile: a share beyond 100 %": "tile by_hand --within 200",
        "tile: a plot in no folder": "tile by_hand --plot no/plot.png",
        "tile: an unknown l2": "tile by_hand --l2 hot",
        "validate: rows that are not there": "validate --rows rows.csv",
        "validate: an unknown chip": "validate --chip x",
        "validate: a table in no folder": "validate --csv no/rows.csv",
        "report: no such folder": "report out",
        "report: an empty folder": "report .",
        "kernel: no such file": "kernel mine.py",
        "kernel: a folder": "kernel .",
        "kernel: a device": "kernel /dev/null",
    }.items():
        yield Bad("a command line", what, command)


def kernels() -> Iterator[Bad]:
    """Kernels of one's own."""
    for what, (text, rest) in {
        "no Python": ("def (:\n", ""),
        "a null byte": ("\0", ""),
        "no kernel in it": ("def arguments(rng):\n    return []\n", ""),
        "no arguments": (KERNEL.replace("def arguments", "def other"), ""),
        "it raises": ("raise KeyError('x')\n", ""),
        "it ends Python": ("raise SystemExit(3)\n", ""),
        "it recurses": ("def f():\n    return f()\nf()\n", ""),
        "a module that is not there": ("import nothing_like_it\n", ""),
        "another name": (KERNEL, "something"),
        "a chip that is not there": (KERNEL, "--chip x"),
        "an unknown mode": (KERNEL, "--mode quick"),
        "no blocks": (KERNEL, "--blocks 0"),
        "more blocks than a launch takes": (KERNEL, f"--blocks {1 << 70}"),
        "an unknown keyword": (KERNEL, "--tiling size=3"),
        "a keyword without value": (KERNEL, "--tiling size"),
        "a negative seed": (KERNEL, "--seed -1"),
        "an unknown flag": (KERNEL, "--disarm x"),
        "BLOCKS that are a text": (KERNEL + "BLOCKS = 'many'\n", ""),
        "arguments that are a text": (KERNEL.replace("np.zeros(64, np.float32)", "'x'"), ""),
        "arguments of float64": (KERNEL.replace("np.float32", "np.complex128"), ""),
        "an address outside": (KERNEL.replace("k.scalar(1)", "k.gm_to_ub(1 << 40, x)"), ""),
        "an unknown method": (KERNEL.replace("k.scalar(1)", "k.scale(1)"), ""),
    }.items():
        yield Bad("a kernel file", what, f"kernel mine.py {rest}".strip(), {"mine.py": text})


def rows() -> Iterator[Bad]:
    """Measured rows."""
    for what, text in {
        "nothing in it": "",
        "only a head": ROWS.splitlines()[0] + "\n",
        "an unknown chip": ROWS.replace("ascend910b2", "x"),
        "a time of 0": ROWS.replace("fp16,3", "fp16,0"),
        "a time that is a text": ROWS.replace("fp16,3", "fp16,fast"),
        "a negative size": ROWS.replace("32,32,32", "-32,32,32"),
        "an unknown column": ROWS.replace("dtype", "kind"),
        "a short row": ROWS.splitlines()[0] + "\nascend910b2,MatMul\n",
        "a null byte": ROWS.splitlines()[0] + "\n\0\n",
        "bytes that are no text": "\udcff\udcfe",
    }.items():
        yield Bad("measured rows", what, "validate --rows rows.csv --jobs 1", {"rows.csv": text})


def stored() -> Iterator[Bad]:
    """Files of earlier runs that were changed."""
    for what, files in {
        "a report that is a list": report(lambda data: [1]),
        "a report of another version": report(lambda data: data.update(version=99)),
        "a report without version": report(lambda data: data.pop("version") and None),
        "a report with another time": report(lambda data: data.update(total_us=1.0)),
        "a report without kernels": report(lambda data: data.pop("kernels") and None),
        "a report that is no JSON": {**report(lambda data: None), "out/report.json": "{"},
        "a report of 100,000 brackets": {**report(lambda data: None), "out/report.json": "[" * 100_000},
        "no timeline": {"out/report.json": "{}"},
        "a timeline that is a text": {**report(lambda data: None), "out/timeline.npz": "hello"},
        "a timeline cut in half": {
            **report(lambda data: None),
            "out/timeline.npz": lambda path: write_bytes(path, run_folder()["timeline.npz"][:5000]),
        },
        "a timeline 2^62 cycles later": timeline(rows__start=lambda column: column + (1 << 62)),
        "a timeline with pipe 200": timeline(rows__pipe=lambda column: column * 0 + 200),
        "a timeline of another version": timeline(version=lambda column: column * 0 + 1),
        "a timeline without a column": timeline(rows__end=None),
        "a timeline with a short column": timeline(rows__end=lambda column: column[:-1]),
        "a timeline with a column of texts": timeline(rows__end=lambda column: column.astype(str)),
        "a timeline of another chip": timeline(chip_file=lambda column: np.asarray("{}")),
        "a timeline with other names": timeline(tasks__name=lambda column: column + "<script>"),
    }.items():
        yield Bad("a folder of a run", what, "report out", files)
    for what, content in {
        "a text": "hello, this is no database, but it is longer than a hundred bytes " * 3,
        "a database of something else": database("create table mine (id integer)"),
        "a version to come": database(
            "create table searches (id)",
            "create table results (id)",
            "pragma application_id = 1095975764",
            "pragma user_version = 9",
        ),
    }.items():
        yield Bad(
            "a store of results",
            what,
            "tile by_hand --kernel grad_input --limit 0 --jobs 1 --out out",
            {"out/results.sqlite": content},
        )


def places() -> Iterator[Bad]:
    """Where results cannot go, and names with something in them."""
    yield Bad("a place to write", "a file of the folder's name", "run by_hand --mode timing --out out", {"out": "x"})
    yield Bad("a place to write", "a folder below a file", "run by_hand --mode timing --out file/out", {"file": "x"})
    yield Bad(
        "a place to write", "somebody else's msprof", "run by_hand --mode timing --msprof --out out", {"out/msprof/a.txt": "x"}
    )
    yield Bad("a place to write", "a page below a file", "run by_hand --mode timing --html file/page.html", {"file": "x"})
    yield Bad("a name", "that steers a terminal", "run 'a\x1b[31mb\x07.yaml'")
    yield Bad("a name", "of two lines", "run 'a\nb.yaml'")
    yield Bad("a name", "of two lines, of a file that is there", "run 'a\nb.yaml'", {"a\nb.yaml": "groups: 1\n"})
    yield Bad("a name", "of 5,000 letters", f"run {'a' * 5000}")
    yield Bad("a name", "with a null byte", "run 'a\0b'")
    yield Bad("a name", "that a shell would run", "run '$(touch here);`touch here`'")

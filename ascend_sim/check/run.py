"""Checking tasks: their programs are built (or taken as they ran), put in order and looked at by each tool."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from ascend_sim.check.accesses import Shapes
from ascend_sim.check.cached_lines import stores_left
from ascend_sim.check.contents import Contents
from ascend_sim.check.findings import REMARK, TOOLS, CheckFinding, CheckReport, shown, sort_findings
from ascend_sim.check.memory import find_memory_faults
from ascend_sim.check.races import find_races, find_stream_races
from ascend_sim.check.redundancy import find_redundant
from ascend_sim.check.subject import Subject
from ascend_sim.check.sync import find_sync_faults
from ascend_sim.chip import ChipSpec
from ascend_sim.engine.device import Device
from ascend_sim.engine.engine import Engine
from ascend_sim.engine.task import Task
from ascend_sim.engine.timeline import Timeline
from ascend_sim.errors import SimError
from ascend_sim.host import collector_paused
from ascend_sim.kernel.check import check_disarmed
from ascend_sim.kernel.inspection import Fault, Inspection, inspect
from ascend_sim.kernel.program import Program

_NUMBERS = re.compile(r"0x[0-9a-f]+|\d+")
_MOST_COMPARED = 1 << 20
"""Rows of a kernel up to which its stamped loops are compared with the rows that their bodies write one by one."""
_INSIDE = ("overrun", "stray", "rows over each other")
"""Errors of memcheck with which a kernel can run."""


def chosen_tools(names: Sequence[str] | str | None) -> tuple[str, ...]:
    """Return the named tools in the order in which they run; all for None or an empty list. Raises SimError for an unknown
    name.
    """
    given = tuple(names or TOOLS) if names is None or isinstance(names, list | tuple) else (names,)
    for name in given:
        if name not in TOOLS:
            raise SimError(f"tool {name!r}: allowed are {', '.join(TOOLS)}")
    return tuple(tool for tool in TOOLS if tool in given)


@collector_paused()
def check_tasks(
    chip: ChipSpec,
    tasks: Sequence[Task],
    *,
    roles: Mapping[str, str] | None = None,
    tools: Sequence[str] | str | None = None,
    strict: bool = False,
    engine: str | None = None,
    disarm: Mapping[str, Collection[str]] | None = None,
) -> CheckReport:
    """Build and check tasks in launch order and return the report; `roles` is {tensor's name: role} (`contents.ROLES`, else
    "given"), `tools` as in `chosen_tools`.

    `strict` also compares stamped loops with plain ones (tasks of up to 2**20 rows), and reports unused buffers, and waits and
    barriers that a kernel for all shapes needs for other shapes. The programs are built under inspection: a builder's refusal
    is a finding, whatever `tools`. If a tool finds something, its findings get the cycles of a run in mode "timing" on
    `engine`; a remark says why if there are none (a refusal, an access outside, an error of the run). `disarm` is {task: flags
    that its builder disarms}. Here it is only tested: SimError for an unknown task or flag, unless a builder refused something.
    SimError for an unknown tool.
    """
    wanted = chosen_tools(tools)
    programs: list[list[Program]] = []
    faults: list[list[Fault]] = []
    for task in tasks:
        built, inspection = _built(task)
        if inspection.faults and inspection.stamped:  # a fault in a repeated piece is in every piece
            built, inspection = _built(task, stamping=False)
        elif inspection.stamped and strict and sum(map(len, built)) <= _MOST_COMPARED:
            built, inspection = _compared(built, *_built(task, stamping=False))
        programs.append(built)
        faults.append(inspection.faults)
    if disarm and not any(faults):  # else a program may be short
        flags = [{flag for one in built for flag in one.flag_names()} for built in programs]
        check_disarmed(disarm, {task.name: names for task, names in zip(tasks, flags, strict=True)})
    findings = [one for task, noted in zip(tasks, faults, strict=True) for one in _refused(task, noted)]
    refused = [index for index, noted in enumerate(faults) if noted]
    found, unused, remarks = _look(_subjects(chip, tasks, programs), roles or {}, wanted, strict, refused)
    if found:
        errors = [one.kind for one in (*findings, *found) if one.tool == "memcheck" and one.level == "ERROR"]
        why = "a builder refused something" if "refused" in errors else "it leaves its memory"
        timeline, why = (None, why) if {*errors} - {*_INSIDE} else _timed(chip, tasks, programs, engine)
        if timeline is None:
            remarks.append(f"no cycles, for this cannot run: {why}")
        else:
            found = [_with_cycles(one, timeline) for one in found]
    rows = sum(len(one) for built in programs for one in built)
    count = sum(map(len, programs))
    return CheckReport(chip.name, wanted, sort_findings([*findings, *found]), count, rows, remarks, unused)


def _built(task: Task, stamping: bool = True) -> tuple[list[Program], Inspection]:
    """Return (programs of a task, the inspection with the faults that their builders found).

    A SimError of a block becomes a fault. `stamping` as in `inspect`.
    """
    programs: list[Program] = []
    with inspect(stamping) as inspection:
        for block in range(task.block_dim):
            try:
                programs += task.build(block)
            except SimError as error:  # a kernel that is not a `KernelFunction` breaks off
                inspection.add(f"block {block}", str(error))
    return programs, inspection


def _compared(repeated: Sequence[Program], plain: list[Program], inspection: Inspection) -> tuple[list[Program], Inspection]:
    """Return the programs written without stamps (`plain`) and their `inspection`, to which a fault is added for each stamped
    program (`repeated`) that differs from its plain one.

    A fault names the first row that differs. Nothing is compared if there are faults already: a program may have broken off.
    """
    if inspection.faults:
        return plain, inspection
    for stamped, own in zip(repeated, plain, strict=True):
        count = min(len(stamped), len(own))
        differs = (stamped.rows[:count] != own.rows[:count]).any(axis=1)
        if not differs.any() and len(stamped) == len(own):
            continue
        row = int(differs.argmax()) if differs.any() else count
        line = own.notes.line(row) if own.notes is not None and row < len(own) else None
        texts = [str(one[row]) if row < len(one) else "no row" for one in (own, stamped)]
        inspection.add(
            own.where,
            f"a stamped loop repeats {texts[1]!r} where its body writes {texts[0]!r}: the rows of a piece may depend on its "
            f"`what`, on `where` and on what is carried, and on nothing else",
            line,
        )
    return plain, inspection


@collector_paused()
def check_timeline(
    chip: ChipSpec,
    tasks: Sequence[Task],
    timeline: Timeline,
    *,
    roles: Mapping[str, str] | None = None,
    tools: Sequence[str] | str | None = None,
) -> CheckReport:
    """Check the programs of a finished run and return the report, with the cycles of that run; `roles` and `tools` as in
    `check_tasks`.

    A builder's refusals are not findings here: they ended the run before. Nothing that `strict` adds is reported.
    """
    programs = [[run.program for run in timeline.of(index)] for index in range(len(tasks))]
    report = check_programs(chip, tasks, programs, roles=roles, tools=tools)
    report.findings = [_with_cycles(one, timeline) for one in report.findings]
    return report


@collector_paused()
def check_programs(
    chip: ChipSpec,
    tasks: Sequence[Task],
    programs: Sequence[Sequence[Program]],
    *,
    roles: Mapping[str, str] | None = None,
    tools: Sequence[str] | str | None = None,
) -> CheckReport:
    """Check existing programs, one list for each task, and return the report, without cycles and builders' refusals.

    `roles` and `tools` as in `check_tasks`; nothing that `strict` adds is reported.
    """
    wanted = chosen_tools(tools)
    found, unused, remarks = _look(_subjects(chip, tasks, programs), roles or {}, wanted, strict=False)
    rows = sum(len(one) for built in programs for one in built)
    return CheckReport(chip.name, wanted, sort_findings(found), sum(map(len, programs)), rows, remarks, unused)


def _subjects(chip: ChipSpec, tasks: Sequence[Task], programs: Sequence[Sequence[Program]]) -> list[Subject]:
    shapes = Shapes(chip)
    return [Subject(chip, task, built, shapes, index) for index, (task, built) in enumerate(zip(tasks, programs, strict=True))]


def _look(
    subjects: Sequence[Subject], roles: Mapping[str, str], tools: Sequence[str], strict: bool, refused: Collection[int] = ()
) -> tuple[list[CheckFinding], list[CheckFinding], list[str]]:
    """Look for errors in each task in order and return (findings of the `tools`, their findings on unused memory, remarks); the
    remarks have the texts of the latter too.

    After a deadlock a task's races and reads are not reported; redundant waits and stores left in the data cache are looked for
    only in a task without errors of any tool, of which the builder `refused` nothing. Outputs not written whole and unused
    tensors are reported only if every kernel came to its end and memcheck finds no error in GM.
    """
    found: list[CheckFinding] = []
    remarks: list[str] = []
    contents = Contents(roles)
    for subject in subjects:
        contents.plan(subject)
    for subject in subjects:
        remarks += [
            f"{shown(line)}: the atomic mode set here is on at the end and may change copies of later kernels; end it with "
            f"SetAtomicNone() (stated)"
            for program in subject.programs
            if program.notes is not None
            for line in program.notes.atomics
        ]
        faults = find_sync_faults(subject)
        stuck = any(one.kind == "deadlock" for one in faults)
        races = [] if stuck else find_races(subject)  # rows after a deadlock have no order
        wrong = find_memory_faults(subject, races, strict)
        reads = contents.find(subject, {one.space for one in wrong if one.level == "ERROR"})
        found += [*wrong, *races, *([] if stuck else reads), *faults]
        right = subject.index not in refused and all(one.level != "ERROR" for one in (*wrong, *races, *reads, *faults))
        if "initcheck" in tools and right:
            remarks += stores_left(subject)
        if "synccheck" in tools and right:
            redundant, kept = find_redundant(subject, strict)  # only in a kernel without other errors
            found += redundant
            remarks += kept
    found += find_stream_races(subjects)
    astray = any(one.tool == "memcheck" and one.space == "GM" and one.level == "ERROR" for one in found)
    whole = all(program.notes is None or program.notes.whole for subject in subjects for program in subject.programs)
    if whole and not astray:  # else the unwritten bytes may lie elsewhere
        found += contents.finish()
    found = [one for one in found if one.tool in tools]
    unused = [one for one in found if one.level == REMARK]
    told = dict.fromkeys([*(one.text for one in unused), *remarks])  # tasks of one kernel say the same
    return [one for one in found if one.level != REMARK], unused, list(told)


def _line(fault: Fault) -> str:
    """Return the line of a fault in the form "#0 FILE:LINE" of the vendor's tool; "#0" without a line."""
    return "#0" if fault.line is None else f"#0 {shown(fault.line)}"


def _refused(task: Task, faults: Sequence[Fault]) -> list[CheckFinding]:
    """Return the builder's refusals as findings, one a tool, source line and text, whatever numbers differ between blocks."""
    alike: dict[tuple[object, ...], list[Fault]] = {}
    for fault in faults:
        alike.setdefault((fault.tool, fault.line, _NUMBERS.sub("", fault.text)), []).append(fault)
    return [
        CheckFinding.of(
            same[0].tool,
            "refused",
            task.name,
            f"refused: {same[0].text}",
            details=(f"in {same[0].where}", _line(same[0])),
            count=len(same),
        )
        for same in alike.values()
    ]


def _timed(
    chip: ChipSpec, tasks: Sequence[Task], programs: Sequence[Sequence[Program]], engine: str | None
) -> tuple[Timeline | None, str]:
    """Run the programs in mode "timing"; return (timeline, ""), or (None, first line of the error) if that raises any SimError
    or LookupError.

    A block without programs does nothing.
    """
    blocks: list[defaultdict[int, list[Program]]] = [defaultdict(list) for _ in tasks]
    for number, built in enumerate(programs):
        for program in built:
            blocks[number][program.block].append(program)
    made = [replace(task, build=there.__getitem__) for task, there in zip(tasks, blocks, strict=True)]
    try:
        return Engine(Device(chip, with_values=False), engine=engine).run(made), ""
    except (SimError, LookupError) as error:
        return None, str(error).partition("\n")[0]


def _with_cycles(finding: CheckFinding, timeline: Timeline) -> CheckFinding:
    """Return the finding with the cycles of `timeline` at which its instructions started; places that did not run get none."""
    if not finding.places:
        return finding
    runs = {(run.task, run.program.block, run.program.core_kind, run.program.sub_block): run for run in timeline.programs}
    places = []
    for place in finding.places:
        run = runs.get((place.task, place.block, place.core, place.sub_block))
        places.append(place if run is None else replace(place, cycle=int(run.start[place.row])))
    return finding.at(tuple(places))

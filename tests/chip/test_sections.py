"""Fields of a chip file's sections: one clear line for every wrong one."""

from __future__ import annotations

import ast
import dataclasses
import re
from pathlib import Path

import pytest

from ascend_sim.chip import load_chip, sections
from ascend_sim.errors import ConfigError
from tests.support.sources import nodes, parsed, python_files


def refused(tmp_path: Path, text: str, field: str, said: str) -> None:
    """The file must be refused in one line that names it, the dotted field and the reason."""
    file = tmp_path / "mine.yaml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        load_chip(file)
    message = str(caught.value)
    assert message.startswith(f"{file}: {field}: ")
    assert re.search(said, message), message
    assert "\n" not in message


LEAF = 'extends: ascend910b3\nbuffers: {L1: {value: 1, unit: bytes, source: "x"}}\n'


@pytest.mark.parametrize(
    ("text", "field", "said"),
    [
        (LEAF.replace(', source: "x"', ""), "buffers.L1", "missing source"),
        (LEAF.replace('"x"', '" "'), "buffers.L1", "missing source"),
        (LEAF.replace('"x"', '"assumed:"'), "buffers.L1", "missing source.*`assumed: why`"),
        (LEAF.replace('"x"', "3"), "buffers.L1", "missing source.*got 3"),
        (LEAF.replace("unit: bytes, ", ""), "buffers.L1", "missing unit"),
        (LEAF.replace("value: 1, ", ""), "buffers.L1", "missing value"),
        (LEAF.replace("source", "origin"), "buffers.L1", "unknown key 'origin'"),
        (LEAF.replace("bytes", "KB"), "buffers.L1", "unit is 'KB', this field is in 'bytes'"),
        (LEAF.replace("value: 1,", "value: 1.5,"), "buffers.L1", "valid integer.*got"),
        (LEAF.replace("value: 1,", "value: true,"), "buffers.L1", "valid integer.*got"),
        (LEAF.replace("value: 1,", 'value: "1",'), "buffers.L1", "value must be a number, got '1'"),
        (LEAF.replace("value: 1,", "value: 0,"), "buffers.L1", "greater than 0.*got"),
        ("extends: ascend910b3\nbuffers: {L1: 65536}\n", "buffers.L1", "must be written .*unit: bytes.*got 65536"),
        ("extends: ascend910b3\nbuffers: {L1: null, L9: null}\n", "buffers.L9", "nothing is inherited"),
        (LEAF.replace("L1", "L9"), r"buffers.L9", "'L1', 'L0A'"),
        ("extends: ascend910b3\nmemroy: {}\n", "memroy", "unknown key; did you mean memory?"),
        (
            'extends: ascend910b3\npaths: {"GM->UB": {haed: {value: 1, unit: cycles, source: x}}}\n',
            "paths.GM->UB.haed",
            "unknown key; did you mean head.*Allowed here: pipe, bytes_per_cycle, head, latency, unaligned_row$",
        ),
        ("extends: ascend910b3\nname: mine\n", "name", "unknown key; a chip is called after its file"),
        ("extends: ascend910b3\nsync: {flag_ids: null}\n", "sync.flag_ids", "missing key"),
        (
            "extends: ascend910b3\nsync: {flag_ids: null, flag_idz: {value: 8, unit: count, source: x}}\n",
            "sync.flag_idz",
            "unknown key; did you mean flag_ids?",
        ),
        ("extends: ascend910b3\nclock: null\n", "clock", "missing key"),
        ("extends: ascend910b3\nidentity: {soc: 910}\n", "identity.soc", "valid string, got 910"),
        ("extends: ascend910b3\ncores: {coupled: maybe}\n", "cores.coupled", "valid boolean, got 'maybe'"),
        ('extends: ascend910b3\npaths: {"GM->UB": {pipe: MTE9}}\n', "paths.GM->UB.pipe", "'MTE1'.*got 'MTE9'"),
        ('extends: ascend910b3\npaths: {"GM->UB": 5}\n', "paths.GM->UB", "dictionary or an instance of Path, got 5"),
        (
            "extends: ascend910b3\nvector: {bank_conflict: {value: 0.9, unit: ratio, source: x}}\n",
            "vector.bank_conflict",
            "greater than or equal to 1, got 0.9",
        ),
        (
            "extends: ascend910b3\nvector: {bank_write_conflict: {value: 0.9, unit: ratio, source: x}}\n",
            "vector.bank_write_conflict",
            "greater than or equal to 1, got 0.9",
        ),
        ("extends: [a, b]\n", "extends", "name of one chip file"),
        ("extends: ascend911\n", "extends", "no shipped chip file 'ascend911'; there are ascend310p1, .*, ascend910_9362"),
        ("extends: mine.yaml\n", "extends", "loop .*mine.yaml -> .*mine.yaml"),
        ("a: {b: 1, b: 2}\n", "line 1, column 11", "'b' is given twice"),
        ("a: [1\n", "line 2, column 1", "expected"),
    ],
)
def test_a_bad_file_is_refused(tmp_path: Path, text: str, field: str, said: str) -> None:
    refused(tmp_path, text, field, said)


ONE = "{value: 1, unit: cycles, source: x}"


PATH = f"{{pipe: MTE3, bytes_per_cycle: {{value: 1, unit: bytes/cycle, source: x}}, head: {ONE}, latency: {ONE}}}"


@pytest.mark.parametrize(
    ("text", "field", "said"),
    [
        ("cores: {aiv: {value: 41, unit: cores, source: x}}", "cores.aiv", "41 is not aic x aiv_per_aic = 20 x 2"),
        ("buffers: {BT: null}", "cores.kinds.AIC.buffers", "BT has no size"),
        (f'paths: {{"UB=>GM": {PATH}}}', "paths.UB=>GM", "must be SOURCE->DESTINATION"),
        (f'paths: {{"UB->L7": {PATH}}}', "paths.UB->L7", "L7 is neither a buffer"),
        ("cores: {kinds: {AIV: {pipes: [S, MTE2, MTE3]}}}", "paths.FILL->UB.pipe", "no core of this chip has the pipe V"),
        ("sync: {queue_depth: {V: null}}", "sync.queue_depth", "missing key V"),
    ],
)
def test_sections_that_disagree_are_refused(tmp_path: Path, text: str, field: str, said: str) -> None:
    refused(tmp_path, f"extends: ascend910b3\n{text}\n", field, said)


def test_every_number_of_a_chip_file_is_read_somewhere() -> None:
    """A number that nobody reads would change nothing; the banks of a group follow from the size of UB."""
    attributes = {
        node.attr
        for folder in ("ascend_sim", "ops")
        for path in python_files(folder)
        for node in nodes(parsed(path))
        if isinstance(node, ast.Attribute)
    }
    fields = {
        name
        for one in vars(sections).values()
        if isinstance(one, type) and issubclass(one, sections.Section)
        for name in [field.name for field in dataclasses.fields(one)]
    }
    assert fields - attributes == {"per_group"}

"""Values of `--vary`."""

from __future__ import annotations

from typing import Any

import pytest

from ascend_sim.errors import ConfigError
from ascend_sim.studies.sweep.values import parse_vary

pytestmark = pytest.mark.fast


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("batch=1:64:*2", [1, 2, 4, 8, 16, 32, 64]),
        ("batch=1:60:*2", [1, 2, 4, 8, 16, 32]),
        ("batch=3:5", [3, 4, 5]),
        ("batch=8:24:8", [8, 16, 24]),
        ("x=0.1:0.5:0.1", [0.1, 0.2, 0.1 + 2 * 0.1, 0.4, 0.5]),
        ("baseM=64, 128", [64, 128]),
        ("padding=[0,0],[1,1]", [[0, 0], [1, 1]]),
        ("dtype=float16,float32", ["float16", "float32"]),
        ("chip=ascend910b3,dir/mine.yaml", ["ascend910b3", "dir/mine.yaml"]),
        ("bias=false,true", [False, True]),
        ("x=010:12", ["010:12"]),  # no range of numbers, and no number
        ("chip.paths.GM->L1.bytes_per_cycle=64", [64]),
        ("chip.buffers.L1=512KiB,1MiB", [524288, 1048576]),
        ("chip.buffers.L1=256KiB:1MiB:*2", [262144, 524288, 1048576]),
        ("chip.buffers.UB=0.5 MiB", [524288]),
        ("chip.memory.hbm_bytes=1.5GiB", [1610612736]),
        ("chip.buffers.L1,chip.buffers.UB=[512KiB,192KiB],[1MiB, 256KiB]", [[524288, 196608], [1048576, 262144]]),
        ("chip=dir/512KiB.yaml,512KiBx,x512KiB", ["dir/512KiB.yaml", "512KiBx", "x512KiB"]),
    ],
)
def test_values(text: str, values: list[Any]) -> None:
    name, found = parse_vary(text)
    assert name == text.partition("=")[0] and found == values
    assert [type(value) for value in found] == [type(value) for value in values]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("batch", "allowed is FIELD=VALUES"),
        ("=1", "allowed is FIELD=VALUES"),
        ("batch=", "allowed is FIELD=VALUES"),
        ("batch=1:64:*1", "a factor above 1"),
        ("batch=0:64:*2", "a first value above 0"),
        ("batch=1:64:0", "a step above 0"),
        ("batch=64:1", "the last one is below the first"),
        ("batch=1:1000000", "more than 100,000 values"),
        ("batch=1,,2", "broken YAML"),
        ("batch=~", "a value is missing"),
        ("batch=[1", "broken YAML"),
        ("batch={a: 1}", "a value is missing"),
        ("batch=1:2:3:4", "is not a range of numbers"),
        ("batch=1:x", "is not a range of numbers"),
        (f"batch=1:{'9' * 5000}", "is not a range of numbers"),
        (f"batch=1.0:{'9' * 400}:*2.0", "is not a range of numbers"),
        ("batch=010", "numbers are plain decimal"),
        ("batch=1,0x10", "numbers are plain decimal"),
        ("batch=1_0", "numbers are plain decimal"),
    ],
)
def test_what_is_none(text: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_vary(text)
    assert said in str(caught.value) and "\n" not in str(caught.value) and text in str(caught.value)

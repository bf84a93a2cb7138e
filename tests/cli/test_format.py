"""`ascend-sim format`."""

from __future__ import annotations

from tests.support.studies.precision_cases import invoke


def test_the_format_command():
    result = invoke("format", "hifloat8", "--value", "0.1")
    assert result.exit_code == 0 and "Result 0 10 100 10 (0x52) = 0.09375" in result.output
    assert "prefix" in result.output and "0x6F: +inf" in result.output
    assert "(0x3DCCD000)" in invoke("format", "hf32", "--value", "0.1", "--mantissa-bits", "11").output
    assert "-0.10003662109375" in invoke("format", "half", "--value", "-0.1", "--rounding", "floor").output
    for arguments in (("posit",), ("half", "--rounding", "hybrid"), ("half", "--value", "one")):
        assert invoke("format", *arguments).exit_code == 2
    line = invoke("format", "posit").output
    assert "no number format 'posit'" in line and "hifloat8" in line and len(line.strip().splitlines()) == 1
    assert "; did you mean float8_e4m3fn or float8_e5m2?; known" in invoke("format", "FP8").output

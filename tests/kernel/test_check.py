"""Checks of what an experiment ignores; those of programs are asked in test_builder.py, and of rows in test_program.py."""

from __future__ import annotations

import pytest

from ascend_sim import SimError
from ascend_sim.kernel.check import check_disarmed

pytestmark = pytest.mark.fast


def test_a_flag_that_a_kernel_lacks_has_a_hint() -> None:
    check_disarmed({"k": ["x full"]}, {"k": ["x full", "x free"], "other": []})
    with pytest.raises(SimError, match=r"^disarm: no flag 'x ful' in k; did you mean 'x full'\?; it has x free, x full$"):
        check_disarmed({"k": ["x ful"]}, {"k": ["x full", "x free"]})
    with pytest.raises(SimError, match=r"it has none$"):
        check_disarmed({"k": ["x"]}, {"k": []})
    with pytest.raises(SimError, match=r"^disarm: no kernel 'j'; this call has k$"):
        check_disarmed({"j": ["x"]}, {"k": ["x"]})

"""Which chip and profile the process sees, and how the system parameters reach the operators."""

import pytest

import ascend_sim
from ascend_sim import ConfigError, SimError, acl, load_chip
from tests.support.acl.acl_calls import AclConvolution, int_array, ok, open_device, refused

pytestmark = pytest.mark.fast


def total_memory():
    return ok(acl.aclrtGetMemInfo(acl.ACL_HBM_MEM))[1]


def test_the_chip_is_910b3_unless_said_otherwise(monkeypatch):
    sizes = []
    for name, said in (("ASCEND_SIM_CHIP", None), ("ASCEND_SIM_CHIP", "ascend910b4"), (None, "ascend910_9391")):
        if name and said:
            monkeypatch.setenv(name, said)
        elif said:
            ascend_sim.use(chip=said)  # goes before the environment
        open_device()
        sizes.append(total_memory())
        ok(acl.aclFinalize())
    assert sizes == [load_chip(n).memory.hbm_bytes for n in ("ascend910b3", "ascend910b4", "ascend910_9391")]
    assert len(set(sizes)) > 1


def test_a_chip_of_ones_own(tmp_path):
    file = tmp_path / "half.yaml"
    file.write_text(
        "extends: ascend910b3\n"
        "identity: {soc: Half}\n"
        "memory: {hbm_bytes: {value: 1048576, unit: bytes, source: 'assumed: a test'}}\n"
    )
    ascend_sim.use(chip=file)
    open_device()
    assert total_memory() == 1 << 20
    refused(acl.aclrtMalloc((1 << 20) + 1, 0), "out of memory")


def test_the_chip_stays_while_a_device_is_open():
    open_device()
    with pytest.raises(SimError, match="aclrtResetDevice"):
        ascend_sim.use(chip="ascend910b1")
    ascend_sim.use(conformance="library")
    ok(acl.aclrtResetDevice(0))
    ascend_sim.use(chip="ascend910b1")


def test_names_that_there_are_not():
    with pytest.raises(ConfigError):
        ascend_sim.use(chip="ascend000")
    with pytest.raises(SimError, match="documented and library"):
        ascend_sim.use(conformance="strict")
    with pytest.raises(SimError, match="full and functional"):
        ascend_sim.use(mode="timing")


@pytest.mark.parametrize("said_by", ["use", "environment"])
def test_the_profile_decides_on_bias_sizes(monkeypatch, said_by):
    """A null biasSizes is 161001 in the documents; the released library does not look at it."""
    open_device()
    conv = AclConvolution()
    assert conv.size_call(biasSizes=None)[0] == acl.ACLNN_SUCCESS
    if said_by == "use":
        ascend_sim.use(conformance="documented")
    else:
        monkeypatch.setenv("ASCEND_SIM_CONFORMANCE", "documented")
    assert conv.size_call(biasSizes=None)[0] == acl.ACLNN_ERR_PARAM_NULLPTR
    assert acl.aclGetRecentErrMsg().endswith("; the released library accepts this call (conformance library)")


def test_masked_outputs_may_be_null_as_the_public_examples_have_them():
    open_device()
    call = AclConvolution().size_call(gradInput=None, gradBias=None, outputMask=acl.aclCreateBoolArray([False, True, False], 3))
    assert call[0] == acl.ACLNN_SUCCESS


@pytest.mark.parametrize("name", ["ASCEND_SIM_CONFORMANCE", "ASCEND_SIM_MODE", "ASCEND_SIM_CHIP"])
def test_a_wrong_name_in_the_environment_is_told_on_stderr_too(name, monkeypatch, capsys):
    monkeypatch.setenv(name, "strict")
    ok(acl.aclInit(None))
    refused(acl.aclrtSetDevice(0), "no device", name, "strict")
    told = capsys.readouterr().err
    assert told.startswith(f"ascend-sim: {name}") and "'strict'" in told and told.count("\n") == 1


# -- determinism ------------------------------------------------------------------------------------------------------


def test_small_questions():
    stream = open_device()
    assert ok(acl.aclrtGetDevice()) == 0
    assert ok(acl.aclrtGetDeviceCount()) == 1
    ok(acl.aclrtSetSysParamOpt(acl.ACL_OPT_ENABLE_DEBUG_KERNEL, 1))
    assert int_array(1, 2).values == (1, 2)
    assert acl.last_run() is None
    ok(acl.aclrtSynchronizeStream(stream))
    assert acl.last_run() is None  # nothing was queued


def test_the_message_stays_until_the_next_failure(stream):
    assert acl.aclGetRecentErrMsg() is None
    acl.aclrtFree(None)
    message = acl.aclGetRecentErrMsg()
    assert message.startswith("aclrtFree: 100000 ACL_ERROR_INVALID_PARAM: ")
    ok(acl.aclrtSynchronizeDevice())
    assert acl.aclGetRecentErrMsg() == message

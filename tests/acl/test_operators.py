"""The two phases: what they refuse, what they leave alone, and results in strided and shared memory."""

import json
import warnings
from pathlib import Path

import numpy as np
import pytest
from ml_dtypes import bfloat16

from ascend_sim import acl, use
from ascend_sim.errors import SimError
from ascend_sim.ops.operator import Operator
from tests.support.acl import acl_calls
from tests.support.acl.acl_calls import (
    AclConvolution,
    download,
    elements,
    int_array,
    ok,
    open_device,
    refused,
    tensor_at,
    upload,
)

pytestmark = pytest.mark.fast


@pytest.fixture
def stream():
    use(mode="functional")
    return open_device()


# -- phase one --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changed", "status", "word"),
    [
        ({"gradOutput": None}, acl.ACLNN_ERR_PARAM_NULLPTR, "gradOutput"),
        ({"outputMask": None}, acl.ACLNN_ERR_PARAM_NULLPTR, "outputMask"),
        ({"gradBias": None}, acl.ACLNN_ERR_PARAM_NULLPTR, "gradBias"),
        ({"cubeMathType": 4}, acl.ACLNN_ERR_PARAM_INVALID, "cubeMathType"),
        ({"groups": 0}, acl.ACLNN_ERR_PARAM_INVALID, "groups"),
        ({"groups": 1 << 40}, acl.ACLNN_ERR_PARAM_INVALID, "groups"),
        ({"groups": "1"}, acl.ACLNN_ERR_PARAM_INVALID, "groups"),
        ({"transposed": 2}, acl.ACLNN_ERR_PARAM_INVALID, "transposed"),
    ],
)
def test_statuses_of_the_checks(stream, changed, status, word):
    result = AclConvolution().size_call(**changed)
    assert result == (status, 0, None)
    assert word in acl.aclGetRecentErrMsg()


def test_handles_of_the_wrong_kind(stream):
    conv = AclConvolution()
    refused(conv.size_call(gradOutput=conv.addresses["gradOutput"]), "aclnn argument", "gradOutput", "aclTensor")
    refused(conv.size_call(stride=[1, 1]), "aclnn argument", "stride", "aclIntArray")
    refused(conv.size_call(outputMask=int_array(1, 1, 1)), "aclnn argument", "outputMask", "aclBoolArray")


@pytest.mark.parametrize(
    ("dtype", "cube_math_type", "said"),
    [
        (acl.ACL_FLOAT16, acl.USE_HF32, "USE_HF32 does nothing to float16 inputs"),
        (acl.ACL_BF16, acl.USE_FP16, "USE_FP16 casts bfloat16 inputs to float16"),
        (acl.ACL_FLOAT16, acl.USE_FP16, None),
        (acl.ACL_FLOAT, acl.USE_HF32, None),
    ],
)
def test_a_cube_math_type_that_the_library_overrules_is_a_warning(
    tmp_path, monkeypatch, dtype: int, cube_math_type: int, said: str | None
) -> None:
    """Phase one accepts the call and says what it does instead: each time at the caller's line, once in the report."""
    monkeypatch.setenv("ASCEND_SIM_OUT", str(tmp_path))
    use(mode="functional")
    stream = open_device()
    conv = AclConvolution(cube_math_type=cube_math_type)
    conv.tensors = {name: tensor_at(conv.addresses[name], shape, dtype=dtype) for name, shape in conv.shapes.items()}
    for _ in range(2):
        with warnings.catch_warnings(record=True, action="always") as told:
            conv.prepare()
        assert len(told) == (said is not None)
        for warning in told:
            assert str(warning.message).startswith(f"aclnnConvolutionBackwardGetWorkspaceSize: {said}")
            assert Path(warning.filename) == Path(acl_calls.__file__)
    ok(conv.launch(stream))
    ok(acl.aclFinalize())
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["warnings"] == [str(warning.message) for warning in told]


def test_a_call_without_a_kernel_says_so(stream, monkeypatch):
    conv = AclConvolution()

    def no_kernel(*_):
        raise SimError("no kernel for this")

    monkeypatch.setattr(Operator, "plan", no_kernel)
    refused(conv.size_call(), "aclnn no kernel", "no kernel for this")


def test_a_defect_becomes_a_code(stream, monkeypatch):
    conv = AclConvolution()
    monkeypatch.setattr(Operator, "plan", lambda *_: 1 / 0)
    refused(conv.size_call(), "aclnn simulator", "ZeroDivisionError")


# -- phase two --------------------------------------------------------------------------------------------------------


def call(conv, stream, **changed):
    given = {"workspace": conv.workspace, "workspaceSize": conv.workspace_size, "executor": conv.executor, "stream": stream}
    return acl.aclnnConvolutionBackward(**{**given, **changed})


def test_an_executor_is_good_for_one_call(stream):
    conv = AclConvolution().prepare()
    ok(conv.launch(stream))
    refused(conv.launch(stream), "aclnn argument", "used before")
    ok(acl.aclrtSynchronizeStream(stream))
    refused(conv.launch(stream), "aclnn argument", "used before")


def test_executors_that_are_none(stream):
    conv = AclConvolution().prepare()
    refused(call(conv, stream, executor=None), "aclnn null", "executor")
    refused(call(conv, stream, executor=3), "aclnn argument", "executor")
    other = acl.aclnnConvTbcBackward(conv.workspace, conv.workspace_size, conv.executor, stream)
    refused(other, "aclnn argument", "aclnnConvolutionBackward")
    ok(acl.aclrtResetDevice(0))
    ok(acl.aclrtSetDevice(0))
    refused(call(conv, None), "aclnn argument", "reset")


def test_workspaces_that_do_not_do(stream):
    conv = AclConvolution().prepare()
    size = conv.workspace_size
    assert size > 0
    assert size % 512 == 0
    refused(call(conv, stream, workspace=None), "aclnn null", str(size))
    refused(call(conv, stream, workspaceSize=size - 1), "aclnn argument", str(size), str(size - 1))
    refused(call(conv, stream, workspaceSize=-1), "aclnn argument", "workspaceSize")
    small = ok(acl.aclrtMalloc(size - 512, 0))
    refused(call(conv, stream, workspace=small), "aclnn argument", f"{size - 512} bytes left")
    large = ok(acl.aclrtMalloc(size + 1024, 0))
    refused(call(conv, stream, workspace=large + 32), "aclnn argument", "aligned to 512")
    refused(call(conv, stream, workspace=4096), "aclnn argument", "workspace 0x1000")
    refused(call(conv, stream, workspace=bytearray(size)), "aclnn argument", "device address")
    ok(acl.aclrtFree(small))
    refused(call(conv, stream, workspace=small), "aclnn argument", "freed")
    ok(call(conv, stream, workspace=large + 512, workspaceSize=size + 512))  # nothing of the above spent the executor
    ok(acl.aclrtSynchronizeStream(stream))
    np.testing.assert_array_equal(conv.result("gradWeight"), conv.expected("gradWeight"))


def test_a_workspace_that_is_also_a_tensor(stream):
    conv = AclConvolution()
    need = conv.size_call()[1]
    whole = ok(acl.aclrtMalloc(need + 4096, 0))
    conv.tensors["input"] = tensor_at(whole + need - 4, conv.shapes["input"])
    size, executor = ok(conv.size_call())
    refused(acl.aclnnConvolutionBackward(whole, size, executor, stream), "aclnn argument", "share memory", "input")


def test_a_tensor_destroyed_between_the_phases(stream):
    conv = AclConvolution().prepare()
    ok(acl.aclDestroyTensor(conv.tensors["weight"]))
    refused(conv.launch(stream), "aclnn argument", "weight", "destroyed")


def test_a_tensor_destroyed_after_the_launch_does_not_matter(stream):
    conv = AclConvolution().prepare()
    ok(conv.launch(stream))
    for tensor in conv.tensors.values():
        ok(acl.aclDestroyTensor(tensor))
    ok(acl.aclrtSynchronizeStream(stream))
    np.testing.assert_array_equal(conv.result("gradInput"), conv.expected("gradInput"))


def test_tensors_whose_memory_does_not_do(stream):
    shape = [2, 2, 7, 7]
    small = ok(acl.aclrtMalloc(8, 0))
    freed = ok(acl.aclrtMalloc(8192, 0))
    ok(acl.aclrtFree(freed))
    for address, reason, word in (
        (None, "aclnn null", "no memory"),
        (small, "aclnn argument", "8 bytes left"),
        (freed, "aclnn argument", "freed"),
        (77, "aclnn argument", "0x4d"),
    ):
        conv = AclConvolution()
        conv.tensors["gradInput"] = tensor_at(address, shape)
        refused(conv.prepare().launch(stream), reason, word)


def test_streams_that_are_none(stream):
    conv = AclConvolution().prepare()
    refused(call(conv, 5), "aclnn argument", "stream")
    ok(acl.aclrtDestroyStream(stream))
    refused(conv.launch(stream), "aclnn argument", "stream", "destroyed")
    ok(conv.launch(None))  # the default stream


def test_memory_freed_between_launch_and_synchronise(stream):
    conv = AclConvolution().prepare()
    ok(conv.launch(stream))
    ok(acl.aclrtFree(conv.workspace))
    refused(acl.aclrtSynchronizeStream(stream), "work failed", "aclnnConvolutionBackward", "freed")
    assert (conv.result("gradInput") == -1).all()


# -- what comes out ---------------------------------------------------------------------------------------------------


def test_a_masked_gradient_is_not_touched(stream):
    conv = AclConvolution(mask=(False, True, False)).prepare()
    ok(conv.launch(stream))
    ok(acl.aclrtSynchronizeStream(stream))
    assert (conv.result("gradInput") == -1).all()
    assert (conv.result("gradBias") == -1).all()
    np.testing.assert_array_equal(conv.result("gradWeight"), conv.expected("gradWeight"))


def test_strided_input_and_output_with_offsets(stream):
    """input is every second column of a wider map, gradInput goes into the middle of one; what lies around stays."""
    conv = AclConvolution(cube_math_type=0)
    n, c, h, w = conv.shapes["input"]
    values = np.arange(n * c * h * w, dtype=np.float32).reshape(n, c, h, w) % 5
    wide = np.full((n, c, h, 2 * w + 3), 1e9, np.float32)
    wide[..., 3::2] = values
    strides = [c * h * (2 * w + 3), h * (2 * w + 3), 2 * w + 3, 2]
    conv.tensors["input"] = tensor_at(upload(wide), [n, c, h, w], strides=strides, offset=3, storage=wide.shape)
    target = np.full((n, c, h, w + 4), -7, np.float32)
    address = upload(target)
    strides = [c * h * (w + 4), h * (w + 4), w + 4, 1]
    conv.tensors["gradInput"] = tensor_at(address, [n, c, h, w], strides=strides, offset=2, storage=[target.size])
    conv.prepare()
    ok(conv.launch(stream))
    ok(acl.aclrtSynchronizeStream(stream))
    target[..., 2:-2] = c
    np.testing.assert_array_equal(download(address, target.shape), target)
    dw = np.broadcast_to(values.sum((0, 2, 3)), (c, c)).reshape(c, c, 1, 1)
    np.testing.assert_array_equal(conv.result("gradWeight"), dw)


@pytest.mark.parametrize("chip", ["ascend910a", "ascend310p3", "ascend910b3", "ascend950pr_9589"])
@pytest.mark.parametrize("deterministic", [0, 1])
@pytest.mark.parametrize("offset", [0, 3])
def test_gradients_in_a_longer_storage_leave_the_rest(chip: str, deterministic: int, offset: int) -> None:
    """One buffer may hold the gradients of all layers. The 950's kernel clears dW itself, and copies of the 910 and 310P count
    whole blocks, which are longer than these gradients.
    """
    use(chip=chip, mode="functional")
    stream = open_device()
    ok(acl.aclrtSetSysParamOpt(acl.ACL_OPT_DETERMINISTIC, deterministic))
    conv = AclConvolution()
    sizes = {name: elements(conv.shapes[name]) for name in ("gradInput", "gradWeight", "gradBias")}
    for name, size in sizes.items():
        storage = [offset + size + 1000]
        conv.addresses[name] = upload(np.full(storage, -7, np.float32))
        conv.tensors[name] = tensor_at(conv.addresses[name], conv.shapes[name], offset=offset, storage=storage)
    conv.prepare()
    ok(conv.launch(stream))
    ok(acl.aclrtSynchronizeStream(stream))
    for name, size in sizes.items():
        before, values, behind = np.split(download(conv.addresses[name], [offset + size + 1000]), [offset, offset + size])
        np.testing.assert_array_equal(values, conv.expected(name).ravel())
        assert (before == -7).all() and (behind == -7).all(), name


@pytest.mark.parametrize("chip", ["ascend910a", "ascend910b3"])
@pytest.mark.parametrize("channels", [1, 3, 40])
def test_gradients_over_time_in_a_longer_storage_leave_the_rest(chip: str, channels: int) -> None:
    """The Transposes and copies that end a ConvTbc call; rows shorter than a block and longer ones."""
    use(chip=chip, conformance="library", mode="functional")
    stream = open_device()
    shapes = {"self": (3, 2, channels), "input": (3, 2, channels), "weight": (1, channels, channels), "bias": (channels,)}
    given = [tensor_at(upload(np.ones(shape, np.float16)), shape, dtype=acl.ACL_FLOAT16) for shape in shapes.values()]
    right = {"input": channels, "weight": 6, "bias": 6}
    sizes = {name: elements(shapes[name]) for name in right}
    addresses = {name: upload(np.full(size + 100, -7, np.float16)) for name, size in sizes.items()}
    outputs = [
        tensor_at(addresses[name], shapes[name], dtype=acl.ACL_FLOAT16, storage=[size + 100]) for name, size in sizes.items()
    ]
    size, executor = ok(acl.aclnnConvTbcBackwardGetWorkspaceSize(*given, 0, 0, *outputs))
    workspace = ok(acl.aclrtMalloc(size, acl.ACL_MEM_MALLOC_HUGE_FIRST)) if size else None
    ok(acl.aclnnConvTbcBackward(workspace, size, executor, stream))
    ok(acl.aclrtSynchronizeStream(stream))
    for name, size in sizes.items():
        values, behind = np.split(download(addresses[name], [size + 100], np.float16), [size])
        assert (values == right[name]).all() and (behind == -7).all(), name


@pytest.mark.parametrize(("name", "other"), [("gradWeight", "gradInput"), ("gradInput", "gradOutput")])
def test_an_output_that_is_another_tensor_too(stream, name, other):
    """Allowed, as far as the documents say, but hardly meant."""
    conv = AclConvolution()
    conv.tensors[name] = tensor_at(conv.addresses[other], conv.shapes[name])
    conv.prepare()
    with pytest.warns(RuntimeWarning, match="share memory") as told:
        ok(conv.launch(stream))
    assert Path(told[0].filename) == Path(acl_calls.__file__)  # where the call stands
    conv = AclConvolution(mask=tuple(output != name for output in ("gradInput", "gradWeight", "gradBias")))
    conv.tensors[name] = tensor_at(conv.addresses[other], conv.shapes[name])
    with warnings.catch_warnings(action="error"):
        ok(conv.prepare().launch(stream))  # it is not written


def test_outputs_may_stand_between_each_other(stream):
    """The columns of gradOutput and gradInput alternate in one map: no element is shared, and nothing is told."""
    conv = AclConvolution(cube_math_type=0)
    n, c, h, w = conv.shapes["input"]
    address = upload(np.ones((n, c, h, 2 * w), np.float32))
    strides = [c * h * 2 * w, h * 2 * w, 2 * w, 2]
    for offset, name in enumerate(("gradOutput", "gradInput")):
        storage = [2 * n * c * h * w]
        conv.tensors[name] = tensor_at(address, [n, c, h, w], strides=strides, offset=offset, storage=storage)
    with warnings.catch_warnings(action="error"):
        ok(conv.prepare().launch(stream))
    ok(acl.aclrtSynchronizeStream(stream))
    assert (download(address, (n, c, h, w, 2)) == [1, c]).all()


def test_a_tensor_inside_a_larger_block(stream):
    conv = AclConvolution()
    block = np.concatenate([np.zeros(3, np.float32), np.ones(196, np.float32), np.zeros(5, np.float32)])
    conv.tensors["gradOutput"] = tensor_at(upload(block) + 12, conv.shapes["gradOutput"])
    conv.prepare()
    ok(conv.launch(stream))
    ok(acl.aclrtSynchronizeStream(stream))
    np.testing.assert_array_equal(conv.result("gradWeight"), conv.expected("gradWeight"))


def test_a_call_without_kernels_needs_neither_workspace_nor_time(stream):
    conv = AclConvolution(mask=(False, False, False))
    size, executor = ok(conv.size_call())
    workspace = ok(acl.aclrtMalloc(size, 0)) if size else None
    ok(acl.aclnnConvolutionBackward(workspace, size, executor, stream))
    ok(acl.aclrtSynchronizeStream(stream))
    assert (conv.result("gradInput") == -1).all()


def test_a_batch_of_nothing(stream):
    """Ruling on empty tensors: gradInput is empty, gradWeight and gradBias are zeros; empty tensors need no memory."""
    conv = AclConvolution()
    for name in ("gradOutput", "input", "gradInput"):
        conv.tensors[name] = tensor_at(None, [0, 2, 7, 7])
    size, executor = ok(conv.size_call())
    workspace = ok(acl.aclrtMalloc(size, 0)) if size else None
    ok(acl.aclnnConvolutionBackward(workspace, size, executor, stream))
    ok(acl.aclrtSynchronizeStream(stream))
    assert not conv.result("gradWeight").any()
    assert not conv.result("gradBias").any()


def test_zeros_go_into_a_view_and_nowhere_else(stream):
    """gradWeight of an empty batch is every second element of its memory; what lies between stays."""
    conv = AclConvolution()
    for name in ("gradOutput", "input", "gradInput"):
        conv.tensors[name] = tensor_at(None, [0, 2, 7, 7])
    address = upload(np.full(9, -7, np.float32))
    conv.tensors["gradWeight"] = tensor_at(address, [2, 2, 1, 1], strides=[4, 2, 1, 1], offset=1, storage=[9])
    bias = upload(np.full(5, -7, np.float32))
    conv.tensors["gradBias"] = tensor_at(bias, [2], storage=[5])
    conv.prepare()
    ok(conv.launch(stream))
    ok(acl.aclrtSynchronizeStream(stream))
    np.testing.assert_array_equal(download(address, [9]), [-7, 0, -7, 0, -7, 0, -7, 0, -7])
    np.testing.assert_array_equal(download(bias, [5]), [0, 0, -7, -7, -7])


@pytest.mark.parametrize(("narrow", "number"), [(np.float16, acl.ACL_FLOAT16), (bfloat16, acl.ACL_BF16)], ids=["fp16", "bf16"])
@pytest.mark.parametrize("steps", [6, 3], ids=["kernels", "matmul"])
def test_tbc_of_the_library_rounds_to_the_dtypes_of_its_inputs_on_the_way(steps, narrow, number):
    """float32 outputs of 16-bit inputs: dInput and dWeight have passed their dtype, dBias is ReduceSum's."""
    use(conformance="library")
    stream = open_device()
    rng = np.random.default_rng(0)
    shapes = {"self": (steps - 2, 3, 5), "input": (steps, 3, 4), "weight": (3, 4, 5), "bias": (5,)}
    host = {name: rng.standard_normal(shape).astype(narrow) for name, shape in shapes.items()}
    given = [tensor_at(upload(host[name]), shapes[name], dtype=number) for name in shapes]
    addresses = [upload(np.zeros(shapes[name], np.float32)) for name in ("input", "weight", "bias")]
    outputs = [tensor_at(a, shapes[name]) for a, name in zip(addresses, ("input", "weight", "bias"), strict=True)]
    size, executor = ok(acl.aclnnConvTbcBackwardGetWorkspaceSize(*given, 0, 0, *outputs))
    workspace = ok(acl.aclrtMalloc(size, acl.ACL_MEM_MALLOC_HUGE_FIRST))
    ok(acl.aclnnConvTbcBackward(workspace, size, executor, stream))
    ok(acl.aclrtSynchronizeStream(stream))
    wide = {name: array.astype(np.float64) for name, array in host.items()}
    exact = np.stack([np.einsum("tbi,tbo->io", wide["input"][k : k + steps - 2], wide["self"]) for k in range(3)])
    found = download(addresses[1], shapes["weight"])
    np.testing.assert_array_equal(found, found.astype(narrow).astype(np.float32))
    np.testing.assert_allclose(found, exact, rtol=5e-3, atol=2e-2)
    dx = download(addresses[0], shapes["input"])
    np.testing.assert_array_equal(dx, dx.astype(narrow).astype(np.float32))

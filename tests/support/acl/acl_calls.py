"""Shorthands for the tests: calls that must succeed, and one small convolution backward on the device."""

from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from ascend_sim import acl


def ok(result):
    """The out-parameters of a call that must succeed (None, one, or a tuple)."""
    code, *outputs = result if isinstance(result, tuple) else (result,)
    assert code == acl.ACL_SUCCESS, acl.aclGetRecentErrMsg()
    return outputs[0] if len(outputs) == 1 else tuple(outputs) or None


def refused(result, reason, *words):
    """Assert that a call ended in the code of a row of ASSUMED_CODES, and that the message has every word."""
    code = result[0] if isinstance(result, tuple) else result
    expected = acl.ASSUMED_CODES[reason]
    message = acl.aclGetRecentErrMsg()
    assert (code, message is not None) == (expected.code, True), message
    assert f"{expected.code} {expected.name}" in message
    for word in words:
        assert word in message, message


def open_device():
    """aclInit, aclrtSetDevice, aclrtCreateStream."""
    ok(acl.aclInit(None))
    ok(acl.aclrtSetDevice(0))
    return ok(acl.aclrtCreateStream())


def upload(array):
    """The address of a copy of an array in device memory."""
    address = ok(acl.aclrtMalloc(array.nbytes, acl.ACL_MEM_MALLOC_HUGE_FIRST))
    ok(acl.aclrtMemcpy(address, array.nbytes, array, array.nbytes, acl.ACL_MEMCPY_HOST_TO_DEVICE))
    return address


def download(address, shape, dtype=np.float32):
    """An array from device memory."""
    array = np.zeros(shape, dtype)
    ok(acl.aclrtMemcpy(array, array.nbytes, address, array.nbytes, acl.ACL_MEMCPY_DEVICE_TO_HOST))
    return array


def tensor_at(address, shape, *, dtype=acl.ACL_FLOAT, format=acl.ACL_FORMAT_NCHW, strides=None, offset=0, storage=None):
    """An aclTensor over device memory."""
    label = format if len(shape) == 4 else acl.ACL_FORMAT_ND
    storage = shape if storage is None else storage
    return acl.aclCreateTensor(shape, len(shape), dtype, strides, offset, label, storage, len(storage), address)


def int_array(*values):
    return acl.aclCreateIntArray(values, len(values))


@dataclass
class AclConvolution:
    """A 2-D convolution backward of ones with a 1 x 1 kernel in device memory: gradInput is all `channels`."""

    batch: int = 2
    channels: int = 2
    size: int = 7
    cube_math_type: int = 1
    mask: tuple = (True, True, True)
    addresses: dict = field(default_factory=dict)
    tensors: dict = field(default_factory=dict)
    executor: Any = None
    workspace_size: int = 0

    def __post_init__(self):
        features = [self.batch, self.channels, self.size, self.size]
        self.shapes = {
            "gradOutput": features, "input": features, "weight": [self.channels, self.channels, 1, 1],
            "gradInput": features, "gradWeight": [self.channels, self.channels, 1, 1], "gradBias": [self.channels],
        }  # fmt: skip
        for name, shape in self.shapes.items():
            value = -1.0 if name.startswith("grad") and name != "gradOutput" else 1.0
            self.addresses[name] = upload(np.full(shape, value, np.float32))
            self.tensors[name] = tensor_at(self.addresses[name], shape)

    def size_call(self, **changed):
        """aclnnConvolutionBackwardGetWorkspaceSize, with some arguments changed."""
        given = {
            **self.tensors, "biasSizes": int_array(self.channels), "stride": int_array(1, 1), "padding": int_array(0, 0),
            "dilation": int_array(1, 1), "transposed": False, "outputPadding": int_array(0, 0), "groups": 1,
            "outputMask": acl.aclCreateBoolArray(self.mask, len(self.mask)), "cubeMathType": self.cube_math_type,
        }  # fmt: skip
        return acl.aclnnConvolutionBackwardGetWorkspaceSize(**{**given, **changed})

    def prepare(self):
        """Phase one and a workspace."""
        self.workspace_size, self.executor = ok(self.size_call())
        self.workspace = ok(acl.aclrtMalloc(self.workspace_size, acl.ACL_MEM_MALLOC_HUGE_FIRST))
        return self

    def launch(self, stream):
        """Phase two."""
        return acl.aclnnConvolutionBackward(self.workspace, self.workspace_size, self.executor, stream)

    def result(self, name):
        """An output as it stands in device memory now."""
        return download(self.addresses[name], self.shapes[name])

    def expected(self, name):
        """Return the expected values of an output."""
        pixels = self.batch * self.size**2
        value = {"gradInput": self.channels, "gradWeight": pixels, "gradBias": pixels}[name]
        return np.full(self.shapes[name], value, np.float32)


def elements(shape):
    return prod(shape)

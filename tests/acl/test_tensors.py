"""Descriptions on the host: aclTensor, aclIntArray and aclBoolArray, and what is no description."""

from __future__ import annotations

import numpy as np
import pytest

from ascend_sim import acl, use
from tests.support.acl.acl_calls import AclConvolution, int_array, ok, open_device, refused, tensor_at

pytestmark = pytest.mark.fast


@pytest.fixture
def stream():
    use(mode="functional")
    return open_device()


@pytest.mark.parametrize("name", ["input", "gradInput"])
def test_a_destroyed_tensor_in_phase_one(stream, name):
    conv = AclConvolution()
    ok(acl.aclDestroyTensor(conv.tensors[name]))
    refused(conv.size_call(), "aclnn argument", name, "destroyed")


def test_a_destroyed_array_in_phase_one(stream):
    stride = int_array(1, 1)
    ok(acl.aclDestroyIntArray(stride))
    refused(AclConvolution().size_call(stride=stride), "aclnn argument", "stride", "destroyed")


def test_destroying_twice_and_destroying_nothing(stream):
    conv = AclConvolution()
    array, mask = int_array(1), acl.aclCreateBoolArray([True], 1)
    for destroy, handle in (
        (acl.aclDestroyTensor, conv.tensors["input"]),
        (acl.aclDestroyIntArray, array),
        (acl.aclDestroyBoolArray, mask),
    ):
        refused(destroy(None), "aclnn null", "null pointer")
        refused(destroy(5), "aclnn argument", "int")
        ok(destroy(handle))
        refused(destroy(handle), "aclnn argument", "destroyed")


def test_a_view_that_leaves_its_storage(stream):
    conv = AclConvolution()
    shape = conv.shapes["input"]
    for wrong in ({"offset": 1}, {"strides": [98, 49, 7, 2]}, {"storage": [2, 2, 7, 6]}, {"offset": -1}):
        tensor = tensor_at(conv.addresses["input"], shape, **wrong)
        refused(conv.size_call(input=tensor), "aclnn argument", "input")


def test_creating_descriptions_of_nothing():
    assert acl.aclCreateTensor(None, 4, acl.ACL_FLOAT, None, 0, acl.ACL_FORMAT_ND, None, 0, None) is None
    assert "viewDims is a null pointer" in acl.aclGetRecentErrMsg()
    assert acl.aclCreateIntArray([1, 2], 3) is None
    assert "holds 2 values; 3 are wanted" in acl.aclGetRecentErrMsg()
    assert acl.aclCreateIntArray("12", 2) is None
    assert acl.aclCreateIntArray([1 << 63], 1) is None
    assert acl.aclCreateBoolArray(None, 1) is None
    assert acl.aclCreateIntArray([1, 2, 3], 2).values == (1, 2)
    assert acl.aclCreateIntArray(np.array([4, 5]), 2).values == (4, 5)
    assert acl.aclCreateTensor([2], 1, 999, None, 0, 999, [2], 1, None).arg.dtype == "aclDataType 999"

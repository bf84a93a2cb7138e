"""The four example programs of the operator documents: ones in, and the sums that the formulas give out."""

import numpy as np
import pytest

from ascend_sim import acl, use
from tests.support.acl.programs import CheckRetFailed, aclnnConvolutionBackwardTest, aclnnConvTbcBackwardTest, main

pytestmark = pytest.mark.fast

CONV = ((196, 2.0), (4, 98.0), (2, 98.0))
TBC = ((10, 2.0), (4, 5.0), (2, 5.0))
PROGRAMS = {
    "000, 2-D, labelled NCDHW": (aclnnConvolutionBackwardTest, acl.ACL_FORMAT_NCDHW, CONV),
    "001, TBC": (aclnnConvTbcBackwardTest, acl.ACL_FORMAT_NCHW, TBC),
    "002, TBC": (aclnnConvTbcBackwardTest, acl.ACL_FORMAT_NCHW, TBC),
    "004, 2-D, labelled NCHW": (aclnnConvolutionBackwardTest, acl.ACL_FORMAT_NCHW, CONV),
}


@pytest.mark.parametrize("mode", ["full", "functional"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_documents_programs_print_their_sums(name, mode):
    test, label, expected = PROGRAMS[name]
    use(mode=mode, conformance="documented" if label == acl.ACL_FORMAT_NCDHW else None)
    results, finals = main(test, label)
    for result, (size, value) in zip(results, expected, strict=True):
        np.testing.assert_array_equal(result, np.full(size, value, np.float32))
    assert finals == [0, 0, 0]


def test_the_label_of_000_fails_in_the_released_library():
    """The library is what a program meets; the message names the documents, which accept the call."""
    with pytest.raises(CheckRetFailed, match=r"GetWorkspaceSize failed. ERROR: 161002; .*NCDHW.*conformance documented"):
        main(aclnnConvolutionBackwardTest, acl.ACL_FORMAT_NCDHW)

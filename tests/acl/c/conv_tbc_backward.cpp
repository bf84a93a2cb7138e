// aclnnConvTbcBackward as the operator documents call it: five steps, a kernel of one, ones everywhere.
#include "device.hpp"

int main()
{
    Device device;
    Tensor self({5, 1, 2}, 1), input({5, 1, 2}, 1), weight({1, 2, 2}, 1), bias({2}, 1);
    Tensor grad_input({5, 1, 2}, 1), grad_weight({1, 2, 2}, 1), grad_bias({2}, 1);
    uint64_t size = 0;
    aclOpExecutor *executor = nullptr;
    MUST(aclnnConvTbcBackwardGetWorkspaceSize(self.handle, input.handle, weight.handle, bias.handle, 0, 1,
                                              grad_input.handle, grad_weight.handle, grad_bias.handle, &size,
                                              &executor));
    void *workspace = nullptr;
    MUST(aclrtMalloc(&workspace, size, ACL_MEM_MALLOC_HUGE_FIRST));
    MUST(aclnnConvTbcBackward(workspace, size, executor, device.stream));
    MUST(aclrtSynchronizeStream(device.stream));
    grad_input.print("gradInput");
    grad_weight.print("gradWeight");
    grad_bias.print("gradBias");
    MUST(aclrtFree(workspace));
    return 0;
}

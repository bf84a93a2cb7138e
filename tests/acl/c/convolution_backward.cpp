// aclnnConvolutionBackward as the operator documents call it: 2-D, a 1x1 kernel, ones everywhere.
// Argument: the label of 4-D tensors, NCHW (the default) or NCDHW. Prints every gradient and the elapsed time of the call.
#include <cstring>

#include "device.hpp"

int main(int argc, char **argv)
{
    const bool labelled_3d = argc > 1 && std::strcmp(argv[1], "NCDHW") == 0;
    const aclFormat label = labelled_3d ? ACL_FORMAT_NCDHW : ACL_FORMAT_NCHW;
    Device device;
    Tensor grad_output({2, 2, 7, 7}, 1, label), input({2, 2, 7, 7}, 1, label), weight({2, 2, 1, 1}, 1, label);
    Tensor grad_input({2, 2, 7, 7}, 1, label), grad_weight({2, 2, 1, 1}, 1, label), grad_bias({2}, 1);
    Ints bias_sizes({2}), stride({1, 1}), padding({0, 0}), dilation({1, 1}), output_padding({0, 0});
    const bool wanted[] = {true, true, true};
    aclBoolArray *mask = aclCreateBoolArray(wanted, 3);

    uint64_t size = 0;
    aclOpExecutor *executor = nullptr;
    MUST(aclnnConvolutionBackwardGetWorkspaceSize(
        grad_output.handle, input.handle, weight.handle, bias_sizes.handle, stride.handle, padding.handle,
        dilation.handle, false, output_padding.handle, 1, mask, 1, grad_input.handle, grad_weight.handle,
        grad_bias.handle, &size, &executor));
    void *workspace = nullptr;
    MUST(aclrtMalloc(&workspace, size, ACL_MEM_MALLOC_HUGE_FIRST));

    aclrtEvent start, end;
    MUST(aclrtCreateEvent(&start));
    MUST(aclrtCreateEvent(&end));
    MUST(aclrtRecordEvent(start, device.stream));
    MUST(aclnnConvolutionBackward(workspace, size, executor, device.stream));
    MUST(aclrtRecordEvent(end, device.stream));
    MUST(aclrtSynchronizeStream(device.stream));

    grad_input.print("gradInput");
    grad_weight.print("gradWeight");
    grad_bias.print("gradBias");
    float ms = -1;
    const aclError timed = aclrtEventElapsedTime(&ms, start, end);
    size_t free_bytes, total;
    MUST(aclrtGetMemInfo(ACL_HBM_MEM, &free_bytes, &total));
    std::printf("elapsed %d %.6f\nmemory %zu\n", timed, ms, total);

    MUST(aclrtDestroyEvent(start));
    MUST(aclrtDestroyEvent(end));
    MUST(aclrtFree(workspace));
    MUST(aclDestroyBoolArray(mask));
    return 0;
}

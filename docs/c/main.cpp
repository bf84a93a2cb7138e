// The backward pass of one 3x3 layer: its gradients, compared with the sums of their formulas; an error on purpose; and
// the time that the chip takes.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "acl/acl.h"
#include "aclnnop/aclnn_convolution_backward.h"

static void check(int code, const char *what)
{
    if (code != ACL_SUCCESS) {
        std::fprintf(stderr, "%s: %d: %s\n", what, code, aclGetRecentErrMsg());
        std::exit(1);
    }
}

constexpr int64_t BATCH = 2, CHANNELS = 16, SIZE = 12, KERNEL = 3, PAD = 1;

struct Tensor {
    std::vector<int64_t> shape;
    std::vector<float> host;
    void *device = nullptr;
    aclTensor *handle = nullptr;

    explicit Tensor(const std::vector<int64_t> &sizes) : shape(sizes)
    {
        size_t count = 1;
        for (auto size : shape) {
            count *= size;
        }
        host.resize(count);
    }

    size_t bytes() const { return host.size() * sizeof(float); }

    void upload()
    {
        check(aclrtMalloc(&device, bytes(), ACL_MEM_MALLOC_HUGE_FIRST), "aclrtMalloc");
        check(aclrtMemcpy(device, bytes(), host.data(), bytes(), ACL_MEMCPY_HOST_TO_DEVICE), "aclrtMemcpy");
        const aclFormat format = shape.size() == 4 ? ACL_FORMAT_NCHW : ACL_FORMAT_ND;
        handle = aclCreateTensor(shape.data(), shape.size(), ACL_FLOAT, nullptr, 0, format, shape.data(), shape.size(),
                                 device);
    }

    void download() { check(aclrtMemcpy(host.data(), bytes(), device, bytes(), ACL_MEMCPY_DEVICE_TO_HOST), "aclrtMemcpy"); }

    void release()
    {
        check(aclDestroyTensor(handle), "aclDestroyTensor");
        check(aclrtFree(device), "aclrtFree");
    }

    // Small whole numbers: their sums have no rounding, in whatever order they are added.
    void fill(uint32_t seed)
    {
        for (auto &value : host) {
            seed = seed * 1664525u + 1013904223u;
            value = static_cast<float>(static_cast<int>(seed >> 24) % 7 - 3);
        }
    }

    float &at(int64_t n, int64_t c, int64_t y, int64_t x)
    {
        return host[static_cast<size_t>(((n * shape[1] + c) * shape[2] + y) * shape[3] + x)];
    }
};

// The formulas, a loop for each index.
static void expect(Tensor &grad_output, Tensor &input, Tensor &weight, Tensor &grad_input, Tensor &grad_weight,
                   Tensor &grad_bias)
{
    for (int64_t n = 0; n < BATCH; n++) {
        for (int64_t co = 0; co < CHANNELS; co++) {
            for (int64_t y = 0; y < SIZE; y++) {
                for (int64_t x = 0; x < SIZE; x++) {
                    const float g = grad_output.at(n, co, y, x);
                    grad_bias.host[static_cast<size_t>(co)] += g;
                    for (int64_t ci = 0; ci < CHANNELS; ci++) {
                        for (int64_t p = 0; p < KERNEL; p++) {
                            for (int64_t q = 0; q < KERNEL; q++) {
                                const int64_t row = y + p - PAD, column = x + q - PAD;
                                if (row >= 0 && row < SIZE && column >= 0 && column < SIZE) {
                                    grad_input.at(n, ci, row, column) += g * weight.at(co, ci, p, q);
                                    grad_weight.at(co, ci, p, q) += g * input.at(n, ci, row, column);
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

static bool same(const char *name, const Tensor &found, const Tensor &expected)
{
    float worst = 0;
    for (size_t i = 0; i < found.host.size(); i++) {
        worst = std::fmax(worst, std::fabs(found.host[i] - expected.host[i]));
    }
    std::printf("%s: %zu values, largest error %g\n", name, found.host.size(), worst);
    return worst == 0;
}

int main()
{
    check(aclInit(nullptr), "aclInit");
    check(aclrtSetDevice(0), "aclrtSetDevice");
    aclrtStream stream;
    check(aclrtCreateStream(&stream), "aclrtCreateStream");

    Tensor grad_output({BATCH, CHANNELS, SIZE, SIZE}), input({BATCH, CHANNELS, SIZE, SIZE});
    Tensor weight({CHANNELS, CHANNELS, KERNEL, KERNEL});
    Tensor grad_input(input.shape), grad_weight(weight.shape), grad_bias({CHANNELS});
    Tensor expected_input(input.shape), expected_weight(weight.shape), expected_bias({CHANNELS});
    grad_output.fill(1);
    input.fill(2);
    weight.fill(3);
    expect(grad_output, input, weight, expected_input, expected_weight, expected_bias);
    Tensor *tensors[] = {&grad_output, &input, &weight, &grad_input, &grad_weight, &grad_bias};
    for (auto tensor : tensors) {
        tensor->upload();
    }

    const int64_t channels[] = {CHANNELS}, ones[] = {1, 1}, pads[] = {PAD, PAD}, zeros[] = {0, 0}, too_wide[] = {1, -1};
    const bool wanted[] = {true, true, true};
    aclIntArray *bias_sizes = aclCreateIntArray(channels, 1), *one = aclCreateIntArray(ones, 2);
    aclIntArray *padding = aclCreateIntArray(pads, 2), *zero = aclCreateIntArray(zeros, 2);
    aclIntArray *wrong = aclCreateIntArray(too_wide, 2);
    aclBoolArray *mask = aclCreateBoolArray(wanted, 3);
    uint64_t size = 0;
    aclOpExecutor *executor = nullptr;

    // An error on purpose: a negative padding.
    const aclnnStatus refused = aclnnConvolutionBackwardGetWorkspaceSize(
        grad_output.handle, input.handle, weight.handle, bias_sizes, one, wrong, one, false, zero, 1, mask, 1,
        grad_input.handle, grad_weight.handle, grad_bias.handle, &size, &executor);
    std::printf("padding [1, -1]: status %d\n%s\n", refused, aclGetRecentErrMsg());

    check(aclnnConvolutionBackwardGetWorkspaceSize(grad_output.handle, input.handle, weight.handle, bias_sizes, one, padding,
                                                   one, false, zero, 1, mask, 1, grad_input.handle, grad_weight.handle,
                                                   grad_bias.handle, &size, &executor),
          "aclnnConvolutionBackwardGetWorkspaceSize");
    void *workspace = nullptr;
    if (size > 0) {
        check(aclrtMalloc(&workspace, size, ACL_MEM_MALLOC_HUGE_FIRST), "aclrtMalloc");
    }

    aclrtEvent start, end;
    check(aclrtCreateEvent(&start), "aclrtCreateEvent");
    check(aclrtCreateEvent(&end), "aclrtCreateEvent");
    check(aclrtRecordEvent(start, stream), "aclrtRecordEvent");
    check(aclnnConvolutionBackward(workspace, size, executor, stream), "aclnnConvolutionBackward");
    check(aclrtRecordEvent(end, stream), "aclrtRecordEvent");
    check(aclrtSynchronizeStream(stream), "aclrtSynchronizeStream");
    float milliseconds = 0;
    check(aclrtEventElapsedTime(&milliseconds, start, end), "aclrtEventElapsedTime");

    for (auto tensor : {&grad_input, &grad_weight, &grad_bias}) {
        tensor->download();
    }
    bool right = same("gradInput", grad_input, expected_input);
    right = same("gradWeight", grad_weight, expected_weight) && right;
    right = same("gradBias", grad_bias, expected_bias) && right;
    std::printf("%.2f us on the chip\n", milliseconds * 1e3);

    check(aclrtDestroyEvent(start), "aclrtDestroyEvent");
    check(aclrtDestroyEvent(end), "aclrtDestroyEvent");
    for (auto array : {bias_sizes, one, padding, zero, wrong}) {
        check(aclDestroyIntArray(array), "aclDestroyIntArray");
    }
    check(aclDestroyBoolArray(mask), "aclDestroyBoolArray");
    for (auto tensor : tensors) {
        tensor->release();
    }
    if (workspace != nullptr) {
        check(aclrtFree(workspace), "aclrtFree");
    }
    check(aclrtDestroyStream(stream), "aclrtDestroyStream");
    check(aclrtResetDevice(0), "aclrtResetDevice");
    check(aclFinalize(), "aclFinalize");
    return right ? 0 : 1;
}

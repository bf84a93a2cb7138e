// What the programs of this folder share: a device that is open while they live, tensors on it, and calls that must succeed.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "acl/acl.h"
#include "aclnnop/aclnn_convolution_backward.h"

#define MUST(call)                                                                                    \
    do {                                                                                              \
        const int code = (call);                                                                      \
        if (code != ACL_SUCCESS) {                                                                    \
            std::printf("line %d: %s = %d: %s\n", __LINE__, #call, code, aclGetRecentErrMsg());       \
            std::exit(1);                                                                             \
        }                                                                                             \
    } while (0)

using Shape = std::vector<int64_t>;

struct Device {
    aclrtStream stream = nullptr;

    Device()
    {
        MUST(aclInit(nullptr));
        MUST(aclrtSetDevice(0));
        MUST(aclrtCreateStream(&stream));
    }
    ~Device()
    {
        MUST(aclrtDestroyStream(stream));
        MUST(aclrtResetDevice(0));
        MUST(aclFinalize());
    }
};

struct Ints {
    aclIntArray *handle;

    Ints(const Shape &values) : handle(aclCreateIntArray(values.data(), values.size())) {}
    Ints(const Ints &) = delete;
    ~Ints() { MUST(aclDestroyIntArray(handle)); }
};

struct Tensor {
    Shape shape;
    size_t count = 1;
    void *memory = nullptr;
    aclTensor *handle = nullptr;

    Tensor(const Shape &sizes, float value, aclFormat label = ACL_FORMAT_NCHW) : shape(sizes)
    {
        for (auto size : shape) {
            count *= size;
        }
        const std::vector<float> host(count, value);
        MUST(aclrtMalloc(&memory, bytes(), ACL_MEM_MALLOC_HUGE_FIRST));
        MUST(aclrtMemcpy(memory, bytes(), host.data(), bytes(), ACL_MEMCPY_HOST_TO_DEVICE));
        handle = aclCreateTensor(shape.data(), shape.size(), ACL_FLOAT, nullptr, 0,
                                 shape.size() == 4 ? label : ACL_FORMAT_ND, shape.data(), shape.size(), memory);
    }
    Tensor(const Tensor &) = delete;
    ~Tensor()
    {
        MUST(aclDestroyTensor(handle));
        MUST(aclrtFree(memory));
    }

    size_t bytes() const { return count * sizeof(float); }

    std::vector<float> values() const
    {
        std::vector<float> host(count);
        MUST(aclrtMemcpy(host.data(), bytes(), memory, bytes(), ACL_MEMCPY_DEVICE_TO_HOST));
        return host;
    }

    void print(const char *name) const
    {
        for (auto value : values()) {
            std::printf("%s %g\n", name, value);
        }
    }
};

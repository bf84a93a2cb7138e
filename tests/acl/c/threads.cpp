// Several threads of the host, each with a context, a stream and a layer of its own; every second one deterministic.
// Argument: how many. Each thread prints what it found wrong, the program "N of N threads".
#include <atomic>
#include <thread>

#include "device.hpp"

static std::atomic<int> right{0};

static void work(int number)
{
    aclrtStream stream;
    const bool refused = aclrtCreateStream(&stream) == ACL_ERROR_INVALID_DEVICE; // no context yet
    aclrtContext context, current;
    MUST(aclrtCreateContext(&context, 0));
    MUST(aclrtCtxSetSysParamOpt(ACL_OPT_DETERMINISTIC, number % 2));
    MUST(aclrtCreateStream(&stream));
    const int64_t channels = number + 1;
    bool same = true;
    {
        Tensor grad_output({1, channels, 5, 5}, 1), input({1, channels, 5, 5}, 1), weight({channels, channels, 1, 1}, 1);
        Tensor grad_input({1, channels, 5, 5}, -1), grad_weight({channels, channels, 1, 1}, -1);
        Ints bias_sizes({channels}), ones({1, 1}), zeros({0, 0});
        const bool wanted[] = {true, true, false};
        aclBoolArray *mask = aclCreateBoolArray(wanted, 3);
        for (int turn = 0; turn < 3; turn++) {
            uint64_t size = 0;
            aclOpExecutor *executor = nullptr;
            MUST(aclnnConvolutionBackwardGetWorkspaceSize(
                grad_output.handle, input.handle, weight.handle, bias_sizes.handle, ones.handle, zeros.handle, ones.handle,
                false, zeros.handle, 1, mask, 0, grad_input.handle, grad_weight.handle, nullptr, &size, &executor));
            void *workspace = nullptr;
            if (size > 0) {
                MUST(aclrtMalloc(&workspace, size, ACL_MEM_MALLOC_HUGE_FIRST));
            }
            MUST(aclnnConvolutionBackward(workspace, size, executor, stream));
            MUST(aclrtSynchronizeStream(stream));
            if (workspace != nullptr) {
                MUST(aclrtFree(workspace));
            }
            for (auto value : grad_input.values()) {
                same = same && value == channels;
            }
            for (auto value : grad_weight.values()) {
                same = same && value == 25;
            }
        }
        MUST(aclDestroyBoolArray(mask));
    }
    int64_t deterministic = -1;
    MUST(aclrtCtxGetSysParamOpt(ACL_OPT_DETERMINISTIC, &deterministic));
    MUST(aclrtGetCurrentContext(&current));
    MUST(aclrtDestroyStream(stream));
    MUST(aclrtDestroyContext(context));
    if (refused && same && deterministic == number % 2 && current == context) {
        right++;
    } else {
        std::printf("thread %d: refused %d, values %d, deterministic %d, context %d\n", number, refused, same,
                    static_cast<int>(deterministic), current == context);
    }
}

int main(int argc, char **argv)
{
    const int count = argc > 1 ? std::atoi(argv[1]) : 4;
    Device device;
    std::vector<std::thread> threads;
    for (int number = 0; number < count; number++) {
        threads.emplace_back(work, number);
    }
    for (auto &thread : threads) {
        thread.join();
    }
    std::printf("%d of %d threads\n", right.load(), count);
    return right == count ? 0 : 1;
}

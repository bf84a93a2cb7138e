/* Pairs of create and destroy, of every kind. Argument: how many pairs. Prints by how much the process grew, in KiB. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "acl/acl.h"
#include "aclnnop/aclnn_convolution_backward.h"

#define MUST(call)                                                                    \
    do {                                                                              \
        if ((call) != ACL_SUCCESS) {                                                  \
            printf("%s: %s\n", #call, aclGetRecentErrMsg());                          \
            exit(1);                                                                  \
        }                                                                             \
    } while (0)

static const int64_t sizes[4] = {1, 2, 3, 4};
static const bool flags[3] = {true, false, true};

static long resident_kib(void)
{
    long total, resident;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file == NULL || fscanf(file, "%ld %ld", &total, &resident) != 2) {
        exit(1);
    }
    fclose(file);
    return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

static void tensor(void)
{
    MUST(aclDestroyTensor(aclCreateTensor(sizes, 4, ACL_FLOAT, NULL, 0, ACL_FORMAT_NCHW, sizes, 4, NULL)));
}

static void int_array(void) { MUST(aclDestroyIntArray(aclCreateIntArray(sizes, 4))); }

static void bool_array(void) { MUST(aclDestroyBoolArray(aclCreateBoolArray(flags, 3))); }

static void stream(void)
{
    aclrtStream made;
    MUST(aclrtCreateStream(&made));
    MUST(aclrtDestroyStream(made));
}

static void event(void)
{
    aclrtEvent made;
    MUST(aclrtCreateEvent(&made));
    MUST(aclrtDestroyEvent(made));
}

static void context(void)
{
    aclrtContext before, made;
    MUST(aclrtGetCurrentContext(&before));
    MUST(aclrtCreateContext(&made, 0));
    MUST(aclrtDestroyContext(made));
    MUST(aclrtSetCurrentContext(before));
}

static void context_with_streams(void) /* which nobody destroys by name */
{
    aclrtContext before, made;
    aclrtStream first;
    aclrtEvent second;
    MUST(aclrtGetCurrentContext(&before));
    MUST(aclrtCreateContext(&made, 0));
    MUST(aclrtCreateStream(&first));
    MUST(aclrtCreateEvent(&second));
    MUST(aclrtDestroyContext(made));
    MUST(aclrtSetCurrentContext(before));
}

static void memory(void)
{
    void *made;
    char host[64] = {0};
    MUST(aclrtMalloc(&made, 64, ACL_MEM_MALLOC_HUGE_FIRST));
    MUST(aclrtMemcpy(made, 64, host, 64, ACL_MEMCPY_HOST_TO_DEVICE));
    MUST(aclrtFree(made));
}

static void message(void)
{
    if (aclrtFree(NULL) == ACL_SUCCESS || aclGetRecentErrMsg() == NULL) {
        exit(1);
    }
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*pair)(void);
    } kinds[] = {
        {"aclTensor", tensor},   {"aclIntArray", int_array},
        {"aclBoolArray", bool_array}, {"aclrtStream", stream},
        {"aclrtEvent", event},   {"aclrtContext", context},
        {"aclrtContext with streams", context_with_streams}, {"memory", memory},
        {"message", message},
    };
    const long pairs = argc > 1 ? atol(argv[1]) : 1000;
    MUST(aclInit(NULL));
    MUST(aclrtSetDevice(0));
    for (size_t kind = 0; kind < sizeof kinds / sizeof kinds[0]; kind++) {
        for (long i = 0; i < 1500; i++) { /* whatever is taken once and kept */
            kinds[kind].pair();
        }
        const long before = resident_kib();
        for (long i = 0; i < pairs; i++) {
            kinds[kind].pair();
        }
        printf("%s: %ld KiB\n", kinds[kind].name, resident_kib() - before);
        fflush(stdout);
    }
    MUST(aclrtResetDevice(0));
    MUST(aclFinalize());
    return 0;
}

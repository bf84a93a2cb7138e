// Calls of a kernel by a request: arguments by their types, and the end of a kernel that does not end by itself.
#pragma once
#include "asim/matmul_messages.h"

namespace asim {

// A parameter as `describe` names it; `recorder.py` gives an argument of the same kind.
enum class Kind : int64_t { POINTER, INTEGER, FLOAT, STRUCT };
constexpr int64_t WHOLE = -1, FLOATING = -2, FILLED = -3;
struct Argument {
    int64_t value, offset;  // offset of its bytes after the arguments, or the kind of the value: WHOLE, FLOATING, FILLED
    double number() const {
        double real;
        memcpy(&real, &value, sizeof real);
        return offset == FLOATING ? real : (double)value;
    }
};
struct NoTiling {};
// Host code of the file that launches a kernel; nothing calls it here.
template <class... A> inline void launched(A &&...) {}
// A field of a structure that is filled by its name.
template <class T> inline void assign(T &field, const Argument &given) {
    field = given.offset == FLOATING ? (T)given.number() : (T)given.value;
}
template <class T> constexpr Kind kind_of() {
    return std::is_pointer_v<T> ? Kind::POINTER : is_float<T> || std::is_floating_point_v<T> ? Kind::FLOAT
         : std::is_integral_v<T> || std::is_enum_v<T> ? Kind::INTEGER : Kind::STRUCT;
}
template <class T, int I, class Filler, class Tiling>
inline T argument(const Argument &given, const char *bytes, const Filler &fill, Tiling &tiling, const Argument *fields) {
    using U = std::remove_cv_t<std::remove_reference_t<T>>;
    if constexpr (kind_of<U>() == Kind::POINTER) {
        if constexpr (!std::is_same_v<Tiling, NoTiling>)
            if (given.offset == FILLED) fill.template fill<I>(tiling, fields);
        return (U)(given.offset == FILLED ? (int64_t)&tiling : given.offset >= 0 ? (int64_t)(bytes + given.offset) : given.value);
    } else if constexpr (kind_of<U>() == Kind::INTEGER) return (U)given.value;
    else if constexpr (kind_of<U>() == Kind::FLOAT) return (U)given.number();
    else {
        U value;
        memcpy((void *)&value, bytes + given.offset, sizeof value);
        fill.template fill<I>(value, fields);
        return value;
    }
}
template <class Filler, class Tiling, class... T, size_t... I>
inline void call(void (*entry)(T...), const Argument *given, const char *bytes, const Filler &fill, Tiling &tiling,
                 std::index_sequence<I...>) {
    entry(argument<T, (int)I>(given[I], bytes, fill, tiling, given + sizeof...(T))...);
}
template <class... T> inline int64_t describe(void (*)(T...), int64_t *out, int64_t most) {
    int64_t described[] = {(int64_t)kind_of<std::remove_cv_t<T>>()..., (int64_t)sizeof(T)..., 0};
    for (int64_t i = 0; i < 2 * (int64_t)sizeof...(T) && i < most; i++) out[i] = described[i];
    return sizeof...(T);
}

inline void on_signal(int signal, siginfo_t *about, void *) {
    if (signal == SIGALRM) end(Ending::TOO_LONG, 0, recorder.last, "");
    char address[32];  // from it the recorder knows a tensor of GM
    snprintf(address, sizeof address, "%llu", signal == SIGSEGV || signal == SIGBUS ? (unsigned long long)about->si_addr : 0);
    end(Ending::CRASHED, signal, recorder.last, address);
}
template <class Filler, class Tiling, class... T>
inline void run(void (*entry)(T...), const Filler &fill, Tiling &tiling, const int64_t *request, int pipe) {
    memcpy(&recorder.request, request, sizeof(Request));
    recorder.pipe = pipe;
    const Argument *given = (const Argument *)((const char *)request + sizeof(Request));
    const char *bytes = (const char *)(given + recorder.request.arguments + recorder.request.fields);
    static char stack[1 << 16];
    stack_t apart = {};
    apart.ss_sp = stack;
    apart.ss_size = sizeof stack;
    sigaltstack(&apart, nullptr);
    struct sigaction action = {};
    action.sa_sigaction = on_signal;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    for (int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGALRM}) sigaction(signal, &action, nullptr);
    itimerval limit = {};
    limit.it_value.tv_sec = recorder.request.milliseconds / 1000;
    limit.it_value.tv_usec = recorder.request.milliseconds % 1000 * 1000;
    setitimer(ITIMER_REAL, &limit, nullptr);
    call(entry, given, bytes, fill, tiling, std::make_index_sequence<sizeof...(T)>());
    end_messages();
    if (recorder.registers.atomic) Word::atomic_left_(recorder.atomic);
    end(Ending::FINE, 0, recorder.last, "");
}

}  // namespace asim

// Tiling data: the bytes of a structure behind a pointer, which the caller gives by the structure's fields.
#define REGISTER_TILING_DEFAULT(Type) using asim_tiling_default = Type;
#define GET_TILING_DATA(name, pointer)                                                                                      \
    asim_tiling_default name;                                                                                               \
    memcpy((void *)&name, (const void *)(pointer), sizeof name)
#define GET_TILING_DATA_WITH_STRUCT(Type, name, pointer)                                                                    \
    Type name;                                                                                                              \
    memcpy((void *)&name, (const void *)(pointer), sizeof name)

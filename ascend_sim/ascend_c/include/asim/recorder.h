// Keeps the words of one program and writes them to a pipe: distinct shapes (a word with its fields) and source lines once,
// then five numbers a row (shape, line, three addresses). `stream.py` reads the frames.
#pragma once
#include <csignal>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/time.h>
#include <unistd.h>
#include "asim/counts.h"
#include "asim/marks.h"

namespace asim {

// Source line of an API call in the kernel: the default argument of every public function.
struct Site {
    const char *file;
    int line;
    static constexpr Site here(const char *file = __builtin_FILE(), int line = __builtin_LINE()) { return {file, line}; }
};

enum class Frame : int64_t { SHAPE = 1, LINE, ROWS, END, ASK };
enum class Ending : int64_t { FINE, REFUSED, CRASHED, TOO_LONG };

// Numbers of a request (recorder.py writes the same numbers in the same order).
struct Request {
    int64_t block, blocks, sub_block, sub_blocks;  // sub_blocks: vector cores of a block with a cube core, else 0
    int64_t most_rows, milliseconds, registers, arguments, fields;
    int64_t buffer_bytes[7];  // UB, L1, L0A, L0B, L0C, BT, FB
    int64_t matmul_room;      // address in GM where vector cores ask cube cores for products, else 0
};
#ifdef __DAV_CUBE__
constexpr bool ON_CUBE = true;
#else
constexpr bool ON_CUBE = false;
#endif

// A pointer into GM is (slot + 1) << GM_SHIFT plus an offset, with slots of at most MOST_TENSORS (recorder.py).
constexpr int GM_SHIFT = 40, MOST_TENSORS = 64;

// Operand of a word. A call names each one, and has no default for any.
struct Operand {
    template <class T> constexpr Operand(T number) : value((int64_t)number) {
        static_assert(!__is_floating_point(T) && !__is_pointer(T), "an operand is a number of bits: bits() or immediate()");
    }
    int64_t value;
};
// A word with the structure of its operands. Words that set a register are recorded on request only; `core` is the only kind of
// core that has the word, 'C' or 'V'.
template <class Operands> struct WordOf {
    int64_t number;
    bool always;
    char core;
    void operator()(Site site, const Operands &operands) const;
    void operator()(Site site) const { (*this)(site, Operands{}); }
    constexpr bool operator==(WordOf other) const { return number == other.number; }
};
}  // namespace asim
#include "asim/words.h"  // Registers, a structure for the operands of each word, and Word, as configs/instructions declares them

namespace asim {
template <class Key> struct Table {
    int64_t *cells = nullptr, capacity = 0, count = 0;  // numbers of entries, -1 where a cell is empty
    Key *entries = nullptr;
    static void *grown(void *old, int64_t bytes) {
        void *more = realloc(old, bytes);
        if (!more) abort();
        return more;
    }
    // Number of an entry; `fresh` is set if it is new.
    template <class Same, class Make> int64_t number(uint64_t hash, Same same, Make make, bool &fresh) {
        if (2 * count >= capacity) grow();
        int64_t cell = hash & (capacity - 1);
        while (cells[cell] >= 0) {
            if (same(entries[cells[cell]])) {
                fresh = false;
                return cells[cell];
            }
            cell = (cell + 1) & (capacity - 1);
        }
        entries[count] = make();
        entries[count].hash = hash;
        fresh = true;
        return cells[cell] = count++;
    }
    void grow() {
        capacity = capacity ? 2 * capacity : 256;
        cells = (int64_t *)grown(cells, capacity * sizeof(int64_t));
        entries = (Key *)grown(entries, capacity * sizeof(Key));
        for (int64_t i = 0; i < capacity; i++) cells[i] = -1;
        for (int64_t i = 0; i < count; i++) {
            int64_t cell = entries[i].hash & (capacity - 1);
            while (cells[cell] >= 0) cell = (cell + 1) & (capacity - 1);
            cells[cell] = i;
        }
    }
};

constexpr int MOST_FIELDS = 24;  // numbers of a shape: the word, its operands and registers
struct Shape {
    uint64_t hash;
    int64_t count, fields[MOST_FIELDS];
};
struct Line {
    uint64_t hash;
    const char *file;
    int64_t line;
};

constexpr int64_t AT_ONCE = 1 << 13;  // rows that are written together
inline int64_t waiting_rows[AT_ONCE][5];
inline char gathered[sizeof waiting_rows];  // what is sent together: a receiver woken for each word would take most of the time

// Constants alone initialise it: nothing of a judged kernel's library runs while it is loaded.
struct Recorder {
    int pipe = -1;
    Request request = {};
    Registers registers;
    int64_t waiting = 0, written = 0;
    int64_t bytes = 0;
    Table<Shape> shapes;
    Table<Line> lines;
    Site last = {"", 0};
    Site atomic = {"", 0};  // of the call that turned on the atomic mode of copies
    int64_t stray = 0;  // the memory (Hardware) in which an operand of the next word lies outside the buffer of its tensor
    int64_t repeats = 0;  // of the call of the next word, where a byte cannot hold them
    int64_t cross_modes[16] = {-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1};  // of flags between cores
};
inline Recorder recorder;

inline void send_gathered() {
    const char *at = gathered;
    while (recorder.bytes > 0) {
        int64_t done = write(recorder.pipe, at, recorder.bytes);
        if (done <= 0) _exit(1);
        at += done;
        recorder.bytes -= done;
    }
}
inline void send(const void *data, int64_t bytes) {
    if (recorder.bytes + bytes > (int64_t)sizeof gathered) send_gathered();
    memcpy(gathered + recorder.bytes, data, bytes);
    recorder.bytes += bytes;
}
inline void frame(Frame kind, int64_t bytes) {
    int64_t head[2] = {(int64_t)kind, bytes};
    send(head, sizeof head);
}
inline void flush() {
    if (!recorder.waiting) return;
    int64_t bytes = recorder.waiting * (int64_t)sizeof waiting_rows[0];
    frame(Frame::ROWS, bytes);
    send(waiting_rows, bytes);
    recorder.waiting = 0;
}
inline int64_t padded(int64_t bytes) { return (bytes + 7) & ~7ll; }
inline void send_text(const char *text) {
    int64_t length = strlen(text), zero = 0;
    send(text, length);
    send(&zero, padded(length + 1) - length);
}
// The last frame of a program; nothing of the kernel runs after it.
[[noreturn]] inline void end(Ending how, int64_t detail, Site site, const char *text) {
    if (how == Ending::FINE || how == Ending::REFUSED) fflush(stdout);
    flush();
    int64_t head[5] = {(int64_t)how, detail, site.line, counts.turns, counts.calls};
    frame(Frame::END, sizeof head + padded(strlen(site.file) + 1) + padded(strlen(text) + 1));
    send(head, sizeof head);
    send_text(site.file);
    send_text(text);
    send_gathered();
    _exit(0);
}
[[noreturn]] inline void refuse(Site site, const char *format, ...) __attribute__((format(printf, 2, 3)));
[[noreturn]] inline void refuse(Site site, const char *format, ...) {
    char text[1024];
    va_list rest;
    va_start(rest, format);
    vsnprintf(text, sizeof text, format, rest);
    va_end(rest);
    end(Ending::REFUSED, 0, site, text);
}

inline uint64_t mixed(uint64_t hash, uint64_t value) {
    hash = (hash ^ value) * 0x9e3779b97f4a7c15ull;
    return hash ^ (hash >> 29);
}
inline int64_t shape_of(const int64_t *fields, int64_t count) {
    uint64_t hash = count;
    for (int64_t i = 0; i < count; i++) hash = mixed(hash, fields[i]);
    bool fresh;
    int64_t number = recorder.shapes.number(
        hash,
        [&](const Shape &one) { return one.count == count && !memcmp(one.fields, fields, count * sizeof *fields); },
        [&] {
            Shape one = {};
            one.count = count;
            memcpy(one.fields, fields, count * sizeof *fields);
            return one;
        },
        fresh);
    if (fresh) {
        frame(Frame::SHAPE, count * sizeof *fields);
        send(fields, count * sizeof *fields);
    }
    return number;
}
inline int64_t line_of(Site site) {
    bool fresh;
    int64_t number = recorder.lines.number(
        mixed((uint64_t)site.file, site.line),
        [&](const Line &one) { return one.file == site.file && one.line == site.line; },
        [&] { return Line{0, site.file, site.line}; }, fresh);
    if (fresh) {
        int64_t line = site.line;
        frame(Frame::LINE, sizeof line + padded(strlen(site.file) + 1));
        send(&line, sizeof line);
        send_text(site.file);
    }
    return number;
}

// Record a word with its operands and the registers on which it depends; a word that sets registers sets them.
template <class Operands> inline void WordOf<Operands>::operator()(Site site, const Operands &operands) const {
    constexpr int A = Operands::ADDRESSES, F = Operands::FIELDS, ALL = 1 + F + Operands::STATE;
    static_assert(A + F == 0 || sizeof operands == (A + F) * sizeof(int64_t));
    static_assert(ALL <= MOST_FIELDS);
    operands.set(recorder.registers);
    int64_t stray = recorder.stray;
    recorder.stray = 0;
    if (recorder.repeats)
        refuse(site, "a repeat of %lld, which the API's uint8_t cuts to %d; allowed are 0 to 255", (long long)recorder.repeats,
               (int)(uint8_t)recorder.repeats);
    if (core == (ON_CUBE ? 'V' : 'C')) {  // in a kernel of both the other core does it
        if (recorder.request.sub_blocks) return;
        refuse(site, "a call of a %s core in a kernel that runs on %s cores alone; KERNEL_TASK_TYPE_DEFAULT names the cores",
               ON_CUBE ? "vector" : "cube", ON_CUBE ? "cube" : "vector");
    }
    if (recorder.written >= recorder.request.most_rows)
        end(Ending::TOO_LONG, recorder.written, site, "");
    recorder.written++;
    recorder.last = site;
    if (stray) Word::stray_(site, {.memory = stray});
    if (!always && !recorder.request.registers) return;
    int64_t numbers[A + F + 1], key[ALL];
    memcpy(numbers, &operands, (A + F) * sizeof *numbers);
    key[0] = number;
    for (int i = 0; i < F; i++) key[i + 1] = numbers[A + i];
    Operands::state(recorder.registers, key + 1 + F);
    int64_t shape = shape_of(key, ALL), line = line_of(site);
    if (recorder.waiting == AT_ONCE) flush();
    int64_t *row = waiting_rows[recorder.waiting++];
    row[0] = shape;
    row[1] = line;
    for (int i = 0; i < 3; i++) {
        int at = i - Operands::FIRST;
        row[2 + i] = at >= 0 && at < A ? numbers[at] : 0;
    }
}

// Value that the last row reads. The receiver executes all rows before it; the wait does not count for the time limit.
inline uint64_t value_of_last_row(Site site) {
    flush();
    frame(Frame::ASK, 0);
    send_gathered();
    itimerval left = {}, none = {};
    setitimer(ITIMER_REAL, &none, &left);
    uint64_t value = 0;
    for (int64_t got = 0; got < (int64_t)sizeof value;) {
        int64_t more = read(recorder.pipe, (char *)&value + got, sizeof value - got);
        if (more <= 0) _exit(1);
        got += more;
    }
    setitimer(ITIMER_REAL, &left, nullptr);
    return value;
}

}  // namespace asim

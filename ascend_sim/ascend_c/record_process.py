"""The process that runs a compiled kernel: it forks for each request, and the child talks to the requester.

It is started as a script of its own, without the package, with a socket as its standard input. A request is its length, the
memory limit, its bytes, and a socket for the child. A kernel that crashes, or runs for ever, ends only its child. With a number
of marks behind the library's path it prints the library's description instead.

A judged library is loaded under two filters of system calls (seccomp), so that its code can only compute, read and write open
descriptors, and ask for memory of its own. While it is loaded files can be opened, but none of its code runs (compiler.py).
"""

import _signal  # type: ignore[import-not-found]
import _socket
import ctypes
import os
import resource
import struct
import sys

FILTERS = os.uname().machine == "x86_64"
OPENING = (17, 157, 257, 262)
"""System calls that a loader and the next filter need: pread64, prctl, openat, newfstatat."""
COMPUTING = (0, 1, 3, 5, 8, 9, 10, 11, 12, 13, 14, 15, 25, 28, 38, 60, 131, 202, 231)
"""read, write, close, fstat, lseek, mmap, mprotect, munmap, brk, signal handlers and their return, mremap, madvise, setitimer,
exit, sigaltstack, futex, exit_group."""
MMAP, SHARED = 9, 1
X86_64 = 0xC000003E
"""Architecture of a system call (AUDIT_ARCH_X86_64)."""
NUMBER, ARCHITECTURE, MAP_FLAGS = 0, 4, 40
"""Offsets in the data of a filter: the call's number, its architecture, the low half of its fourth argument."""
LOAD, EQUAL, ANY_BIT, RETURN = 0x20, 0x15, 0x45, 0x06
ALLOW, REFUSE, KILL = 0x7FFF0000, 0x00050001, 0x80000000
"""Answers of a filter; a refused call returns EPERM."""
NO_NEW_PRIVILEGES, SET_FILTER, FILTER = 38, 22, 2

DESCRIPTOR = 4
"""Bytes of a file descriptor's number in a message."""


def received(control):
    """Return (request, memory limit in bytes, descriptor of the child's socket); None if the other side has closed its end."""
    head, control_data, _, _ = control.recvmsg(16, _socket.CMSG_SPACE(DESCRIPTOR))
    if not control_data:
        return None
    answers = int.from_bytes(control_data[0][2][:DESCRIPTOR], sys.byteorder)
    while len(head) < 16:
        head += control.recv(16 - len(head))
    size, memory = int.from_bytes(head[:8], "little"), int.from_bytes(head[8:], "little")
    request = b""
    while len(request) < size and (more := control.recv(min(size - len(request), 1 << 20))):
        request += more
    return request, memory, answers


def filtered(allowed):
    """Refuse all system calls of this process but `allowed`, and shared memory, from now on.

    Nothing happens on other machines than x86-64, and where Linux has no filters.
    """
    if not FILTERS:
        return
    steps = [(LOAD, 0, 0, ARCHITECTURE), (EQUAL, 1, 0, X86_64), (RETURN, 0, 0, KILL), (LOAD, 0, 0, NUMBER)]
    for number in allowed:
        if number != MMAP:
            steps += [(EQUAL, 0, 1, number), (RETURN, 0, 0, ALLOW)]
    steps += [(EQUAL, 1, 0, MMAP), (RETURN, 0, 0, REFUSE), (LOAD, 0, 0, MAP_FLAGS), (ANY_BIT, 0, 1, SHARED)]
    steps += [(RETURN, 0, 0, REFUSE), (RETURN, 0, 0, ALLOW)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *one) for one in steps))
    program = struct.pack("@HP", len(steps), ctypes.addressof(code))
    system = ctypes.CDLL(None)
    system.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    system.prctl(SET_FILTER, FILTER, ctypes.c_char_p(program))


def loaded(path, judged):
    """Return the library; a judged one is confined from here on."""
    if judged:
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))  # it writes to its socket alone
        filtered((*COMPUTING, *OPENING))
    library = ctypes.CDLL(path)
    if judged:
        filtered(COMPUTING)
    return library


def described(library, most_marks):
    """Return the numbers of a library's description: the count of its marks, its marks, then kinds and sizes of parameters."""
    most = 256
    out = (ctypes.c_int64 * most)()
    count = library.asim_describe(out, ctypes.c_int64(most))
    marks = [number for number in range(most_marks) if hasattr(library, f"_ZN4asim4MarkILi{number}EE4markE")]
    return len(marks), *marks, *out[: 2 * count]


def main():
    """Print the description of the library, or fork a child, with limits, that runs it on each request, until the other side
    closes its end.
    """
    judged = bool(os.environ.pop("ASCEND_SIM_JUDGED", ""))
    if len(sys.argv) > 2:
        print(*described(loaded(sys.argv[1], judged), int(sys.argv[2])))
        return
    control = _socket.socket(fileno=0)
    os.dup2(2, 1)  # a kernel may print
    _signal.signal(_signal.SIGCHLD, _signal.SIG_IGN)  # nobody waits for a child
    library = None if judged else loaded(sys.argv[1], judged)
    while (one := received(control)) is not None:
        request, memory, answers = one
        if os.fork() == 0:
            try:
                control.close()
                resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
                most = resource.getrlimit(resource.RLIMIT_AS)[1]  # of a judged case, whose limit is not raised
                memory = memory if most == resource.RLIM_INFINITY else min(memory, most)
                resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
                library = library or loaded(sys.argv[1], judged)  # a judged one has no process in common with other blocks
                library.asim_run(ctypes.c_char_p(request), ctypes.c_int(answers))
            finally:
                os._exit(1)
        os.close(answers)


if __name__ == "__main__":
    main()

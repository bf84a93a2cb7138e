"""The process that runs a compiled kernel: for each request it forks, and the child writes its words to a pipe.

It is started as a script of its own, without the package. A request is its length and its bytes; the answer is its length and
what the child wrote. A kernel that crashes, or runs for ever, ends its child alone.
"""

import ctypes
import os
import resource
import sys


def exactly(source, size):
    """Return `size` bytes; fewer at the end of the file."""
    data = b""
    while len(data) < size and (more := os.read(source, min(size - len(data), 1 << 20))):
        data += more
    return data


def record(library, request, memory):
    """Run a request in a child process, and return the bytes that it writes."""
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(ours)
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
            library.asim_run(request, theirs)
        finally:
            os._exit(1)
    os.close(theirs)
    parts = []
    while data := os.read(ours, 1 << 20):
        parts.append(data)
    os.close(ours)
    os.waitpid(child, 0)
    return b"".join(parts)


def main():
    """Answer requests until the other side closes its end."""
    answers = os.dup(1)
    os.dup2(2, 1)  # a kernel may print
    library = ctypes.CDLL(sys.argv[1])
    library.asim_run.argtypes = [ctypes.c_char_p, ctypes.c_int]
    while len(head := exactly(0, 16)) == 16:
        size, memory = int.from_bytes(head[:8], "little"), int.from_bytes(head[8:], "little")
        answer = record(library, exactly(0, size), memory)
        data = len(answer).to_bytes(8, "little") + answer
        while data:
            data = data[os.write(answers, data) :]


if __name__ == "__main__":
    main()

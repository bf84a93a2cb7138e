"""The process that runs a compiled kernel: it forks for each request, and the child talks to the requester.

It is started as a script of its own, without the package, with a socket as its standard input. A request is its length, the
memory limit, its bytes, and a socket for the child. A kernel that crashes, or runs for ever, ends only its child.
"""

import _signal  # type: ignore[import-not-found]
import _socket
import ctypes
import os
import resource
import sys

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


def main():
    """Fork a child, with limits, that runs the library on each request, until the other side closes its end."""
    control = _socket.socket(fileno=0)
    os.dup2(2, 1)  # a kernel may print
    _signal.signal(_signal.SIGCHLD, _signal.SIG_IGN)  # nobody waits for a child
    judged = bool(os.environ.pop("ASCEND_SIM_JUDGED", ""))
    library = ctypes.CDLL(sys.argv[1])
    library.asim_run.argtypes = [ctypes.c_char_p, ctypes.c_int]
    while (one := received(control)) is not None:
        request, memory, answers = one
        if os.fork() == 0:
            try:
                control.close()
                resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
                resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
                if judged:
                    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))  # it writes to its socket alone
                    resource.setrlimit(resource.RLIMIT_NOFILE, (answers + 1, answers + 1))
                library.asim_run(request, answers)
            finally:
                os._exit(1)
        os.close(answers)


if __name__ == "__main__":
    main()

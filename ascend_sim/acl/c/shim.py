"""Python side of the C library: every C function hands its arguments to the Python function of its name.

`install` is called once, when a program makes its first call and the library starts Python.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterable
from threading import Lock
from typing import Any

from ascend_sim import acl
from ascend_sim.acl.c.prototypes import COUNTS, FUNCTIONS, HANDLES, STATUSES, CParameter, Function
from ascend_sim.acl.codes import ASSUMED_CODES, Refused
from ascend_sim.acl.copies import SIDES
from ascend_sim.acl.device import Context
from ascend_sim.acl.memory import is_device_address
from ascend_sim.acl.operators import aclOpExecutor
from ascend_sim.acl.state import PROCESS, note
from ascend_sim.acl.streams import Event, Stream
from ascend_sim.acl.tensors import aclBoolArray, aclIntArray, aclTensor

_BASE = 0x0ACE << 48
"""No program has an address so high: a program that looks behind a handle ends there, and not in foreign memory."""
_KIND_BITS, _SPACING_BITS = 4, 4
_GONE: tuple[Any, ...] = (
    aclTensor(None, None, alive=False),  # type: ignore[arg-type]
    aclIntArray((), alive=False),
    aclBoolArray((), alive=False),
    aclOpExecutor("", None, None, None, {}, used=True),  # type: ignore[arg-type]
    Stream(None, live=False),  # type: ignore[arg-type]
    Event(None, live=False),  # type: ignore[arg-type]
    Context(None, live=False),  # type: ignore[arg-type]
)
"""For each kind of object, one destroyed object that stands for all destroyed ones; the position is the kind's number."""
_KINDS = {type(thing): number for number, thing in enumerate(_GONE)}


class Pointer(int):
    """A pointer value that no call gave out. No function accepts it: it is an object of no kind."""


class Handles:
    """Two-way table between the simulator's objects and the pointers that a C program holds for them.

    A pointer is a number that no memory has, and nothing reads from it, so a null, destroyed or foreign pointer is harmless.
    Each number is issued once and encodes its kind, so a destroyed object is recognised without being kept.
    """

    def __init__(self) -> None:
        self._things: dict[int, Any] = {}
        self._numbers: dict[Any, int] = {}
        self._issued = 0
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._things)

    def number(self, thing: Any) -> int:
        """Return the pointer of an object: a new one at the first call, the same one until `forget_dead` removes it; 0 for
        None.
        """
        if thing is None:
            return 0
        with self._lock:
            if thing not in self._numbers:
                self._issued += 1
                number = _BASE | (self._issued << _KIND_BITS | _KINDS[type(thing)]) << _SPACING_BITS
                self._things[number] = thing
                self._numbers[thing] = number
            return self._numbers[thing]

    def thing(self, number: int) -> Any:
        """Return the object of a pointer; None for 0.

        A pointer whose object was forgotten returns a destroyed stand-in of the object's kind; a number that was never a
        pointer returns a `Pointer`.
        """
        if not number:
            return None
        known = self._things.get(number)
        if known is not None:
            return known
        serial, kind = divmod((number - _BASE) >> _SPACING_BITS, 1 << _KIND_BITS)
        aligned = number % (1 << _SPACING_BITS) == 0
        if aligned and 0 < serial <= self._issued and kind < len(_GONE):
            return _GONE[kind]
        return Pointer(number)

    def forget_dead(self, things: Iterable[Any] | None = None) -> None:
        """Remove the handles of those `things` that are no longer alive (destroyed or used up); None: of all known objects."""
        with self._lock:
            for thing in list(self._numbers) if things is None else things:
                if thing in self._numbers and not thing.alive:
                    del self._things[self._numbers.pop(thing)]


_TAKES_ALONG = ("aclFinalize", "aclrtResetDevice", "aclrtDestroyContext")
"""Functions that destroy objects which are not among their arguments."""
_MOST = (1 << 32) - 1
"""The longest array that is read; a longer one is passed on as an empty list, and the function refuses its count."""

_Values = dict[str, Any]


def install(ffi: Any, lib: Any) -> None:
    """Bind every function of the library to its Python function in `ascend_sim.acl`.

    From then on warnings of the whole process are printed to stderr as one line each, every RuntimeWarning each time. The files
    of ASCEND_SIM_OUT are written when the process ends.
    """
    warnings.simplefilter("always", RuntimeWarning)
    warnings.showwarning = _show_warning
    shim = Shim(ffi)
    for function in FUNCTIONS.values():
        ffi.def_extern(name=function.name, error=shim.defect(function))(shim.bind(function))
    ffi.def_extern(name="ascend_sim_end")(PROCESS.end)
    lib.ascend_sim_watch_exit()  # Python's own atexit does not come: nobody finalises the library's Python


class Shim:
    """Connection of the functions of the C library with those of `ascend_sim.acl`; `ffi` is the library's cffi object,
    `handles` its table of pointers.
    """

    def __init__(self, ffi: Any) -> None:
        self.handles = Handles()
        self._ffi = ffi

    def defect(self, function: Function) -> Any:
        """Return the C result for an exception inside this module: a null pointer, or the status code for a defect of the
        simulator.
        """
        if function.returns not in STATUSES:
            return self._ffi.NULL
        return ASSUMED_CODES["simulator" if function.returns == "aclError" else "aclnn simulator"].code

    def bind(self, function: Function) -> Callable[..., Any]:
        """Return a callable that takes the C arguments of `function`, calls the Python function of that name and returns the C
        result.

        Results are written through the out-parameters; a null out-parameter ends in a status code without the call. Handles of
        objects that the call destroyed are forgotten.
        """
        python = getattr(acl, function.name)
        names = [parameter.name for parameter in function.parameters]
        inputs = [(parameter, self._reader(parameter)) for parameter in function.inputs]
        outputs = [(parameter, self._writer(parameter.target)) for parameter in function.outputs]
        handles = [parameter.name for parameter in function.inputs if parameter.kind == "handle"]
        everything = function.name in _TAKES_ALONG
        to_c = None if function.returns in STATUSES else self._to_c(function.returns)
        null = "null pointer" if function.returns == "aclError" else "aclnn null"

        def called(*given: Any) -> Any:
            values = dict(zip(names, given, strict=True))
            for parameter, _ in outputs:
                if not values[parameter.name]:
                    return note(function.name, Refused(null, f"{parameter.name} is a null pointer"))
            arguments = {parameter.name: read(values) for parameter, read in inputs}
            result = python(*arguments.values())
            if everything:
                self.handles.forget_dead()
            elif handles:
                self.handles.forget_dead(arguments[name] for name in handles)
            if to_c is not None:
                return to_c(result)
            if not outputs:
                return result
            code, *returned = result
            for (parameter, write), value in zip(outputs, returned, strict=True):
                write(values[parameter.name], value)
            return code

        return called

    # -- C to Python --------------------------------------------------------------------------------------------------

    def _reader(self, parameter: CParameter) -> Callable[[_Values], Any]:
        """Return a function that takes all C values of a call (by parameter name) and returns one parameter's Python value, by
        its `kind`.
        """
        name = parameter.name
        return {
            "number": lambda values: values[name],
            "handle": lambda values: self.handles.thing(self._address(values[name])),
            "address": lambda values: self._address(values[name]) or None,
            "text": lambda values: self._text(values[name]),
            "array": lambda values: self._array(values[name], values[COUNTS[name]]),
            "memory": lambda values: self._memory(name, values),
        }[parameter.kind]

    def _address(self, pointer: Any) -> int:
        return int(self._ffi.cast("uintptr_t", pointer))

    def _text(self, pointer: Any) -> str | None:
        return os.fsdecode(self._ffi.string(pointer)) if pointer else None

    def _array(self, pointer: Any, length: int) -> list[int] | None:
        """Return the numbers of a host array; None for a null pointer, [] for a length above `_MOST`, which the function
        refuses.
        """
        if not pointer:
            return None
        if self._ffi.typeof(pointer).item.cname == "_Bool":
            pointer = self._ffi.cast("uint8_t *", pointer)  # a bool that holds 2 is true, and no error
        return list(self._ffi.unpack(pointer, length if length <= _MOST else 0))

    def _memory(self, name: str, values: _Values) -> Any:
        """Return a buffer of `count` bytes for host memory, an integer address for device memory, None for a null pointer.

        An address is the device's if `is_device_address` says so, or if the call's `kind` does.
        """
        address = self._address(values[name])
        if not address:
            return None
        source, target = SIDES.get(values["kind"], ("host", "host"))
        if is_device_address(address) or (source if name == "src" else target) == "device":
            return address
        return self._ffi.buffer(values[name], min(values["count"], sys.maxsize))

    # -- Python to C --------------------------------------------------------------------------------------------------

    def _to_c(self, ctype: str) -> Callable[[Any], Any]:
        """Return a function that converts a Python result to the C type `ctype`: handles and addresses to pointers, texts to C
        strings (None to null), numbers None to 0.
        """
        if ctype in HANDLES:
            return lambda thing: self._ffi.cast(ctype, self.handles.number(thing))
        if ctype == "void *":
            return lambda address: self._ffi.cast(ctype, address or 0)
        if ctype == "const char *":
            return self._kept_text
        return lambda number: number or 0

    def _kept_text(self, text: str | None) -> Any:
        """Return a C string that stays valid until the same thread asks for the next one; a null pointer for None."""
        if text is None:
            return self._ffi.NULL
        PROCESS.thread.c_message = self._ffi.new("char[]", text.encode(errors="replace"))
        return PROCESS.thread.c_message

    def _writer(self, ctype: str) -> Callable[[Any, Any], None]:
        """Return a function `write(pointer, value)` that stores a Python result where a pointer to `ctype` points."""
        to_c = self._to_c(ctype)

        def write(pointer: Any, value: Any) -> None:
            pointer[0] = to_c(value)

        return write


def _show_warning(message: Any, category: Any, filename: str, lineno: int, file: Any = None, line: Any = None) -> None:
    """Print a warning to stderr as one line, without its file and line in Python."""
    print(f"ascend-sim: warning: {message}", file=sys.stderr, flush=True)

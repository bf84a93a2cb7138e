"""State of one process of the C interface: settings, initialisation, its device, and each of its threads."""

from __future__ import annotations

import atexit
import os
import sys
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import field
from functools import wraps
from inspect import signature
from pathlib import Path
from threading import RLock, local
from typing import Any, TypeVar

from ascend_sim.acl.codes import Refused
from ascend_sim.acl.device import AclDevice, Context
from ascend_sim.acl.enums import ACL_SUCCESS, CODE_NAMES
from ascend_sim.acl.memory import DeviceBlock
from ascend_sim.acl.out import DeviceRecorder
from ascend_sim.chip import ChipSpec, load_chip
from ascend_sim.errors import ConfigError, SimError
from ascend_sim.frozen import mutable
from ascend_sim.keywords import near_names
from ascend_sim.options.run_options import CONFORMANCES

_MODES = ("full", "functional")
_DEFAULT_CHIP = "ascend910b3"
_DEFAULT_CONFORMANCE = "library"
"""A program for a real device runs against the released library, not against the documents."""


@mutable
class AclSettings:
    """Settings given to `use`; a field that is None falls back to the environment variable, then to the default."""

    chip: ChipSpec | None = None
    conformance: str | None = None
    mode: str | None = None


class Thread(local):
    """State of one host thread: its current context and the message of its last failed call.

    `c_message` is the C string given out last, kept so that it stays valid.
    """

    context: Context | None = None
    message: str | None = None
    c_message: Any = None


@mutable
class Process:
    """State of the C interface in this process; `lock` makes calls of several threads follow each other.

    `device_users` counts aclrtSetDevice calls that no reset has undone, `recorded` the devices opened with an output folder.
    `left_behind` are blocks never freed on closed devices, for `leaks`. `watched`, if it is a list, gets the recorder of every
    device that is opened.
    """

    settings: AclSettings = field(default_factory=AclSettings)
    initialised: bool = False
    was_finalised: bool = False
    options: dict[int, int] = field(default_factory=dict)
    device: AclDevice | None = None
    device_users: int = 0
    left_behind: deque[DeviceBlock] = field(default_factory=lambda: deque(maxlen=1024))
    default_context: Context | None = None
    recorded: int = 0
    watched: list[DeviceRecorder] | None = None
    thread: Thread = field(default_factory=Thread)
    lock: Any = field(default_factory=RLock)

    def chip(self) -> ChipSpec:
        """Return the chip: the setting's, else that of ASCEND_SIM_CHIP, else ascend910b3. Raises ConfigError for an unknown or
        unusable one.
        """
        try:
            return self.settings.chip or load_chip(os.environ.get("ASCEND_SIM_CHIP") or _DEFAULT_CHIP)
        except ConfigError as error:
            raise ConfigError(f"ASCEND_SIM_CHIP: {error}") from None

    def conformance(self) -> str:
        """Return the operators' check profile: the setting's, else ASCEND_SIM_CONFORMANCE, else "library".

        Raises SimError for an unknown name.
        """
        name = self.settings.conformance or os.environ.get("ASCEND_SIM_CONFORMANCE") or _DEFAULT_CONFORMANCE
        return _one_of("ASCEND_SIM_CONFORMANCE", name, CONFORMANCES)

    def has_context(self) -> bool:
        """Return True if the calling thread has a current context on the open device; the context may have been destroyed
        since.
        """
        context = self.thread.context
        return context is not None and context.owner.open

    def mode(self) -> str:
        """Return "full" or "functional": the setting's, else ASCEND_SIM_MODE, else "full".

        Raises SimError for an unknown name.
        """
        return _one_of("ASCEND_SIM_MODE", self.settings.mode or os.environ.get("ASCEND_SIM_MODE") or _MODES[0], _MODES)

    def open(self) -> AclDevice:
        """Open and return a device by settings and environment, with a recorder if ASCEND_SIM_OUT is set or the process is
        watched.

        The second and later devices are recorded in device_N below that folder. Raises SimError for an unknown chip, profile or
        mode, with its message on stderr too, since a program that prints a status alone does not show it; and for a folder that
        cannot be made.
        """
        try:
            self.conformance()
            chip, mode, out = self.chip(), self.mode(), os.environ.get("ASCEND_SIM_OUT")
        except SimError as error:
            print(f"ascend-sim: {error}", file=sys.stderr)
            raise
        recorder = None
        if out:
            self.recorded += 1
            folder = Path(out).absolute()  # the program may change its folder before it ends
            recorder = DeviceRecorder(folder if self.recorded == 1 else folder / f"device_{self.recorded}", chip, mode)
        if self.watched is not None:
            recorder = recorder or DeviceRecorder(None, chip, mode)
            self.watched.append(recorder)
        return AclDevice(chip, mode, recorder)

    def end(self) -> None:
        """Write the files of ASCEND_SIM_OUT for the open device, once; runs at exit and when the device closes. Queued work is
        not run.

        A failure is a warning.
        """
        with self.lock:
            recorder = None if self.device is None else self.device.recorder
            if recorder is None:
                return
            self.device.recorder = None  # type: ignore[union-attr]
            try:
                recorder.write()
            except SimError as error:
                warnings.warn(f"ASCEND_SIM_OUT: {error}", RuntimeWarning, stacklevel=2)


PROCESS = Process()
atexit.register(PROCESS.end)


@contextmanager
def watched() -> Iterator[list[DeviceRecorder]]:
    """Yield a list that gets the recorder of every device opened inside the block; queued work is run at its end, unless the
    block raises. Blocks do not nest.
    """
    devices: list[DeviceRecorder] = []
    PROCESS.watched = devices
    try:
        yield devices
        if PROCESS.device is not None:
            PROCESS.device.run_to_idle()
    finally:
        PROCESS.watched = None


def device() -> AclDevice:
    """Return the open device; the decorator `call` has checked before that one is open."""
    assert PROCESS.device is not None
    return PROCESS.device


@near_names
def use(*, chip: str | Path | ChipSpec | None = None, conformance: str | None = None, mode: str | None = None) -> None:
    """Set the chip, profile and mode that `ascend_sim.acl` simulates; an argument left out keeps its setting.

    `chip` is a name or YAML file (else ASCEND_SIM_CHIP, else ascend910b3), `conformance` "documented" or "library" (else
    ASCEND_SIM_CONFORMANCE, else library), `mode` "full" or "functional" (values without time; else ASCEND_SIM_MODE, else full).
    Raises SimError for unknown names, and for any chip or mode, even the same, while a device is open.
    """
    with PROCESS.lock:
        if PROCESS.device is not None and (chip is not None or mode is not None):
            raise SimError("use: the process has a device open; call aclrtResetDevice or aclFinalize before changing it")
        if conformance is not None:
            PROCESS.settings.conformance = _one_of("conformance", conformance, CONFORMANCES)
        if mode is not None:
            PROCESS.settings.mode = _one_of("mode", mode, _MODES)
        if chip is not None:
            PROCESS.settings.chip = chip if isinstance(chip, ChipSpec) else load_chip(chip)


def _one_of(what: str, name: str, allowed: tuple[str, ...]) -> str:
    if name not in allowed:
        raise SimError(f"{what} {name!r}: allowed are {' and '.join(allowed)}")
    return name


def aclGetRecentErrMsg() -> str | None:
    """Return the message of this thread's last call that failed; None if none has. Calls that succeed keep it."""
    return PROCESS.thread.message


_Function = TypeVar("_Function", bound=Callable[..., Any])
_FAMILIES = {
    "acl": ("not initialised", "no device", "simulator"),
    "aclnn": ("aclnn runtime", "aclnn runtime", "aclnn simulator"),
}
"""Family of status codes -> reasons for a call before aclInit, for one without a device, and for a defect."""


_NO_CONTEXT = "this thread has no context; call aclrtSetDevice, aclrtCreateContext or aclrtSetCurrentContext in it first"


def call(*outputs: Any, family: str = "acl", needs: str = "context", handle: bool = False) -> Callable[[_Function], _Function]:
    """Decorator of a C function: no value that a caller passes makes it raise; it ends in a code and a message. A wrong number
    of arguments is a TypeError, as C's compiler would refuse it.

    `outputs` are the out-parameters of a call that fails; `needs` is "nothing", "init", "device" (it is open) or "context" (the
    calling thread has one on it); `family` chooses the codes; `handle` marks a function that returns a pointer (None on
    failure) instead of a status. The function itself returns its out-parameters (nothing, one, or a tuple), or raises Refused;
    the decorated one returns the status alone or with them as one tuple. Calls of several threads follow each other.
    """

    def decorate(function: _Function) -> _Function:
        uninitialised, no_device, defect = _FAMILIES[family]
        parameters = signature(function)
        wanted = len(parameters.parameters)

        @wraps(function)
        def guarded(*args: Any, **kwargs: Any) -> Any:
            if kwargs or len(args) != wanted:
                parameters.bind(*args, **kwargs)  # a TypeError here and not in the call; slow, so only where needed
            with PROCESS.lock:
                try:
                    if needs != "nothing" and not PROCESS.initialised:
                        raise Refused(uninitialised, "aclInit was not called")
                    if needs in ("device", "context") and PROCESS.device is None:
                        raise Refused(no_device, "no device is set; call aclrtSetDevice first")
                    if needs == "context" and not PROCESS.has_context():
                        raise Refused(no_device, _NO_CONTEXT)
                    result = function(*args, **kwargs)
                except Refused as refusal:
                    code = note(function.__name__, refusal)
                except MemoryError as error:
                    code = note(function.__name__, Refused("out of memory", f"the host has no memory left: {error}"))
                except Exception as error:
                    text = f"{type(error).__name__}: {error}"
                    code = note(function.__name__, Refused(defect, text))
                else:
                    if handle:
                        return result
                    return _returned(ACL_SUCCESS, result)
            if handle:
                return None
            return (code, *outputs) if outputs else code

        return guarded  # type: ignore[return-value]

    return decorate


def _returned(code: int, result: Any) -> Any:
    if result is None:
        return code
    return (code, *result) if isinstance(result, tuple) else (code, result)


def note(function: str, refusal: Refused) -> int:
    """Store a refusal as the message of this thread's last failed call; return its status code."""
    name = CODE_NAMES.get(refusal.code, "ACLNN_ERR")
    PROCESS.thread.message = f"{function}: {refusal.code} {name}: {refusal}"
    return refusal.code

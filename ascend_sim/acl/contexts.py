"""Initialising, devices, contexts and system parameters."""

from __future__ import annotations

import json
from typing import Any, TypeVar

from ascend_sim.acl.codes import Refused
from ascend_sim.acl.device import AclDevice, Context
from ascend_sim.acl.enums import aclrtMemAttr, aclSysParamOpt
from ascend_sim.acl.memory import integer
from ascend_sim.acl.state import PROCESS, call, device
from ascend_sim.check.findings import CheckFinding, shown
from ascend_sim.errors import SimError

__all__ = [
    "aclFinalize",
    "aclInit",
    "aclrtCreateContext",
    "aclrtCtxGetSysParamOpt",
    "aclrtCtxSetSysParamOpt",
    "aclrtDestroyContext",
    "aclrtGetCurrentContext",
    "aclrtGetDevice",
    "aclrtGetDeviceCount",
    "aclrtGetMemInfo",
    "aclrtGetSysParamOpt",
    "aclrtResetDevice",
    "aclrtSetCurrentContext",
    "aclrtSetDevice",
    "aclrtSetSysParamOpt",
    "aclrtSynchronizeDevice",
    "leaks",
]

Handle = TypeVar("Handle")
_INT32 = (-(1 << 31), (1 << 31) - 1)


@call(needs="nothing")
def aclInit(configPath: Any = None) -> None:
    """Initialise the interface and return ret; refused if it is initialised already.

    `configPath` is None or a JSON file, which must parse; its content changes nothing.
    """
    if PROCESS.initialised:
        raise Refused("initialised twice", "aclInit was called before; aclFinalize must come between")
    if configPath is not None:
        try:
            with open(configPath, encoding="utf-8") as file:
                json.load(file)
        except (OSError, TypeError, ValueError) as error:
            raise Refused("config file", f"configPath {configPath!r}: {error}") from error
    PROCESS.initialised = True


@call(needs="nothing")
def aclFinalize() -> None:
    """Run all queued work, close the device, clear the system parameters and return ret; refused before aclInit. If queued work
    fails ret is an error, but everything is closed.

    aclInit may follow (ours: the vendor initialises a process once).
    """
    if not PROCESS.initialised:
        if PROCESS.was_finalised:
            raise Refused("finalised twice", "aclFinalize was called before")
        raise Refused("not initialised", "aclInit was not called")
    owner = PROCESS.device
    PROCESS.initialised, PROCESS.was_finalised = False, True
    PROCESS.options.clear()
    _close(owner)


def _close(owner: AclDevice | None) -> None:
    """Run all queued work, write the files of ASCEND_SIM_OUT and close the device; does nothing for None.

    Its streams, events, contexts and memory become invalid; blocks that were never freed are kept for `leaks`. Refuses if
    queued work failed, after closing all the same.
    """
    if owner is None:
        return
    try:
        owner.run_to_idle()
        PROCESS.end()
        owner.failure()
    finally:
        owner.open = False
        PROCESS.left_behind.extend(owner.memory.give_up())
        PROCESS.device, PROCESS.device_users, PROCESS.default_context = None, 0, None


@call(needs="init")
def aclrtSetDevice(deviceId: int) -> None:
    """Open device 0, the only one, unless it is open, make its default context current in this thread and return ret; all
    threads share that context.

    Calls are counted: the device closes after as many resets. Refuses another number, and settings that `Process.open` refuses.
    """
    _device_number(deviceId)
    if PROCESS.device is None:
        try:
            PROCESS.device = PROCESS.open()
        except SimError as error:
            raise Refused("no device", str(error)) from error
        PROCESS.default_context = Context(PROCESS.device, implicit=True)
    PROCESS.thread.context = PROCESS.default_context
    PROCESS.device_users += 1


@call(needs="device")
def aclrtResetDevice(deviceId: int) -> None:
    """Undo one aclrtSetDevice and return ret; the call that undoes the last runs all queued work and closes the device, even if
    ret is the error of work that failed. Refuses another number than 0, and a call without an open device.
    """
    _device_number(deviceId)
    PROCESS.device_users -= 1
    if PROCESS.device_users == 0:
        _close(PROCESS.device)


@call(None)
def aclrtGetDevice() -> int:
    """Return ret and the number of the open device, always 0; refused in a thread without a context."""
    return 0


@call(0, needs="init")
def aclrtGetDeviceCount() -> int:
    """Return ret and the number of devices, 1."""
    return 1


@call()
def aclrtSynchronizeDevice() -> None:
    """Run the queued work of all streams and return ret, the error of the first work that could not run if there is some; later
    calls do not repeat it.
    """
    device().run_to_idle()
    device().waited_for()
    device().failure()


@call(0, 0)
def aclrtGetMemInfo(attr: int) -> tuple[int, int]:
    """Return ret, the free bytes and the total bytes of HBM; the free ones need not lie in one range. `attr` is one of the HBM
    kinds of memory; any other is refused.
    """
    if attr not in (aclrtMemAttr.ACL_HBM_MEM, aclrtMemAttr.ACL_HBM_MEM_HUGE, aclrtMemAttr.ACL_HBM_MEM_NORMAL):
        raise Refused("argument", f"attr = {attr!r}: {device().chip.name} has only HBM; allowed is ACL_HBM_MEM")
    memory = device().memory
    return memory.capacity - memory.used, memory.capacity


def _device_number(number: Any) -> None:
    if integer("deviceId", number, *_INT32) != 0:
        raise Refused("no device", f"deviceId = {number}: the simulator has only device 0")


# -- contexts ---------------------------------------------------------------------------------------------------------


@call(None, needs="device")
def aclrtCreateContext(deviceId: int) -> Context:
    """Return ret and a new context of device 0, which must be open; it becomes current in this thread. Other devices are
    refused with an error.
    """
    _device_number(deviceId)
    PROCESS.thread.context = Context(device())
    return PROCESS.thread.context


@call(needs="device")
def aclrtDestroyContext(context: Any) -> None:
    """Run all queued work, destroy a context that aclrtCreateContext made, with its streams and events, and return ret, an
    error if some of the work failed. Refuses the default context, and all but a live context.
    """
    known = live_handle("context", context, Context)
    if known.implicit:
        raise Refused("argument", "a default context cannot be destroyed; aclrtResetDevice removes it")
    device().run_to_idle()
    device().waited_for()
    known.live = False
    device().failure()


@call(needs="device")
def aclrtSetCurrentContext(context: Any) -> None:
    """Make a live context current in this thread and return ret; several threads may share one. Refuses any other object."""
    PROCESS.thread.context = live_handle("context", context, Context)


@call(None)
def aclrtGetCurrentContext() -> Context:
    """Return ret and the current context of this thread; refused if it has none, or it was destroyed."""
    return current_context()


def current_context() -> Context:
    """Return the current context of this thread. Raises Refused if it was destroyed or there is none."""
    context = PROCESS.thread.context
    if context is None or not context.alive:
        raise Refused("handle gone", "the current context was destroyed; set another one with aclrtSetCurrentContext")
    return context


def live_handle(
    name: str, handle: Any, kind: type[Handle], foreign: str = "foreign handle", gone: str = "handle gone"
) -> Handle:
    """Return the argument `handle` if it is a live object of type `kind`; raises Refused for None, another type and a destroyed
    object.

    `foreign` and `gone` are the reasons for the latter two; `name` is the argument's name in messages.
    """
    if handle is None:
        raise Refused("null pointer", f"{name} is a null pointer")
    if not isinstance(handle, kind):
        raise Refused(foreign, f"{name} is {type(handle).__name__}, not what aclrtCreate{kind.__name__} returned")
    if not handle.alive:  # type: ignore[attr-defined]
        why = "" if kind is Context else " (or its context, or its device was reset)"
        raise Refused(gone, f"the {name} was destroyed{why}")
    return handle


# -- system parameters ------------------------------------------------------------------------------------------------


@call(needs="init")
def aclrtSetSysParamOpt(opt: int, value: int) -> None:
    """Set system parameter `opt` of the process to 0 or 1 and return ret. Refuses other values, and other numbers than the
    vendor's.
    """
    _set(PROCESS.options, opt, value)


@call()
def aclrtCtxSetSysParamOpt(opt: int, value: int) -> None:
    """Set system parameter `opt` of the current context to 0 or 1 and return ret; it overrides that of the process. Refusals
    are those of aclrtSetSysParamOpt, and that of a thread without a live context.
    """
    _set(current_context().options, opt, value)


@call(0, needs="init")
def aclrtGetSysParamOpt(opt: int) -> int:
    """Return ret and the value of system parameter `opt` of the process; 0 if it was never set."""
    return PROCESS.options.get(_option(opt), 0)


@call(0)
def aclrtCtxGetSysParamOpt(opt: int) -> int:
    """Return ret and the value of system parameter `opt` that holds in the current context: its own, else the process's, else
    0.
    """
    number = _option(opt)
    return current_context().options.get(number, PROCESS.options.get(number, 0))


def deterministic() -> bool | None:
    """Return the value of ACL_OPT_DETERMINISTIC as a bool: the current context's, else the process's, else None (the operator's
    default). Raises Refused without a live context.
    """
    opt = int(aclSysParamOpt.ACL_OPT_DETERMINISTIC)
    value = current_context().options.get(opt, PROCESS.options.get(opt))
    return None if value is None else bool(value)


def _option(opt: Any) -> int:
    return integer("opt", opt, 0, max(aclSysParamOpt))


def _set(options: dict[int, int], opt: Any, value: Any) -> None:
    options[_option(opt)] = integer("value", value, 0, 1)


def leaks() -> list[CheckFinding]:
    """Return one memcheck finding for each block of device memory that was never freed (not a vendor's call).

    It covers the open device and those closed since the last call (their last 1024 blocks); blocks of closed devices are
    reported once.
    """
    blocks = list(PROCESS.left_behind)
    PROCESS.left_behind.clear()
    if PROCESS.device is not None:
        blocks = [*blocks, *PROCESS.device.memory.live]
    return [
        CheckFinding.of(
            "memcheck",
            "leak",
            "acl",
            "LeakCheck: detected memory leaks",
            details=(
                f"Direct leak of {block.size} byte(s)",
                f"at {block.address:#x} on GM" + (f" allocated in {shown(block.line)}" if block.line else ""),
            ),
            space="GM",
            size=block.size,
        )
        for block in blocks
    ]

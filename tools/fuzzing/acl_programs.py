"""Programs of the C interface: whole calls that must come out right, and between them misuse of every handle.

A program walks at random: it creates streams, events and memory, brings calls of both operators a step further, and now and
then does what is wrong: handles that are gone, calls in the wrong order, workspaces missing or too small, executors used
again, memory freed under a call. Threads take turns step by step, and in some programs they run whole calls at once. Every
function ends in a code of the vendor's list, what is wrong is refused, and what nobody meddled with gives the right result.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from ascend_sim import acl, use
from fuzzing.acl_work import AclWork, WrongError, make
from fuzzing.calls import NAMES
from fuzzing.drawing import CHIPS, draw_exact
from fuzzing.outcome import FuzzOutcome

LABELS = ("chip", "mode", "threads", "results")
SECONDS = 30.0
STEPS = (8, 30)
"""Fewest and most steps of a program."""


class AclWalk:
    """One random walk. `right` counts the results that were looked at."""

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        self.chip, self.conformance = dice.choice(CHIPS), dice.choice(("documented", "library"))
        self.mode = dice.choice(("functional", "functional", "full"))
        self.threads = dice.choice((1, 1, 2, 3))
        self.works: list[AclWork] = []
        self.streams: list[Any] = [None]
        self.events: list[Any] = []
        self.gone: list[Any] = []
        """Handles, addresses and numbers that nobody may use."""
        self.trace: list[str] = []
        self.right = 0

    def run(self) -> None:
        """From aclInit to aclFinalize; WrongError where something is not as it must be."""
        acl.aclFinalize()
        use(chip=self.chip, conformance=self.conformance, mode=self.mode)
        if self.dice.random() < 0.1:
            self._before_init()
        make("aclInit", None, expected="ok")
        pools = [ThreadPoolExecutor(1) for _ in range(self.threads)]
        try:
            for pool in pools:
                pool.submit(make, "aclrtSetDevice", 0, expected="ok").result()
            for _ in range(self.dice.randint(*STEPS)):
                step = self.dice.choices(*zip(*self._actions(), strict=True))[0]
                self.trace.append(step.__name__)
                self.dice.choice(pools).submit(step).result()
            if self.threads > 1 and self.dice.random() < 0.3:
                self._together(pools)
            pools[0].submit(self._settle).result()
        finally:
            for pool in pools:
                pool.shutdown()
            acl.aclFinalize()
        make("aclFinalize", expected="refused")

    def _actions(self) -> list[tuple[Callable[[], None], int]]:
        return [
            (self.begin, 6), (self.launch, 8), (self.synchronise, 5), (self.stream, 2), (self.events_between, 2),
            (self.copies, 2), (self.wrong_launch, 3), (self.gone_handle, 3), (self.meddle, 1), (self.wrong_order, 1),
        ]  # fmt: skip

    def _work(self, stage: str) -> AclWork | None:
        found = [work for work in self.works if work.stage == stage]
        return self.dice.choice(found) if found else None

    def _drawn(self) -> AclWork:
        operator = self.dice.choice(("convolution_backward",) * 3 + ("conv_tbc_backward",))
        call = draw_exact(self.dice, operator, self.chip, self.conformance)
        return AclWork(call, {name: eval(text, NAMES) for name, text in call.tensors.items()})

    # -- what is right -------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """A new call as far as phase one."""
        if len([work for work in self.works if work.stage != "over"]) < 3:
            self.works.append(self._drawn())
            self.works[-1].prepare()

    def launch(self) -> None:
        """Phase two of a call that is ready."""
        if work := self._work("ready"):
            work.launch(self.dice.choice(self.streams))

    def synchronise(self) -> None:
        """Wait for a stream or for all, and look at the results."""
        stream = self.dice.choice((*self.streams, "device"))
        name, arguments = ("aclrtSynchronizeDevice", ()) if stream == "device" else ("aclrtSynchronizeStream", (stream,))
        make(name, *arguments, expected="ok")
        self._finish(lambda work: stream == "device" or work.stream is stream)

    def _finish(self, came: Callable[[AclWork], bool]) -> None:
        """Look at the results of calls that a synchronise has brought; some then give their memory back."""
        for work in self.works:
            if work.stage == "queued" and came(work):
                work.compare()
                self.right += 1
                if self.dice.random() < 0.5:
                    self.gone += [work.executor, *work.memory.values()]
                    work.free()

    def stream(self) -> None:
        """Create or destroy a stream."""
        queued = {id(work.stream) for work in self.works if work.stage == "queued"}
        idle = [stream for stream in self.streams[1:] if id(stream) not in queued]
        if len(self.streams) < 4 or not idle:
            self.streams.append(make("aclrtCreateStream", expected="ok"))
            return
        stream = self.dice.choice(idle)
        self.streams.remove(stream)
        self.gone.append(stream)
        make("aclrtDestroyStream", stream, expected="ok")

    def events_between(self) -> None:
        """An event is recorded on a stream; another stream waits for it."""
        event = make("aclrtCreateEvent", expected="ok")
        make("aclrtRecordEvent", event, self.dice.choice(self.streams), expected="ok")
        make("aclrtStreamWaitEvent", self.dice.choice(self.streams), event, expected="ok")
        make("aclrtQueryEventStatus", event)
        self.events.append(event)
        make("aclrtEventElapsedTime", self.events[0], event)

    def copies(self) -> None:
        """Bytes to the device, set, and back; also beyond the end."""
        size = self.dice.choice((1, 31, 32, 100))
        address = make("aclrtMalloc", size, 0, expected="ok")
        data = np.arange(size, dtype=np.uint8)
        make("aclrtMemcpy", address, size, data, size, acl.ACL_MEMCPY_HOST_TO_DEVICE, expected="ok")
        make("aclrtMemset", address, size, 5, size // 2, expected="ok" if size > 1 else "any")
        back = np.zeros(size, np.uint8)
        make("aclrtMemcpy", back, size, address, size, acl.ACL_MEMCPY_DEVICE_TO_HOST, expected="ok")
        if not (back[size // 2 :] == data[size // 2 :]).all() or not (back[: size // 2] == 5).all():
            raise WrongError(f"a copy of {size} bytes comes back as {back.tolist()}")
        make("aclrtMemcpy", back, size, address, size + 1, acl.ACL_MEMCPY_DEVICE_TO_HOST, expected="refused")
        make("aclrtFree", address, expected="ok")
        self.gone.append(address)

    # -- what is wrong -------------------------------------------------------------------------------------------------

    def wrong_launch(self) -> None:
        """Phase two with something that it must refuse, and then as it should be."""
        work = self._work("ready")
        if work is None:
            return
        kinds = {
            "no executor": (work.workspace, work.size, None, None),
            "a foreign executor": (work.workspace, work.size, object(), None),
            "a foreign stream": (work.workspace, work.size, work.executor, 7),
        }
        if work.size:
            kinds |= {
                "no workspace": (None, work.size, work.executor, None),
                "a workspace too small": (work.workspace, work.size - 1, work.executor, None),
                "a workspace of nobody": (work.memory["input"] + (1 << 40), work.size, work.executor, None),
                "a workspace out of line": ((work.workspace or 0) + 1, work.size, work.executor, None),
            }
        used = [old.executor for old in self.works if old.stage in ("queued", "over") and old.executor is not None]
        if used:
            kinds["a used executor"] = (work.workspace, work.size, used[-1], None)
        what = self.dice.choice(sorted(kinds))
        self.trace.append(what)
        make(work.phase_two, *kinds[what], expected="refused")

    def gone_handle(self) -> None:
        """Pass destroyed or foreign handles to some of the functions that take one."""
        for _ in range(4):
            self._gone_in_one()

    def _gone_in_one(self) -> None:
        thing = self.dice.choice((*self.gone, None, 0, -1, 7, 1 << 63, "x", object(), (), 1.5))
        name, arguments = self.dice.choice(
            (
                ("aclrtSynchronizeStream", (thing,)), ("aclrtDestroyStream", (thing,)), ("aclrtDestroyEvent", (thing,)),
                ("aclrtFree", (thing,)), ("aclrtSetCurrentContext", (thing,)), ("aclrtDestroyContext", (thing,)),
                ("aclrtRecordEvent", (thing, thing)), ("aclrtStreamWaitEvent", (thing, thing)), ("aclDestroyTensor", (thing,)),
                ("aclDestroyIntArray", (thing,)), ("aclDestroyBoolArray", (thing,)), ("aclrtMemset", (thing, 4, 0, 4)),
                ("aclrtMemcpy", (thing, 4, thing, 4, acl.ACL_MEMCPY_DEVICE_TO_DEVICE)),
                ("aclnnConvolutionBackward", (thing, 0, thing, thing)), ("aclnnConvTbcBackward", (None, 0, thing, None)),
            )
        )  # fmt: skip
        self.trace.append(f"{name} of {type(thing).__name__}")
        make(name, *arguments, expected="refused" if thing is not None else "any")
        if (name, thing) == ("aclrtSynchronizeStream", None):
            self._finish(lambda work: work.stream is None)

    def meddle(self) -> None:
        """Memory is freed under a call: phase two refuses it, or who synchronises is told. What else was queued may be lost."""
        work = self._work("ready") or self._work("queued")
        if work is None or not work.memory:
            return
        address = work.memory.pop(self.dice.choice(sorted(work.memory)))
        make("aclrtFree", address, expected="ok")
        self.gone.append(address)
        if work.stage == "ready":
            make(work.phase_two, work.workspace, work.size, work.executor, self.dice.choice(self.streams))
        make("aclrtSynchronizeDevice")
        for other in self.works:
            if other is work or other.stage == "queued":
                other.stage = "over"

    def wrong_order(self) -> None:
        """Repeat calls that were made already."""
        make("aclInit", None, expected="refused")
        make("aclrtSetDevice", self.dice.choice((1, -1, None, "0")), expected="refused")

    def _before_init(self) -> None:
        for name, arguments in (
            ("aclrtSetDevice", (0,)),
            ("aclrtMalloc", (64, 0)),
            ("aclrtCreateStream", ()),
            ("aclFinalize", ()),
        ):
            make(name, *arguments, expected="refused")

    # -- the end -------------------------------------------------------------------------------------------------------

    def _together(self, pools: list[ThreadPoolExecutor]) -> None:
        """A whole call in every thread at once, each on a stream of its own."""
        self.trace.append("together")
        works = [self._drawn() for _ in pools]

        def whole(work: AclWork) -> bool:
            stream = make("aclrtCreateStream", expected="ok")
            work.prepare()
            if work.stage != "ready":
                return False
            work.launch(stream)
            make("aclrtSynchronizeStream", stream, expected="ok")
            work.compare()
            work.free()
            return True

        make_all = [pool.submit(whole, work) for pool, work in zip(pools, works, strict=True)]
        self.right += sum(done.result() for done in make_all)

    def _settle(self) -> None:
        """Wait for all that is queued."""
        make("aclrtSynchronizeDevice", expected="ok")
        self._finish(lambda work: True)


def program(seed: int, index: int) -> AclWalk:
    """Program `index` of `seed`, not yet run."""
    return AclWalk(random.Random(f"acl/{seed}/{index}"))


def line(seed: int, index: int) -> str:
    """Return the command that runs the program again; its steps are told with the fault."""
    return f"tools/fuzz acl --seed {seed} --again {index}"


def run(seed: int, index: int) -> FuzzOutcome:
    """Run program `index` of `seed`."""
    made, wrong = program(seed, index), None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # of races between streams, which the walk does not order
            made.run()
    except Exception as error:
        what = str(error) if isinstance(error, WrongError) else f"{type(error).__name__}: {error}"
        wrong = f"{what}; behind {', '.join(made.trace)}"
    return FuzzOutcome((made.chip, made.mode, str(made.threads), f"{made.right} right"), wrong)

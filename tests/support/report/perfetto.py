"""The rules by which Perfetto's trace processor binds flow events of the JSON format to slices.

Times become whole nanoseconds (rounded; cut off in older viewers). Events come in order of time, those of one time in the order
of the file. "s", and "f" with "bp": "e", belong to the innermost slice that is open on their thread; "f" without it to the next
slice that begins. Here a slice is open before its end only, one without length at its begin until the next one starts: what
Perfetto's own stack would hold on to for longer is taken as a mistake.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Event = dict[str, Any]


def bound_arrows(trace: dict[str, Any], whole: Callable[[float], int] = round) -> list[tuple[Event, Event]]:
    """The slices that each arrow joins, in the order of its ends; ValueError for one that Perfetto would drop.

    `whole` makes a time in nanoseconds a whole number.
    """

    def nanoseconds(us: float) -> int:
        return whole(us * 1000)

    timed = [(nanoseconds(event["ts"]), event) for event in trace["traceEvents"] if event["ph"] in "Xsf"]
    timed.sort(key=lambda one: one[0])
    latest: dict[tuple[int, int], tuple[int, Event]] = {}
    begun: dict[int, Event] = {}
    joined = []
    for now, event in timed:
        track = event["pid"], event["tid"]
        if event["ph"] == "X":
            latest[track] = now, event
            continue
        if track not in latest:
            raise ValueError(f"no slice before {event}")
        since, box = latest[track]
        if now >= since + nanoseconds(box["dur"]) and now != since:
            raise ValueError(f"no slice is open at {event}; the last is {box}")
        if event["ph"] == "s":
            begun[event["id"]] = box
        elif event.get("bp") != "e" or event["id"] not in begun:
            raise ValueError(f"no arrow to end at {event}")
        else:
            joined.append((begun.pop(event["id"]), box))
    if begun:
        raise ValueError(f"{len(begun)} arrows have no end")
    return joined

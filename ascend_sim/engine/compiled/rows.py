"""The rows of a program as C reads them: where its stamps and their places lie in memory (rows.c)."""

from __future__ import annotations

from ascend_sim.kernel.sheet import Sheet
from ascend_sim.kernel.stamp import address_of


class Laid:
    """A sheet in memory that stays as long as this; `places` are fields of `library.Program`."""

    def __init__(self, sheet: Sheet) -> None:
        stamps, own = sheet.stamps.laid(), sheet.laid_own()
        self._held = sheet, stamps, own
        arrays = {"which": sheet.which, "tiles": sheet.tiles, "where": sheet.where}
        self.places = {name: one.buffer_info()[0] for name, one in arrays.items()}
        self.places |= {"stamps": address_of(stamps), "own": address_of(own)}

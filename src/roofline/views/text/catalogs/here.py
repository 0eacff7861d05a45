"""Text of this machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from roofline.declared.result import Figured, Result, Units
from roofline.hardware.detect.recognise import ThisMachine
from roofline.views.text.catalogs.chips import ChipFacts
from roofline.views.text.tables import Column, Table


@dataclass(frozen=True)
class DeviceFacts(Figured):
    """A GPU or the CPU: its name in the system, bytes of memory, and the catalog's chip, if any."""

    FIGURES: ClassVar[Units] = {"name": "", "memory": "B", "chip": ""}

    name: str
    memory: float | None
    chip: str | None


@dataclass(frozen=True, repr=False)
class Here(Result):
    """Answer of `here`: the machine's name for `--on`, its chip, every device, host memory in bytes, and what is
    unknown."""

    SCHEMA: ClassVar[str] = "roofline.here/1"
    FIGURES: ClassVar[Units] = {"on": "", "count": "", "memory": "B", "chip": "", "devices": "", "notes": ""}

    of: ThisMachine

    @property
    def on(self) -> str:
        """The machine's name for `--on`, in the catalog's names."""
        return self.of.on

    @property
    def count(self) -> int:
        """Number of chips of that kind."""
        return self.of.count

    @property
    def memory(self) -> float | None:
        """Usable bytes of host memory."""
        return self.of.memory

    @property
    def notes(self) -> tuple[str, ...]:
        """What is unknown, measured or assumed."""
        return self.of.notes

    @property
    def chip(self) -> ChipFacts:
        """The chip that models run on."""
        return ChipFacts(self.of.chip)

    @property
    def devices(self) -> tuple[DeviceFacts, ...]:
        """Every GPU and the CPU."""
        gpus = (DeviceFacts(gpu.name, gpu.memory, chip.id if chip else None) for gpu, chip in self.of.gpus)
        cpu = self.of.processor
        own = self.of.chip.id if self.of.chip.kind == "cpu" else None
        return (*gpus, DeviceFacts(cpu.name, self.of.memory, own)) if cpu else tuple(gpus)


def devices_table(machine: Here) -> Table:
    """One line for each device."""
    columns = (Column("Device", long=20), Column("Memory", "B"), Column("Chip of the catalog"))
    return Table(columns, tuple((d.name, d.memory, d.chip or "–") for d in machine.devices))

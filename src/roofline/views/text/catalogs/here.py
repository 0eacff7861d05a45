"""Views of the machine that this runs on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from roofline.declared.result import Figured, Result, Units
from roofline.hardware.detect.recognise import ThisMachine
from roofline.views.text.catalogs.chips import ChipFacts
from roofline.views.text.tables import Column, Table


@dataclass(frozen=True)
class DeviceFacts(Figured):
    """A GPU or the CPU: its name as the system has it, bytes of its memory, the catalog's chip where there is one."""

    FIGURES: ClassVar[Units] = {"name": "", "memory": "B", "chip": ""}

    name: str
    memory: float | None
    chip: str | None


@dataclass(frozen=True, repr=False)
class Here(Result):
    """The answer of `here`: how `--on` calls the machine, the chip that models run on, every device, the host's memory
    in bytes, and what is not known."""

    SCHEMA: ClassVar[str] = "roofline.here/1"
    FIGURES: ClassVar[Units] = {"on": "", "count": "", "memory": "B", "chip": "", "devices": "", "notes": ""}

    of: ThisMachine

    @property
    def on(self) -> str:
        """How `--on` calls it with the catalog's names."""
        return self.of.on

    @property
    def count(self) -> int:
        """How many of the chip there are."""
        return self.of.count

    @property
    def memory(self) -> float | None:
        """Bytes of the host's memory that may be used."""
        return self.of.memory

    @property
    def notes(self) -> tuple[str, ...]:
        """What is not known, was measured or was assumed."""
        return self.of.notes

    @property
    def chip(self) -> ChipFacts:
        """What models run on."""
        return ChipFacts(self.of.chip)

    @property
    def devices(self) -> tuple[DeviceFacts, ...]:
        """Every GPU, and the CPU."""
        gpus = (DeviceFacts(gpu.name, gpu.memory, chip.id if chip else None) for gpu, chip in self.of.gpus)
        cpu = self.of.processor
        own = self.of.chip.id if self.of.chip.kind == "cpu" else None
        return (*gpus, DeviceFacts(cpu.name, self.of.memory, own)) if cpu else tuple(gpus)


def devices_table(machine: Here) -> Table:
    """One line for each device."""
    columns = (Column("Device", long=20), Column("Memory", "B"), Column("Chip of the catalog"))
    return Table(columns, tuple((d.name, d.memory, d.chip or "–") for d in machine.devices))

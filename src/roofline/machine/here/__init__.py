"""The machine that this runs on: what its tools say, which chips of the catalog these are, what a container leaves."""

from roofline.machine.here.recognise import ThisMachine as ThisMachine
from roofline.machine.here.recognise import this_machine as this_machine

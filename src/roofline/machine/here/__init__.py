"""Detect the machine that this runs on: output of system tools, matching catalog chips, container limits."""

from roofline.machine.here.recognise import ThisMachine as ThisMachine
from roofline.machine.here.recognise import this_machine as this_machine

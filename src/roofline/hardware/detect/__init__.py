"""Detect the machine that this runs on: output of system tools, matching catalog chips, container limits."""

from roofline.hardware.detect.recognise import ThisMachine as ThisMachine
from roofline.hardware.detect.recognise import this_machine as this_machine

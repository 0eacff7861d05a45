"""Text of an encoding: a batch of inputs that a model reads as a whole."""

from __future__ import annotations

from roofline.declared.numbers.units import counted, percent, seconds, whole
from roofline.inference.cost.cost import MILLION
from roofline.inference.encode import Encoding
from roofline.views.text.inference.cost import assumed_lines
from roofline.views.text.inference.estimate import GRADES, chips_text, memory_text, share_text, shares_text, span_text

DEAR = 1000.0
"""USD per million inputs from which the cost of one is said: of an image, a video."""


def encoding_text(e: Encoding) -> str:
    """The figures with their definitions."""
    passes = f", {e.passes} passes" if e.passes > 1 else ""
    replicas = share_text(e.batch, e.batch_per_replica, e.deployment.idle(e.batch), e.deployment)
    lines = [
        f"{counted(e.batch, 'input')} of {whole(e.positions)} positions{passes}"
        + ("" if e.queue is None else ", at most"),
        *([replicas] if replicas else []),
        "",
        f"latency  {span_text(e.latency)}",
        "         until the whole batch is read" + (", all passes" if e.passes > 1 else ""),
        *_queue_lines(e),
        f"rate     {e.inputs_per_second:,.4g} inputs/s, {e.positions_per_second:,.4g} positions/s on "
        f"{chips_text(e.deployment)}",
        f"bound    {e.bound}",
        f"kernels  {shares_text(e.one)}",
        f"memory   {memory_text(e.memory)}",
        f"grade    {e.grade}: {GRADES[e.grade]}",
    ]
    if e.usd_per_hour is not None and e.usd_per_million_inputs is not None:
        each = f"{e.usd_per_million_inputs:,.3g} USD per million inputs"
        if e.usd_per_million_inputs >= DEAR:
            each = f"{e.usd_per_million_inputs / MILLION:,.3g} USD per input"
        if e.usd_per_recorded_hour is not None:
            each += f", {e.usd_per_recorded_hour:,.3g} USD per recorded hour"
        lines.append(f"cost     {e.usd_per_hour:,.2f} USD/h, {each}")
    if e.power is not None and e.joules_per_input is not None:
        lines.append(f"energy   {e.power:,.0f} W, {e.joules_per_input:,.3g} J per input")
    return "\n".join([*lines, *assumed_lines(e)])


def _queue_lines(e: Encoding) -> list[str]:
    """What an input takes at a rate; nothing without one."""
    if e.input_latency is None or e.mean_batch is None or e.busy is None:
        return []
    mean, *others = (f"{name} {seconds(value)}" for name, value in e.input_latency.items())
    return [
        f"input    {', '.join((mean, *others))}: from its arrival until it is read",
        f"queue    a free server reads all inputs that wait, {e.mean_batch:,.3g} on average; busy {percent(e.busy)}",
    ]

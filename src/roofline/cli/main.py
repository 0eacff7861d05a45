"""`roofline`: the commands, and what happens when one of them is asked for something that cannot be.

stdout is the result and stderr the rest. Exit 0 done, 1 the answer is no, 2 bad input in one line.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from cyclopts import App, CycloptsError

from roofline import __version__
from roofline.model.errors import InputError

app = App(
    name="roofline",
    help="How much work a transformer is, from its config.json: parameters, FLOPs, bytes, cache, op by op.",
    version=__version__,
    result_action="return_value",
)
app.command("roofline.cli.analyze:analyze")
app.command("roofline.cli.models:models")
app.command("roofline.cli.explain:explain")


def main(argv: Sequence[str] | None = None) -> None:
    """Runs one command and exits with its code."""
    try:
        app(argv, exit_on_error=False, print_error=False)
        sys.stdout.flush()
    except CycloptsError as error:
        _fail(" ".join(str(error).split()))
    except InputError as error:
        _fail(str(error))
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(0) from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None


def _fail(message: str) -> None:
    print(f"roofline: {message}", file=sys.stderr)
    raise SystemExit(2)


if __name__ == "__main__":
    main()

"""`roofline`: the commands, and what happens when one of them is asked for something that cannot be.

stdout is the result and stderr the rest. Exit 0 done, 1 the answer is no, 2 bad input in one line.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from cyclopts import App, CycloptsError, UnusedCliTokensError

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
app.command("roofline.cli.chips:chips")
app.command("roofline.cli.fit:fit")
app.command("roofline.cli.generate:generate")
app.command("roofline.cli.serve:serve")


def main(argv: Sequence[str] | None = None) -> None:
    """Runs one command and exits with its code."""
    try:
        app(argv, exit_on_error=False, print_error=False)
        sys.stdout.flush()
    except UnusedCliTokensError as error:
        _fail(str(InputError("arguments", " ".join(error.unused_tokens or []), "nothing more")))
    except CycloptsError as error:
        _fail(str(error.__cause__ if isinstance(error.__cause__, InputError) else error))
    except InputError as error:
        _fail(str(error))
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(0) from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None


def _fail(message: str) -> None:
    line = "".join(c if c.isprintable() else " " for c in message)
    print(f"roofline: {' '.join(line.split())}", file=sys.stderr)
    raise SystemExit(2)


if __name__ == "__main__":
    main()

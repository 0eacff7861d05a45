"""The list of commands and their usage lines."""

COMMANDS = {
    "answer": "MODEL [--on MACHINE ...] [OPTIONS]",
    "machines": "MODEL (--users USERS | --requests-a-day REQUESTS) [OPTIONS]",
    "analyze": "MODEL [OPTIONS]",
    "explain": "MODEL OP [OPTIONS]",
    "fit": "MODEL --on CHIP [OPTIONS]",
    "generate": "MODEL --on CHIP --input TOKENS --output-tokens TOKENS [OPTIONS]",
    "encode": "MODEL --on CHIP [OPTIONS]",
    "offload": "MODEL --on CHIP ... --host CPU [OPTIONS]",
    "train": "MODEL --on CLUSTER --batch SEQUENCES --tokens TOKENS [OPTIONS]",
    "serve": "MODEL --on CHIP --input TOKENS --output-tokens TOKENS (--concurrency REQUESTS | --rate RATE) [OPTIONS]",
    "simulate": "MODEL --on CHIP (--input TOKENS --output-tokens TOKENS (--rate RATE | --concurrency USERS) | "
    "--trace FILE) [OPTIONS]",
    "search": "MODEL --on CHIP ... --input TOKENS --output-tokens TOKENS [--ttft TIME] [--tpot TIME] [OPTIONS]",
    "solve": "MODEL --find NUMBER --where REQUIREMENTS --on CHIP [OPTIONS]",
    "sensitivity": "MODEL --on CHIP [OPTIONS]",
    "codesign": "MODEL --on CHIP [OPTIONS]",
    "sweep": "MODEL... --on CHIP... [OPTIONS]",
    "report": "MODEL --on CHIP --out FILE [OPTIONS]",
    "compare": "MODEL --measured FILE --on CHIP [OPTIONS]",
    "diff": "A B [OPTIONS]",
    "plot": "MODEL [--on CHIP ...] --out FILE [OPTIONS]",
    "web": "[OPTIONS]",
    "mcp": "[OPTIONS]",
    "models": "[NAME] [OPTIONS]",
    "chips": "[NAME] [OPTIONS]",
    "here": "[OPTIONS]",
    "calibrate": "[OPTIONS]",
    "accuracy": "[FILE] [OPTIONS]",
}
"""Command → usage line. The module of a command is imported when the command runs."""

_FOLDERS = {
    "predict": "answer analyze encode explain fit generate offload serve simulate train",
    "explore": "codesign diff machines search sensitivity solve sweep",
    "measure": "accuracy calibrate compare here",
    "show": "chips models mcp plot report web",
}
FOLDER_OF = {name: folder for folder, names in _FOLDERS.items() for name in names.split()}
"""Command → the folder of `commands` that has its module."""

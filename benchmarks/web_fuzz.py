"""Drawn requests to every route of the page's API, by its own OpenAPI: no 5xx, no answer that is not documented.

python benchmarks/web_fuzz.py [EXAMPLES A ROUTE]
"""

import sys
from collections import Counter

import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import response_schema_conformance, status_code_conformance

from roofline.doors.web.app import API, page_app
from roofline.doors.web.questions import QUESTIONS

CHECKS = (not_a_server_error, status_code_conformance, response_schema_conformance)
KNOWN = {"model": "openai-community/gpt2", "on": "l4", "layout": None, "engine": None, "precision": None}
HEAVY = tuple(f"{API}/{name}" for name, question in QUESTIONS.items() if question.heavy or name == "train")


def faults(examples: int) -> Counter[str]:
    """What was answered, by route and status; raises with the first request whose answer is wrong."""
    schema = schemathesis.openapi.from_asgi("/api/v1/openapi.json", page_app())
    seen: Counter[str] = Counter()
    for route in (r.ok() for r in schema.get_all_operations()):
        count = max(2, examples // 4) if route.path in HEAVY else examples

        @seed(17)
        @settings(max_examples=count, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
        @given(case=route.as_strategy())
        def ask(case: schemathesis.Case) -> None:
            if isinstance(case.body, dict):  # drawn names are refused at once: most requests have ones that exist
                case.body |= {k: v for k, v in KNOWN.items() if k in case.body and len(repr(case.body)) % 4}
            answer = case.call(headers={"Host": "localhost"})
            seen[f"{case.path} {answer.status_code}"] += 1
            case.validate_response(answer, checks=CHECKS)

        ask()
    return seen


if __name__ == "__main__":
    for line, count in sorted(faults(int(sys.argv[1]) if len(sys.argv) > 1 else 100).items()):
        print(f"{count:6} {line}")

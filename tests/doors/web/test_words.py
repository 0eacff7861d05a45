"""Every word of the page is in the message file, in all of its languages, and no other label is on the page."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from browser import Watched, needs_chromium, watched
from roofline.doors.web.allow_list import Allowed
from roofline.doors.web.page.files import STATIC
from roofline.doors.web.page.scenario import SETTINGS
from roofline.whatif.machine_choice import WORK
from served_page import Page, page_server

MESSAGES: dict[str, list[str]] = json.loads((STATIC / "messages.json").read_text(encoding="utf-8"))
SCRIPTS = sorted(STATIC.glob("*.js"))
LANGUAGES = ("en", "de", "zh", "ja")
BY_VARIABLE = {"fits", "misfits", "beside", "besidegguf", "forward", "backward", "weightgrads", "roofline",
               "overview", "memory", "serving", "sweep", "training", "simulation", "advice", "running", "structure",
               "compare", "away", "price", "yes", "no", "calibrated", "ideal", *(f"work_{name}" for name in WORK),
               *SETTINGS, *(f"s_{name}" for name in SETTINGS),
               *(f"g_{setting.parameter}" for setting in SETTINGS.values())}  # fmt: skip
"""Keys that a script looks up by a variable: views, settings and their groups, passes."""
TERMS = re.compile(
    r"TTFT|TPOT|FLOPs|MFU|USD|PUE|SLO|Roofline|Python|GGUF|config\.json|PNG|SVG|CSV|tokens/s|p\d\d|ms|[A-D]|tp=8|de|"
    r"English|Deutsch|中文|日本語|decode|prefill|vllm|sglang|trtllm|dynamo|k8s|megatron|bridge|torchtitan|deepspeed|"
    r"maxtext|FLOP/[sBJ]|s|tokens|[\w.]+\.(json|csv|parquet|html)|[\W\d_]+"
)
"""The field's own names, which no language changes, names of software and of files, and numbers."""
LABELS = """() => {
  const labels = "h2, h3, th, label, legend, summary, button, option[data-t], .xtitle, .ytitle, [aria-label]";
  const shown = [...document.querySelectorAll(labels)].filter((n) => !n.closest("td, pre, .headline"));
  const own = (n) => [...n.childNodes].filter((c) => c.nodeType === 3).map((c) => c.data);
  return shown.flatMap((n) => [...own(n), n.getAttribute("aria-label")]).filter(Boolean);
}"""


def bare(text: str) -> bool:
    """Whether words are outside the brackets that messages have, and are no terms."""
    rest = re.sub(r"⟦[^⟧]*⟧", " ", text)
    return not all(TERMS.fullmatch(word) for word in re.split(r"[\s()·:]+", rest) if word)


def test_every_message_is_in_every_language() -> None:
    for key, texts in MESSAGES.items():
        assert len(texts) == len(LANGUAGES), key
        assert all(text.strip() for text in texts), key
        assert not re.search(r"[぀-ヿ㐀-鿿]", texts[0] + texts[1]), key


def test_keys_are_those_that_are_used() -> None:
    page = (STATIC / "index.html").read_text(encoding="utf-8")
    scripts = "\n".join(path.read_text(encoding="utf-8") for path in SCRIPTS)
    used = set(re.findall(r'\bt\("(\w+)"\)', scripts)) | set(re.findall(r'data-(?:t|label)="(\w+)"', page))
    quoted = set(re.findall(r'"(\w+)"', scripts))
    assert used <= MESSAGES.keys()
    assert set(MESSAGES) - used <= BY_VARIABLE | quoted


def test_numbers_are_written_in_one_place() -> None:
    """Numbers for people are of `words.js`, which knows the language; Python and a slider's stops have none."""
    for path in SCRIPTS:
        if path.name not in ("words.js", "take.js"):
            text = path.read_text(encoding="utf-8").replace("Number(x.toPrecision(2))", "")
            assert not re.search(r"toFixed|toPrecision|toLocaleString", text), path.name


def test_words_are_those_of_the_field() -> None:
    """動くもの are things that move, 動かせます moves machines; a German engine is feminine."""
    assert MESSAGES["running"] == ["What runs here", "Was hier läuft", "可运行的模型", "動作するモデル"]
    said = {language: "\n".join(texts[at] for texts in MESSAGES.values()) for at, language in enumerate(LANGUAGES)}
    assert not re.search("動くもの|動かせ|遅延|提供方法|持ち出す", said["ja"])
    assert not re.search("移动", said["zh"])
    assert not re.search("vom Engine|bedienen|Lichtgeschwindigkeit", said["de"])
    assert [texts for texts in MESSAGES.values() if "million" in texts[0] and "tokens" in texts[0]] == [
        MESSAGES["price"], MESSAGES["perprompt"], MESSAGES["pertrained"],
    ]  # fmt: skip
    assert MESSAGES["price"][0] == "per million generated tokens"


PUBLISHED = {
    "ja": {  # of PyTorch's tutorials (github.com/YutaroOgawa/pytorch_tutorials_jp, 6_7); vLLM's page of draft models
        "training": "訓練", "forward": "フォワードパス", "backward": "バックワードパス", "microbatch": "マイクロバッチ",
        "schedule": "パイプライン",
        "g_speculation": "投機的デコーディング", "draft": "ドラフトモデル", "input": "トークン",
    },
    "zh": {  # of vLLM's documents (github.com/hyperai/vllm-cn, docs/03-features: 07-disagg_prefill, 08-spec_decode)
        "serving": "吞吐量", "g_speculation": "推测解码", "draft": "草稿模型", "tp": "张量并行", "pp": "流水线",
        "intertoken": "token 间延迟",
        "g_pools": "分离式预填充", "prefills": "预填充", "kvcache": "KV 缓存", "input": "token", "latency": "延迟",
    },
}  # fmt: skip
"""Terms as documents of PyTorch and vLLM have them, in messages that use them."""


@pytest.mark.parametrize("language", PUBLISHED)
def test_terms_are_those_of_published_documents(language: str) -> None:
    at = LANGUAGES.index(language)
    assert [key for key, term in PUBLISHED[language].items() if term not in MESSAGES[key][at]] == []
    said = "\n".join(texts[at] for texts in MESSAGES.values())
    assert not re.search({"ja": "学習|順伝播|逆伝播", "zh": "词元|投机解码"}[language], said)


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with page_server() as address:
        yield address


@pytest.fixture(scope="module")
def browser() -> Iterator[Watched]:
    with watched() as seen:
        yield seen


@pytest.fixture
def tab(browser: Watched) -> Iterator[Any]:
    """A tab of a context of its own, which remembers no other's choice."""
    context = browser.tab.context.browser.new_context(viewport={"width": 1200, "height": 900})
    yield context.new_page()
    context.close()


@needs_chromium
def test_no_label_is_outside_the_message_file(browser: Watched, tab: Any) -> None:
    """All messages in brackets: a label without them is not of the file."""
    marked = json.dumps({key: [f"⟦{text}⟧" for text in texts] for key, texts in MESSAGES.items()})
    with page_server(Allowed(own_machine=True)) as address:
        tab.route("**/messages.json", lambda route: route.fulfill(body=marked, content_type="application/json"))
        page = Page(browser, tab)
        page.answers(lambda: tab.goto(address))
        page.tab.click("#scenarios button")
        page.set_to("on", "8xh100-sxm")
        page.tab.click("#cost summary")
        page.tab.click("#all summary")
        outside: dict[str, set[str]] = {}
        for view in page.sees("[...document.querySelectorAll('[role=tab]')].map((b) => b.id.slice(4))"):
            page.open(view)
            said: list[Any] = page.sees(LABELS)
            outside |= {view: words} if (words := set(filter(bare, said))) else {}
        assert outside == {}


@needs_chromium
@pytest.mark.parametrize("language", LANGUAGES)
def test_the_page_speaks(language: str, address: str, browser: Watched, tab: Any) -> None:
    at = LANGUAGES.index(language)
    page = Page(browser, tab)
    page.answers(lambda: tab.goto(address))
    if language != "en":
        page.answers(lambda: tab.select_option("#language", language))
    assert page.sees("document.documentElement.lang") == language
    assert page.tab.inner_text("#tab-training") == MESSAGES["training"][at]
    assert MESSAGES["where"][at] in page.tab.inner_text("#view")
    page.tab.set_viewport_size({"width": 390, "height": 800})
    for view in ("machines", "overview"):
        page.open(view)
        page.tab.wait_for_selector("#verdict .first[aria-busy=false]")
        assert page.sees("document.documentElement.scrollWidth - document.documentElement.clientWidth") == 0, view


WRITTEN = """async () => {
  const words = await import("/static/words.js");
  const { whole, si, time, share, usd, significant, localised } = words;
  return [whole(3001), si(85899345920, "B"), time(0.0625), share(0.536), usd(1.99), significant(1.3, 3),
          localised("1,024 heads × 64, 5.2 %"), words.separators()];
}"""
NUMBERS = {
    "en": ["3,001", "85.9 GB", "62.5 ms", "53.6 %", "$1.99", "1.30", "1,024 heads × 64, 5.2 %", ".,"],
    "de": ["3.001", "85,9 GB", "62,5 ms", "53,6 %", "1,99\xa0$", "1,30", "1.024 heads × 64, 5,2 %", ",."],
    "zh": ["3,001", "85.9 GB", "62.5 ms", "53.6 %", "$1.99", "1.30", "1,024 heads × 64, 5.2 %", ".,"],
    "ja": ["3,001", "85.9 GB", "62.5 ms", "53.6 %", "$1.99", "1.30", "1,024 heads × 64, 5.2 %", ".,"],
}


@needs_chromium
def test_numbers_are_the_reader_s(address: str, browser: Watched, tab: Any, whole: bool) -> None:
    page = Page(browser, tab)
    page.answers(lambda: tab.goto(address))
    page.open("sweep")
    for language in ("de", "zh", "ja", "en") if whole else ("de", "ja"):
        page.answers(lambda language=language: tab.select_option("#language", language))
        assert page.sees(WRITTEN) == NUMBERS[language]
        thousand, point = ("1.024", ",") if language == "de" else ("1,024", ".")
        assert page.sees("document.querySelector('output[for=input]').textContent") == thousand
        assert f"{thousand} → 256" in page.tab.inner_text("#verdict h2")
        assert re.fullmatch(rf"\d{{2}}\{point}\d ms", page.tab.inner_text("#verdict .card b >> nth=0"))
        plots = "[...document.querySelectorAll('#view .plot')]"
        assert set(page.sees(f"{plots}.map((p) => p._fullLayout.separators)")) == {NUMBERS[language][-1]}
        assert page.sees(f"{plots}.at(-1).data[0].y") == ["512", *(x.replace(",", thousand[1]) for x in
                                                              ("2,048", "8,192", "32,768"))]  # fmt: skip
        assert page.sees(f"{plots}.at(-1).data[1].text[0][0]").count(point) == 1
        page.tab.wait_for_selector("#verdict .first[aria-busy=false]")
        assert f"TTFT 39{point}7 ms" in page.tab.inner_text("#verdict .first")

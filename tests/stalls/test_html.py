"""The page: what it says, that nothing from a file can act in it, and, in a real browser, that it works by mouse and keyboard."""

import json
import os
import re
import shutil
from dataclasses import replace

import numpy as np
import pytest
from example_run import LOSS, example

from torchtally.stalls.comparison import account, compare
from torchtally.stalls.renderers import html
from torchtally.stalls.renderers.scene import busy, scene, steps_of
from torchtally.stalls.renderers.summary import summarise
from torchtally.stalls.stall import Gain, Report, Site, Stall
from torchtally.stalls.timeline import CallKind, Draft, Spans, WorkKind

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
HOSTILE = ("</script><script>window.hit=1</script>", "<img src=x onerror=window.hit=1>", "<!--<script>", '"><svg onload=window.hit=1>', "{{ 7*7 }}")


def data_of(page):
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)[1])


def hostile():
    """A run in which every text that comes from a file is an attack."""
    draft = Draft(HOSTILE[0])
    draft.devices = HOSTILE
    main, stream = draft.lane(HOSTILE[0]), draft.lane(HOSTILE[1], device=0, stream=7)
    stalls = []
    for i, name in enumerate(HOSTILE):
        draft.operator(name, main, 100.0 * i, 100.0 * i + 50)
        draft.work(name, stream, 100.0 * i + 10, 100.0 * i + 90, WorkKind.KERNEL)
        stalls.append(Stall(name, name, Site(name, 1, name, name), Site(name, 2, name, name), name, name, 0, 100.0 * i, 20.0, 5.0, 3.0, True, name, 0, name))
    draft.step(0, 0.0, 500.0)
    return Report("stalls", HOSTILE[0], 1, tuple(stalls), HOSTILE, 500.0, (Gain(HOSTILE[1], 5, 10.0),), HOSTILE[0]), [draft.timeline()]


# ---- what is drawn ----


def test_busy_time_is_the_union_of_overlapping_work():
    spans = Spans(np.array([0.0, 5.0, 6.0, 30.0]), np.array([10.0, 20.0, 8.0, 31.0]), np.zeros(4, np.int32), np.zeros(4, np.int32))
    starts, ends = busy(spans)
    np.testing.assert_array_equal(starts, [0, 30])
    np.testing.assert_array_equal(ends, [20, 31])


def two_steps():
    draft = Draft("run")
    main, stream = draft.lane("main"), draft.lane("stream 7", device=0, stream=7)
    draft.operator("outer", main, 0.0, 100.0)
    draft.operator("inner", main, 10.0, 60.0)
    draft.call("cudaStreamSynchronize", main, 20.0, 50.0, CallKind.STREAM_SYNC)
    draft.operator("next", main, 100.0, 190.0)
    draft.work("gemm", stream, 5.0, 45.0, WorkKind.KERNEL)
    draft.work("gemm", stream, 90.0, 120.0, WorkKind.KERNEL)
    draft.step(1, 0.0, 100.0)
    draft.step(2, 100.0, 200.0)
    stall = Stall("read", "aten::item", LOSS, LOSS, step=1, start_us=20.0, host_wait_us=30.0, device_idle_us=45.0, launch_lag_us=40.0)
    return Report("stalls", "run", 2, (stall,), duration_us=200.0), [draft.timeline()]


def test_steps_split_busy_idle_and_waiting_time():
    report, (timeline,) = two_steps()
    first, second = steps_of(timeline, report.stalls)
    assert (first["length"], first["busy"], first["wait"], first["idle"], first["stalls"]) == (100.0, 50.0, 30.0, 45.0, 1)
    assert (second["busy"], second["wait"], second["stalls"]) == (20.0, 0, 0)


def test_nested_spans_become_tracks_and_the_gap_of_the_device_is_found():
    report, timelines = two_steps()
    found = scene(report, summarise(report).rows, timelines)
    (rank,) = found["ranks"]
    host, device = rank["lanes"]
    read = [[found["names"][i] for i in track["name"]] for track in host["tracks"]]
    assert read == [["outer", "next"], ["inner"], ["cudaStreamSynchronize"]]
    assert host["tracks"][0]["start"] == [0, 100_000] and host["tracks"][0]["length"] == [100_000, 90_000]
    assert [found["names"][i] for i in device["tracks"][0]["name"]] == ["gemm", "gemm"]
    assert rank["stalls"] == [[20_000, 30_000, 45_000, [45_000, 45_000], 0, 1]]


def test_a_large_run_keeps_its_longest_events_and_every_stall():
    draft = Draft("large")
    main, stream = draft.lane("main"), draft.lane("stream 7", device=0, stream=7)
    for i in range(5000):
        draft.operator("short", main, 10.0 * i, 10.0 * i + 1 + i % 3)
        draft.work("long", stream, 10.0 * i, 10.0 * i + 9, WorkKind.KERNEL)
    stalls = tuple(Stall("read", "aten::item", LOSS, start_us=10.0 * i, host_wait_us=0.5) for i in range(300))
    report = Report("stalls", "large", None, stalls)
    found = scene(report, summarise(report).rows, [draft.timeline()], budget=5000)
    host, device = found["ranks"][0]["lanes"]
    assert sum(len(t["start"]) for t in device["tracks"]) == 0 or sum(len(t["start"]) for t in device["tracks"]) == 5000
    drawn = sum(len(t["start"]) for lane in (host, device) for t in lane["tracks"])
    assert drawn <= 5000 and found["shortest"] > 0
    assert any(host["haze"]) and len(found["ranks"][0]["stalls"]) == 300


def test_ranks_share_one_axis_only_where_their_clocks_agree():
    def run(rank, origin):
        draft = Draft("run", rank)
        draft.operator("a", draft.lane("main"), 0.0, 1000.0)
        draft.origin_ns = origin
        return draft.timeline()

    report = Report("stalls", "run", None, ())
    near = scene(report, (), [run(1, 1_000_200_000), run(0, 1_000_000_000)])["ranks"]
    assert [(r["rank"], r["offset"]) for r in near] == [(0, 0), (1, 200_000)]
    assert [r["offset"] for r in scene(report, (), [run(0, 0), run(1, 10**15)])["ranks"]] == [0, 0]
    assert [r["offset"] for r in scene(report, (), [run(0, None), run(1, 10**9)])["ranks"]] == [0, 0]


# ---- what it says ----


def test_nothing_from_a_file_becomes_markup():
    report, timelines = hostile()
    page = html.render(report, timelines)
    for attack in HOSTILE[:4]:
        assert attack not in page
    assert page.count("<script") == 4 and page.count("</script>") == 4
    assert data_of(page)["names"] == list(HOSTILE)


def test_the_page_asks_nothing_of_the_network():
    page = html.render(*example(1, 2))
    assert not re.search(r"""(?:src|href)\s*=\s*(?!["']?#)|@import|url\(|https?:""", page)
    assert "default-src 'none'" in page


def test_unknown_and_predicted_figures_say_so():
    unknown = html.render(Report("check", "train.py", 2, (Stall("read", "aten::item", LOSS),)))
    assert unknown.count('<span class="unknown">unknown</span>') == 3
    predicted = html.render(replace(example(1, 2)[0], predicted="A40"))
    assert "Times predicted for A40, not measured" in predicted and "≈" in predicted
    assert "≈" not in html.render(replace(example(1, 2)[0], predicted=None))


def test_without_a_timeline_the_page_has_only_the_lines():
    page = html.render(example(1, 2)[0])
    assert "running_loss += loss.item()" in page and "canvas" not in re.sub(r"<style>.*?</style>", "", page, flags=re.S)


def test_no_stalls_and_no_device_work_are_told_apart():
    assert "No stalls." in html.render(Report("check", "train.py", 3, ()))
    assert "no stall can be seen" in html.render(Report("stalls", "t.json", None, ()), [Draft("cpu").timeline()])


def test_a_comparison_is_a_page_too():
    report, _ = example(1, 2)
    page = html.render_comparison(compare(account(replace(report, stalls=report.stalls[:1])), account(report)))
    assert "appeared" in page and "mean_loss.update(loss)" in page


# ---- in a browser ----


@pytest.fixture(scope="module")
def browser():
    if not CHROMIUM:
        pytest.skip("Chromium is not installed (Debian: apt-get install chromium)")
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed (pip install playwright)")
    options = ("no-sandbox", "disable-gpu", "disable-quic", "no-first-run", "disable-background-networking", "disable-component-update", "disable-sync")
    with playwright.sync_playwright() as driver:
        running = driver.chromium.launch(executable_path=CHROMIUM, args=[f"--{o}" for o in options])
        yield running
        running.close()


@pytest.fixture
def visit(browser, tmp_path):
    """Opens a page in a fresh tab; at the end, no tab may have complained or asked for anything but its own file."""
    complaints, pages = [], []

    def go(text, width=1280, scheme="light", **options):
        path = tmp_path / f"{len(pages)}.html"
        path.write_text(text, encoding="utf-8")
        page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme, **options)
        page.on("console", lambda m: complaints.append(m.text))
        page.on("pageerror", lambda e: complaints.append(str(e)))
        page.on("request", lambda r: complaints.append(r.url) if not r.url.startswith("file:") else None)
        page.goto(path.as_uri())
        pages.append(page)
        return page

    yield go
    for page in pages:
        page.close()
    assert complaints == []


def view(page):
    """What the timeline shows, in nanoseconds, once it is drawn."""
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    return tuple(float(page.locator("#canvas").get_attribute(f"data-{edge}")) for edge in ("from", "to"))


def drawn(page, selector):
    """A text of the page, once it is drawn."""
    view(page)
    return page.locator(selector).inner_text()


def inked(page, selector="#canvas"):
    """How many different colours a canvas shows: a blank one has one."""
    return page.evaluate(
        "(s) => { const c = document.querySelector(s), d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data, seen = new Set();"
        " for (let i = 0; i < d.length; i += 4) seen.add(d[i] << 16 | d[i+1] << 8 | d[i+2]); return seen.size; }",
        selector,
    )


def first_column(page):
    return page.locator("#sites tbody .place:not(.cause) .lineno").all_inner_texts()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_it_renders_in_both_themes_and_on_a_phone(visit, scheme, width):
    page = visit(html.render(*example()), width, scheme)
    assert page.locator("h1").inner_text().endswith("of the step.")
    assert inked(page) > 8 and inked(page, "#overview") > 3
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    paper = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", paper)[:3])) > 380) == (scheme == "light")


@pytest.mark.parametrize("width", [1280, 390])
def test_long_lines_and_paths_do_not_break_the_page(visit, width):
    long = Site("/deep" * 40 + "/train.py", 12345, "Trainer.a_step_of_a_long_name" * 4, "metrics.update(" + "prediction, " * 40 + ")")
    stall = Stall("shape_read", "aten::" + "very_long" * 30, long, replace(long, line=7), "Metric" * 30, "region" * 40, 0, 0.0, 5.0, 1.0, 0.0, True, "do " * 200)
    report = Report("check", "/source" * 60, 1, (stall,), ("note" * 100,), 100.0, (Gain("what" * 60, 1, 5.0),), "Device" * 20)
    page = visit(html.render(report, two_steps()[1]), width)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page = visit(html.render_comparison(compare(account(replace(report, stalls=())), account(report))), width)
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_the_theme_can_be_chosen(visit):
    page = visit(html.render(*example(1, 2)))
    paper = "getComputedStyle(document.documentElement).backgroundColor"
    before = page.evaluate(paper)
    page.locator("#theme").press("Enter")
    assert page.evaluate(paper) != before
    assert page.locator("#theme").inner_text() == "Light theme"
    page.locator("#theme").click()
    assert page.evaluate(paper) == before


def test_the_table_sorts_by_mouse_and_by_keyboard(visit):
    report, timelines = example()
    unknown = Stall("print", "print", Site("train.py", 99, "", "print(loss)"), host_wait_us=None)
    page = visit(html.render(replace(report, stalls=(*report.stalls, unknown)), timelines))
    assert first_column(page) == [":64", ":61", ":52", ":99"]
    page.get_by_role("button", name="Host wait").click()
    assert first_column(page) == [":61", ":64", ":52", ":99"]
    assert page.get_by_role("columnheader", name="Host wait").get_attribute("aria-sort") == "descending"
    page.get_by_role("button", name="Host wait").press("Enter")
    assert first_column(page) == [":52", ":64", ":61", ":99"], "unknown figures stay last"
    page.get_by_role("button", name="Line", exact=True).press("Space")
    assert first_column(page) == [":52", ":61", ":64", ":99"]
    assert page.locator("th[aria-sort]").count() == 1


def test_lines_can_be_filtered(visit):
    many = tuple(Stall("read", f"aten::op{n}", Site("train.py", n, "", f"x{n}.item()")) for n in range(1, 12))
    page = visit(html.render(Report("check", "train.py", 1, many)))
    page.get_by_role("searchbox").fill("x11.item")
    assert page.locator("#sites tbody tr:visible").count() == 1
    page.get_by_role("searchbox").fill("nowhere")
    assert page.locator("#none-left").is_visible()


def test_the_timeline_zooms_and_moves_by_mouse(visit):
    page = visit(html.render(*example()))
    whole = view(page)
    canvas = page.locator("#canvas")
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    middle = (box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.move(*middle)
    page.keyboard.down("Control")
    page.mouse.wheel(0, -600)
    page.keyboard.up("Control")
    zoomed = view(page)
    assert zoomed[1] - zoomed[0] < 0.5 * whole[1]
    page.mouse.down()
    page.mouse.move(middle[0] + 100, middle[1], steps=4)
    page.mouse.up()
    moved = view(page)
    assert moved[0] < zoomed[0] and moved[1] - moved[0] == pytest.approx(zoomed[1] - zoomed[0])
    page.get_by_role("button", name="Whole run").click()
    assert view(page) == whole
    page.mouse.dblclick(*middle)
    assert view(page)[1] - view(page)[0] == pytest.approx(whole[1] / 3, rel=1e-6)


def test_a_plain_wheel_scrolls_the_page_and_not_the_timeline(visit):
    page = visit(html.render(*example()))
    whole = view(page)
    page.locator("#canvas").hover()
    page.mouse.wheel(0, -200)
    assert view(page) == whole


def test_a_long_setup_does_not_hide_the_steps(visit):
    draft = Draft("run")
    draft.region("train.py", draft.lane("main"), 0.0, 1e6)
    draft.step(0, 9e5, 9.5e5)
    draft.step(1, 9.5e5, 1e6)
    setup = Stall("synchronize", "synchronize", Site("train.py", 3, "", "model.cuda()"), start_us=10.0)
    within = tuple(Stall("read", "aten::item", LOSS, step=n, start_us=9e5 + n) for n in (0, 1))
    page = visit(html.render(Report("check", "run", 2, (setup, *within)), [draft.timeline()]))
    assert view(page)[0] > 8.9e8 and view(page)[1] == 1e9
    assert page.get_by_text("outside the steps").count() == 1
    page.get_by_role("button", name="Whole run").click()
    assert view(page) == (0, 1e9)


def test_the_timeline_zooms_and_moves_by_keyboard(visit):
    page = visit(html.render(*example()))
    whole, canvas = view(page), page.locator("#canvas")
    canvas.focus()
    page.keyboard.press("+")
    page.keyboard.press("+")
    zoomed = view(page)
    assert zoomed[1] - zoomed[0] == pytest.approx(whole[1] / 4)
    page.keyboard.press("ArrowRight")
    assert view(page)[0] > zoomed[0]
    page.keyboard.press("-")
    assert view(page)[1] - view(page)[0] == pytest.approx(whole[1] / 2)
    page.keyboard.press("0")
    assert view(page) == whole
    page.keyboard.press("]")
    assert drawn(page, "#selected").startswith("Step 0")
    page.keyboard.press("]")
    assert drawn(page, "#step-now") == "Step 1"
    page.keyboard.press("n")
    first = drawn(page, "#selected")
    assert re.match(r"Stall \d+ of 40 · train.py:\d+ in train_step", first)
    page.keyboard.press("n")
    second = drawn(page, "#selected")
    page.keyboard.press("p")
    assert second != first and drawn(page, "#selected") == first


def test_a_row_leads_to_its_stalls_and_a_bar_to_its_step(visit):
    page = visit(html.render(*example()))
    whole = view(page)
    page.set_default_timeout(5000)
    button = page.get_by_role("button", name="Show in timeline: train.py:61")
    button.press("Enter")
    page.get_by_text("Stall 1 of 12 · train.py:61").first.wait_for()
    assert button.get_attribute("aria-pressed") == "true"
    assert view(page)[1] - view(page)[0] < whole[1]
    page.keyboard.press("Escape")
    assert button.get_attribute("aria-pressed") == "false"
    page.get_by_role("button", name="Step 3:").first.click()
    page.locator("#step-now", has_text=re.compile("^Step 3$")).wait_for()


def test_hovering_names_what_lies_under_the_pointer(visit):
    page = visit(html.render(*two_steps()))
    canvas = page.locator("#canvas")
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    found = set()
    for y in range(4, int(box["height"]), 7):
        page.mouse.move(box["x"] + 0.17 * box["width"], box["y"] + y)
        if page.locator("#tip").is_visible():
            found.add(drawn(page, "#tip").splitlines()[0])
    assert {"outer", "inner", "cudaStreamSynchronize", "gemm", "train.py:61 in train_step"} <= found


def test_ranks_fold_and_unfold(visit):
    page = visit(html.render(*example(3, 2)))
    fold = page.get_by_role("button", name="Rank 1")
    assert fold.get_attribute("aria-expanded") == "false"
    before = page.locator("#canvas").bounding_box()["height"]
    fold.press("Enter")
    assert page.get_by_role("button", name="Rank 1").get_attribute("aria-expanded") == "true"
    assert page.locator("#canvas").bounding_box()["height"] > before


def test_hostile_names_do_nothing(visit):
    report, timelines = hostile()
    page = visit(html.render(report, timelines))
    page.locator("#canvas").focus()
    for key in ("n", "n", "+", "]"):
        page.keyboard.press(key)
    box = page.locator("#canvas").bounding_box()
    for y in range(2, int(box["height"]), 6):
        page.mouse.move(box["x"] + 30, box["y"] + y)
    page.locator("#theme").click()
    assert page.evaluate("window.hit") is None
    assert page.locator("main img").count() == 0 and page.locator("main svg[onload]").count() == 0
    assert HOSTILE[1] in page.locator("#sites").inner_text()


def test_it_can_be_used_without_a_mouse(visit):
    page = visit(html.render(*example()))
    reached = []
    for _ in range(60):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.id || document.activeElement.textContent.trim() || document.activeElement.getAttribute('aria-label')"))
        ring = page.evaluate("(() => { const s = getComputedStyle(document.activeElement); return s.outlineStyle !== 'none' && parseFloat(s.outlineWidth) >= 2; })()")
        assert ring, f"no focus ring on {reached[-1]}"
        if reached[-1] == "canvas":
            break
    assert {"theme", "Host wait", "Whole run", "canvas"} <= set(reached)
    unnamed = page.evaluate("[...document.querySelectorAll('button, input, canvas[tabindex]')].filter((e) => !(e.textContent.trim() || e.ariaLabel || e.labels?.length)).length")
    assert unnamed == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_is_readable_on_its_ground(visit, scheme):
    report, timelines = example()
    page = visit(html.render(replace(report, notes=("A note.",), predicted="A40"), timelines), scheme=scheme)
    worst = page.evaluate(CONTRAST)
    assert worst["ratio"] >= 4.5, worst


CONTRAST = """() => {
  const parse = (c) => { const m = c.match(/[\\d.]+/g).map(Number); return m.length < 4 ? [...m, 1] : m; };
  const luminance = ([r, g, b]) => { const f = (v) => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; return 0.2126 * f(r) + 0.7152 * f(g) + 0.0722 * f(b); };
  const ground = (e) => { for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor); if (c[3] > 0.99) return c; } return parse(getComputedStyle(document.documentElement).backgroundColor); };
  let worst = { ratio: 99 };
  for (const e of document.querySelectorAll("body *")) {
    if (![...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim()) || !e.offsetParent || e.closest("svg, script, style, .skip")) continue;
    const a = luminance(parse(getComputedStyle(e).color)), b = luminance(ground(e)), ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < worst.ratio) worst = { ratio, text: e.textContent.slice(0, 40), class: e.className };
  }
  return worst;
}"""


def test_a_hundred_thousand_events_stay_fast(visit):
    draft = Draft("large")
    main, stream = draft.lane("main"), draft.lane("stream 7", device=0, stream=7)
    for i in range(50_000):
        draft.operator(f"aten::op{i % 40}", main, 10.0 * i, 10.0 * i + 7)
        draft.work(f"kernel{i % 60}", stream, 10.0 * i + 2, 10.0 * i + 9, WorkKind.KERNEL)
    stalls = tuple(Stall("read", "aten::item", LOSS, start_us=100.0 * i, host_wait_us=6.0, device_idle_us=2.0) for i in range(5000))
    text = html.render(Report("stalls", "large", None, stalls, duration_us=500_000.0), [draft.timeline()])
    assert len(text) < 6_000_000
    page = visit(text)
    page.locator("#canvas").focus()
    drawn = page.evaluate(
        """async () => {
          const frame = () => new Promise(requestAnimationFrame), canvas = document.getElementById("canvas"), draw = CanvasRenderingContext2D.prototype;
          const fill = draw.fillRect, all = [];
          let calls = 0;
          draw.fillRect = function (...box) { calls += 1; return fill.apply(this, box); };
          for (const key of "0+++nnpp-0") { await frame(); calls = 0; canvas.dispatchEvent(new KeyboardEvent("keydown", { key })); await frame(); await frame(); all.push(calls); }
          return all;
        }"""
    )
    assert 100 < max(drawn) < 15_000, "a redraw costs as the screen is wide, not as the run is long"


def test_it_prints_without_its_controls_and_on_white(visit):
    page = visit(html.render(*example(1, 2)), scheme="dark")
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert not page.locator(".tools").is_visible() and not page.locator("#theme").is_visible()
    assert page.locator("#canvas").is_visible()
    assert page.evaluate("getComputedStyle(document.documentElement).backgroundColor") == "rgb(255, 255, 255)"
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"


def test_the_comparison_renders(visit):
    report, _ = example(1, 2)
    page = visit(html.render_comparison(compare(account(replace(report, stalls=report.stalls[:1])), account(report))), 390, "dark")
    assert "appeared" in page.locator("h1").inner_text()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390

"""The page in a real browser: every page, the keyboard, both themes, a narrow screen, hostile content, a live run."""

import shutil
from datetime import timedelta

import pytest

from rollwright.evidence import RunFolder
from tests.evidence.runs import START, evaluation, trained_step, written_run
from tests.viewer.page.browser import Watch, browser, needs_browser, served, wait_until
from tests.viewer.page.hostile_run import hostile_run
from tests.viewer.page.pages import OF_A_RUN

pytestmark = needs_browser

_PATIENCE_MS = 60_000


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    written_run(folder / "run", steps=3)
    hostile_run(folder)
    return folder


@pytest.fixture(scope="module")
def home(runs):
    with served(str(runs)) as address:
        yield address.rstrip("/")


@pytest.fixture(scope="module")
def chromium():
    with browser() as started:
        yield started


@pytest.fixture
def opened(chromium, home):
    """A page at 1280 px, and what went wrong on it."""
    context = chromium.new_context(viewport={"width": 1280, "height": 900})
    page, watch = context.new_page(), Watch(home=home)
    page.set_default_timeout(_PATIENCE_MS)
    watch.follow(page)
    yield page, watch
    context.close()


def _wait_for_charts(page):
    wait_until(
        page,
        "[...document.querySelectorAll('[data-curve]')].filter((c) => c.getBoundingClientRect().top < innerHeight)"
        ".every((c) => !/^(Drawn by|Reading)/.test(c.querySelector('.chart-note').textContent))",
    )


def test_a_walk_through_every_page_has_no_error_and_asks_nobody_else(opened, home):
    page, watch = opened
    for path in ["/", *(f"/r/run{p}" for p in OF_A_RUN), "/compare?run=run&run=run-b-onmouseover-alert-1-evil"]:
        page.goto(home + path)
        assert page.locator("h1").count() == 1
        _wait_for_charts(page)
    watch.assert_clean()


def test_a_curve_is_drawn_with_its_legend_and_its_numbers_stand_below(opened, home):
    page, watch = opened
    page.goto(home + "/r/run/curve?curve=metric:step_s")
    page.wait_for_selector(".uplot canvas")
    assert page.locator(".u-legend").inner_text()
    assert page.locator(".scroll tbody tr").count() == 3
    watch.assert_clean()


@pytest.mark.parametrize("page_of", ["", *OF_A_RUN, "/episode/t000000-01-0"])
def test_hostile_content_stays_inert(opened, home, page_of):
    page, watch = opened
    page.goto(f"{home}/r/run-b-onmouseover-alert-1-evil{page_of}")
    _wait_for_charts(page)
    for token in page.locator(".t").all()[:5]:
        token.hover()
    assert page.evaluate("window.harmed") is None
    assert "harmed" not in page.title() or "<script>" in page.title()
    assert page.locator("main img, main iframe, main b").count() == 0
    watch.assert_clean()


def test_a_keyboard_reaches_rows_episodes_tokens_and_the_list_of_keys(opened, home):
    page, watch = opened
    page.goto(home + "/r/run/episodes?purpose=train&order=oldest")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("j")
    first = page.evaluate("document.activeElement.textContent")
    page.keyboard.press("j")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("k")
    assert (first, page.evaluate("document.activeElement.textContent")) == ("t000000-00-0", "t000000-01-0")
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"
    page.keyboard.press("Enter")
    page.wait_for_url("**/episode/t000000-01-0")

    page.locator(".tokens .t").first.focus()
    panel = page.locator("#token-panel")
    assert "position 0" in panel.inner_text()
    for key, position in (("ArrowRight", 1), ("End", 3), ("ArrowRight", 4), ("ArrowRight", 5), ("ArrowLeft", 4)):
        page.keyboard.press(key)
        assert f"position {position}" in panel.inner_text()
    assert "advantage" in panel.inner_text()

    page.keyboard.press("?")
    assert page.locator("#keys").is_visible()
    page.keyboard.press("Escape")
    assert not page.locator("#keys").is_visible()
    page.keyboard.press("t")
    assert page.evaluate("document.documentElement.dataset.theme") == "light"
    watch.assert_clean()


def test_pointing_at_a_token_shows_its_numbers_and_the_color_is_a_choice(opened, home):
    page, watch = opened
    page.goto(home + "/r/run/episode/t000000-00-0")
    page.locator(".sampled").first.hover()
    assert "policy version" in page.locator("#token-panel").inner_text()
    page.select_option("select[name=color]", "mask")
    page.wait_for_url("**color=mask**")
    assert page.locator(".tokens .k2").count() == 5
    watch.assert_clean()


def test_brackets_turn_the_steps(opened, home):
    page, _ = opened
    page.goto(home + "/r/run/step/1")
    page.keyboard.press("]")
    page.wait_for_url("**/step/2")
    page.keyboard.press("[")
    page.wait_for_url("**/step/1")


def test_no_page_is_wider_than_a_small_screen(chromium, home):
    context = chromium.new_context(viewport={"width": 375, "height": 800})
    page = context.new_page()
    for path in ["/", "/r/run", *(f"/r/run-b-onmouseover-alert-1-evil{p}" for p in OF_A_RUN)]:
        page.goto(home + path)
        over = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert over <= 0, (path, over)
    context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_from_its_ground_in_both_themes(chromium, home, scheme):
    context = chromium.new_context(color_scheme=scheme)
    page = context.new_page()
    for path in (
        "/",
        "/r/run",
        "/r/run/episode/t000000-00-0?color=advantage",
        "/r/run/episode/t000000-00-0?color=mask",
    ):
        page.goto(home + path)
        weak = page.evaluate(_CONTRAST)
        assert weak == [], path
    is_dark = page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 23, 27)"
    assert is_dark == (scheme == "dark")
    context.close()


def test_the_theme_that_was_chosen_holds_on_the_next_page_without_a_flash(opened, home):
    page, _ = opened
    page.goto(home + "/")
    page.click("#theme")
    page.click("#theme")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    page.goto(home + "/r/run")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 23, 27)"


def test_without_scripts_every_page_has_its_tables_and_forms_work(chromium, home):
    context = chromium.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(home + "/r/run/episodes")
    page.select_option("select[name=purpose]", "evaluation")
    page.click("form.filters button")
    assert page.locator("tbody tr").count() == 1
    page.goto(home + "/r/run/episode/t000000-00-0")
    page.select_option("select[name=color]", "mask")
    page.click("form.choice button")
    assert page.locator(".tokens .k2").count() == 5
    page.goto(home + "/r/run/curve?curve=metric:step_s")
    assert page.locator("tbody tr").count() == 3
    context.close()


def test_a_commit_appears_without_a_reload_leaves_a_reader_in_place_and_goes_when_abandoned(chromium, tmp_path):
    path = written_run(tmp_path / "live", steps=1)
    with served(str(path)) as address:
        context = chromium.new_context()
        page, watch = context.new_page(), Watch(home=address)
        page.set_default_timeout(_PATIENCE_MS)
        watch.follow(page)
        page.goto(address + "r/live")
        page.evaluate("window.isTheSamePage = true")
        page.wait_for_selector(".chart.drawn")
        with RunFolder.open(path, "write") as folder:
            folder.commit(trained_step(2), at=START + timedelta(seconds=2))
            folder.commit(evaluation(2, kind="evaluation", group_id=7_000_000), at=START)
            wait_until(page, "document.querySelector('dl.facts').textContent.includes('running')")
            page.wait_for_selector("a[href='/r/live/step/2']")
            wait_until(page, "document.querySelector('#news').textContent.includes('Step 2')")
            folder.abandon_after(2)
            wait_until(page, "!document.querySelector(\"a[href='/r/live/step/2']\")")
            assert page.evaluate("window.isTheSamePage")
            page.goto(address + "r/live/episodes")
            page.keyboard.press("j")
            name = page.evaluate("document.activeElement.textContent")
            folder.commit(trained_step(2, size=4), at=START)
            wait_until(page, "document.querySelector('#news').textContent.includes('stays as it is')")
            assert page.evaluate("document.activeElement.textContent") == name
            page.evaluate("document.activeElement.blur()")
            wait_until(page, "document.querySelector('main').textContent.includes('of 13 episodes')")
        watch.assert_clean()
        shutil.rmtree(path)
        wait_until(page, "document.querySelector('#news').textContent.includes('moved or deleted')")
        assert page.locator("h1").inner_text() == "Episodes"
        context.close()


@pytest.mark.training
def test_a_training_is_watched_from_its_first_step_to_its_last(chromium, tmp_path):
    import subprocess
    import sys

    command = [sys.executable, "-m", "rollwright", "train", "arithmetic-tool", "--run-dir", str(tmp_path / "live")]
    few = ("run.steps=3", "rollout.batch_size=16", "evaluation.tasks=6", "stages.warm_start.steps=4")
    for setting in (*few, "stages.warm_start.warmup_updates=1", "learner.warmup_updates=1"):
        command += ["--set", setting]
    with served(str(tmp_path)) as address:
        context = chromium.new_context()
        page, watch = context.new_page(), Watch(home=address)
        page.set_default_timeout(240_000)
        watch.follow(page)
        page.goto(address)
        assert "no run in" in page.locator("main").inner_text()
        said = (tmp_path / "said").open("w+")
        training = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=said)
        try:
            while not page.locator("a[href='/r/live']").count():
                assert training.poll() in (None, 0), (tmp_path / "said").read_text()
                page.wait_for_timeout(100)
            page.goto(address + "r/live")
            wait_until(page, "document.querySelector('dl.facts dd.big').textContent.trim().startsWith('7')", 240)
            assert training.wait(timeout=240) == 0
            wait_until(page, "document.querySelector('dl.facts').textContent.includes('at rest')")
        finally:
            training.kill()
            training.wait()
            said.close()
        for path in ("time", "curves", "episodes", "ledger", "steps", "step/7", "gates", "events", "manifest"):
            page.goto(f"{address}r/live/{path}")
            assert page.locator("h1").count() == 1
        page.goto(address + "r/live/episodes?purpose=train")
        page.locator("tbody th a").first.click()
        assert page.locator(".t").count() > 10
        watch.assert_clean()
        context.close()


_CONTRAST = """() => {
  const parse = (text) => (text.match(/[\\d.]+/g) ?? []).map(Number);
  const light = ([r, g, b]) => {
    const part = (v) => ((v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
  };
  const ground = (node) => {
    for (let at = node; at; at = at.parentElement) {
      const color = parse(getComputedStyle(at).backgroundColor);
      if (color.length === 3 || color[3] === 1) return color;
    }
    return [255, 255, 255];
  };
  const weak = [];
  for (const node of document.querySelectorAll("body *")) {
    const own = [...node.childNodes].some((child) => child.nodeType === 3 && child.textContent.trim());
    if (!own || !node.checkVisibility() || node.closest("svg, .u-legend, .skip, option")) continue;
    const [a, b] = [light(parse(getComputedStyle(node).color)), light(ground(node))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    const text = node.textContent.trim().slice(0, 30);
    if (ratio < 4.5) weak.push(`${node.tagName}.${node.className} ${ratio.toFixed(2)} ${text}`);
  }
  return [...new Set(weak)];
}"""

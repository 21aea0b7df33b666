"""The report page in Chromium: silent, without requests, and everything on it works, also for hostile names."""

from __future__ import annotations

import csv
import json
import time
from pathlib import Path

import numpy as np
import pytest

from tests.browser.conftest import HOSTILE

pytestmark = [pytest.mark.browser, pytest.mark.filterwarnings("ignore")]


def serious(browser, axe):
    """Findings of axe-core that keep people out."""
    browser.js(axe)
    found = browser.driver.execute_async_script("axe.run().then(arguments[arguments.length - 1])")
    kept = [each for each in found["violations"] if each["impact"] in ("serious", "critical")]
    return [(each["id"], [node["html"][:160] for node in each["nodes"][:3]]) for each in kept]


@pytest.mark.parametrize("name", ["calm", "hostile", "one", "wide", "model"])
def test_pages_load_in_silence_and_ask_for_nothing(name, browser, pages):
    browser.open(pages[name])
    assert browser.errors() == []
    assert browser.requests() == []
    drawn = browser.js("return document.querySelectorAll('.js-plotly-plot').length")
    assert drawn == {"one": 0, "model": 2}.get(name, 3)


def test_a_request_would_be_noticed(browser, pages, tmp_path):
    """The page's own policy forbids it; without one the log has it."""
    bare = tmp_path / "bare.html"
    bare.write_text("<html data-drawn='1'><img src='http://127.0.0.1:9/x.png'><script>nothing()</script></html>")
    browser.open(bare)
    assert browser.requests() == ["http://127.0.0.1:9/x.png"]
    assert browser.errors()


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (1280, True), (390, False)])
def test_nothing_keeps_people_out(width, dark, browser, pages, axe):
    browser.device(width, dark)
    browser.open(pages["calm"])
    assert serious(browser, axe) == []
    assert browser.js("return document.documentElement.scrollWidth") <= width
    colour = browser.js("return getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, colour[4:-1].split(","))) < 150) is dark


def test_columns_sort_and_are_found(browser, pages):
    browser.open(pages["calm"])
    names = browser.columns()
    head = browser.one("th[data-key=name] button")
    head.click()
    assert browser.columns() == sorted(names)
    head.click()
    assert browser.columns() == sorted(names, reverse=True)
    assert browser.one("th[data-key=name]").get_attribute("aria-sort") == "descending"
    browser.one("th[data-key=share_floored] button").send_keys("\n")  # from the keyboard
    facts = json.loads(browser.js("return document.getElementById('data').textContent"))["columns"]
    shares = dict(zip(facts["name"], facts["share_floored"], strict=True))
    assert [shares[name] for name in browser.columns()] == sorted(shares.values(), reverse=True)
    browser.one("#search").send_keys("ni")
    assert browser.columns() == ["Ni 10"]
    assert browser.one("#found").text == "1 of 8 columns"


def test_long_tables_are_shown_in_part(browser, pages):
    browser.open(pages["wide"])
    assert len(browser.columns()) == 100
    browser.one("#search").send_keys("c12")
    assert browser.columns() == ["c12", *(f"c12{k}" for k in range(10))]
    browser.one("#search").clear()
    browser.one("#search").send_keys(" ")
    browser.js("document.getElementById('show-all').click()")
    assert len(browser.columns()) == 130


def heat(browser):
    return np.array(browser.js("return document.getElementById('heat').data[0].z"), dtype=float)


def test_the_heat_map_switches(browser, pages):
    browser.open(pages["calm"])
    shown = {}
    for kind in ("latent", "naive", "difference"):
        browser.js("document.querySelector(`input[value=${arguments[0]}]`).click()", kind)
        shown[kind] = heat(browser)
    np.testing.assert_allclose(shown["latent"] - shown["naive"], shown["difference"], atol=2e-4)
    assert np.abs(shown["difference"]).max() > 0.01
    np.testing.assert_array_equal(shown["latent"], shown["latent"].T)


def over(browser, row, column, lines):
    """The pointer above a cell of the heat map."""
    from selenium.webdriver import ActionChains

    browser.js("document.getElementById('heat').scrollIntoView({block: 'center', behavior: 'instant'})")
    area = browser.one("#heat .nsewdrag").rect
    chart = browser.one("#heat").rect
    x = area["x"] - chart["x"] + area["width"] * (column + 0.5) / lines - chart["width"] / 2
    y = area["y"] - chart["y"] + area["height"] * (row + 0.5) / lines - chart["height"] / 2
    return ActionChains(browser.driver).move_to_element_with_offset(browser.one("#heat"), int(x), int(y))


def test_hover_tells_and_click_picks_a_pair(browser, pages):
    browser.open(pages["calm"])
    facts = json.loads(browser.js("return document.getElementById('data').textContent"))
    order, names = facts["pairs"]["order"], facts["columns"]["name"]
    over(browser, 1, 4, 8).perform()
    time.sleep(0.5)
    tip = browser.js("return document.getElementById('tip').textContent")
    first, second = names[order[4]], names[order[1]]
    assert tip.splitlines()[:2] == [first, second]
    value = heat(browser)[1, 4]
    assert f"latent {value:.3g}".replace("-", "−")[:10] in tip
    assert "±" in tip
    assert "naive" in tip
    over(browser, 1, 4, 8).click().perform()
    time.sleep(0.5)
    assert browser.one("#pair strong").text == f"{first} and {second}"
    titles = browser.js(
        "const l = document.getElementById('scatter').layout; return [l.xaxis.title.text, l.yaxis.title.text]"
    )
    assert titles == [first, second]
    traces = browser.js("return document.getElementById('scatter').data.map(t => t.mode)")
    assert traces == ["markers", "markers", "lines", "lines"]
    assert len(browser.js("return document.getElementById('scatter').layout.shapes")) == 2  # the floors


def test_pairs_are_picked_from_the_keyboard(browser, pages):
    from selenium.webdriver.support.ui import Select

    browser.open(pages["calm"])
    Select(browser.one("#first")).select_by_visible_text("Pb")
    Select(browser.one("#second")).select_by_visible_text("Ni 10")
    assert browser.one("#pair strong").text == "Pb and Ni 10"
    browser.all(".pick")[2].send_keys("\n")
    assert browser.one("#pair").text.startswith(browser.all(".pick")[2].text.replace(" – ", " and "))


def test_hostile_names_run_nothing(browser, pages, axe):
    browser.open(pages["hostile"])
    for button in ("th[data-key=name] button", "th[data-key=mean] button"):
        browser.one(button).click()
    for first in range(8):
        for name, value in (("first", first), ("second", (first + 1) % 8)):
            browser.js(
                "const e = document.getElementById(arguments[0]); e.value = arguments[1];"
                "e.dispatchEvent(new Event('change'))",
                name, value,
            )  # fmt: skip
    over(browser, 0, 3, 8).perform()
    over(browser, 5, 2, 8).click().perform()
    time.sleep(0.5)
    assert browser.js("return window.hacked") is None
    assert browser.errors() == []
    assert browser.requests() == []
    assert browser.js("return document.querySelectorAll('main b img, bdi *, #pair img, svg a').length") == 0
    assert browser.js("return document.documentElement.scrollWidth") <= 1280
    assert serious(browser, axe) == []


def test_numbers_are_downloaded(browser, pages, tmp_path):
    folder = {"behavior": "allow", "downloadPath": str(tmp_path)}
    browser.driver.execute_cdp_cmd("Browser.setDownloadBehavior", folder)
    browser.open(pages["hostile"])
    for name in ("columns-csv", "pairs-csv", "all-json"):
        browser.js("document.getElementById(arguments[0]).click()", name)
        time.sleep(0.5)
    wait_for(tmp_path / "report.json")
    facts = json.loads((tmp_path / "report.json").read_text("utf-8"))
    assert facts["columns"]["name"] == HOSTILE
    with open(wait_for(tmp_path / "columns.csv"), encoding="utf-8-sig", newline="") as file:
        lines = list(csv.DictReader(file))
    names = [line["name"] for line in lines]
    assert names == ["'=1+1" if name == "=1+1" else name for name in HOSTILE]  # no formula for a spreadsheet
    assert [float(line["mean"]) for line in lines] == facts["columns"]["mean"]
    with open(wait_for(tmp_path / "correlations.csv"), encoding="utf-8-sig", newline="") as file:
        assert len(list(csv.reader(file))) == 1 + 28


def wait_for(path: Path) -> Path:
    for _ in range(100):
        if path.exists():
            return path
        time.sleep(0.1)
    raise AssertionError(f"{path.name} was not downloaded")


def test_the_theme_is_switched_and_paper_is_white(browser, pages):
    browser.device(1280, False)
    browser.open(pages["calm"])
    browser.one("#theme").click()
    assert browser.js("return document.documentElement.dataset.theme") == "dark"
    assert browser.js("return document.getElementById('heat').layout.font.color") == "#e7eaed"
    browser.driver.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})
    browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    assert browser.js("return getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert browser.js("return document.documentElement.dataset.theme") == "dark"
    assert browser.errors() == []

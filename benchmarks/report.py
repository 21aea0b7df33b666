"""The report page: its size, seconds to make it besides the fit, and seconds until Chromium has drawn it.

``python -m benchmarks report``; without Chromium and its driver, or Selenium, nothing is drawn, and the note says so.
"""

from __future__ import annotations

import shutil
import tempfile
import time
import warnings
from pathlib import Path

from benchmarks.table import Claim
from unrelu import RectifiedGaussianLearner, synthetic

ROWS, COLUMNS = 10_000, (100, 500)
MEGABYTES, MAKE, DRAW = 6.0, 20.0, 3.0
DRAWN = "return document.documentElement.dataset.drawn"


def run() -> list[Claim]:
    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
        warnings.simplefilter("ignore")
        return [claim for d in COLUMNS for claim in page(d, Path(folder))]


def page(d: int, folder: Path) -> list[Claim]:
    """With and without the check of the fit, which fits simulated tables; bounds are for 100 columns."""
    X = synthetic.random_model(d, k=d // 3, random_state=0).sample(ROWS, random_state=1)
    learner, path = RectifiedGaussianLearner("one_pass", margins="normal").fit(X), folder / f"{d}.html"
    seconds = {}
    for simulations in (0, None):
        start = time.perf_counter()
        learner.write_html(path, X, n_simulations=simulations)
        seconds[simulations] = time.perf_counter() - start
    name, bounded = f"report of {d} columns x {ROWS:,} rows", d == COLUMNS[0]
    claims = [
        Claim(f"{name}: MB", path.stat().st_size / 1e6, most=MEGABYTES),
        Claim(f"{name}: s to make", seconds[0], most=MAKE if bounded else None, note="besides fits"),
        Claim(f"{name}: s with the check", seconds[None], note="simulated tables are fitted"),
    ]
    drawn = seconds_to_draw(path)
    if drawn is None:
        return [
            *claims,
            Claim(f"{name}: s to draw", float("nan"), note="not measured: no Chromium, driver or Selenium"),
        ]
    return [*claims, Claim(f"{name}: s to draw", drawn, most=DRAW if bounded else None)]


def seconds_to_draw(path: Path, tries: int = 3) -> float | None:
    """From the start of loading until all charts are painted, as the page itself records; the median of some tries."""
    programs = shutil.which("chromium") or shutil.which("chromium-browser"), shutil.which("chromedriver")
    try:
        from selenium import webdriver
        from selenium.webdriver.support.ui import WebDriverWait
    except ImportError:
        return None
    if None in programs:
        return None
    options = webdriver.ChromeOptions()
    options.binary_location = programs[0] or ""
    for flag in ("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"):
        options.add_argument(flag)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        options.add_argument(f"--user-data-dir={profile}")
        driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(programs[1]))
        try:
            found = []
            for _ in range(tries):
                driver.get(path.as_uri())
                WebDriverWait(driver, 120).until(lambda d: d.execute_script(DRAWN))
                found.append(float(driver.execute_script(DRAWN)) / 1e3)
            return sorted(found)[tries // 2]
        finally:
            driver.quit()

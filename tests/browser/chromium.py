"""The system's Chromium, driven by playwright, and where the pictures of a page are kept."""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from playwright.sync_api import Page, expect, sync_playwright

if TYPE_CHECKING:
    from collections.abc import Generator

    from playwright.sync_api import Browser, ConsoleMessage

PICTURES = Path(__file__).parents[2] / "build" / "dashboard"
"""Output, for people to look at."""
PATIENCE_S = 60.0

WIDE = (1440, 900)
NARROW = (390, 844)


@contextlib.contextmanager
def chromium() -> Generator[Browser]:
    """A browser without a window."""
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    assert program, "there is no Chromium on PATH: scripts/browser.sh installs it"
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    # the driver's own loop must not outlive this: others call asyncio.run in the same thread
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=[*arguments, "--disable-dev-shm-usage"])
        try:
            yield browser
        finally:
            browser.close()


@contextlib.contextmanager
def opened(
    browser: Browser, address: str, size: tuple[int, int] = WIDE, *, dark: bool = False
) -> Generator[tuple[Page, list[str]]]:
    """A page, and what went wrong on it: errors of scripts, and requests to anybody else."""
    context = browser.new_context(
        viewport={"width": size[0], "height": size[1]}, color_scheme="dark" if dark else "light", timezone_id="UTC"
    )
    expect.set_options(timeout=PATIENCE_S * 1000)
    page = context.new_page()
    page.set_default_timeout(PATIENCE_S * 1000)
    wrong: list[str] = []

    def said(message: ConsoleMessage) -> None:
        # a stream that breaks off is what some tests are about
        if message.type == "error" and "ERR_" not in message.text:
            wrong.append(message.text)

    page.on("console", said)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("request", lambda request: None if request.url.startswith(address) else wrong.append(request.url))
    try:
        page.goto(address)
        yield page, wrong
    finally:
        context.close()


def picture(page: Page, name: str) -> None:
    """Keeps how the page looks now."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=PICTURES / f"{name}.png")

"""Take the pictures of docs/stalls.md: the page of a made-up run in headless Chromium. Run `python docs/images/make.py` from the repository."""

import io
import shutil
import sys
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parents[1] / "src"), str(HERE.parents[1] / "tests" / "stalls")]

from example_run import example  # noqa: E402

from torchtally.stalls.renderers import html  # noqa: E402

OPTIONS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"]


def save(picture: bytes, name: str) -> None:
    """Few colours, so that the repository stays small."""
    Image.open(io.BytesIO(picture)).convert("RGB").quantize(128).save(HERE / name, optimize=True)


def main() -> None:
    text = html.render(*example())
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=OPTIONS)
        for scheme in ("light", "dark"):
            page = browser.new_page(viewport={"width": 1180, "height": 1000}, color_scheme=scheme, device_scale_factor=1.5)
            page.set_content(text)
            page.wait_for_timeout(300)
            save(page.screenshot(), f"stalls-{scheme}.png")
            page.locator("#canvas").focus()
            for key in "]]]]n":
                page.keyboard.press(key)
            page.wait_for_timeout(300)
            save(page.locator("#timeline").screenshot(), f"timeline-{scheme}.png")
        browser.close()


if __name__ == "__main__":
    main()

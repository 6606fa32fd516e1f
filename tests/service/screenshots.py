"""Pictures of the page for the documentation: `python tests/service/screenshots.py [FOLDER]`."""

import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from reference.browser import FLAGS, find_chromium, photograph  # noqa: E402
from service.overviews import empty, hostile, retention, shadowed, thousand  # noqa: E402
from service.standin import served  # noqa: E402

SHOTS = {  # name: overview, width, colour scheme
    "light": (retention, 1280, "light"),
    "dark": (retention, 1280, "dark"),
    "phone": (retention, 390, "light"),
    "thousand": (thousand, 1280, "light"),
    "empty": (empty, 1280, "light"),
}
LOOKED_AT = {
    "phone-dark": (thousand, 390, "dark"),
    "empty-phone": (empty, 390, "light"),
    "hostile": (hostile, 1280, "light"),
    "hostile-phone": (hostile, 390, "dark"),
    "middle": (retention, 800, "light"),
    "wide": (retention, 1720, "dark"),
    "shadowed": (shadowed, 1280, "light"),
    "shadowed-phone": (shadowed, 390, "dark"),
}
"""Not for the documentation: only with a folder to put them in."""


def main(folder: Path, shots: dict) -> None:
    """Write one PNG of 256 colours a shot."""
    folder.mkdir(parents=True, exist_ok=True)
    with served() as standin, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=FLAGS)
        for name, (overview, width, scheme) in shots.items():
            standin.show(overview())
            page = browser.new_page(
                viewport={"width": width, "height": 900}, color_scheme=scheme, timezone_id="UTC"
            )
            page.goto(standin.address)
            page.locator("#actions-rows tr").first.wait_for()
            page.wait_for_timeout(600)
            height = page.evaluate("document.documentElement.scrollHeight")
            page.set_viewport_size({"width": width, "height": height})
            page.wait_for_timeout(300)
            photograph(page, folder / f"service-{name}.png")
            page.close()
        browser.close()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]), SHOTS | LOOKED_AT)
    else:
        main(ROOT / "docs" / "images", SHOTS)

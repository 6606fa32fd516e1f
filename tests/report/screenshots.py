"""Pictures of pages for the documentation, the first tutorial's among them: `python tests/report/screenshots.py [FOLDER]`."""

import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np
from playwright.sync_api import sync_playwright
from typer.testing import CliRunner

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests"))

import sparing  # noqa: E402
from reference.browser import FLAGS, find_chromium, photograph  # noqa: E402
from reference.reader import ADDRESS, Reader  # noqa: E402
from sparing.auditing import page as audit_page  # noqa: E402
from sparing.cli import app  # noqa: E402
from sparing.planning import page as plan_page  # noqa: E402

SHOTS = {  # name: page, width, height at most, colour scheme
    "audit": ("audit", 1000, 1330, "light"),
    "audit-phone": ("audit", 390, 1400, "dark"),
    "plan": ("plan", 1000, 1060, "light"),
    "plan-phone": ("plan", 390, 1000, "dark"),
    "demo": ("demo", 1000, 1670, "light"),
    "reproduction": ("reproduction", 1280, 900, "light"),
    "tutorial-audit": ("tutorial/audit", 1000, 760, "light"),
}
OFFERS = ["no offer", "free shipping", "10 % off the next order", "early access to the sale", "a phone call"]


def offers(rows: int = 6000) -> sparing.Log:
    """Offers to customers: none by telephone, no sale on phones, no discount in New Zealand."""
    rng = np.random.default_rng(0)
    country = rng.choice(["NZ", "AU", "UK", "US"], rows, p=[0.2, 0.3, 0.2, 0.3])
    device = rng.choice(["phone", "desktop", "tablet"], rows)
    eligible = [
        [
            offer
            for offer in OFFERS[:4]
            if not (offer == OFFERS[2] and where == "NZ") and not (offer == OFFERS[3] and on == "phone")
        ]
        for where, on in zip(country, device, strict=True)
    ]
    actions = [str(rng.choice(each)) for each in eligible]
    chances = dict(zip(OFFERS, (0.1, 0.15, 0.2, 0.25, 0.3), strict=True))
    table = {
        "country": country,
        "device": device,
        "age": rng.integers(18, 80, rows),
        "action": actions,
        "reward": (rng.random(rows) < [chances[action] for action in actions]).astype(float),
        "eligible": eligible,
        "propensity": [1 / len(each) for each in eligible],
    }
    return sparing.read_log(table, actions=OFFERS)


def planned() -> "sparing.Plan":
    """The plan of docs/planning.md."""
    world = sparing.simulation.LinearWorld(n_actions=6, n_features=3, noise=1.0, seed=0)
    log = sparing.simulation.draw_log(world, rows=800, support="never-logged", unsupported=0.34, seed=1)
    return sparing.plan(log, call_cost=0.5, horizon=2000, radius_scale=0.2, workers=1)


def write_pages(made: Path) -> None:
    """Every page that is a file."""
    audit_page.write(sparing.audit(offers()), made / "audit.html", title="offers.parquet")
    plan_page.write(planned(), made)
    assert CliRunner().invoke(app, ["demo", "--out", str(made)]).exit_code == 0
    shutil.copy(ROOT / "docs" / "reproduction" / "reproduction.html", made)


def main(folder: Path) -> None:
    """Write a PNG for each shot, and one of the service's page as the tutorial leaves it."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as made, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=FLAGS)

        def photograph_service() -> None:
            page = browser.new_page(viewport={"width": 1200, "height": 1195})
            page.goto(ADDRESS)
            page.locator("#actions-rows tr").first.wait_for()
            page.wait_for_timeout(600)
            photograph(page, folder / "tutorial-service.png")

        write_pages(Path(made))
        Path(made, "tutorial").mkdir()
        reader = Reader(Path(made, "tutorial"), Path(sys.executable).parent, looks=photograph_service)
        reader.follow("docs/tutorials/clicks.md")
        for name, (subject, width, height, scheme) in SHOTS.items():
            page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
            page.goto(Path(made, f"{subject}.html").as_uri())
            photograph(page, folder / f"{name}.png")
            page.close()
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "images")

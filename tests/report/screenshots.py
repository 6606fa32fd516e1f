"""Pictures of the audit's and the plan's page for the documentation: `python tests/report/screenshots.py [FOLDER]`."""

import io
import sys
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image
from playwright.sync_api import sync_playwright

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests"))

import sparing  # noqa: E402
from reference.browser import FLAGS, find_chromium  # noqa: E402
from sparing.auditing import page as audit_page  # noqa: E402
from sparing.planning import page as plan_page  # noqa: E402

SHOTS = {  # name: page, width, height at most, colour scheme
    "audit": ("audit", 1000, 1330, "light"),
    "audit-phone": ("audit", 390, 1400, "dark"),
    "plan": ("plan", 1000, 1060, "light"),
    "plan-phone": ("plan", 390, 1000, "dark"),
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


def main(folder: Path) -> None:
    """Write one PNG of 256 colours a shot."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as made, sync_playwright() as playwright:
        audit_page.write(sparing.audit(offers()), Path(made, "audit.html"), title="offers.parquet")
        plan_page.write(planned(), made)
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=FLAGS)
        for name, (subject, width, height, scheme) in SHOTS.items():
            page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
            page.goto(Path(made, f"{subject}.html").as_uri())
            image = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
            path = folder / f"{name}.png"
            image.quantize(256, kmeans=2, dither=Image.Dither.NONE).save(path, optimize=True)
            print(path, image.size, f"{path.stat().st_size // 1000} kB")
            page.close()
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "images")

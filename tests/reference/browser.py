"""A page as a browser finds it."""

import io
import json
import re
import shutil
import subprocess

import pytest

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
"""What Chromium is started with."""

PROBE = """
<script>
addEventListener("load", () => {
  const MANY = 100;
  const colours = image => {
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [image.naturalWidth, image.naturalHeight];
    const context = canvas.getContext("2d");
    context.drawImage(image, 0, 0);
    const pixels = new Uint32Array(context.getImageData(0, 0, canvas.width, canvas.height).data.buffer);
    const seen = new Set();
    for (const pixel of pixels) if (seen.add(pixel).size === MANY) break;
    return seen.size;
  };
  const figures = [...document.querySelectorAll("figure svg, figure img")].map(drawn => {
    const box = drawn.getBoundingClientRect();
    const marks = [...drawn.querySelectorAll("path, image, use")].filter(mark => mark.getBoundingClientRect().width > 0);
    return [box.width, box.height, drawn.tagName === "IMG" ? colours(drawn) : marks.length];
  });
  const wide = document.documentElement.scrollWidth - document.documentElement.clientWidth;
  const requests = performance.getEntriesByType("resource").map(entry => entry.name);
  const found = document.createElement("pre");
  found.id = "probe";
  found.textContent = JSON.stringify({figures, requests, wide});
  document.body.append(found);
});
</script>
"""


def assert_self_contained(html, *, figure="<svg"):
    """A figure in it, no script, and no address that a browser would ask for."""
    assert figure in html
    assert "<script" not in html
    assert not re.findall(r'(?:src|href)="(?!data:|#)[^"]', html)


def find_chromium():
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if path is None:
        pytest.fail("no Chromium to look at the page with: install it (on Debian: apt-get install chromium)")
    return path


def photograph(page, path):
    """What is on the screen of an open page, as a PNG of 256 colours; its folder and size are told."""
    from PIL import Image

    image = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    image.quantize(256, kmeans=2, dither=Image.Dither.NONE).save(path, optimize=True)
    print(path, image.size, f"{path.stat().st_size // 1000} kB")


def look(page, tmp_path, *, width=1100):
    """What a browser finds in the page: figures, requests, and what it says on its console.

    Of each figure its width, its height, and how many marks a drawing has, or colours an image, 100 at most.
    """
    probed = tmp_path / "probed.html"
    html = page.read_text(encoding="utf-8")
    probed.write_text(html.replace("</body>", f"{PROBE}</body>"), encoding="utf-8")
    flags = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--host-resolver-rules=MAP * ~NOTFOUND",
        "--enable-logging=stderr",
        "--v=0",
        f"--user-data-dir={tmp_path / 'profile'}",
        f"--window-size={width},2000",
        "--virtual-time-budget=5000",
        "--dump-dom",
    ]
    done = subprocess.run(
        [find_chromium(), *flags, probed.as_uri()], capture_output=True, text=True, check=True, timeout=120
    )
    found = re.search(r'<pre id="probe">(.*?)</pre>', done.stdout, re.DOTALL)
    assert found is not None, done.stderr
    values = json.loads(found[1].replace("&quot;", '"').replace("&amp;", "&"))
    values["console"] = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    return values

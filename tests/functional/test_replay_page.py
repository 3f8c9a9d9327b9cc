"""The page of a replay, in a browser."""

import subprocess

from browser_harness import Browser
from harness import ROOT, ServerTest, binary

# The ends of bars of 100 %, and where the numbers next to them begin.
BARS = """
return [...document.querySelectorAll(".share")].map((cell) => {
  const text = document.createRange();
  text.selectNodeContents(cell);
  const less = /calc\\(100% - ([\\d.]+)px\\)/.exec(getComputedStyle(cell).backgroundSize);
  const box = cell.getBoundingClientRect();
  return [box.right - (less ? Number(less[1]) : 0), text.getBoundingClientRect().left];
});
"""


class Report(ServerTest):
    def test_bars_end_before_their_numbers(self):
        page = self.folder() / "replay.html"
        subprocess.run(
            [binary(), "replay", "--rules", "examples/rules/access-log.yaml", "--html", str(page),
             "examples/logs/access.log.gz"],
            cwd=ROOT, check=True, stdout=subprocess.DEVNULL,
        )  # fmt: skip
        browser = Browser(self.folder())
        self.addCleanup(browser.close)
        browser.driver.get(page.as_uri())
        for width in (400, 960):
            browser.set_size(width, 900)
            bars = browser.run(BARS)
            self.assertGreater(len(bars), 5)
            for end, number in bars:
                self.assertLess(end, number, width)

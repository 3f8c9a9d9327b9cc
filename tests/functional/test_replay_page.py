"""The page of a replay, in a browser."""

from browser_harness import Browser, replay_example
from harness import ServerTest

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
        browser = Browser(self.folder())
        self.addCleanup(browser.close)
        browser.driver.get(replay_example(self.folder()).as_uri())
        for width in (400, 960):
            browser.set_size(width, 900)
            bars = browser.run(BARS)
            self.assertGreater(len(bars), 5)
            for end, number in bars:
                self.assertLess(end, number, width)

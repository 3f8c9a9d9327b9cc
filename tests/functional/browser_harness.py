"""A headless Chromium for tests."""

import os
import pathlib
import subprocess
import tempfile

from harness import ROOT, binary, tool, wait_for

try:
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys
    from selenium.webdriver.support.ui import Select
except ImportError as error:
    raise AssertionError("Selenium is missing: apt-get install python3-selenium") from error

FLAGS = (
    "--headless=new",
    "--no-sandbox",  # root has none
    "--disable-dev-shm-usage",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-extensions",
    "--no-first-run",
    "--lang=en",
)


def replay_example(folder):
    """Replays the example log. Returns the path of its report."""
    report = folder / "replay.html"
    subprocess.run(
        [binary(), "replay", "--rules", "examples/rules/access-log.yaml", "--html", str(report),
         "examples/logs/access.log.gz"],
        cwd=ROOT, check=True, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    return report


class Browser:
    """A window of Chromium. Errors of its console are kept."""

    def __init__(self, folder, *flags, dark=False):
        options = webdriver.ChromeOptions()
        options.binary_location = tool("chromium")
        for flag in (*FLAGS, *flags, f"--user-data-dir={tempfile.mkdtemp(dir=folder)}"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        environment = dict(os.environ, HOME=str(folder))
        service = Service(
            tool("chromedriver"), log_path=str(pathlib.Path(folder) / "driver.log"), env=environment
        )
        self.driver = webdriver.Chrome(service=service, options=options)
        if dark:
            self.set_dark(True)

    def close(self):
        self.driver.quit()

    def set_dark(self, dark):
        value = "dark" if dark else "light"
        features = [{"name": "prefers-color-scheme", "value": value}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def set_size(self, width, height):
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)

    def open(self, address, path="/"):
        self.driver.get(f"http://{address}{path}")

    def find(self, selector):
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def all(self, selector):
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def text(self, selector):
        """Returns the shown text of the element, or an empty text if there is none."""
        script = "return document.querySelector(arguments[0])?.innerText ?? ''"
        return self.driver.execute_script(script, selector)

    def run(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def wait_for_text(self, selector, text):
        try:
            wait_for(lambda: text in self.text(selector))
        except AssertionError as error:
            shown = self.text("body")
            raise AssertionError(f"no {text!r} in {selector}; the page says:\n{shown}") from error

    def click(self, text, within="body"):
        """Clicks the shown button with this text."""
        for button in self.all(f"{within} button"):
            if button.text == text and button.is_displayed():
                return button.click()
        raise AssertionError(f"no button {text!r} in {within}: {self.text(within)}")

    def fill(self, selector, text):
        field = self.find(selector)
        field.clear()
        field.send_keys(text)

    def choose(self, selector, text):
        Select(self.find(selector)).select_by_visible_text(text)

    def press(self, name):
        """Presses a key of the keyboard, such as "ENTER"."""
        webdriver.ActionChains(self.driver).send_keys(getattr(Keys, name)).perform()

    def focused(self):
        return self.run("return document.activeElement.id")

    def overflow(self):
        """Returns by how many pixels the page is wider than the window."""
        root = "document.documentElement"
        return self.run(f"return {root}.scrollWidth - {root}.clientWidth")

    def errors(self):
        """Returns the errors of the console since the last call."""
        return [one for one in self.driver.get_log("browser") if one["level"] == "SEVERE"]

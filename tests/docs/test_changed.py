"""Which pages run."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

import changed

HERE = pathlib.Path(__file__).resolve().parent
PAGE = "# Page\n\n```sh\nls\n```\n"


class Changed(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.tree = pathlib.Path(folder.name)
        environment = mock.patch.dict(os.environ)
        environment.start()
        self.addCleanup(environment.stop)
        os.environ.pop("SLUICE_LONG_TESTS", None)
        os.environ["GIT_CONFIG_GLOBAL"] = os.devnull
        self.git("init", "-q")
        self.write("page.md", PAGE)
        self.write("README.md", PAGE)
        self.write("CHANGELOG.md", "## [Unreleased]\n")
        for name in changed.HARNESS:
            self.write(name, "x\n")
        self.commit()

    def git(self, *arguments):
        subprocess.run(["git", "-C", self.tree, "-c", "user.name=a", "-c", "user.email=a@b", *arguments], check=True)

    def write(self, name, text):
        path = self.tree / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")

    def commit(self, at="2026-01-01T12:00:00Z"):
        self.git("add", ".")
        with mock.patch.dict(os.environ, GIT_COMMITTER_DATE=at):
            self.git("commit", "-q", "-m", "Commit")

    def reason(self, name="page.md"):
        return changed.reason(str(self.tree), name)

    def test_a_page_runs_that_changed_since_the_last_release(self):
        self.git("tag", "v1")
        self.assertEqual(self.reason(), "")
        self.write("page.md", PAGE.replace("ls", "ls /"))
        self.assertIn("changed since v1", self.reason())
        self.commit()
        self.assertIn("changed since v1", self.reason())
        self.git("tag", "v2")
        self.assertEqual(self.reason(), "")

    def test_a_page_whose_output_changed_runs(self):
        self.git("tag", "v1")
        self.write("page.md", PAGE.replace("ls\n", "ls\n# a\n"))
        self.assertIn("changed since v1", self.reason())

    def test_a_page_whose_prose_changed_does_not_run(self):
        self.git("tag", "v1")
        self.write("page.md", PAGE.replace("# Page", "# Other\n\nText."))
        self.assertEqual(self.reason(), "")

    def test_a_new_page_runs(self):
        self.git("tag", "v1")
        self.write("new.md", PAGE)
        self.assertEqual(self.reason("new.md"), "it is new since v1")

    def test_all_pages_run_if_what_runs_them_changed(self):
        self.git("tag", "v1")
        self.write("examples/rules/docs.yaml", "y\n")
        self.assertIn("examples/rules/docs.yaml changed since v1", self.reason())

    def test_without_a_tag_the_release_is_the_one_in_the_changelog(self):
        self.assertIn("too little history", self.reason())
        self.write("CHANGELOG.md", "## [Unreleased]\n\n## [0.2.0] - 2026-03-01\n\n## [0.1.0] - 2026-01-01\n")
        self.write("page.md", PAGE.replace("ls", "ls /"))
        self.commit(at="2026-03-01T12:00:00Z")
        self.assertEqual(self.reason(), "")
        self.write("page.md", PAGE.replace("ls", "ls -a"))
        self.commit(at="2026-03-02T12:00:00Z")
        self.assertIn("changed since", self.reason())

    def test_the_readme_always_runs_and_with_long_every_page(self):
        self.git("tag", "v1")
        self.assertEqual(self.reason("README.md"), "it always runs")
        os.environ["SLUICE_LONG_TESTS"] = "1"
        self.assertEqual(self.reason(), "--long")

    def test_the_command_runs_or_the_page_is_skipped(self):
        self.git("tag", "v1")
        for name, status in (("page.md", 77), ("README.md", 5)):
            argv = [sys.executable, "-B", HERE / "changed.py", self.tree, name, "/bin/sh", "-c", "exit 5"]
            ran = subprocess.run(argv, capture_output=True, check=False)
            self.assertEqual(ran.returncode, status)


if __name__ == "__main__":
    unittest.main()

"""What the test of a page reports. Needs root, like the test itself."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent


def run(text):
    with tempfile.TemporaryDirectory() as folder:
        page = pathlib.Path(folder, "page.md")
        page.write_text(text, "utf-8")
        done = subprocess.run([sys.executable, "-B", HERE / "run_page.py", HERE.parent.parent, page],
                              capture_output=True, text=True, check=False)
    if done.returncode == 77:
        raise unittest.SkipTest(done.stdout)
    return done.returncode, done.stdout + done.stderr


class RunPage(unittest.TestCase):
    def test_a_command_that_fails_is_reported_with_its_line(self):
        status, output = run("# Page\n\n```sh\ntrue\nfalse\n```\n")
        self.assertEqual(status, 1)
        self.assertIn("page.md:5: false\nended with status 1", output)

    def test_an_output_that_differs_is_reported(self):
        status, output = run("```\n$ echo 2\n3\n```\n")
        self.assertEqual(status, 1)
        self.assertIn("-3\n+2", output)

    def test_a_server_goes_on_in_the_background(self):
        status, output = run("```sh\nsluice serve\n```\n```\n$ curl http://127.0.0.1:8080/readyz\nready\n```\n")
        self.assertEqual((status, output), (0, "2 commands run, 1 outputs compared, 0 YAML blocks checked, "
                                               "0 blocks not run\n"))

    def test_a_background_command_that_ends_is_reported(self):
        status, output = run("```sh\nsluice serve --http 1.2.3.4:1 &\n```\n")
        self.assertEqual(status, 1)
        self.assertIn("has ended", output)

    def test_yaml_that_sluice_refuses_is_reported(self):
        status, output = run("```yaml\nversion: 1\nrules:\n  - name: a\n    limit: 1\n```\n")
        self.assertEqual(status, 1)
        self.assertIn("unknown key 'limit'", output)

    def test_nothing_is_left(self):
        self.assertEqual(run("```sh\ntouch /etc/left_by_page left_by_page\n```\n")[0], 0)
        for path in ("/etc/left_by_page", HERE.parent.parent / "left_by_page"):
            self.assertFalse(os.path.exists(path), path)


if __name__ == "__main__":
    unittest.main()

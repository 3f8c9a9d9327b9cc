"""The manual pages, in the programs that read them."""

import pathlib
import re
import subprocess
import tempfile
import unittest

from harness import binary, tool


def run(*command, **more):
    return subprocess.run(
        command, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL, **more
    )


def sluice(*arguments):
    return run(binary(), *arguments)


def help_of(command):
    """Returns the subcommands and the long options that `COMMAND --help` prints."""
    text = sluice(*command, "--help").stdout
    _, _, below = text.partition("\nSubcommands:\n")
    commands = re.findall(r"^  ([a-z]+) ", below.split("\n\n")[0], re.MULTILINE)
    return commands, re.findall(r"^  (?:-\w,)?(--[\w-]+)", text, re.MULTILINE)


def all_commands(command=()):
    yield command
    for below in help_of(command)[0]:
        yield from all_commands((*command, below))


class Folder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)


class ManualPages(Folder):
    def setUp(self):
        super().setUp()
        written = sluice("manual", "--all", str(self.folder / "man"))
        self.assertEqual((written.returncode, written.stderr), (0, ""))
        self.pages = sorted((self.folder / "man").iterdir())

    def test_each_subcommand_has_one(self):
        names = {"sluice.1", *(f"sluice-{name}.1" for name in help_of(())[0])}
        self.assertEqual({page.name for page in self.pages}, names)
        self.assertEqual(sluice("manual", "serve").stdout, self.page("sluice-serve").read_text())
        self.assertEqual(sluice("manual").stdout, self.page("sluice").read_text())

    def page(self, name):
        return self.folder / "man" / f"{name}.1"

    def test_man_and_mandoc_read_them_without_a_warning(self):
        man, mandoc = tool("man"), tool("mandoc")
        for page in self.pages:
            read = run(man, "--warnings", "-l", "-Tutf8", "-P", "cat", str(page))
            self.assertEqual((read.returncode, read.stderr), (0, ""), page.name)
            checked = run(mandoc, "-Tlint", "-Wwarning", str(page)).stdout
            found = [line for line in checked.splitlines() if "missing date" not in line]
            self.assertEqual(found, [])

    def test_they_name_every_option_of_the_help(self):
        for command in all_commands():
            page = self.page("-".join(["sluice", *command[:1]])).read_text().replace("\\-", "-")
            for option in help_of(command)[1]:
                self.assertRegex(page, rf"{option}\b", command)

    def test_a_shell_can_copy_their_examples(self):
        shown = run(tool("man"), "-l", "-Tutf8", "-P", "cat", str(self.page("sluice-decide"))).stdout
        self.assertIn("--store redis://127.0.0.1:6379 --prefix trial: < requests.jsonl\n", shown)

    def test_errors(self):
        self.assertEqual(sluice("manual", "nothing").returncode, 2)
        self.assertEqual(sluice("manual", "--all", "/dev/null/x").returncode, 1)


if __name__ == "__main__":
    unittest.main()

"""The manual pages and the completions, in the programs that read them."""

import os
import pathlib
import pty
import re
import select
import subprocess
import tempfile
import time
import unittest

from harness import PATIENCE, ROOT, binary, tool


def run(*command, **more):
    return subprocess.run(
        command, capture_output=True, text=True, timeout=PATIENCE, stdin=subprocess.DEVNULL, **more
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

    def write(self):
        written = run(str(ROOT / "packaging/manual"), binary(), str(self.folder))
        self.assertEqual((written.returncode, written.stderr), (0, ""))
        return self.folder


class ManualPages(Folder):
    def setUp(self):
        super().setUp()
        self.pages = sorted((self.write() / "man/man1").iterdir())

    def test_each_subcommand_has_one(self):
        names = {"sluice.1", *(f"sluice-{name}.1" for name in help_of(())[0])}
        self.assertEqual({page.name for page in self.pages}, names)

    def page(self, name):
        return self.folder / "man/man1" / f"{name}.1"

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


class Completions(Folder):
    def setUp(self):
        super().setUp()
        (self.folder / "rules.yaml").write_text("")

    def check(self, complete):
        """Checks what `complete` returns for some lines: a set of words."""
        self.assertLessEqual({"serve", "replay", "key"}, complete("sluice "))
        self.assertEqual(complete("sluice rep"), {"replay"})
        self.assertEqual(complete("sluice rules "), set(help_of(("rules",))[0]))
        self.assertEqual(complete("sluice serve --conf"), {"--config"})
        self.assertEqual(complete("sluice serve --config rul"), {"rules.yaml"})
        self.assertEqual(complete("sluice rules check rul"), {"rules.yaml"})
        self.assertEqual(complete("sluice serve --threads rul"), set())
        self.assertEqual(complete("sluice serve --help --conf"), {"--config"})

    def test_bash(self):
        path = self.write() / "bash-completion/completions/sluice"

        def complete(line):
            words = line.split(" ")
            script = (
                f"source {path}; COMP_WORDS=({' '.join(words[:-1])} '{words[-1]}');"
                f"COMP_CWORD={len(words) - 1}; _sluice; printf '%s\\n' \"${{COMPREPLY[@]}}\""
            )
            done = run("/bin/bash", "-c", script, cwd=self.folder)
            self.assertEqual(done.stderr, "")
            return set(done.stdout.split())

        self.check(complete)

    def test_fish(self):
        path = self.write() / "fish/vendor_completions.d/sluice.fish"
        fish = tool("fish")

        def complete(line):
            environment = {**os.environ, "HOME": str(self.folder)}
            script = f"source {path}; complete -C '{line}'"
            done = run(fish, "-c", script, cwd=self.folder, env=environment)
            self.assertEqual(done.stderr, "")
            return {each.split("\t")[0] for each in done.stdout.splitlines()}

        self.check(complete)

    def test_zsh(self):
        path = self.write() / "zsh/vendor-completions/_sluice"
        zsh = tool("zsh")
        # zsh completes only at a terminal. Ctrl-D lists what is possible, Ctrl-E goes to the end.
        start = (
            f"PS1=REA'DY>'; autoload -Uz compinit; compinit -u -D; source {path};"
            "compdef _sluice sluice; zstyle ':completion:*' list-separator '##';"
            "LISTMAX=1000; setopt no_beep\n"
        )

        def complete(line):
            pid, terminal = pty.fork()
            if pid == 0:
                os.chdir(self.folder)
                os.environ.update(TERM="dumb", HOME=str(self.folder), COLUMNS="200")
                os.execv(zsh, [zsh, "-f", "-i"])
            try:
                os.write(terminal, start.encode())
                read_until(terminal, "READY>")  # now zsh reads keys itself
                os.write(terminal, (line + "\t\x04").encode())
                os.write(terminal, b"\x05 END")
                text = read_until(terminal, " END")
            finally:
                os.close(terminal)
                os.waitpid(pid, 0)
            return text

        self.assertIn("replay", complete("sluice rep"))
        self.assertIn("--config", complete("sluice serve --conf"))
        self.assertIn("rules.yaml", complete("sluice serve --config rul"))
        self.assertIn("rules.yaml", complete("sluice rules check rul"))
        self.assertNotIn("rules.yaml", complete("sluice serve --threads rul"))
        listed = complete("sluice rules ")
        for name in help_of(("rules",))[0]:
            self.assertIn(name, listed)


def read_until(terminal, text):
    """Returns what a terminal shows until it shows the text."""
    shown = ""
    end = time.monotonic() + PATIENCE
    while text not in shown:
        left = end - time.monotonic()
        if left <= 0 or not select.select([terminal], [], [], left)[0]:
            raise AssertionError(f"the terminal did not show {text!r}: {shown!r}")
        shown += os.read(terminal, 4096).decode(errors="replace")
    return shown


if __name__ == "__main__":
    unittest.main()

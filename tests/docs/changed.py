#!/usr/bin/env python3
"""Runs the test of a page only if the page changed: changed.py TREE PAGE COMMAND...

It runs the command, which runs the page, if the commands or outputs of the page, or the files in HARNESS,
differ from those of the last release: the latest tag. Without one, the last commit of the day that
CHANGELOG.md gives the release. README.md always runs, and with --long (SLUICE_LONG_TESTS) and without git every page.
Otherwise it exits with 77: skipped.
"""

import os
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import page as pages

RELEASE = re.compile(r"^## \[[0-9.]+\] - (\d{4}-\d\d-\d\d)$", re.M)
HARNESS = ("tests/docs/page.py", "tests/docs/reader", "tests/docs/run_page.py", "examples/rules/docs.yaml")


def git(tree, *arguments):
    """Returns what git prints, or None if it fails."""
    ran = subprocess.run(["git", "-c", "safe.directory=*", "-C", tree, *arguments], capture_output=True,
                         text=True, check=False)  # fmt: skip
    return ran.stdout if ran.returncode == 0 else None


def base(tree):
    tag = git(tree, "describe", "--tags", "--abbrev=0")
    if tag:
        return tag.strip()
    release = RELEASE.search(pathlib.Path(tree, "CHANGELOG.md").read_text("utf-8"))
    return (release and git(tree, "rev-list", "-1", f"--before={release[1]}T23:59:59Z", "HEAD") or "").strip()


def steps(text):
    return [(step.kind, step.command, step.output, step.of) for step in pages.steps_of(text)[0]]


def reason(tree, path):
    """Why the page runs; empty if it need not."""
    if path == "README.md":
        return "it always runs"
    if os.environ.get("SLUICE_LONG_TESTS"):
        return "--long"
    since = base(tree)
    if not since:
        return "there is no git, or too little history"
    for name in HARNESS:
        if git(tree, "show", f"{since}:{name}") != pathlib.Path(tree, name).read_text("utf-8"):
            return f"{name} changed since {since}"
    before = git(tree, "show", f"{since}:{path}")
    if before is None:
        return f"it is new since {since}"
    try:
        same = steps(before) == steps(pathlib.Path(tree, path).read_text("utf-8"))
    except pages.Wrong:
        same = False  # the command reports it
    return "" if same else f"its commands changed since {since}"


def main(arguments):
    tree, path, *command = arguments
    why = reason(tree, path)
    if not why:
        print(f"skipped: the commands of {path} are those of {base(tree)}; --long runs all pages")
        return 77
    print(f"{path} runs: {why}", flush=True)
    os.execv(command[0], command)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

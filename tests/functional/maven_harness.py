"""Runs Maven for the tests in Java. SLUICE_MAVEN names the folder for its output and its repository."""

import os
import pathlib
import shutil
import subprocess

from harness import ROOT, tool


def maven_folder():
    folder = pathlib.Path(os.environ["SLUICE_MAVEN"])
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def copied(source, name):
    """Returns a folder with the sources of a project, where Maven may build it."""
    project = maven_folder() / name
    shutil.rmtree(project, ignore_errors=True)
    shutil.copytree(ROOT / source, project, ignore=shutil.ignore_patterns("target"))
    return project


def maven(project, *arguments, **environment):
    """Runs Maven with the repository that tests/programs/fetch has filled, and without a network."""
    quick = {"JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}  # it runs for seconds
    argv = [tool("mvn"), "-o", "-B", "-q", f"-Dmaven.repo.local={maven_folder()}/repository", *arguments]
    ran = subprocess.run(argv, cwd=project, capture_output=True, text=True, timeout=600,
                         env={**quick, **os.environ, **environment}, check=False)  # fmt: skip
    if ran.returncode:
        raise AssertionError(f"{' '.join(argv)}:\n{(ran.stdout + ran.stderr)[-8000:]}")

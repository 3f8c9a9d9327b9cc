"""Runs Maven for the tests in Java. SLUICE_MAVEN names the folder for its output and packages."""

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
    """Runs Maven. It downloads what is not in its repository, so that only the first run needs a
    network."""
    argv = [tool("mvn"), "-B", "-q", f"-Dmaven.repo.local={maven_folder()}/repository", *arguments]
    for offline in (["-o"], []):
        ran = subprocess.run([*argv, *offline], cwd=project, capture_output=True, text=True, timeout=600,
                             env={**os.environ, **environment}, check=False)  # fmt: skip
        if ran.returncode == 0:
            return
        if "offline mode" not in ran.stdout:
            break
    said = ran.stdout + ran.stderr
    if "Could not transfer" in said or "Unknown host" in said:
        said = f"Maven Central cannot be reached, so these packages are missing:\n{said}"
    raise AssertionError(f"{' '.join(argv)}:\n{said[-8000:]}")

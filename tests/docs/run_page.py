#!/usr/bin/env python3
"""Runs the commands of a page in order, and compares their output with what the page shows.

    run_page.py TREE PAGE          SLUICE_BINARY is the program; SLUICE_BUILD_DIR its build tree
    run_page.py --same PAGE OTHER  the two pages have the same commands
    run_page.py --part PAGE OTHER  every command of PAGE is one of OTHER

CONTRIBUTING.md says how a page marks what. All commands of a page run in one bash, as root, in new
namespaces of mounts, processes and the network: `/` is a copy on write of this machine's, with nothing
in /tmp and /run, so a page may write to /etc and listen on port 80, and nothing is left afterwards.
A command that listens and does not end goes on in the background, as if it had its own terminal.

The tree, without what git ignores, is /root/sluice, and the current folder. What differs from a
machine of a reader:
- `sluice`, build/release/sluice and the example of examples/README.md are those of the build under
  test, and `cmake` builds nothing. `./dev run` itself is the real one.
- `apt-get install` only checks that the packages are installed. `git clone` links to the tree.
- tests/docs/reader makes what pages call the reader's own: rules.yaml, access.log, certificates.
- sluice.internal and redis.example.com are this machine (/etc/hosts).
- `curl` is silent and fails for a status from 400 on, and `redis-cli` prints as on a terminal.
"""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import page as pages

SECONDS = 120  # of a page
TREE = "/root/sluice"
STUBS = {
    "cmake": 'echo "the build is there already"',
    "apt-get": """for package; do
  case $package in install | update | -*) continue ;; esac
  dpkg-query -W -f '${Package} ${Provides} ${Status}\\n' 2>/dev/null |
    awk -v p="$package" '/ installed$/ { gsub(",", " "); for (i = 1; i < NF - 2; ++i) if ($i == p) found = 1 }
      END { exit !found }' || { echo "E: the package $package is not installed" >&2; exit 1; }
done""",
    "git": f'[ "$1" = clone ] || exec /usr/bin/git "$@"; ln -s {TREE} "$3"',
}


def mount(*arguments):
    subprocess.run(["mount", *arguments], check=True)


def files_of(tree):
    """The files of the project; without git, all but those of builds."""
    found = subprocess.run(["git", "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others",
                            "--exclude-standard"], cwd=tree, check=False, capture_output=True)
    if found.returncode == 0:
        return sorted(set(found.stdout.decode().split("\0")[:-1]))
    names = (str(path.relative_to(tree)) for path in pathlib.Path(tree).rglob("*"))
    return [name for name in names if not re.match(r"build|.*/(node_modules|target)/", name)]


def make_root(tree, folder):
    """Makes the root in `folder`, and returns it. Runs in the new namespaces."""
    mount("-t", "tmpfs", "docs", folder)
    root = folder + "/root"
    for name in ("upper", "work", "root"):
        os.mkdir(f"{folder}/{name}")
    mount("-t", "overlay", "docs", "-o", f"lowerdir=/,upperdir={folder}/upper,workdir={folder}/work", root)
    for name in ("tmp", "run"):
        mount("-t", "tmpfs", "docs", f"{root}/{name}")
    mount("-t", "proc", "proc", root + "/proc")
    mount("--rbind", "/dev", root + "/dev")
    shutil.rmtree(root + TREE, ignore_errors=True)
    for name in files_of(tree):
        if os.path.isfile(f"{tree}/{name}"):
            os.makedirs(os.path.dirname(f"{root}{TREE}/{name}"), exist_ok=True)
            shutil.copy2(f"{tree}/{name}", f"{root}{TREE}/{name}")
    add_programs(root)
    return root


def add_programs(root):
    built = os.environ.get("SLUICE_BUILD_DIR", "")
    binary = os.environ["SLUICE_BINARY"]
    for source, to in ((binary, "/usr/bin/sluice"), (binary, TREE + "/build/release/sluice"),
                       (built + "/examples/example_quickstart", TREE + "/build/dev/examples/example_quickstart"),
                       (built + "/sluice.so", "/usr/local/lib/sluice/sluice.so"),
                       (os.environ.get("ENVOY_BINARY", ""), "/usr/local/bin/envoy")):
        if os.path.exists(source):
            os.makedirs(os.path.dirname(root + to), exist_ok=True)
            shutil.copy(source, root + to)
    for name, script in STUBS.items():
        to = pathlib.Path(f"{root}/usr/local/docs/{name}")
        to.parent.mkdir(exist_ok=True)
        to.write_text(f"#!/bin/bash\n{script}\n", "utf-8")
        to.chmod(0o755)
    with open(root + "/etc/hosts", "a", encoding="utf-8") as hosts:
        hosts.write("127.0.0.1 localhost sluice.internal redis.example.com\n")
    for folder in ("/etc/sluice", "/run/sluice", "/var/lib/sluice", "/run/bash"):
        os.makedirs(root + folder, exist_ok=True)
    pathlib.Path(root + "/root/.curlrc").write_text("silent\nfail-with-body\n", "utf-8")


def listeners():
    """The process groups that listen and wait for something, each with its sockets. A server that
    starts slowly on a busy machine does not wait."""
    listening, groups, running = set(), {}, set()
    for name, state, at in (("tcp", "0A", 9), ("tcp6", "0A", 9), ("unix", "00010000", 6)):
        for line in pathlib.Path("/proc/net", name).read_text("utf-8").splitlines()[1:]:
            words = line.split()
            if words[3] == state:
                listening.add(f"socket:[{words[at]}]")
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            state, _, group = process.joinpath("stat").read_text("utf-8").rpartition(")")[2].split()[:3]
            group = int(group)
            names = {os.readlink(entry) for entry in process.joinpath("fd").iterdir()}
        except OSError:
            continue  # it has ended
        if state in "RD":
            running.add(group)
        if names & listening:
            groups.setdefault(group, set()).update(names & listening)
    return {group: found for group, found in groups.items() if group not in running}


class Shell:
    """The bash of a page."""

    def __init__(self):
        self.done, write = os.pipe()
        os.set_blocking(self.done, False)
        environment = {"PATH": "/usr/local/docs:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                       "HOME": "/root", "USER": "root", "LANG": "C.UTF-8", "FAKETTY": "1", "TERM": "xterm",
                       "SLUICE_TIMEOUT": "60"}
        self.bash = subprocess.Popen(["bash", "--norc"], stdin=subprocess.PIPE, pass_fds=[write],
                                     text=True, env=environment, cwd=TREE)
        # A second signal ends a server without its delay and its drain.
        self.bash.stdin.write("set -m; stop() { while kill $(jobs -p) 2>/dev/null; do sleep 0.05; done; wait; }\n")
        os.close(write)
        self.fd, self.count, self.servers = write, 0, set()
        self.end = time.monotonic() + SECONDS

    def run(self, command):
        """Returns the exit status, or None if the command is a server that goes on; and the output."""
        self.count += 1
        path = f"/run/bash/{self.count}"
        pathlib.Path(path).write_text(command + "\n", "utf-8")
        self.bash.stdin.write(f". {path} >{path}.out 2>&1 </dev/null {self.fd}>&-; "
                              f"echo $? $(jobs -p) >&{self.fd}\n")
        self.bash.stdin.flush()
        words = self.wait(path)
        jobs = set(map(int, words[1:])) - self.servers
        for job in jobs:
            self.wait_for_listener(job, path)
        return int(words[0]), pathlib.Path(path + ".out").read_text("utf-8", "replace")

    def wait(self, path):
        """Waits until the command has ended, or listens: then it is stopped, and goes on as a job."""
        seen, since, stopped = None, 0, None
        while True:
            try:
                if words := os.read(self.done, 4096).decode().split():
                    if stopped:
                        os.killpg(stopped, signal.SIGCONT)
                        words[0] = "0"
                    return words
            except BlockingIOError:
                pass
            if self.bash.poll() is not None:
                raise pages.Wrong("the shell has ended:\n" + pathlib.Path(path + ".out").read_text("utf-8"))
            self.check_time(path)
            time.sleep(0.02)
            now = {group: found for group, found in listeners().items() if group not in self.servers}
            if now != seen:
                seen, since = now, time.monotonic()
            elif now and not stopped and time.monotonic() > since + 0.3:
                stopped = next(iter(now))
                os.killpg(stopped, signal.SIGSTOP)

    def wait_for_listener(self, job, path):
        seen, since = None, 0
        while not seen or time.monotonic() < since + 0.2:
            self.check_time(path)
            time.sleep(0.02)
            try:
                os.killpg(job, 0)
            except ProcessLookupError:
                text = pathlib.Path(path + ".out").read_text("utf-8")
                raise pages.Wrong("the command in the background has ended:\n" + text) from None
            if (now := listeners().get(job)) != seen:
                seen, since = now, time.monotonic()
        self.servers.add(job)

    def check_time(self, path):
        if time.monotonic() > self.end:
            raise pages.Wrong(f"the page takes more than {SECONDS} s; the output so far:\n"
                              + pathlib.Path(path + ".out").read_text("utf-8", "replace"))


def yaml_command(text):
    """The command that checks a block of YAML, and gives it to the commands below; and its text."""
    whole = re.match(r"(#.*\n)*version:", text)
    if text.startswith("- {"):
        text = "limits:\n" + text
    if text.startswith("limits:"):
        text = "rules:\n- name: page\n" + re.sub(r"(?m)^", "  ", text).rstrip() + "\n"
    if not whole:
        text = "version: 1\n" + text
    is_rules = re.search(r"(?m)^(rules|lists|plans):\s*(#.*)?$", text)
    kind, name = ("rules", "rules.yaml") if is_rules else ("config", "sluice.yaml")
    return (f"cp {{0}} {name}; sluice {kind} check {name}" if whole else f"sluice {kind} check {{0}}"), text


def run_steps(steps):
    shell, outputs, counts = Shell(), [], dict.fromkeys(("command", "hidden", "yaml", "file", "compared"), 0)
    if (ended := shell.run("tests/docs/reader"))[0]:
        raise pages.Wrong("tests/docs/reader failed:\n" + ended[1])
    for step in steps:
        command, block = step.command, f"/run/bash/block_{step.line}"
        if step.kind in ("yaml", "file"):
            check, text = yaml_command(command) if step.kind == "yaml" else ("export BLOCK={}", command)
            pathlib.Path(block).write_text(text, "utf-8")
            command = check.format(block)
        try:
            status, output = shell.run(command)
            outputs.append(output)
            if step.output is not None:
                output = "".join(outputs[-step.of:])
                if not pages.agrees(step.output, output):
                    raise pages.Wrong(pages.difference(step.output, output))
            elif status and step.line not in compared_lines(steps):
                raise pages.Wrong(f"ended with status {status}:\n{output}")
            elif re.search(r"(?m)^\(error\)", output):
                raise pages.Wrong(f"failed:\n{output}")
        except pages.Wrong as wrong:
            raise pages.Wrong(f"{step.line}: {step.command}\n{wrong}") from None
        counts["compared"] += step.output is not None
        counts[step.kind] += 1
    return counts


def compared_lines(steps):
    """The lines of the steps whose output is compared together with that of a later one."""
    return {before.line for at, step in enumerate(steps) for before in steps[at + 1 - step.of:at]}


def run_inside(tree, path, folder):
    steps, skipped = pages.steps_of(pathlib.Path(path).read_text("utf-8"))
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    os.chroot(make_root(tree, folder))
    os.chdir(TREE)
    counts = run_steps(steps)
    print(f"{counts['command']} commands run, {counts['compared']} outputs compared, "
          f"{counts['yaml']} YAML blocks checked, {len(skipped)} blocks not run")
    os._exit(0)  # the namespace ends with this process, and with it everything that the page started


def run_outside(tree, path):
    steps, skipped = pages.steps_of(pathlib.Path(path).read_text("utf-8"))
    for line, reason in skipped:
        print(f"{path}:{line}: not run: {reason}")
    if all(step.kind == "file" for step in steps):
        print(f"no commands to run, {len(skipped)} blocks not run")
        return 0
    unshare = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child"]
    if os.geteuid() or subprocess.run([*unshare, "true"], capture_output=True, check=False).returncode:
        print("skipped: only root can run the commands of a page, where it may make namespaces")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        return subprocess.run([*unshare, sys.executable, "-B", __file__, "--inside", tree, path, folder],
                              check=False).returncode


def compare(path, other, same):
    first, second = (pages.commands_of(pathlib.Path(name).read_text("utf-8")) for name in (path, other))
    missing = [command for command in first if command not in second]
    missing += [command for command in second if same and command not in first]
    if missing:
        raise pages.Wrong(f"only one of {path} and {other} has:\n" + "\n".join(missing))
    print(f"{len(first)} commands are the same")
    return 0


def main(arguments):
    try:
        if arguments[0] == "--inside":
            return run_inside(*arguments[1:])
        if arguments[0] in ("--same", "--part"):
            return compare(*arguments[1:], arguments[0] == "--same")
        return run_outside(*arguments)
    except pages.Wrong as wrong:
        print(f"{arguments[-1] if arguments[0] != '--inside' else arguments[2]}:{str(wrong)[:4000]}")
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

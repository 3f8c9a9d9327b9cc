"""Commands of ./dev in a small tree, where programs that take long are commands of sh."""

import json
import os
import pathlib
import platform
import re
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TARGETS = "sluice benchmarks functional_tests concurrency_tests fuzzers"
PROJECT = "cmake_minimum_required(VERSION 3.20)\nproject(x NONE)\nenable_testing()\n" + "".join(
    f"add_custom_target({target})\n" for target in TARGETS.split())
ONCE = "echo >>$1; test $(wc -l <$1) -gt 1"  # fails the first time


class SmallTree(unittest.TestCase):
    system = ""  # the one of --on in which dev runs

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.tree = pathlib.Path(folder.name).resolve()
        shutil.copytree(ROOT / "tools/dev", self.tree / "tools/dev")
        shutil.copy(ROOT / "dev", self.tree)
        # Each package is installed.
        self.write("bin/dpkg-query", 'for name; do echo "$name installed"; done')

    def write(self, path, text):
        (self.tree / path).parent.mkdir(parents=True, exist_ok=True)
        first = "" if path.endswith(".json") else "#!/bin/sh\n"
        (self.tree / path).write_text(f"{first}{text}\n", "utf-8")
        (self.tree / path).chmod(0o755)

    def start_dev(self, *arguments):
        return subprocess.Popen(
            ["./dev", *arguments], cwd=self.tree, text=True, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            env={**os.environ, "SLUICE_ON": self.system, "PATH": f"{self.tree / 'bin'}:{os.environ['PATH']}"})

    def dev(self, *arguments):
        dev = self.start_dev(*arguments)
        return dev.communicate(timeout=300)[0], dev.returncode


class DevTest(SmallTree):
    """`./dev test`. Its presets compile nothing."""

    def setUp(self):
        super().setUp()
        presets = json.loads((ROOT / "CMakePresets.json").read_text("utf-8"))["configurePresets"]
        self.write("CMakePresets.json", json.dumps({"version": 4, "configurePresets": [
            {"name": one["name"], "generator": "Ninja",
             "binaryDir": "${sourceDir}/build/${presetName}"}
            for one in presets if not one.get("hidden")]}))
        # The stages after the tests print their names.
        for stage in "tools/dev/lint", "bench/run", "tests/fuzz/run":
            self.write(stage, f"echo ran {stage}")

    def start(self, tests, *options):
        """Starts `./dev test` with tests, a dictionary: name → (command, labels)."""
        (self.tree / "CMakeLists.txt").write_text(PROJECT + "".join(
            f"add_test(NAME {name} COMMAND sh -c [[{command}]] sh {self.tree / name})\n"
            f"set_tests_properties({name} PROPERTIES LABELS \"{labels}\")\n"
            for name, (command, labels) in tests.items()), "utf-8")
        return self.start_dev("test", *options)

    def dev_test(self, tests, *options):
        dev = self.start(tests, *options)
        return dev.communicate(timeout=300)[0], dev.returncode

    def runs(self, name):
        file = self.tree / name
        return len(file.read_text("utf-8")) if file.exists() else 0

    def test_ends_with_the_result_and_the_counts(self):
        output, status = self.dev_test({"a": ("true", "x"), "b": ("echo Ran 5 tests in 1s", "x")},
                                       "--quick")
        self.assertTrue(output.endswith("\ndev test: ok\n6 passed, 0 failed\n"), output)
        self.assertEqual(status, 0)

    def test_counts_the_cases_that_failed(self):
        output, status = self.dev_test({
            "a": ("echo Ran 5 tests in 1s; echo 'FAILED (failures=1, errors=1)'; exit 1", "x"),
            "b": ("echo '[  PASSED  ] 3 tests.'; echo '[  FAILED  ] 2 tests, listed below:'; exit 1",
                  "x"),
            "c": ("exit 1", "x")}, "--quick")
        self.assertTrue(output.endswith("\ndev test: FAILED: suites\n6 passed, 5 failed\n"), output)
        self.assertEqual(status, 1)

    def test_runs_all_stages(self):
        output, _ = self.dev_test({"a": ("true", "x"), "b": ("true", "server"),
                                   "c": ("true", "concurrency")})
        stages = re.findall(r"^==== (.*)", output, re.M)
        self.assertEqual(stages, ["suites", "program", "tsan", "fuzz", "bench", "lint"])
        for stage in "tools/dev/lint", "bench/run", "tests/fuzz/run":
            self.assertIn(f"ran {stage}\n", output)
        self.assertTrue(output.endswith("\ndev test: ok\n4 passed, 0 failed\n"), output)

    def test_long_adds_the_results_of_the_other_systems(self):
        for stage in "tools/dev/package", "tools/dev/release":
            self.write(stage, "true")
        self.write("tools/dev/on_root", """mkdir -p build/on-$1/results
            printf '1/1 Testing: x\nTest Passed.\n' >build/on-$1/results/suites.log
            test $1 = trixie""")
        output, status = self.dev_test({name: ("true", label) for name, label in (
            ("a", "x"), ("b", "server"), ("c", "concurrency"))}, "--long")
        self.assertTrue(output.endswith("\ndev test: FAILED: arm64\n6 passed, 0 failed\n"), output)
        self.assertEqual(status, 1)

    def test_on_runs_the_command_on_another_system(self):
        self.write("tools/dev/on_root", "echo $#: $@")
        output, status = self.dev_test({}, "--on", "trixie", "--filter", "X.*:Y")
        self.assertEqual((output, status), ("4: trixie tools/dev/test --filter X.*:Y\n", 0))

    def test_the_other_system_runs_the_suites_and_those_of_redis_with_valkey(self):
        self.system = "trixie"
        output, _ = self.dev_test({"a": ("echo >>$1", "hermetic"), "c": ("echo >>$1", "redis;server"),
                                   "b": ("echo $SLUICE_REDIS_SERVER. >>$1", "redis")})
        self.assertEqual([self.runs("a"), self.runs("c")], [1, 0], output)
        self.assertEqual((self.tree / "b").read_text("utf-8"), ".\nvalkey-server.\n", output)
        self.assertEqual(re.findall(r"^==== (.*)", output, re.M), ["suites", "valkey"])

    def test_an_option_of_ctest_selects_tests_and_leaves_the_other_stages_out(self):
        count = "echo >>$1"
        output, _ = self.dev_test({"a": (count, "x"), "b": (count, "server"), "c": (count, "y")},
                                  "-LE", "y", "-E", "b")
        self.assertEqual([self.runs(name) for name in "abc"], [1, 0, 0], output)
        self.assertNotIn("ran ", output)

    def test_repeats_only_tests_of_the_label_timing(self):
        output, status = self.dev_test(
            {"a": (ONCE, "x"), "b": (ONCE, "x;timing"), "c": ("true", "timing")}, "--quick")
        self.assertEqual((self.runs("a"), self.runs("b"), status), (1, 2, 1), output)
        self.assertIn("\n1 tests of the label timing ran a second time: b\n", output)
        self.assertTrue(output.endswith("\ndev test: FAILED: suites\n2 passed, 1 failed\n"), output)

    def test_a_test_of_the_label_timing_that_fails_twice_fails(self):
        output, status = self.dev_test({"a": ("true", "x"), "b": ("exit 1", "timing")}, "--quick")
        self.assertTrue(output.endswith("\ndev test: FAILED: suites\n1 passed, 1 failed\n"), output)
        self.assertEqual(status, 1)

    def test_stress_runs_each_test_20_times_or_until_it_fails(self):
        output, status = self.dev_test({
            "a": ("echo >>$1", "x"), "b": ("echo >>$1", "timing"), "c": (ONCE, "timing")},
            "--quick", "--stress")
        self.wait_for(lambda: not self.shells())
        self.assertEqual([self.runs(name) for name in "abc"], [20, 20, 1], output)
        self.assertIn("\n41 runs of 3 tests, 1 runs failed: c\n", output)
        self.assertTrue(output.endswith("\ndev test: FAILED: suites\n40 passed, 1 failed\n"), output)
        self.assertEqual(status, 1)

    def test_an_interruption_ends_the_busy_loops(self):
        for number in signal.SIGINT, signal.SIGTERM:
            with self.subTest(number):
                (self.tree / "a").unlink(missing_ok=True)
                dev = self.start({"a": ("echo >>$1; exec sleep 600", "x")}, "--quick", "--stress")
                self.wait_for(lambda: self.runs("a"))
                # The command, its stage and the loops.
                self.assertEqual(len(self.shells()), 2 + len(os.sched_getaffinity(0)))
                os.killpg(dev.pid, number)
                self.assertNotEqual(dev.wait(60), 0)
                self.wait_for(lambda: not self.shells())
                dev.stdout.close()

    def shells(self):
        """The processes that execute `./dev test` in the tree."""
        found = []
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                is_shell = b"tools/dev/test\0" in (process / "cmdline").read_bytes()
                if is_shell and pathlib.Path(os.readlink(process / "cwd")) == self.tree:
                    found.append(process.name)
            except OSError:  # it has ended, or is of another user
                pass
        return found

    def wait_for(self, condition):
        deadline = time.monotonic() + 60
        while not condition():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.05)


class PackageTest(SmallTree):
    """`./dev package` and `./dev release`. The packages are files that contain a word."""

    def setUp(self):
        super().setUp()
        self.write("packaging/build", """
            cd "$(dirname "$0")/.." && mkdir -p build/packages && echo "built for ${1-this machine}"
            echo amd64 >build/packages/sluice_1.2.3_amd64.deb""")

    def test_builds_on_the_system_that_on_names(self):
        self.write("tools/dev/on_root", 'echo "$#: $*"')
        self.assertEqual(self.dev("package", "--on", "trixie"), ("2: trixie tools/dev/package\n", 0))
        self.assertEqual(self.dev("package"), ("built for this machine\n", 0))

    def test_compiles_for_arm64_on_the_systems_of_arm64(self):
        self.write("bin/dpkg-query", 'for name; do echo "$name installed"; echo "$name" >>names; done')
        for system, architecture, qemu in (("trixie", "this machine", False), ("arm64", "arm64", True),
                                           ("trixie-arm64", "arm64", True)):
            with self.subTest(system):
                self.system = system
                self.assertEqual(self.dev("package"), (f"built for {architecture}\n", 0))
                names = (self.tree / "names").read_text("utf-8").split()
                self.assertEqual([qemu, qemu], [name in names for name in ("qemu-user", "libre2-dev:arm64")])
                (self.tree / "names").unlink()

    def test_says_what_is_wrong_with_the_arguments(self):
        for arguments, message in (
                (("package", "--on"), "--on needs trixie, arm64 or trixie-arm64"),
                (("package", "--on", "arm64", "--check"), "--on needs trixie, arm64 or trixie-arm64"),
                (("package", "--on", "sid"), "unknown system 'sid'"),
                (("package", "--all"), "unknown option --all"),
                (("release", "--on"), "unknown option --on")):
            with self.subTest(arguments):
                output, status = self.dev(*arguments)
                self.assertIn(message, output)
                self.assertEqual(status, 2)

    def release(self, *arguments):
        """Runs ./dev release on the versions of the project; returns the folder that it made."""
        for path in ("CMakeLists.txt", "CHANGELOG.md", "packaging/release", "packaging/debian/changelog",
                     "packaging/vcpkg/ports/sluice/vcpkg.json", "deploy/helm/sluice/Chart.yaml",
                     "clients/spring/pom.xml", "deploy/spring/pom.xml"):
            (self.tree / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / path, self.tree / path)
        self.write("bin/dpkg-parsechangelog", "sed -n '1s/.*(\\(.*\\)).*/\\1/p' \"$2\"")
        self.write("packaging/sbom", 'cat "$@"')
        self.write("tools/dev/on_root", """
            mkdir -p "build/on-$1/packages" && echo "$SLUICE_ROOTS" >>"$SLUICE_ROOTS.used"
            echo "$1" >"build/on-$1/packages/sluice_1.2.3_$(echo "$1" | sed s/trixie$/amd64/\\;s/.*-//).deb" """)
        (self.tree / ".gitignore").write_text("/build/\n", "utf-8")
        (self.tree / "build").mkdir()
        git = ["git", "-c", "user.name=x", "-c", "user.email=x@localhost", "-c", "commit.gpgsign=false"]
        for command in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "--message=x"]):
            subprocess.run([*git, *command], cwd=self.tree, check=True)
        output, status = self.dev("release", *arguments)
        self.assertEqual(status, 0, output)
        made, = (self.tree / "build").glob("release-*")
        sums = subprocess.run(["sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS"], cwd=made,
                              check=False)
        self.assertEqual(sums.returncode, 0)
        files = {str(file.relative_to(made)): file for file in made.rglob("*") if file.is_file()}
        self.assertEqual(
            sorted(re.findall(r"  (.*)", files.pop("SHA256SUMS").read_text("utf-8"))), sorted(files))
        version = made.name.removeprefix("release-")
        self.assertIn(f"project(sluice VERSION {version} ", (ROOT / "CMakeLists.txt").read_text("utf-8"))
        del files[f"sluice-{version}.tar.gz"]
        return {name.replace(version, "V"): file.read_text("utf-8").strip() for name, file in files.items()}

    def test_a_release_has_archive_packages_components_and_checksums(self):
        self.assertEqual(self.release(), {"sluice-V.cdx.json": "amd64", "sluice_1.2.3_amd64.deb": "amd64"})

    def test_a_second_build_of_a_release_is_compared(self):
        self.assertEqual(len(self.release("--check")), 2)

    def test_all_adds_the_packages_of_the_other_systems(self):
        system = platform.freedesktop_os_release()
        if (system.get("VERSION_ID"), platform.machine(), os.geteuid()) != ("12", "x86_64", 0):
            self.skipTest("--all needs root on a Debian 12 on amd64")
        self.assertEqual(self.release("--all"), {
            "sluice-V.cdx.json": "amd64", "sluice_1.2.3_amd64.deb": "amd64",
            "sluice_1.2.3_arm64.deb": "arm64", "debian13/sluice_1.2.3_amd64.deb": "trixie",
            "debian13/sluice_1.2.3_arm64.deb": "trixie-arm64"})
        # A later release uses the systems again.
        roots = self.tree / "build/roots"
        self.assertEqual(roots.with_suffix(".used").read_text("utf-8"), f"{roots}\n" * 3)


class Results(unittest.TestCase):
    def test_lists_the_tests_that_took_more_than_10_s(self):
        with tempfile.TemporaryDirectory() as folder:
            log = pathlib.Path(folder) / "suites.log"
            log.write_text("".join(
                f"1/3 Testing: {name}\nTest time = {seconds:6.2f} sec\nTest Passed.\n"
                for name, seconds in (("a", 9.99), ("b", 10.5), ("c", 70))), "utf-8")
            output = subprocess.run([ROOT / "tools/dev/results", "tests", log], text=True, check=True,
                                    stdout=subprocess.PIPE).stdout
        self.assertEqual(output, "2 tests took more than 10 s (all together 90 s):\n"
                         "    70.0 s  c (suites)\n    10.5 s  b (suites)\n")

    def test_lists_what_was_not_tested_once(self):
        with tempfile.TemporaryDirectory() as folder:
            log = pathlib.Path(folder) / "suites.log"
            log.write_text("1/1 Testing: a\nnot tested: Envoy: PyPI did not deliver it\n" * 2
                           + "Test Passed.\n", "utf-8")
            output = subprocess.run([ROOT / "tools/dev/results", "tests", log], text=True, check=True,
                                    stdout=subprocess.PIPE).stdout
        self.assertEqual(output.count("not tested: Envoy: PyPI did not deliver it\n"), 1)


if __name__ == "__main__":
    unittest.main()

"""Independent Redis clients in Go, Java and Rust with the RESP front end: go-redis, Jedis, Lettuce and
redis-rs. Their own tools build the programs in resp_clients/ below the folder in SLUICE_CLIENTS, with
what tests/programs/fetch has fetched."""

import json
import os
import pathlib
import shutil
import subprocess
import unittest

from client_programs import check_program, programs
from harness import ROOT, ServerTest, tool
from maven_harness import maven

RULES = "version: 1\nrules: []\n"
SOURCES = ROOT / "tests/functional/resp_clients"


def copied(language):
    """Returns a folder with the sources of a program, where it may be built."""
    folder = pathlib.Path(os.environ["SLUICE_CLIENTS"]) / language
    shutil.copytree(SOURCES / language, folder, dirs_exist_ok=True)
    return folder


def build(argv, folder, **environment):
    ran = subprocess.run(argv, cwd=folder, env={**os.environ, **environment}, timeout=600,
                         capture_output=True, text=True)
    if ran.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, argv))}: {ran.stdout}{ran.stderr}")


class Clients(ServerTest):
    @classmethod
    def setUpClass(cls):
        folder = cls.folder()
        (folder / "secret").write_text("pass word\n")
        user = {"name": "default", "password_file": str(folder / "secret")}
        cls.arguments = []
        for users, more in (([], []), ([user], ["pass word"])):
            server = cls.serve(
                RULES, {"listen": {"resp": "127.0.0.1:0"}, "resp": {"users": users}}
            )
            resp = server.front_ends["resp"]
            cls.arguments.append([resp.rsplit(":", 1)[1], *more])

    def check(self, *argv, cwd):
        """Runs a program with each server, and checks what each of its clients received."""
        for arguments in self.arguments:
            ran = subprocess.run([*argv, *arguments], cwd=cwd, timeout=60, capture_output=True,
                                 text=True)
            self.assertEqual(ran.returncode, 0, ran.stderr)
            for client, got in json.loads(ran.stdout).items():
                with self.subTest(client, arguments=arguments):
                    self.check_replies(got)

    def check_replies(self, got):
        self.assertEqual(got["first"], [0, 16, 15, -1, 2])
        self.assertEqual(got["remaining"], list(range(999, -1, -1)))
        self.assertEqual((got["ping"], got["name"]), ("PONG", "checks"))
        self.assertIn("max_burst is not an integer", got["error"])
        self.assertIn("nknown command", got["transaction"])
        self.assertIn("allowed", got["limit"])


class Go(Clients):
    @staticmethod
    def build(folder, *arguments):
        build([tool("go"), "build", "-o", "check", *arguments], folder, GOPATH=os.environ["SLUICE_GO"],
              GOCACHE=str(folder / "cache"), GOPROXY="off", GOTOOLCHAIN="local")

    def test_go_redis_works(self):
        folder = copied("go")
        self.build(folder, ".")
        self.check("./check", cwd=folder)

    def test_the_program_of_the_page_in_go_works(self):
        folder = copied("go")

        def run(text):
            (folder / "page.go").write_text(text)
            self.build(folder, "page.go")
            (folder / "page.go").unlink()
            return subprocess.run("./check", cwd=folder, timeout=60, check=True, capture_output=True,
                                  text=True).stdout.split()

        (text,) = programs("go")
        check_program(self, text, run, ("100 *", "60000 *"))


class Java(Clients):
    def test_jedis_and_lettuce_work(self):
        folder = copied("java")
        maven(folder, "package")
        self.check(tool("java"), "-cp", "target/check.jar:target/dependency/*", "Check", cwd=folder)

    def test_the_program_of_the_page_with_jedis_works(self):
        folder = copied("java")
        maven(folder, "package")

        def run(text):
            (folder / "Client.java").write_text(text)
            return subprocess.run([tool("java"), "-cp", "target/dependency/*", "Client.java"], cwd=folder,
                                  timeout=60, check=True, capture_output=True, text=True).stdout.split()

        (text,) = programs("java")
        check_program(self, text, run, ("timeoutMillis(100)", "timeoutMillis(60000)"))


class Rust(Clients):
    def test_redis_rs_works(self):
        folder = copied("rust")
        build([tool("cargo"), "build", "--locked", "--offline", "--quiet"], folder,
              CARGO_HOME=os.environ["SLUICE_CARGO"])
        self.check("target/debug/check", cwd=folder)


if __name__ == "__main__":
    unittest.main()

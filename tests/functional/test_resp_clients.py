"""Independent Redis clients with the RESP front end: redis-cli, redis-benchmark, python3-redis,
and ioredis and redis from npm."""

import json
import os
import pathlib
import shutil
import subprocess
import unittest

from client_programs import check_program, programs
from harness import PATIENCE, ServerTest
from resp_harness import Resp, frame

RULES = "version: 1\nrules: []\n"


def tool(name):
    path = shutil.which(name)
    if not path:
        raise AssertionError(f"{name} is missing: apt-get install redis-tools")
    return path


class Clients(ServerTest):
    @classmethod
    def setUpClass(cls):
        folder = cls.folder()
        (folder / "secret").write_text("pass word\n")
        cls.ports = {}
        for secret in (None, "pass word"):
            users = [{"name": "default", "password_file": str(folder / "secret")}]
            server = cls.serve(
                RULES,
                {"listen": {"resp": "127.0.0.1:0"}, "resp": {"users": users if secret else []}},
            )
            resp = server.front_ends["resp"]
            cls.ports[secret] = resp.rsplit(":", 1)[1]

    def run_tool(self, *argv, given=None):
        ran = subprocess.run(
            argv, capture_output=True, text=True, timeout=PATIENCE, input=given, check=False
        )
        self.assertEqual(ran.returncode, 0, ran.stderr)
        return ran.stdout

    def test_redis_cli_works(self):
        cli = (tool("redis-cli"), "-p", self.ports[None])
        got = self.run_tool(*cli, "CL.THROTTLE", "user123", "15", "30", "60")
        self.assertEqual(got.split(), ["0", "16", "15", "-1", "2"])
        got = self.run_tool(*cli, "-3", "--json", "RL.LIMIT", "k", "token_bucket", "10", "60s")
        self.assertEqual(json.loads(got)["remaining"], 9)
        self.assertIn("PONG", self.run_tool(*cli, given="PING\nSELECT 0\nHELLO 3\n"))
        cli = (tool("redis-cli"), "-p", self.ports["pass word"], "--no-auth-warning")
        self.assertEqual(self.run_tool(*cli, "-a", "pass word", "PING"), "PONG\n")
        self.assertIn("NOAUTH", self.run_tool(*cli, "PING"))

    def test_redis_benchmark_works(self):
        benchmark = (tool("redis-benchmark"), "-p", self.ports[None], "-q", "-n", "20000")
        for depth in ("1", "16"):
            got = self.run_tool(
                *benchmark, "-P", depth, "-r", "1000", "-c", "50",
                "CL.THROTTLE", "key:__rand_int__", "15", "30", "60",
            )  # fmt: skip
            self.assertIn("requests per second", got)
            self.assertNotIn("rror from server", got)
        got = self.run_tool(*benchmark, "-t", "ping")
        self.assertEqual(got.count("requests per second"), 2)

    def test_redis_cli_pipe_works(self):
        cli = (tool("redis-cli"), "-p", self.ports[None])
        sent = frame("CL.THROTTLE", "piped", 10**6, 1, 3600) * 20_000
        got = self.run_tool(*cli, "--pipe", given=sent.decode())
        self.assertIn("errors: 0, replies: 20000", got)
        got = self.run_tool(*cli, "CL.THROTTLE", "piped", str(10**6), "1", "3600", "0")
        self.assertEqual(got.split()[:3], ["0", str(10**6 + 1), str(10**6 - 19_999)])

    def test_transactions_are_refused(self):
        cli = (tool("redis-cli"), "-p", self.ports[None])
        got = self.run_tool(*cli, given="MULTI\nPING\nEXEC\n").splitlines()
        self.assertEqual(
            [line for line in got if line],
            [
                "ERR unknown command 'MULTI', with args beginning with: ",
                "PONG",
                "ERR unknown command 'EXEC', with args beginning with: ",
            ],
        )

    def test_the_first_commands_of_clients_are_answered(self):
        for secret, port in self.ports.items():
            shown = ("AUTH", "default", secret) if secret else ()
            with Resp(f"127.0.0.1:{port}") as resp:
                hello = resp.ask("HELLO", 3, *shown, "SETNAME", "checks")
                self.assertEqual((hello[b"proto"], hello[b"role"]), (3, b"master"))
                self.assertEqual(resp.ask("CLIENT", "SETINFO", "LIB-NAME", "some-client"), "OK")
                self.assertEqual(resp.ask("CLIENT", "SETINFO", "LIB-VER", "1.2.3"), "OK")
                self.assertEqual(resp.ask("CLIENT", "ID"), hello[b"id"])
                self.assertEqual(resp.ask("CLIENT", "GETNAME"), b"checks")
                self.assertEqual(resp.ask("SELECT", "0"), "OK")
                self.assertEqual(resp.ask("PING"), "PONG")
                self.assertIn(b"loading:0\r\n", resp.ask("INFO"))
                self.assertIn(b"lib-name=some-client lib-ver=1.2.3", resp.ask("CLIENT", "INFO"))
                docs = resp.ask("COMMAND", "DOCS")
                self.assertEqual(len(docs), resp.ask("COMMAND", "COUNT"))
                self.assertEqual(docs[b"cl.throttle"][b"group"], b"limits")

    def test_python_client_works(self):
        try:
            import redis
        except ImportError:
            raise AssertionError("redis for Python is missing: apt-get install python3-redis")
        for secret, port in self.ports.items():
            client = redis.Redis(port=int(port), password=secret, client_name="checks")
            self.assertTrue(client.ping())
            self.assertEqual(client.client_getname(), "checks")
            got = client.execute_command("CL.THROTTLE", "py", 15, 30, 60)
            self.assertEqual(got, [0, 16, 15, -1, 2])
            with client.pipeline(transaction=False) as pipeline:
                for _ in range(1000):
                    pipeline.execute_command("CL.THROTTLE", "many", 999, 1, 3600)
                replies = pipeline.execute()
            self.assertEqual([reply[2] for reply in replies], list(range(999, -1, -1)))
            with self.assertRaisesRegex(redis.ResponseError, "max_burst is not an integer"):
                client.execute_command("CL.THROTTLE", "py", "x", 1, 1)
            self.assertEqual(client.info()["loading"], 0)
            client.close()

    def test_the_program_of_the_page_in_python_works(self):
        (text,) = programs("python")
        check_program(self, text, lambda text: self.run_tool("/usr/bin/python3", "-c", text).split(),
                      ("0.1", "60"))  # fmt: skip

    @unittest.skipUnless(os.environ.get("RESP_CLIENTS"), "the packages of npm are not installed")
    def test_the_programs_of_the_page_in_node_work(self):
        file = pathlib.Path(os.environ["RESP_CLIENTS"]) / "page.mjs"

        def run(text):
            file.write_text(text.replace('"redis"', '"redis5"'))
            return self.run_tool("node", str(file)).split()

        for text in programs("js"):
            check_program(self, text, run, ("100", "60000"))

    @unittest.skipUnless(os.environ.get("RESP_CLIENTS"), "the packages of npm are not installed")
    def test_node_clients_work(self):
        for secret, port in self.ports.items():
            argv = ["node", "check.mjs", port] + ([secret] if secret else [])
            ran = subprocess.run(
                argv,
                cwd=os.environ["RESP_CLIENTS"],
                capture_output=True,
                text=True,
                timeout=PATIENCE,
                check=False,
            )
            self.assertEqual(ran.returncode, 0, ran.stderr)
            got = json.loads(ran.stdout)
            self.assertEqual(got["ioredis"]["first"], [0, 16, 15, -1, 2])
            self.assertEqual(got["ioredis"]["name"], "checks")
            self.assertIn("max_burst is not an integer", got["ioredis"]["error"])
            for client in ("ioredis", "redis", "redis5"):
                self.assertEqual(got[client]["remaining"], list(range(999, -1, -1)))
                self.assertEqual(got[client]["limit"][:4], ["outcome", "allowed", "reason", "ok"])
            self.assertEqual(got["redis5-resp3"]["remaining"], list(range(999, -1, -1)))
            self.assertEqual(got["redis5-resp3"]["limit"]["remaining"], 9)
            for client in ("redis", "redis5", "redis5-resp3"):
                self.assertEqual(got[client]["first"], [0, 16, 15, -1, 2])
                self.assertEqual((got[client]["ping"], got[client]["name"]), ("PONG", "checks"))
                self.assertIn("unknown command 'MULTI'", got[client]["transaction"])
                self.assertIn("redis_version:7.0.15", got[client]["info"])

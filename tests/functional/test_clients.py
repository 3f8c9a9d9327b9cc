"""The programs of docs/clients.md: with Sluice behind nginx, and with a server whose answers are given."""

import contextlib
import http.server
import os
import re
import subprocess
import threading
import time
import unittest

from harness import PATIENCE, ROOT, ServerTest, tool, wait_for
from test_gateways import NginxRecipe, Recipe

DENIED = 'sluice_requests_total{rule="order",outcome="denied",reason="limited"}'


class Given(http.server.BaseHTTPRequestHandler):
    """Answers each request as the next of `answers`: a status, and fields."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.server.asked.append(time.monotonic())
        status, fields = self.server.answers.pop(0)
        self.send_response(status)
        for name, value in {"Content-Length": "0", **fields}.items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, *_):
        pass


class Program(NginxRecipe, Recipe):
    """A program of the page: `language` is that of its block, `argv` runs it, and `build` comes before."""

    build = ()

    is_patient = True
    has_queue = False

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        page = (ROOT / "docs/clients.md").read_text("utf-8")
        cls.place = cls.folder()
        (cls.place / cls.file).write_text(re.search(rf"```{cls.language}\n(.*?)```", page, re.S)[1])
        if cls.build:
            home = {"HOME": os.environ.get("HOME", str(cls.place))}
            subprocess.run(
                [tool(cls.build[0]), *cls.build[1:]], cwd=cls.place, env={**os.environ, **home}, check=True
            )

    def begin(self, url):
        process = subprocess.Popen(
            [*self.argv, url], cwd=self.place, stdout=subprocess.PIPE, text=True
        )
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def printed(self, process):
        return process.communicate(timeout=PATIENCE)[0].split()

    def given(self, *answers):
        """Returns what the program prints if it gets these answers, and the times of its requests."""
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Given)
        server.answers, server.asked = list(answers), []
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        with contextlib.ExitStack() as stack:
            for end in (server.server_close, thread.join, server.shutdown):
                stack.callback(end)
            printed = self.printed(self.begin(f"http://127.0.0.1:{server.server_port}/"))
        return printed, server.asked

    def test_a_denied_request_passes_after_the_wait(self):
        client = {"X-User-Id": ""}  # the program sends none: it is counted by its address
        self.clock.advance(60)
        while self.ask("GET", "/api/order/1", **client).status == 200:
            pass
        before = self.sluice.metrics()[DENIED]
        process = self.begin(f"http://{self.gateway}/api/order/1")
        wait_for(lambda: self.sluice.metrics()[DENIED] > before, "the first denial")
        self.clock.advance(1)
        self.assertEqual(self.printed(process), ["200"])
        self.assertEqual(self.sluice.metrics()[DENIED], before + 1)

    def test_it_waits_at_least_as_long_as_the_answer_says(self):
        printed, asked = self.given((429, {"Retry-After": "1"}), (503, {"Retry-After": "1"}), (200, {}))
        self.assertEqual((printed, len(asked)), (["200"], 3))
        self.assertGreaterEqual(asked[1] - asked[0], 1)
        self.assertGreaterEqual(asked[2] - asked[1], 1)

    def test_it_does_not_try_again_where_that_does_not_help(self):
        date = {"Retry-After": "Mon, 30 Nov 2026 15:59:00 GMT"}
        for answer in ((429, {"Retry-After": "31"}), (404, {"Retry-After": "0"}), (500, {}), (503, date)):
            printed, asked = self.given(answer)
            self.assertEqual((printed, len(asked)), ([str(answer[0])], 1), answer)

    def test_it_waits_longer_each_time_if_an_answer_does_not_say_how_long(self):
        printed, asked = self.given((429, {}), (503, {}), (200, {}))
        self.assertEqual((printed, len(asked)), (["200"], 3))
        self.assertGreaterEqual(asked[1] - asked[0], 1)
        self.assertGreaterEqual(asked[2] - asked[1], 2)

    def test_it_stops_after_four_tries(self):
        printed, asked = self.given(*[(429, {"Retry-After": "0"})] * 4)
        self.assertEqual((printed, len(asked)), (["429"], 4))


class Python(Program, ServerTest):
    language, file, argv = "python", "client.py", ("/usr/bin/python3", "client.py")


class Node(Program, ServerTest):
    language, file, argv = "js", "client.mjs", ("node", "client.mjs")


class Java(Program, ServerTest):
    language, file, argv = "java", "Client.java", ("java", "Client.java")


class Go(Program, ServerTest):
    language, file, argv = "go", "client.go", ("./client",)
    build = ("go", "build", "-o", "client", "client.go")


if __name__ == "__main__":
    unittest.main()

"""`/v1/top` and `sluice top`, on a terminal (tmux) and without one."""

import json
import os
import re
import socket
import subprocess
import threading
import unittest

from harness import PATIENCE, ServerTest, binary, request, tool, wait_for

RULES = """
version: 1
rules:
  - name: order
    match: { path: /order }
    limits:
      - { name: user, key: "{user}", algorithm: fixed_window, limit: 1, per: 1h }
"""
EVIL = "\x1b[2J\x1b]0;owned\x07\u202eevil"


class TopTest(ServerTest):
    """A server with one limit."""

    def setUp(self):
        self.sluice = self.serve(RULES)

    def check(self, user, times):
        body = json.dumps({"attributes": {"path": "/order", "user": user}})
        for _ in range(times):
            request(self.sluice.http, "POST", "/v1/check", body)

    def keys(self, query=""):
        limits = request(self.sluice.admin, "GET", "/v1/top?" + query).json["limits"]
        return {key["key"]: key["count"] for limit in limits for key in limit["keys"]}

    def address(self):
        return self.sluice.admin


class Top(TopTest):
    def test_counts_the_keys_of_requests(self):
        self.check("user-7", 5)
        self.check(EVIL, 3)
        wait_for(lambda: sum(self.keys("by=asked").values()) == 8, what="all requests")
        self.assertEqual(self.keys("by=denied"), {"user-7": 4, EVIL: 2})
        self.assertEqual(self.keys("by=asked&over=day&rule=order&limit=user&count=1"), {"user-7": 5})

    def test_prints_plain_text_without_a_terminal(self):
        self.check(EVIL, 3)
        wait_for(lambda: self.keys(), what="a key")
        done = subprocess.run([binary(), "top", "--once", "--interval", "0.2", "--admin", self.address()],
                              capture_output=True, text=True, timeout=PATIENCE, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("order/user", done.stdout)
        self.assertIn(r"\x1b[2J\x1b]0;owned\x07\u202eevil", done.stdout)
        self.assertNotIn("\x1b", done.stdout)

    def test_adds_up_servers(self):
        other = self.serve(RULES)
        self.check("user-7", 5)
        body = json.dumps({"attributes": {"path": "/order", "user": "user-7"}})
        for _ in range(3):
            request(other.http, "POST", "/v1/check", body)
        words = [binary(), "top", "--once", "--interval", "0.2", "--over", "day"]
        for admin in (self.address(), other.admin):
            words += ["--admin", admin]

        def said(words):
            done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE, check=False)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            return done.stdout

        wait_for(lambda: re.search(r"order/user +user-7 +6\b|\b6 +order/user +user-7", said(words)),
                 "the sum of 4 and 2 denials")
        self.assertIn(f"servers: {self.address()}, {other.admin}\n", said(words))
        self.assertIn("127.0.0.1:1: cannot connect", said(words + ["--admin", "127.0.0.1:1"]))

    def test_asks_a_server_that_does_not_answer_once_for_a_report(self):
        asked = []

        def refuse(listener):
            while True:
                try:
                    connection = listener.accept()[0]
                except OSError:
                    return
                asked.append(connection)
                connection.close()

        with socket.create_server(("127.0.0.1", 0)) as listener:
            thread = threading.Thread(target=refuse, args=(listener,))
            thread.start()
            address = f"127.0.0.1:{listener.getsockname()[1]}"
            done = subprocess.run([binary(), "top", "--once", "--interval", "0.2", "--admin", address,
                                   "--admin", self.address()],
                                  capture_output=True, text=True, timeout=PATIENCE, check=False)
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn(f"{address}: no answer of the administration", done.stdout)
        self.assertEqual(len(asked), 1)

    def test_marks_only_keys_of_a_rule_that_would_deny(self):
        def once():
            return subprocess.run([binary(), "top", "--once", "--interval", "0.2", "--admin", self.address()],
                                  capture_output=True, text=True, timeout=PATIENCE, check=True).stdout

        self.check("user-7", 3)
        self.sluice.admin_request("PATCH", "/v1/rules/order", '{"mode":"shadow"}')
        wait_for(self.keys, what="a key")
        self.assertRegex(once(), r"\norder \(would deny\) ")
        self.assertRegex(once(), r"order/user +user-7\n")
        self.check("user-8", 3)
        wait_for(lambda: "(now shadow) user-8" in once(), what="a key that would be denied")

    def test_says_that_no_server_answers(self):
        done = subprocess.run([binary(), "top", "--once", "--admin", "unix:/nonexistent/socket"],
                              capture_output=True, text=True, timeout=PATIENCE, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("cannot connect to the administration", done.stderr)


class Screen(TopTest):
    """`sluice top` in a terminal of tmux."""

    def setUp(self):
        super().setUp()
        self.socket = os.path.join(self.folder(), f"tmux-{id(self)}")
        self.tmux("new-session", "-d", "-x", "100", "-y", "20", "-s", "top",
                  "env PS1='ready> ' sh")
        self.addCleanup(self.tmux, "kill-server")
        self.tmux("send-keys", f"{binary()} top --interval 0.3 --admin {self.address()}", "Enter")
        self.wait_for_text("REQUESTS/S")

    def tmux(self, *words):
        return subprocess.run([tool("tmux"), "-S", self.socket, "-f", "/dev/null", *words], capture_output=True,
                              text=True, timeout=PATIENCE, check=True).stdout

    def screen(self):
        return self.tmux("capture-pane", "-p", "-t", "top")

    def wait_for_text(self, text, there=True):
        wait_for(lambda: (text in self.screen()) == there, what=f"{text!r} on the screen")

    def press(self, *keys):
        self.tmux("send-keys", "-t", "top", *keys)

    def assert_restored(self):
        """The shell echoes its input again, on its own screen."""
        self.wait_for_text("REQUESTS/S", there=False)
        self.press("echo a$((40+2))b", "Enter")
        self.wait_for_text("echo a$((40+2))b")
        self.wait_for_text("a42b")
        self.assertEqual(self.tmux("display-message", "-p", "#{alternate_on} #{cursor_flag}"), "0 1\n")

    def test_shows_keys_and_obeys_the_keyboard(self):
        self.check("user-7", 5)
        self.check(EVIL, 3)
        self.wait_for_text("user-7")
        self.wait_for_text(r"\x1b[2J\x1b]0;owned\x07\u202eevil")
        self.press("b")
        self.wait_for_text("MOST ASKED KEYS, last minute")
        self.press("w")
        self.wait_for_text("MOST ASKED KEYS, last hour")
        self.press("/", "u", "s", "e", "r", "-", "Enter")
        self.wait_for_text("evil", there=False)
        self.press("p")
        self.wait_for_text("[paused]")
        self.tmux("resize-window", "-t", "top", "-x", "60", "-y", "12")
        self.wait_for_text("REQUESTS/S")
        self.press("q")
        self.assert_restored()

    def test_restores_the_terminal_after_signals(self):
        pane = self.tmux("display-message", "-p", "-t", "top", "#{pane_pid}").strip()
        child = subprocess.run(["ps", "-o", "pid=", "--ppid", pane], capture_output=True, text=True,
                               check=True).stdout.split()[0]
        os.kill(int(child), 15)
        self.assert_restored()

    def test_restores_the_terminal_while_it_is_stopped(self):
        self.press("C-z")
        self.assert_restored()
        self.press("fg", "Enter")
        self.wait_for_text("REQUESTS/S")
        self.press("C-c")
        self.assert_restored()


if __name__ == "__main__":
    unittest.main()

"""The RESP front end from outside: decisions, users, hostile peers, and draining."""

import os
import re
import resource
import signal
import socket
import threading

from harness import PATIENCE, ServerTest, accepts, connect, wait_for, wait_until_received
from redis_harness import RedisTest
from resp_harness import RedisServer, Resp, everything, frame

RULES = """
version: 1
rules:
  - name: login
    match: { path: /login }
    limits: [{ name: ip, key: "{ip}", algorithm: fixed_window, limit: 5, per: 1h }]
"""


def front_end(server):
    return server.front_ends["resp"]


class Decisions(ServerTest):
    @classmethod
    def setUpClass(cls):
        cls.path = cls.folder() / "resp.sock"
        cls.server = cls.serve(RULES, {"listen": {"resp": f"unix:{cls.path}"}, "threads": 1})
        cls.address = f"unix:{cls.path}"

    def setUp(self):
        self.resp = Resp(self.address)
        self.addCleanup(self.resp.close)

    def test_throttle_replies_as_redis_cell_does(self):
        ask = lambda *words: self.resp.ask("CL.THROTTLE", *words)
        self.assertEqual(ask("user123", 15, 30, 60), [0, 16, 15, -1, 2])
        again = ask("user123", 15, 30, 60)
        self.assertEqual(again[:4], [0, 16, 14, -1])
        self.assertIn(again[4], (3, 4))
        got = [ask("b", 4, 1, 3600) for _ in range(7)]
        self.assertEqual([reply[0] for reply in got], [0] * 5 + [1] * 2)
        self.assertEqual([reply[2] for reply in got], [4, 3, 2, 1, 0, 0, 0])
        self.assertEqual(ask("c", 4, 1, 1, 6), [1, 5, 5, -1, 0])
        self.assertEqual(ask("d", 4, 1, 3600, 3)[2], 2)
        self.assertEqual([ask("d", 4, 1, 3600, -1)[2] for _ in range(3)], [3, 4, 5])

    def test_all_front_ends_share_one_counter(self):
        for _ in range(3):
            self.server.check({"attributes": {"path": "/login", "ip": "192.0.2.7"}})
        reply = self.resp.ask("RL.CHECK", "*", "path", "/login", "ip", "192.0.2.7")
        reply = dict(zip(reply[::2], reply[1::2]))
        self.assertEqual((reply[b"rule"], reply[b"remaining"]), (b"login", 1))
        self.resp.ask("HELLO", "3")
        reply = self.resp.ask("RL.RESET", "CHECK", "login", "ip", "192.0.2.7")
        self.assertEqual(reply[b"outcome"], b"allowed")
        answer = self.server.check({"attributes": {"path": "/login", "ip": "192.0.2.7"}}).json
        self.assertEqual(answer["limits"][0]["remaining"], 4)

    def test_denials_by_rules_are_counted_in_the_metrics(self):
        for _ in range(6):
            reply = self.resp.ask("RL.CHECK", "*", "path", "/login", "ip", "192.0.2.8")
        self.assertIn(b"limited", reply)
        samples = self.server.metrics()
        denied = [v for name, v in samples.items() if "login" in name and "limited" in name]
        self.assertGreaterEqual(max(denied), 1)
        self.assertGreater(
            next(v for n, v in samples.items() if "_count" in n and 'front_end="resp"' in n), 5
        )

    def test_a_request_may_arrive_byte_by_byte(self):
        sent = frame("PING") + b"ECHO 'a b'\r\n" + frame("ECHO", b"\0\r\n")
        pieces = [sent[i : i + 1] for i in range(len(sent))]
        got, closed = everything(self.path, None, pieces)
        self.assertEqual((got, closed), (b"+PONG\r\n$3\r\na b\r\n$3\r\n\0\r\n\r\n", False))

    def test_a_pipeline_of_100000_is_answered_in_order(self):
        count = 100_000
        sent = b"".join(frame("ECHO", i) for i in range(count))
        writer = threading.Thread(target=self.resp.send, args=(sent,))
        writer.start()
        for i in range(count):
            self.assertEqual(self.resp.reply(), str(i).encode())
        writer.join()

    def test_huge_and_negative_lengths_get_an_error_and_close(self):
        for sent in (
            b"*2147483647\r\n",
            b"*5000\r\n",
            b"*1\r\n$536870912\r\n",
            b"*1\r\n$-5\r\n",
            b"*1\r\n" * 100_000,
            b"*4096\r\n" * 10,
            b"*" + b"1" * 70000,
            b"a" * 70000,
        ):
            got, closed = everything(self.path, sent)
            self.assertTrue(got.startswith(b"-ERR Protocol error: "), got)
            self.assertTrue(closed)


class Log(ServerTest):
    def test_requests_and_denials_are_logged(self):
        server = self.serve(RULES, {"listen": {"resp": "127.0.0.1:0"}, "log": {"access": True}})
        with Resp(front_end(server)) as resp:
            for _ in range(2):
                resp.ask("CL.THROTTLE", "k", 0, 1, 3600)
            resp.ask("AUTH", "mistaken")
            resp.ask("NOTHING")
        expected = [
            "request command=cl.throttle status=ok outcome=allowed peer=127.0.0.1 duration_us=",
            "denied key=k reason=limited retry_after_ms=",
            "request command=cl.throttle status=ok outcome=denied peer=127.0.0.1 duration_us=",
            "request command=auth status=ERR peer=127.0.0.1 duration_us=",
            "request command=NOTHING status=ERR peer=127.0.0.1 duration_us=",
        ]
        wait_for(lambda: expected[-1] in server.log(), what="the log")
        for line in expected:
            self.assertIn(line, server.log())
        self.assertNotIn("mistaken", server.log())
        requests = self.without_rule(server)
        self.assertEqual(requests[("allowed", "ok")], 1)
        self.assertEqual(requests[("denied", "limited")], 1)

    @staticmethod
    def without_rule(server):
        """Returns the values of sluice_requests_total without a rule."""
        found = {}
        for name, value in server.metrics().items():
            if name.startswith('sluice_requests_total{rule="",'):
                words = name.split('"')
                found[(words[3], words[5])] = value
        return found


class Readers(ServerTest):
    def test_a_client_that_does_not_read_uses_bounded_memory(self):
        self.check_who_does_not_read("memory", frame("COMMAND", "DOCS") * 500)

    def test_a_client_that_does_not_read_uses_bounded_memory_with_redis(self):
        redis = RedisServer(self.folder())
        self.addClassCleanup(redis.stop)
        decision = frame("RL.CHECK", "*", "path", "/login", "ip", "192.0.2.1")
        self.check_who_does_not_read(f"redis://{redis.address}", decision * 2000)

    def check_who_does_not_read(self, store, request):
        server = self.serve(
            RULES,
            {
                "listen": {"resp": "127.0.0.1:0"},
                "bounds": {"write_timeout": "1s"},
                "threads": 1,
                "store": store,
                "redis": {"deadline": "5s"},
            },
        )
        address = front_end(server)
        with Resp(address) as resp:
            resp.send(request)
            resp.reply()
        before = server.resident_bytes()
        sockets = [connect(address, 0.05) for _ in range(20)]
        for one in sockets:
            try:
                while True:
                    one.sendall(request)
            except (TimeoutError, ConnectionError):
                pass
        self.assertLess(server.resident_bytes() - before, 16 << 20)

        def all_closed():
            with Resp(address) as resp:
                return b"connected_clients:1\r\n" in resp.ask("INFO", "clients")

        wait_for(all_closed, what="the end of those that do not read")
        for one in sockets:
            one.close()

    def test_10000_idle_connections_use_less_than_100_mb(self):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if hard < 10_300:
            self.skipTest("too few descriptors")
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 25_000), hard))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        server = self.serve(
            RULES, {"listen": {"resp": "127.0.0.1:0"}, "bounds": {"connections": 10_100}}
        )
        address = front_end(server)
        host, port = address.rsplit(":", 1)
        sockets = []
        try:
            for _ in range(10_000):
                made = socket.create_connection((host, int(port)), PATIENCE)
                made.sendall(frame("CL.THROTTLE", "idle", 100_000, 1, 60))
                sockets.append(made)
            for made in sockets:
                self.assertTrue(made.recv(100).startswith(b"*5\r\n:0\r\n"))
            self.assertLess(server.resident_bytes(), 100 << 20)
            print(f"10,000 connections: {server.resident_bytes() >> 20} MB resident")
        finally:
            for made in sockets:
                made.close()


class Users(ServerTest):
    def test_with_users_commands_require_the_password(self):
        folder = self.folder()
        (folder / "secret").write_text("of the many\n")
        users = [
            {"name": "default", "password_file": str(folder / "secret")},
            {"name": "ops", "role": "admin", "password_env": "RESP_OPS"},
        ]
        server = self.serve(
            RULES,
            {"listen": {"resp": "0.0.0.0:0"}, "resp": {"users": users}},
            env={**os.environ, "RESP_OPS": "of the few"},
        )
        address = front_end(server).replace("0.0.0.0", "127.0.0.1")
        with Resp(address) as resp:
            self.assertTrue(resp.ask("CL.THROTTLE", "k", 1, 1, 1).startswith("NOAUTH "))
            self.assertTrue(resp.ask("AUTH", "of the few").startswith("WRONGPASS "))
            self.assertEqual(resp.ask("AUTH", "of the many"), "OK")
            self.assertEqual(resp.ask("CL.THROTTLE", "k", 1, 1, 1)[0], 0)
            self.assertTrue(resp.ask("CL.THROTTLE", "k", 1, 1, 1, -1).startswith("NOPERM "))
            self.assertEqual(resp.ask("HELLO", 3, "AUTH", "ops", "of the few")[b"proto"], 3)
            self.assertEqual(resp.ask("CL.THROTTLE", "k", 1, 1, 1, -1)[0], 0)

    def test_weak_passwords_are_reported_at_the_start(self):
        folder = self.folder()
        for name, text, mode in (("open", "correct horse battery", 0o644),
                                 ("short", "0123456789abcde", 0o600),
                                 ("dull", "a" * 32, 0o600),
                                 ("good", "correct horse battery", 0o600)):
            (folder / name).write_text(text)
            (folder / name).chmod(mode)
        users = [{"name": name, "password_file": str(folder / name)}
                 for name in ("open", "short", "dull", "good")]
        server = self.serve(RULES, {"resp": {"users": users}, "listen": {"resp": "127.0.0.1:0"}})
        for name, what in (("open", "can be read by every user"), ("short", "is short"),
                           ("dull", "is easy to guess")):
            pattern = f"the RESP user '{name}'.* {what}"
            wait_for(lambda: re.search(pattern, server.log()), what=pattern)
        log = server.log()
        self.assertNotIn("'good'", log)
        self.assertNotIn("0123456789", log)

    def test_without_users_only_local_clients_may_connect(self):
        with self.assertRaisesRegex(AssertionError, "needs users with passwords"):
            self.serve(RULES, {"listen": {"resp": "0.0.0.0:0"}})

    def test_a_unix_socket_needs_no_users(self):
        path = self.folder() / "resp.sock"
        server = self.serve(RULES, {"listen": {"resp": f"unix:{path}"}})
        with Resp(f"unix:{path}") as resp:
            self.assertEqual(resp.ask("PING"), "PONG")
        self.assertEqual(server.stop(), 0)
        self.assertFalse(path.exists())

    def test_an_unreadable_password_is_reported(self):
        users = [{"name": "default", "password_file": "/nowhere/secret"}]
        with self.assertRaisesRegex(AssertionError, "resp.users: password file /nowhere/secret"):
            self.serve(RULES, {"resp": {"users": users}, "listen": {"resp": "127.0.0.1:0"}})


class Keyspaces(RedisTest):
    """Commands that bring their own limit do not reach the counters of rules."""

    ALGORITHMS = ("fixed_window", "sliding_window_log", "sliding_window_counter",
                  "sliding_window_hybrid", "leaky_bucket", "token_bucket", "gcra")
    IP = "192.0.2.1"

    def rules(self):
        lines = ["version: 1", "rules:"]
        for name in self.ALGORITHMS:
            burst = ", burst: 4" if name == "gcra" else ""
            lines += [f"  - name: {name}", f"    match: {{ path: /{name} }}",
                      f"    limits: [{{ name: l, key: 'ip={{ip}}', algorithm: {name}, limit: 5,"
                      f" per: 1h{burst} }}]"]
        return "\n".join(lines) + "\n"

    def check(self, server, name):
        answer = server.check({"attributes": {"path": "/" + name, "ip": self.IP}})
        return answer.json["outcome"], answer.json["limits"][0]["remaining"]

    def counter_of(self, server, name):
        page = server.admin_request("GET", f"/v1/keys?rule={name}&ip={self.IP}").json
        return page["limits"][0]["counter"]

    def attack(self, store):
        config = {"listen": {"resp": "127.0.0.1:0"}, **store}
        server = self.serve(self.rules(), config)
        with Resp(front_end(server)) as resp:
            for name in self.ALGORITHMS:
                for _ in range(5):
                    self.assertEqual(self.check(server, name)[0], "allowed")
                self.assertEqual(self.check(server, name), ("denied", 0))
                key = self.counter_of(server, name)
                for words in ((name, 4294967295, "1ms"), (name, 4294967295, "1h", "COST", 100)):
                    self.assertIsInstance(resp.ask("RL.LIMIT", key, *words), list)
                if name == "gcra":
                    self.assertEqual(resp.ask("CL.THROTTLE", key, 1000, 1000, 1, 1)[0], 0)
                self.assertEqual(self.check(server, name), ("denied", 0), name)
                other = {"attributes": {"path": "/" + name, "ip": "192.0.2.2"}}
                fresh = key.replace(self.IP, "192.0.2.2")
                resp.ask("RL.LIMIT", fresh, name, 5, "1h", "COST", 5)
                self.assertEqual(server.check(other).json["limits"][0]["remaining"], 4, name)

    def test_in_memory_a_caller_neither_refills_nor_drains_a_rule(self):
        self.attack({})

    def test_in_redis_a_caller_neither_refills_nor_drains_a_rule(self):
        self.attack({"store": self.redis().url, "redis": {"deadline": "5s"}})


class End(ServerTest):
    def test_requests_before_sigterm_are_answered(self):
        bounds = {"header_timeout": f"{PATIENCE}s", "body_timeout": f"{PATIENCE}s"}
        server = self.serve(RULES, {"listen": {"resp": "127.0.0.1:0"}, "bounds": bounds,
                                    "drain": {"timeout": f"{PATIENCE}s"}})
        resp = Resp(front_end(server))
        self.addCleanup(resp.close)
        self.assertEqual(resp.ask("PING"), "PONG")
        request = frame("CL.THROTTLE", "k", 1, 1, 1)
        resp.send(request[:9])  # an idle connection ends after a second
        wait_until_received(resp.socket)
        server.signal(signal.SIGTERM)
        wait_for(lambda: not accepts(front_end(server)), "the end of the listener")
        self.assertEqual(resp.send(request[9:]).reply()[0], 0)
        self.assertEqual(resp.read_to_end(), b"")
        resp.close()
        self.assertEqual(server.wait(), 0)

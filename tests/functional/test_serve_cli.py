"""`sluice serve` as a command: flags, the ready line, errors, and its notifications to systemd."""

import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import unittest

from harness import PATIENCE, ROOT, Process, ServerTest, binary, request, wait_for

RULES = """
version: 1
rules:
  - name: page
    match: { path: /page }
    limits: [{ key: "{ip}", algorithm: fixed_window, limit: 5, per: 1h }]
"""


def run(*flags):
    return subprocess.run(
        [binary(), "serve", *flags],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        stdin=subprocess.DEVNULL,
    )


class Serving(ServerTest):
    def test_the_ready_line_contains_the_real_ports(self):
        sluice = self.serve(RULES)
        self.assertRegex(
            sluice.ready_line,
            r"^ready http=127\.0\.0\.1:[1-9]\d* grpc=off resp=off " r"admin=127\.0\.0\.1:[1-9]\d*$",
        )
        self.assertEqual(sluice.get("/healthz").status, 200)
        self.assertEqual(sluice.get("/readyz").status, 200)

    def test_flags_override_the_file(self):
        folder = self.folder()
        (folder / "other.yaml").write_text(RULES.replace("/page", "/other"))
        sluice = self.serve(
            RULES,
            {"listen": {"http": "127.0.0.1:1"}, "threads": 2},
            [
                "--http",
                "127.0.0.1:0",
                "--admin",
                "off",
                "--threads",
                "1",
                "--rules",
                str(folder / "other.yaml"),
            ],
        )
        self.assertIn("admin=off", sluice.ready_line)
        self.assertEqual(
            sluice.check({"attributes": {"path": "/other", "ip": "a"}}).json["rule"], "page"
        )

    def test_listens_on_unix_sockets_and_removes_them_at_the_end(self):
        folder = self.folder()
        path = folder / "http.sock"
        dead = socket.socket(socket.AF_UNIX)
        dead.bind(str(path))
        dead.close()  # as after a crash
        sluice = self.serve(
            RULES,
            {"trusted_proxies": ["unix"]},
            ["--http", f"unix:{path}", "--admin", f"unix:{folder}/admin.sock"],
        )
        self.assertIn(f"http=unix:{path}", sluice.ready_line)
        self.assertEqual(request(sluice.http, "GET", "/healthz").status, 200)
        statuses = [sluice.auth("GET", "/page", ip="192.0.2.1").status for _ in range(6)]
        self.assertEqual(statuses, [200] * 5 + [429])
        self.assertEqual(sluice.stop(), 0)
        self.assertFalse(path.exists())

    def test_a_directory_of_rules_is_one_set_in_the_order_of_names(self):
        folder = self.folder()
        (folder / "20-b.yaml").write_text(RULES.replace("name: page", "name: second"))
        (folder / "10-a.yml").write_text(RULES.replace("name: page", "name: first"))
        (folder / "notes.txt").write_text("not rules")
        sluice = self.serve(config={"rules": [str(folder)]})
        self.assertEqual(
            sluice.check({"attributes": {"path": "/page", "ip": "a"}}).json["rule"], "first"
        )

    def test_without_rules_it_logs_that_the_built_in_example_is_active(self):
        sluice = self.serve()
        wait_for(lambda: "built-in" in sluice.log(), what="the log line about the built-in rules")
        self.assertIn("curl", sluice.log())

    def test_starts_without_a_configuration_file(self):
        folder = self.folder()
        child = Process(
            [binary(), "serve", "--http", "127.0.0.1:0", "--admin", "127.0.0.1:0"],
            folder,
            "sluice",
            stdout=subprocess.PIPE,
        )
        self.addCleanup(child.stop)
        self.assertTrue(child.child.stdout.readline().startswith(b"ready http=127.0.0.1:"))
        self.assertEqual(child.stop(), 0)

    def test_stdout_contains_only_the_ready_line(self):
        sluice = self.serve(RULES, {"log": {"access": True, "level": "debug"}})
        sluice.get("/healthz")
        sluice.signal(signal.SIGTERM)
        self.assertEqual(sluice.wait(), 0)
        self.assertEqual(sluice.child.stdout.read(), b"")


class Errors(ServerTest):
    @classmethod
    def setUpClass(cls):
        cls.dir = cls.folder()

    def file(self, name, text):
        path = self.dir / name
        path.write_text(text)
        return str(path)

    def assert_fails(self, done, status, *words):
        self.assertEqual(done.returncode, status, done)
        self.assertEqual(done.stdout, "")
        for word in words:
            self.assertIn(word, done.stderr)
        self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)

    def test_wrong_flags_exit_2_with_one_line(self):
        for flags, word in [
            (["--prot"], "--prot"),
            (["--http", "nowhere"], "nowhere"),
            (["--http", "127.0.0.1:70000"], "70000"),
            (["--threads", "x"], "threads"),
            (["--threads", "0"], "threads"),
            (["--store", "mongo://x"], "mongo"),
            (["--http"], "--http"),
            (["extra"], "extra"),
            (["--admin", "unix:"], "unix:"),
        ]:
            with self.subTest(flags=flags):
                self.assert_fails(run(*flags), 2, word)

    def test_a_bad_rules_file_exits_1_with_file_line_and_column(self):
        path = self.file("bad.yaml", RULES.replace("fixed_window", "fixed_windw"))
        self.assert_fails(
            run("--rules", path, "--http", "127.0.0.1:0", "--admin", "off"),
            1,
            f"{path}:6:",
            "fixed_windw",
            "fixed_window",
        )

    def test_a_missing_rules_file_exits_1_and_is_named(self):
        self.assert_fails(
            run("--rules", str(self.dir / "none.yaml"), "--admin", "off"), 1, "none.yaml"
        )

    def test_a_bad_configuration_exits_1_with_file_line_and_column(self):
        path = self.file("bad-config.yaml", "version: 1\nlisten:\n  htp: 127.0.0.1:0\n")
        self.assert_fails(run("--config", path), 1, f"{path}:3:3:", "htp", "http")
        path = self.file("bad-bound.yaml", "version: 1\nbounds: { idle_timeout: 75 }\n")
        self.assert_fails(run("--config", path), 1, f"{path}:2:", "75")
        self.assert_fails(run("--config", str(self.dir / "none.yaml")), 1, "none.yaml")

    def test_a_port_in_use_exits_1_and_is_named(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            self.assert_fails(
                run("--http", f"127.0.0.1:{port}", "--admin", "off"),
                1,
                f"127.0.0.1:{port}",
                "in use; --http ADDR selects another address, or off",
            )
            self.assert_fails(
                run("--http", "127.0.0.1:0", "--admin", f"127.0.0.1:{port}"),
                1,
                f"127.0.0.1:{port}",
                "in use",
            )

    def test_a_second_server_does_not_share_the_port_of_the_first(self):
        first = self.serve(RULES)
        self.assert_fails(run("--http", first.http, "--admin", "off"), 1, first.http, "in use")

    def test_a_unix_socket_in_use_is_left_alone(self):
        path = f"unix:{self.dir}/taken.sock"
        first = self.serve(RULES, flags=["--http", path])
        self.assert_fails(run("--http", path, "--admin", "off"), 1, "taken.sock")
        self.assertEqual(request(first.http, "GET", "/healthz").status, 200)

    def test_administration_on_other_addresses_needs_a_token(self):
        self.assert_fails(run("--http", "127.0.0.1:0", "--admin", "0.0.0.0:0"), 1, "token")

    def test_help_lists_flags_addresses_and_signals(self):
        done = run("--help")
        self.assertEqual(done.returncode, 0)
        for word in (
            "--config",
            "--rules",
            "--http",
            "--admin",
            "--threads",
            "--store",
            "unix:PATH",
            "ready",
            "SIGHUP",
            "SIGTERM",
        ):
            self.assertIn(word, done.stdout)


class Surroundings(ServerTest):
    """What `sluice` takes from the current folder and from the environment."""

    def environment(self, **variables):
        return {**os.environ, **variables}

    def sluice(self, folder, *words, **variables):
        return subprocess.run(
            [binary(), *words], capture_output=True, text=True, timeout=PATIENCE, cwd=folder,
            stdin=subprocess.DEVNULL, env=self.environment(**variables),
        )

    def test_a_configuration_in_the_current_folder_is_read_and_named(self):
        sluice = self.serve(RULES, {"listen": {"admin": "unix:admin.sock"}}, named=False)
        wait_for(
            lambda: re.search(
                "the configuration is a file of the current folder.*"
                rf"file={re.escape(str(sluice.folder))}/sluice\.yaml", sluice.log()
            ),
            what="the name of the file in the log",
        )
        checked = sluice.check({"attributes": {"path": "/page", "ip": "a"}})
        self.assertEqual(checked.json["rule"], "page")
        history = self.sluice(sluice.folder, "rules", "history")
        self.assertEqual((history.returncode, history.stderr), (0, ""), history)
        elsewhere = self.sluice(sluice.folder, "rules", "history", "--admin", "127.0.0.1:1")
        self.assertIn("at 127.0.0.1:1: ", elsewhere.stderr)
        self.assertEqual(sluice.stop(), 0)
        gone = self.sluice(sluice.folder, "rules", "history")
        self.assertIn("admin.sock (of ./sluice.yaml): ", gone.stderr)

    def test_the_token_of_a_found_configuration_goes_only_to_the_address_there(self):
        folder = self.folder()
        (folder / "token").write_text("0123456789abcdef0123456789abcdef\n")
        (folder / "token").chmod(0o600)
        sluice = self.serve(RULES, {"listen": {"admin": "unix:admin.sock"},
                                    "admin": {"token_file": str(folder / "token")}}, named=False)
        admin = f"unix:{sluice.folder}/admin.sock"
        history = self.sluice(sluice.folder, "rules", "history")
        self.assertEqual((history.returncode, history.stderr), (0, ""), history)
        for flags, variables in ((("--admin", admin), {}), ((), {"SLUICE_ADMIN": admin}),
                                 (("--admin", admin), {"SLUICE_STORE": "redis://127.0.0.1:1"})):
            for words in (("rules", "history"), ("rules", "diff", "1"), ("rules", "rollback", "1"),
                          ("key", "list")):
                done = self.sluice(sluice.folder, *words, *flags, **variables)
                self.assertIn(f"the administration at {admin} requires a token", done.stderr)

    def test_a_named_configuration_is_not_called_found(self):
        sluice = self.serve(RULES)
        self.assertEqual(sluice.stop(), 0)
        self.assertNotIn("current folder", sluice.log())

    def test_a_wrong_configuration_in_the_current_folder_is_an_error(self):
        folder = self.folder()
        (folder / "sluice.yaml").write_text("version: 2\n")
        for words in (("serve",), ("rules", "history"), ("key", "list")):
            done = self.sluice(folder, *words)
            self.assertEqual(done.returncode, 1, done)
            self.assertIn("sluice.yaml:1:10: error: 'version' is '2'; expected 1", done.stderr)

    def test_variables_override_the_file_and_flags_override_variables(self):
        folder = self.folder()
        (folder / "other.yaml").write_text(RULES.replace("/page", "/other"))
        variables = self.environment(
            SLUICE_HTTP="127.0.0.1:0", SLUICE_ADMIN="off", SLUICE_RULES=str(folder / "other.yaml"),
            SLUICE_GRPC="nonsense", SLUICE_RESP="",
        )
        sluice = self.serve(
            RULES, {"listen": {"http": "127.0.0.1:1"}}, ["--grpc", "off"], env=variables
        )
        self.assertRegex(sluice.ready_line, r"^ready http=\S+ grpc=off resp=off admin=off$")
        checked = sluice.check({"attributes": {"path": "/other", "ip": "a"}})
        self.assertEqual(checked.json["rule"], "page")

    def test_variables_say_which_server_is_asked(self):
        sluice = self.serve(RULES)
        done = self.sluice(self.folder(), "rules", "history", SLUICE_ADMIN=sluice.admin)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done)
        done = self.sluice(self.folder(), "serve", SLUICE_STORE="http://example.org")
        self.assertEqual(done.returncode, 2, done)
        self.assertIn("sluice: --store: the URL has an unknown scheme 'http'", done.stderr)
        done = self.sluice(self.folder(), "key", "list", SLUICE_ADMIN=sluice.admin,
                           SLUICE_STORE="http://example.org")
        self.assertEqual((done.returncode, done.stderr), (0, ""), "asks no store")
        self.assertNotIn("SLUICE_", self.sluice(self.folder(), "key", "--help").stdout)

    def test_the_page_lists_the_variables(self):
        page = (ROOT / "docs/config.md").read_text("utf-8")
        listed = set(re.findall(r"`(SLUICE_[A-Z_]+)`", page.split("## Environment variables")[1]
                                .split("\n##")[0].split("A flag overrides")[0]))
        flags = set()
        for words in (("serve",), ("rules", "push"), ("rules", "history")):
            text = self.sluice(self.folder(), *words, "--help").stdout
            known = re.findall(r"^  --([a-z-]+) [A-Z]", text, re.M)
            where = {"store", "config", "prefix", "tls-ca", "password-file", "admin", "token-file",
                     "ca-file", "cert-file", "timeout"}  # fmt: skip
            flags |= {flag for flag in known if words == ("serve",) or flag in where}
        self.assertEqual(listed, {"SLUICE_" + flag.upper().replace("-", "_") for flag in flags})

    def test_a_flag_with_a_value_may_be_a_variable(self):
        folder = self.folder()
        (folder / "rules.yaml").write_text(RULES)
        words = ("try", "rules.yaml", "GET /page ip=192.0.2.1")
        self.assertIn("\n2  +3 s  allowed", self.sluice(folder, *words, SLUICE_EVERY="3s", SLUICE_COUNT="2").stdout)
        self.assertEqual(self.sluice(folder, *words, "--every", "1s", SLUICE_EVERY="x").returncode, 0)
        done = self.sluice(folder, "status", "--admin", "127.0.0.1:1", SLUICE_TIMEOUT="x")
        self.assertIn("sluice: status: --timeout: Value x not in range", done.stderr)
        sluice = self.serve(RULES)
        changed = self.sluice(folder, "rules", "set", "page/0", "limit=6", SLUICE_ADMIN=sluice.admin, SLUICE_BY="ann")
        self.assertEqual(changed.returncode, 0, changed)
        history = self.sluice(folder, "rules", "history", SLUICE_ADMIN=sluice.admin, SLUICE_MAX="1")
        self.assertRegex(history.stdout, r"\A.*\nversion 2, \S+, by ann .*\n.*limit 5 -> 6\n\Z")

    def test_no_variable_changes_or_writes_something(self):
        folder = self.folder()
        sluice = self.serve(RULES)
        variables = {"SLUICE_" + name: value for name, value in {
            "ADMIN": sluice.admin, "SET": "limit=1", "BLOCK": "1h", "RESET": "true", "UNSET": "true", "FOR": "1h",
            "EXPECT": "7", "DRY_RUN": "true", "HTML": "page.html", "FORCE": "true"}.items()}
        self.assertIn("5 of 5 left", self.sluice(folder, "key", "page", "ip=192.0.2.1", **variables).stdout)
        changed = self.sluice(folder, "rules", "set", "page/0", "limit=6", **variables)
        self.assertIn("version 2 of this server, active until the rules files", changed.stdout)
        (folder / "rules.yaml").write_text(RULES)
        (folder / "log").write_text('192.0.2.1 - - [20/Nov/2026:10:00:00 +0000] "GET /page HTTP/1.1" 200 1\n')
        replayed = self.sluice(folder, "replay", "--rules", "rules.yaml", "log", **variables)
        self.assertEqual(replayed.returncode, 0, replayed)
        self.assertEqual(sorted(file.name for file in folder.iterdir()), ["log", "rules.yaml"])
        summed = self.sluice(folder, "ledger", "sum", "/dev/null", SLUICE_BY="ann")
        self.assertEqual(summed.returncode, 0, summed)

    def test_a_variable_that_is_almost_one_gives_a_warning(self):
        done = self.sluice(self.folder(), "docs", SLUICE_STOER="memory", SLUICE_SERVICE_HOST="::1",
                           SLUICE_PORT="tcp://[::1]:6070")
        self.assertEqual(done.returncode, 0)
        self.assertEqual(
            done.stderr,
            "sluice: warning: no flag reads the environment variable SLUICE_STOER; did you mean "
            "SLUICE_STORE?\n",
        )


class Systemd(ServerTest):
    def notify_socket(self):
        folder = tempfile.TemporaryDirectory(prefix="sluice-test-")
        self.addCleanup(folder.cleanup)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(listener.close)
        listener.bind(f"{folder.name}/notify")
        listener.settimeout(PATIENCE)
        return listener, f"{folder.name}/notify"

    def next_with(self, listener, word):
        while True:
            text = listener.recv(4096).decode()
            if word in text.split("\n"):
                return text

    def test_signals_for_later_do_not_end_a_server_that_starts(self):
        with socket.create_server(("127.0.0.1", 0)) as redis:
            redis.settimeout(PATIENCE)
            store = "redis://127.0.0.1:%d" % redis.getsockname()[1]
            server = self.start_process(
                [binary(), "serve", "--rules", "redis", "--store", store], self.folder(), "server"
            )
            redis.accept()[0].close()  # it waits for the rules
            server.signal(signal.SIGHUP)
            server.signal(signal.SIGUSR1)
            self.assertEqual(server.wait(), 1)
        self.assertIn("no rules could be read from", server.log())

    def test_notifies_systemd_when_ready_reloading_and_stopping(self):
        listener, path = self.notify_socket()
        sluice = self.serve(RULES, env={**os.environ, "NOTIFY_SOCKET": path})
        self.next_with(listener, "READY=1")
        sluice.signal(signal.SIGHUP)
        self.assertIn("MONOTONIC_USEC=", self.next_with(listener, "RELOADING=1"))
        self.next_with(listener, "READY=1")
        sluice.signal(signal.SIGTERM)
        self.next_with(listener, "STOPPING=1")

    def test_a_folder_in_which_overrides_cannot_be_set_is_said_at_the_start(self):
        there = self.folder() / "overrides.txt"
        for file, count in ((there, 0), (there.parent / "none" / "overrides.txt", 1)):
            server = self.serve(RULES, {"overrides": str(file)})
            self.assertEqual(server.stop(), 0)
            self.assertEqual(server.log().count("warning overrides and blocks cannot be set; "), count)

    def test_notifies_systemd_on_an_abstract_socket(self):
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(listener.close)
        name = f"sluice-test-{os.getpid()}"
        listener.bind(f"\0{name}")
        listener.settimeout(PATIENCE)
        self.serve(RULES, env={**os.environ, "NOTIFY_SOCKET": f"@{name}"})
        self.next_with(listener, "READY=1")

    @unittest.skipUnless(shutil.which("systemd-analyze"), "systemd-analyze is missing")
    def test_the_unit_is_valid_and_restricted(self):
        folder = self.folder()
        unit = folder / "sluice.service"
        text = (ROOT / "deploy/systemd/sluice.service").read_text()
        unit.write_text(text.replace("/usr/bin/sluice", binary()))
        done = subprocess.run(
            ["systemd-analyze", "verify", "--man=no", str(unit)],
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        about = [line for line in done.stderr.splitlines() if "sluice" in line]
        self.assertEqual((done.returncode, about), (0, []), done.stderr)
        done = subprocess.run(
            ["systemd-analyze", "security", "--offline=true", "--threshold=15", str(unit)],
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        self.assertEqual(done.returncode, 0, done.stdout[-3000:] + done.stderr)


if __name__ == "__main__":
    unittest.main()

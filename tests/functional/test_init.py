"""`sluice init`: what it writes is right, and limits requests behind the gateways."""

import base64
import json
import os
import pty
import select
import subprocess
import time
import unittest

from harness import (
    PATIENCE,
    Application,
    Process,
    ServerTest,
    binary,
    free_port,
    replaced,
    request,
    tool,
)

# The tests wait longer for Sluice than the files say, because a busy machine is late.
PATIENT = ("timeout 250ms", "timeout 20s"), ("timeout 500ms", "timeout 20s")


def sluice(folder, *words, **options):
    return subprocess.run(
        [binary(), *words], capture_output=True, text=True, timeout=PATIENCE, cwd=folder,
        stdin=subprocess.DEVNULL, **options,
    )


class Files(ServerTest):
    def written(self, *flags):
        folder = self.folder()
        done = sluice(folder, "init", *flags)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done)
        names = [line.split("/")[-1] for line in done.stdout.split("Next:\n")[0].splitlines()]
        self.assertEqual({path.name for path in folder.iterdir()}, set(names), done)
        return folder

    def test_what_it_writes_has_no_error_and_no_warning(self):
        for gateway in ("nginx", "caddy", "envoy"):
            for key in ("ip", "user", "header.X-Api-Key"):
                folder = self.written("--gateway", gateway, "--key", key, "--limit", "7",
                                      "--store", "redis://127.0.0.1:6379")
                for words in (("rules", "check", "--strict", "rules.yaml"),
                              ("config", "check", "sluice.yaml")):
                    done = sluice(folder, *words)
                    self.assertEqual((done.returncode, done.stderr), (0, ""), (gateway, key))
                self.assertIn("limit: 7\n        per: 1m\n", (folder / "rules.yaml").read_text())
                self.assertIn("store: redis://127.0.0.1:6379\n",
                              (folder / "sluice.yaml").read_text())
                self.assertEqual((folder / "rules.yaml").read_text().count("must verify"),
                                 int(key != "ip"), (gateway, key))
                text = "".join(path.read_text() for path in folder.iterdir())
                for word in ("sluice_report", "sluice_queue", "/send/code", "/login", "domain: shop"):
                    self.assertNotIn(word, text, gateway)

    def test_try_shows_what_the_rules_do(self):
        folder = self.written("--gateway", "nginx", "--limit", "1", "--per", "1h")
        done = sluice(folder, "try", "rules.yaml", "GET / ip=192.0.2.1", "-n", "2")
        self.assertIn("limit requests/client: 1 per 1h (token_bucket), key '192.0.2.1'", done.stdout)
        self.assertIn("2  +0 s  denied", done.stdout)

    def test_no_file_is_overwritten_without_force(self):
        folder = self.written("--gateway", "nginx")
        (folder / "rules.yaml").unlink()
        (folder / "sluice.yaml").write_text("mine")
        refused = sluice(folder, "init", "--gateway", "nginx")
        self.assertEqual(refused.returncode, 1)
        self.assertIn("sluice.yaml exists; expected --force to overwrite it, or another --dir. Nothing "
                      "was written", refused.stderr)
        self.assertFalse((folder / "rules.yaml").exists())
        self.assertEqual((folder / "sluice.yaml").read_text(), "mine")
        self.assertEqual(sluice(folder, "init", "--gateway", "nginx", "--force").returncode, 0)
        self.assertNotEqual((folder / "sluice.yaml").read_text(), "mine")
        self.assertEqual(sluice(folder, "init", "--gateway", "nginx", "--dir", "a/b").returncode, 0)
        self.assertTrue((folder / "a/b/sluice.conf").exists())

    def test_wrong_answers_are_explained(self):
        for flags, error in [
            ((), "expected --gateway nginx, caddy or envoy"),
            (("--gateway", "ngnix"), "did you mean 'nginx'?"),
            (("--gateway", "nginx", "--limit", "0"), "'0' is no limit; expected a whole number"),
            (("--gateway", "nginx", "--per", "1min"), "unknown unit 'min'"),
            (("--gateway", "nginx", "--key", "address"), "'address' is no key; expected ip, user"),
            (("--gateway", "nginx", "--key", 'header.x"y'), "expected ip, user, or a header of letters"),
            (("--gateway", "nginx", "--key", "header.x|y"), "'header.x|y' is no key"),
            (("--gateway", "nginx", "--key", "header.x y"), "'header.x y' is no key"),
            (("--gateway", "nginx", "--store", "http://a"), "unknown scheme 'http'"),
            (("--gateway", "nginx", "--dir", "a\nb"), "a folder, without control characters"),
            (("--gateway", "nginx", "--dir", ""), "expected the name of a folder"),
        ]:
            folder = self.folder()
            done = sluice(folder, "init", *flags)
            self.assertEqual(done.returncode, 2, done)
            self.assertIn(error, done.stderr)
            self.assertEqual(list(folder.iterdir()), [])

    def test_no_password_is_written(self):
        folder = self.folder()
        done = sluice(folder, "init", "--gateway", "nginx", "--store", "redis://u:secretpw@127.0.0.1")
        self.assertEqual(done.returncode, 2, done)
        self.assertIn("the URL has a password, which every reader of sluice.yaml would see; expected "
                      "it without user and password, and then redis: { password_file: FILE }",
                      done.stderr)
        self.assertNotIn("secretpw", done.stderr)
        self.assertEqual(list(folder.iterdir()), [])
        done = sluice(folder, "init", "--gateway", "nginx",
                      env={**os.environ, "SLUICE_STORE": "redis://u:secretpw@127.0.0.1"})
        self.assertEqual(done.returncode, 0, done)
        self.assertIn("  sluice serve    # with SLUICE_STORE, which is not in sluice.yaml\n", done.stdout)
        config = (folder / "sluice.yaml").read_text()
        self.assertIn("\n# The environment variable SLUICE_STORE names the store.\nlisten:", config)
        self.assertNotIn("secretpw", config + done.stdout)
        self.assertEqual(sluice(folder, "config", "check", "sluice.yaml").returncode, 0)

    def test_folders_with_blanks_are_quoted(self):
        folder = self.folder()
        done = sluice(folder, "init", "--gateway", "nginx", "--dir", "my 'new' limits")
        self.assertIn("  sluice serve --config 'my '\\''new'\\'' limits/sluice.yaml'\n", done.stdout)
        include = f"include \"{folder}/my 'new' limits/sluice.conf\";"
        self.assertIn(f"  nginx, in a server block:    {include}\n", done.stdout)
        self.assertIn(f"`{include}`: sends", (folder / "my 'new' limits/sluice.conf").read_text())
        done = sluice(folder, "init", "--gateway", "caddy", "--dir", "a b")
        self.assertIn("caddyfile --config 'a b/sluice.caddy'\n", done.stdout)

    def asked_at_terminal(self, answers, *flags):
        """Answers each question when it is shown, and returns the folder and what was shown."""
        folder = self.folder()
        pid, terminal = pty.fork()
        if pid == 0:
            os.chdir(folder)
            os.execv(binary(), [binary(), "init", *flags])
        shown = ""
        end = time.monotonic() + PATIENCE
        for question, answer in [*answers, ("Next:", None)]:
            while question not in shown:
                left = end - time.monotonic()
                ready = left > 0 and select.select([terminal], [], [], left)[0]
                self.assertTrue(ready, f"no {question!r} in {shown!r}")
                shown += os.read(terminal, 4096).decode()
            if answer:
                os.write(terminal, answer.encode())
        os.waitpid(pid, 0)
        os.close(terminal)
        return folder, shown

    def test_questions_are_asked_at_a_terminal(self):
        folder, _ = self.asked_at_terminal(
            [("[nginx] ", "caddi\n"), ("did you mean 'caddy'?", "caddy\n"),
             ("Requests allowed for each client (for example: 100 per 1m by ip, or by user, or by "
              "header.x-api-key) [100 per 1m by ip] ", "20 per 1s by header.x-api-key\n"),
             ("[memory] ", "\n")])
        rules = (folder / "rules.yaml").read_text()
        self.assertIn('key: "{header.x-api-key|ip}"\n        algorithm: token_bucket\n'
                      "        limit: 20\n        per: 1s\n", rules)
        self.assertTrue((folder / "sluice.caddy").exists())

    def test_parts_of_an_answer_are_enough(self):
        for answer, key, limit, per in [
            ("70", "{ip/32/64}", 70, "1m"), ("70 per 1h", "{ip/32/64}", 70, "1h"),
            ("20/s", "{ip/32/64}", 20, "1s"), ("20 / 5m", "{ip/32/64}", 20, "5m"),
            ("20 per minute by user", "{header.x-user-id|ip}", 20, "1m"),
            ("by user", "{header.x-user-id|ip}", 100, "1m"), ("", "{ip/32/64}", 100, "1m"),
        ]:
            folder, _ = self.asked_at_terminal([("by ip] ", answer + "\n")], "--gateway", "nginx",
                                               "--store", "memory")
            self.assertIn(f'key: "{key}"\n        algorithm: token_bucket\n        limit: {limit}\n'
                          f"        per: {per}\n", (folder / "rules.yaml").read_text(), answer)

    def test_an_answer_that_is_no_limit_is_asked_again(self):
        folder, shown = self.asked_at_terminal(
            [("by ip] ", "many\n"), ("'many' is no limit", "5 by\n"), ("'5 by' is no limit", "5/x\n"),
             ("'x' is not a period", "5\n")], "--gateway", "nginx", "--store", "memory")
        self.assertIn("limit: 5\n", (folder / "rules.yaml").read_text())
        self.assertNotIn("//", shown)

    def test_an_answer_replaces_the_number_of_a_flag(self):
        folder, _ = self.asked_at_terminal([("[7 per 1m by ip] ", "20 per 1s\n")], "--gateway", "nginx",
                                           "--store", "memory", "--limit", "7")
        self.assertIn("        limit: 20\n        per: 1s\n", (folder / "rules.yaml").read_text())


class Behind(ServerTest):
    """Starts what init wrote, as init says, with other ports."""

    def start(self, gateway, *flags):
        self.app = Application()
        self.addCleanup(self.app.stop)
        self.gateway = f"127.0.0.1:{free_port()}"
        self.http = f"127.0.0.1:{free_port()}"
        folder = self.folder()
        done = sluice(folder, "init", "--gateway", gateway, "--limit", "3", "--per", "7d", *flags)
        self.assertEqual(done.returncode, 0, done)
        variables = {"SLUICE_HTTP": self.http, "SLUICE_GRPC": "off", "SLUICE_RESP": "off",
                     "SLUICE_ADMIN": "off"}
        self.sluice = Process([binary(), "serve"], folder, "sluice", env={**os.environ, **variables})
        self.addCleanup(self.sluice.stop)
        self.sluice.wait_until_accepting(self.http)
        return folder

    def run_gateway(self, argv, folder, name):
        process = Process(argv, folder, name)
        self.addCleanup(process.stop)
        process.wait_until_accepting(self.gateway)

    def statuses(self, count, **headers):
        fields = {name.replace("_", "-"): value for name, value in headers.items()}
        answers = [request(self.gateway, "GET", "/page", None, fields) for _ in range(count)]
        return [answer.status for answer in answers], answers[-1]

    def check(self):
        """Three requests pass, whatever a client says of itself; without Sluice all pass."""
        self.assertEqual(self.statuses(1)[1]["ratelimit-policy"], '"client";q=3;w=604800')
        forged = {"X_Original_URI": "/other", "X_User_Id": "7", "X_Forwarded_For": "9.9.9.9"}
        statuses, last = self.statuses(3, **forged)
        self.assertEqual(statuses, [200, 200, 429])
        self.assertTrue(1 <= int(last["retry-after"]) <= 604800, last)
        self.assertEqual(len(self.app.seen), 3)
        self.assertEqual(self.sluice.stop(), 0)
        self.assertEqual(self.statuses(2)[0], [200, 200])

    def start_nginx(self, *flags):
        folder = self.start("nginx", *flags)
        http = folder / "sluice_http.conf"
        http.write_text(replaced(http.read_text(), ("127.0.0.1:8080", self.http)))
        server = folder / "sluice.conf"
        server.write_text(replaced(server.read_text(), *PATIENT))
        temporary = "".join(f"{name}_temp_path {folder}/{name}; "
                            for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        (folder / "nginx.conf").write_text(f"""daemon off;
pid {folder}/nginx.pid;
error_log stderr;
events {{ }}
http {{
    access_log off;
    {temporary}
    include {folder}/sluice_http.conf;
    server {{
        listen {self.gateway};
        include {folder}/sluice.conf;
        location / {{ proxy_pass http://{self.app.address}; }}
    }}
}}
""")
        self.run_gateway([tool("nginx"), "-e", "stderr", "-p", str(folder), "-c", "nginx.conf"],
                         folder, "nginx")

    def test_nginx(self):
        self.start_nginx()
        self.check()

    def test_nginx_by_a_header(self):
        self.start_nginx("--key", "header.x-api-key")
        self.assertEqual(self.statuses(4, X_Api_Key="a")[0], [200, 200, 200, 429])
        self.assertEqual(self.statuses(4, X_Api_Key="b")[0], [200, 200, 200, 429])
        self.assertEqual(self.statuses(4)[0], [200, 200, 200, 429])

    def test_invented_headers_meet_the_limit_of_the_address(self):
        self.start_nginx("--key", "header.x-api-key")
        passed = [self.statuses(1, X_Api_Key=f"invented {i}")[0][0] for i in range(33)]
        self.assertEqual(passed, [200] * 30 + [429] * 3)

    def test_invented_users_meet_the_limit_of_the_address(self):
        self.start_nginx("--key", "user")
        passed = []
        for i in range(33):
            name = base64.b64encode(f"invented{i}:x".encode()).decode()
            passed += self.statuses(1, Authorization=f"Basic {name}")[0]
        self.assertEqual(passed, [200] * 30 + [429] * 3)

    def test_nginx_by_user(self):
        self.start_nginx("--key", "user")
        self.assertEqual(self.statuses(4, X_User_Id="a")[0], [200, 200, 200, 429])
        self.assertEqual(self.statuses(1, X_User_Id="b")[0], [429])

    def test_caddy(self):
        folder = self.start("caddy")
        file = folder / "sluice.caddy"
        host, _, port = self.gateway.rpartition(":")
        file.write_text("{\n\tadmin off\n\tauto_https off\n}\n" + replaced(
            file.read_text(), ("http://:8000 {", f"http://:{port} {{\n\tbind {host}"),
            ("127.0.0.1:8080", self.http), ("127.0.0.1:9000", self.app.address), *PATIENT))
        home = [f"{name}={folder}" for name in ("HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME")]
        self.run_gateway(["env", *home, tool("caddy"), "run", "--adapter", "caddyfile", "--config",
                          "sluice.caddy"], folder, "caddy")
        self.check()
        self.assertEqual({one[2].get("x-user-id") for one in self.app.seen}, {None})

    def asked(self, entries):
        body = {"domain": "default",
                "descriptors": [{"entries": [{"key": k, "value": v} for k, v in entries]}]}
        return request(self.http, "POST", "/json", json.dumps(body)).status

    def test_what_envoy_asks_is_limited(self):
        folder = self.start("envoy", "--key", "header.X-Api-Key")
        text = (folder / "envoy.yaml").read_text()
        self.assertIn("domain: default", text)
        self.assertEqual(text.count("- actions:"), 1)
        self.assertIn("request_headers: { header_name: x-api-key, descriptor_key: client, "
                      "skip_if_absent: true }", text)
        for entries in ([("remote_address", "192.0.2.1")],
                        [("remote_address", "192.0.2.1"), ("client", "a")]):
            self.assertEqual([self.asked(entries) for _ in range(4)], [200, 200, 200, 429])
        invented = [[("remote_address", "192.0.2.1"), ("client", f"b{i}")] for i in range(26)]
        self.assertEqual([self.asked(entries) for entries in invented], [200] * 24 + [429] * 2)

    def test_an_ipv6_network_is_one_client_of_envoy(self):
        self.start("envoy", "--key", "ip")
        answers = [self.asked([("remote_address", f"2001:db8::{i}")]) for i in range(1, 5)]
        self.assertEqual(answers, [200, 200, 200, 429])


if __name__ == "__main__":
    unittest.main()

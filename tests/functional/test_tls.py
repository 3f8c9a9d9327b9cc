"""TLS on every listener, tested with the clients that people use."""

import contextlib
import http.client
import json
import os
import pathlib
import shutil
import signal
import ssl
import subprocess
import tempfile
import time
import unittest
import warnings

import grpc

import envoy_harness
import harness
import tls_harness

HEALTH = "/grpc.health.v1.Health/Check"
SERVING = b"\x08\x01"
NAMES = ("http", "grpc", "resp", "admin")
RULES = """
version: 1
domain: shop
rules:
  - { name: login, match: { path: /login }, limits: [ { key: "{ip}", algorithm: fixed_window, limit: 5, per: 1h } ] }
"""


def setUpModule():
    global FILES
    made = tempfile.TemporaryDirectory(prefix="sluice-tls-")
    unittest.addModuleCleanup(made.cleanup)
    FILES = pathlib.Path(made.name)
    for name in ("ca", "other"):
        tls_harness.authority(FILES, name)
    for name, by in (("server", "ca"), ("renewed", "other"), ("client", "ca"), ("alien", "other")):
        tls_harness.certificate(FILES, name, by)


class TlsTest(harness.ServerTest):
    @classmethod
    def start(cls, tls=None, cert="server", env=None, **config):
        tls = {
            "cert_file": str(FILES / f"{cert}.crt"),
            "key_file": str(FILES / f"{cert}.key"),
            **(tls or {}),
        }
        config = {name: {**config.get(name, {}), "tls": tls} for name in NAMES} | {
            key: value for key, value in config.items() if key not in NAMES
        }
        config = {"listen": dict.fromkeys(NAMES, "127.0.0.1:0"), **config}
        server = cls.serve(RULES, config=config, **({"env": env} if env else {}))
        server.at = dict(
            word.replace("0.0.0.0", "127.0.0.1").split("=", 1)
            for word in server.ready_line.split()[1:]
        )
        return server

    def connect(self, server, name, **options):
        return tls_harness.connect(server.at[name], tls_harness.client(FILES, **options))

    def ask(self, over, name):
        """Sends a request of that front end on an encrypted connection, and checks its answer."""
        if name == "resp":
            over.sendall(b"PING\r\n")
            self.assertEqual(over.recv(7), b"+PONG\r\n")
        elif name == "grpc":
            over.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0")
            self.assertEqual(over.recv(9)[3], 4, "no SETTINGS")
        else:
            over.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            self.assertTrue(over.recv(4096).startswith(b"HTTP/1.1 200 "))

    def answers(self, server, name, **options):
        try:
            with self.connect(server, name, **options) as over:
                self.ask(over, name)
            return True
        except OSError:
            return False

    def metrics(self, server):
        with self.connect(server, "admin") as over:
            over.sendall(b"GET /metrics HTTP/1.0\r\nHost: localhost\r\n\r\n")
            text = b"".join(iter(lambda: over.recv(65536), b"")).decode()
        lines = (line.rsplit(" ", 1) for line in text.splitlines() if line.startswith("sluice"))
        return {name: float(value) for name, value in lines}


class Clients(TlsTest):
    @classmethod
    def setUpClass(cls):
        cls.server = cls.start()

    def curl(self, name, path, *words):
        at = "https://localhost:" + self.server.at[name].rsplit(":", 1)[1] + path
        done = subprocess.run(
            ["curl", "-sS", "--fail", "--noproxy", "*", "--cacert", FILES / "ca.crt", *words, at],
            capture_output=True,
            timeout=harness.PATIENCE,
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_curl_reaches_http_and_the_administration(self):
        body = json.dumps({"attributes": {"path": "/login", "ip": "192.0.2.1"}})
        self.assertEqual(json.loads(self.curl("http", "/v1/check", "-d", body))["outcome"], "allowed")
        status = json.loads(self.curl("admin", "/v1/status"))
        self.assertTrue(status["ready"])

    def test_redis_cli_reaches_resp(self):
        port = self.server.at["resp"].rsplit(":", 1)[1]
        done = subprocess.run(
            ["redis-cli", "--tls", "--cacert", FILES / "ca.crt", "-h", "localhost", "-p", port]
            + ["CL.THROTTLE", "key", "4", "5", "60"],
            capture_output=True,
            text=True,
            timeout=harness.PATIENCE,
        )
        self.assertEqual(done.stdout.split()[:3], ["0", "5", "4"], done.stderr)

    def test_grpcio_reaches_grpc(self):
        port = self.server.at["grpc"].rsplit(":", 1)[1]
        credentials = grpc.ssl_channel_credentials((FILES / "ca.crt").read_bytes())
        with grpc.secure_channel(f"localhost:{port}", credentials) as over:
            self.assertEqual(over.unary_unary(HEALTH)(b"", timeout=harness.PATIENCE), SERVING)

    def test_alpn_selects_the_protocol_of_the_listener(self):
        for name, offers, chosen in (
            ("http", ["h2", "http/1.1"], "http/1.1"),
            ("admin", ["http/1.1"], "http/1.1"),
            ("grpc", ["h2", "http/1.1"], "h2"),
            ("resp", ["anything"], None),
        ):
            with self.subTest(name), self.connect(self.server, name, protocols=offers) as over:
                self.assertEqual(over.selected_alpn_protocol(), chosen)
                self.ask(over, name)

    def test_clients_without_alpn_are_answered(self):
        for name in NAMES:  # for gRPC: HTTP/2 with prior knowledge, as Envoy's health checks use it
            with self.subTest(name):
                self.assertTrue(self.answers(self.server, name))

    def test_a_client_of_another_protocol_is_refused_and_told_in_the_log(self):
        for name, offer, expected in (("grpc", "http/1.1", "h2"), ("http", "h2", "http/1.1")):
            with self.subTest(name):
                text = f"the client offers other protocols by ALPN; expected {expected}"

                def logged():  # the log has at most one such line a second
                    self.assertFalse(self.answers(self.server, name, protocols=[offer]))
                    return text in self.server.log()

                harness.wait_for(logged, "the line of the log")

    def test_old_versions_of_tls_are_refused(self):
        context = tls_harness.client(FILES)
        with warnings.catch_warnings(action="ignore"):
            context.minimum_version = ssl.TLSVersion.TLSv1
            context.maximum_version = ssl.TLSVersion.TLSv1_1
        context.set_ciphers("ALL:@SECLEVEL=0")
        for name in NAMES:
            with self.subTest(name), self.assertRaises(OSError):
                tls_harness.connect(self.server.at[name], context)

    def test_long_messages_and_pipelines_arrive(self):
        with self.connect(self.server, "http") as over:
            filler = {"attributes": {"path": "/", "body.x": "y" * 600_000}}
            body = json.dumps(filler).encode()
            one = b"POST /v1/check HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body)
            over.sendall((one + body) * 3)
            answer = http.client.HTTPResponse(over)
            answer.begin()
            self.assertEqual(answer.status, 200)
        with self.connect(self.server, "resp") as over, over.makefile("rb") as reader:
            over.sendall(b"PING\r\n" * 5000)
            for _ in range(5000):
                self.assertEqual(reader.readline(), b"+PONG\r\n")

    def test_a_client_that_reads_late_gets_every_reply(self):
        with self.connect(self.server, "resp") as over, over.makefile("rb") as reader:
            text = b"x" * 4000
            one = b"*2\r\n$4\r\nECHO\r\n$4000\r\n" + text + b"\r\n"
            over.settimeout(0.2)
            sent = 0
            with contextlib.suppress(TimeoutError):
                while sent < 4000:  # until the server stops to read
                    over.sendall(one)
                    sent += 1
            self.assertGreater(sent, 50)
            over.settimeout(harness.PATIENCE)
            for _ in range(sent):
                self.assertEqual(reader.readline(), b"$4000\r\n")
                self.assertEqual(reader.readline(), text + b"\r\n")


class Handshakes(TlsTest):
    @classmethod
    def setUpClass(cls):
        cls.server = cls.start(bounds={"header_timeout": "1s"}, resp={"idle_timeout": "0s"})

    def test_plaintext_clients_are_told_and_logged(self):
        def failures():
            return self.metrics(self.server)['sluice_request_errors_total{reason="tls_failed"}']

        before = failures()
        for name, words, answer in (
            ("http", b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", b"expected https on this port"),
            ("admin", b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", b"expected https on this port"),
            ("resp", b"PING\r\n", b"-ERR expected TLS on this port\r\n"),
            ("grpc", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"expected TLS on this listener"),
        ):
            with self.subTest(name), harness.Raw(self.server.at[name]) as raw:
                raw.send(words)
                self.assertIn(answer, raw.reader.read())
        harness.wait_for(lambda: failures() - before >= 4, what="the count of all four")
        self.assertEqual(failures() - before, 4)
        line = "a client without TLS was refused"
        harness.wait_for(lambda: line in self.server.log(), what="the log line")

    def test_slow_handshakes_are_cut_and_hinder_nobody(self):
        record = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"  # the begin of a ClientHello
        began = time.monotonic()
        with contextlib.ExitStack() as stack:
            slow = [stack.enter_context(harness.Raw(self.server.at[name]))
                    for name in NAMES for _ in range(20)]  # fmt: skip
            for i, one in enumerate(slow):
                one.send(record[: i % 2 * len(record)])
            for name in NAMES:
                with self.subTest(name):
                    self.wait_for_answer(name)
            for one in slow:
                one.reader.read()  # until the server closes
        self.assertGreater(time.monotonic() - began, 0.5)

    def test_the_listener_survives_garbage_and_clients_that_leave(self):
        before = self.server.descriptors()
        for words in (b"", b"\x16", b"\x16\x03\x01\x00\x05hello", b"\x16\x03\x03\xff\xff" + b"x" * 900):
            for name in NAMES:
                with harness.Raw(self.server.at[name]) as raw:
                    raw.send(words)
        for name in NAMES:
            self.wait_for_answer(name)
        harness.wait_for(lambda: self.server.descriptors() <= before, "closed sockets")

    def wait_for_answer(self, name):
        """The client itself may be too late for the timeout."""
        harness.wait_for(lambda: self.answers(self.server, name), f"an answer of {name}")


class ClientCertificates(TlsTest):
    def test_a_certificate_is_required(self):
        server = self.start({"client_ca_file": str(FILES / "ca.crt")})
        for name in NAMES:
            with self.subTest(name):
                self.assertTrue(self.answers(server, name, own="client"))
                self.assertFalse(self.answers(server, name))
                self.assertFalse(self.answers(server, name, own="alien"))
        harness.wait_for(lambda: "the client sent no certificate" in server.log(), what="the log")

    def test_a_certificate_may_be_optional(self):
        optional = {"client_ca_file": str(FILES / "ca.crt"), "client_certificate": "optional"}
        server = self.start(optional)
        for name in NAMES:
            with self.subTest(name):
                self.assertTrue(self.answers(server, name, own="client"))
                self.assertTrue(self.answers(server, name))
                self.assertFalse(self.answers(server, name, own="alien"))


class Roles(TlsTest):
    """A client has the role of its certificate, on a listener that other machines reach."""

    WHO = {
        "checker": ("check", "DNS:Check.internal", "check.internal"),
        "operator": ("operate", "URI:spiffe://shop/refunds", "spiffe://shop/refunds"),
        "chief": ("admin", None, "chief"),  # its common name
    }

    @classmethod
    def setUpClass(cls):
        clients = []
        for name, (role, names, certificate) in cls.WHO.items():
            tls_harness.certificate(FILES, name, subject=name, names=names)
            clients.append({"name": name, "role": role, "certificate": certificate})
        optional = {"client_ca_file": str(FILES / "ca.crt"), "client_certificate": "optional"}
        cls.server = cls.start(
            optional,
            listen=dict.fromkeys(NAMES, "0.0.0.0:0"),
            clients=clients,
            resp={"users": clients},
            admin={"token_env": "PATH_TOKEN"},
            env={**os.environ, "PATH_TOKEN": "0123456789abcdef"},
        )
        cls.rls = envoy_harness.messages()

    def status(self, name, method, target, own, body=None):
        context = tls_harness.client(FILES, own=own)
        port = self.server.at[name].rsplit(":", 1)[1]
        over = http.client.HTTPSConnection("localhost", int(port), context=context, timeout=harness.PATIENCE)
        with contextlib.closing(over):
            over.request(method, target, body)
            return over.getresponse().status

    def test_http(self):
        attributes = {"path": "/login", "ip": "192.0.2.1"}
        for verb in ("refund", "reset"):
            body = json.dumps({"attributes": attributes, "verb": verb})
            for own, status in ((None, 403), ("client", 403), ("checker", 403), ("operator", 200),
                                ("chief", 200)):
                with self.subTest(verb, own=own):
                    self.assertEqual(self.status("http", "POST", "/v1/check", own, body), status)
        body = json.dumps({"attributes": attributes})
        self.assertEqual(self.status("http", "POST", "/v1/check", None, body), 200)

    def test_grpc(self):
        call = self.rls.RateLimitRequest(domain="shop", hits_addend=2)
        call.descriptors.add().entries.add(key="path", value="/login")
        read = lambda name: (FILES / name).read_bytes()
        port = self.server.at["grpc"].rsplit(":", 1)[1]
        denied = grpc.StatusCode.PERMISSION_DENIED
        for own, code in ((None, denied), ("checker", denied), ("operator", None)):
            keys = (read(f"{own}.key"), read(f"{own}.crt")) if own else ()
            credentials = grpc.ssl_channel_credentials(read("ca.crt"), *keys)
            # A separate pool of connections: otherwise grpcio shares them with earlier channels.
            options = [("grpc.use_local_subchannel_pool", 1)]
            with self.subTest(own=own), grpc.secure_channel(
                f"localhost:{port}", credentials, options
            ) as over:
                try:
                    envoy_harness.caller(self.rls, over)(call, timeout=harness.PATIENCE)
                    self.assertIsNone(code)
                except grpc.RpcError as error:
                    self.assertEqual(error.code(), code, error.details())

    def test_resp(self):
        for own, ping, reset in (
            (None, b"-NOAUTH ", b"-NOAUTH "),
            ("client", b"-NOAUTH ", b"-NOAUTH "),
            ("checker", b"+PONG", b"-NOPERM "),
            ("operator", b"+PONG", b"*"),
        ):
            with self.subTest(own=own), self.connect(self.server, "resp", own=own) as over:
                over.sendall(b"PING\r\nRL.RESET LIMIT k token_bucket 5 1s\r\nCLIENT INFO\r\nQUIT\r\n")
                replies = b"".join(iter(lambda: over.recv(4096), b""))
                first, second, *_ = replies.split(b"\r\n")
                self.assertTrue(first.startswith(ping), first)
                self.assertTrue(second.startswith(reset), second)
                if own in self.WHO:
                    self.assertIn(f" user={own} ".encode(), replies)
            with self.subTest(own=own), self.connect(self.server, "resp", own=own) as over:
                over.sendall(b"RESET\r\nPING\r\nQUIT\r\n")
                replies = b"".join(iter(lambda: over.recv(4096), b""))
                self.assertTrue(replies.startswith(b"+RESET\r\n" + ping), replies)

    def test_the_administration_accepts_the_certificate_of_an_admin(self):
        for own, status in ((None, 401), ("checker", 401), ("operator", 401), ("chief", 200)):
            with self.subTest(own=own):
                self.assertEqual(self.status("admin", "GET", "/v1/status", own), status)


class CommandLine(TlsTest):
    """`sluice` asks a server whose administration uses TLS."""

    @classmethod
    def setUpClass(cls):
        cls.server = cls.start()
        cls.mutual = cls.start({"client_ca_file": str(FILES / "ca.crt")})
        tls_harness.certificate(FILES, "elsewhere", names="DNS:elsewhere")
        cls.elsewhere = cls.start(cert="elsewhere")
        cls.plain = cls.serve(RULES)
        for name, parts in (("client.pem", "client.crt client.key"), ("alien.pem", "alien.crt alien.key"),
                            ("chain.crt", "server.crt ca.crt"), ("sibling.crt", "client.crt ca.crt")):  # fmt: skip
            (FILES / name).write_text("".join((FILES / part).read_text() for part in parts.split()))

    def url(self, server, host="localhost"):
        return f"https://{host}:{server.at['admin'].rsplit(':', 1)[1]}"

    def sluice(self, *words, admin=None, ca="ca.crt", cwd=None, **variables):
        where = [*(["--admin", admin] if admin else []), *(["--ca-file", str(FILES / ca)] if admin and ca else [])]
        return subprocess.run(
            [harness.binary(), *words, *where], capture_output=True, text=True, cwd=cwd or FILES,
            timeout=harness.PATIENCE, stdin=subprocess.DEVNULL, env={**os.environ, **variables},
        )  # fmt: skip

    def assert_works(self, done):
        self.assertEqual((done.returncode, done.stderr), (0, ""), done)

    def assert_fails(self, done, *texts):
        self.assertEqual(done.stdout, "")
        self.assertNotEqual(done.returncode, 0)
        for text in texts:
            self.assertIn(text, done.stderr)

    def test_every_command_does(self):
        for words in (("status",), ("top", "--once", "--interval", "0.1"), ("key", "list"),
                      ("rules", "show"), ("rules", "history"), ("key", "export"),
                      ("try", "--server", "POST /login ip=192.0.2.1"), ("key", "login", "ip=192.0.2.1"),
                      ("rules", "set", "login/0", "limit=6", "--dry-run", "--admin", self.url(self.server))):  # fmt: skip
            with self.subTest(words):
                self.assert_works(self.sluice(*words, admin=self.url(self.server)))
        self.assert_works(self.sluice("status", admin=self.url(self.server, "127.0.0.1")))
        done = self.sluice("status", admin=f"http://{self.plain.admin}", ca=None)
        self.assert_works(done)

    def test_variables_and_the_authorities_of_the_system_do(self):
        where = {"SLUICE_ADMIN": self.url(self.server) + "/"}
        self.assert_works(self.sluice("status", **where, SLUICE_CA_FILE=str(FILES / "ca.crt")))
        self.assert_works(self.sluice("status", **where, SSL_CERT_FILE=str(FILES / "ca.crt")))

    def test_the_authorities_are_for_the_servers_with_tls(self):
        self.assert_works(
            self.sluice("status", "--admin", self.plain.admin, admin=self.url(self.server), ca="ca.crt")
        )

    def test_a_client_certificate_is_presented(self):
        ask = lambda *words: self.sluice("status", *words, admin=self.url(self.mutual))  # noqa: E731
        self.assert_works(ask("--cert-file", "client.pem"))
        self.assert_fails(ask(), "expected --cert-file FILE if the server asks for a certificate")
        self.assert_fails(ask("--cert-file", "alien.pem"), "expected a certificate in --cert-file that")
        self.assert_fails(ask("--cert-file", "client.crt"), "cannot use the key in 'client.crt': expected")

    def test_what_is_wrong_is_said_with_what_is_expected(self):
        at = self.url(self.server)
        bare = at.removeprefix("https://")
        refused = f"cannot connect to the administration at {at}: TLS: the server's certificate is not accepted: "
        for admin, ca, *texts in (
            (at, "other.crt", refused, "expected --ca-file FILE with the authority that signed it"),
            (at, None, refused, "expected --ca-file FILE"),
            (at, "none.crt", f"cannot use the authorities in '{FILES / 'none.crt'}': No such file"),
            (self.url(self.elsewhere), "ca.crt", "hostname mismatch; expected --admin https://HOST:PORT with a name"),
            (bare, None, f"{bare} did not answer like the administration of Sluice; if it uses TLS, "
                         f"expected --admin {at}"),
            (bare, "ca.crt", f"does not use TLS; expected --admin {at}, or no --ca-file"),
            (f"https://{self.plain.admin}", "ca.crt",
             f"the server does not use TLS; expected --admin {self.plain.admin}"),
            ("https://localhost", "ca.crt", "expected host:port"),
            ("https://unix:/x", "ca.crt", "--admin https://unix:/x is no URL; expected unix:/x"),
        ):  # fmt: skip
            with self.subTest(admin=admin, ca=ca):
                self.assert_fails(self.sluice("status", admin=admin, ca=ca), *texts)

    def configured(self, certificate, server):
        """A folder with the configuration of a server, as the commands find it."""
        folder = pathlib.Path(tempfile.mkdtemp(dir=FILES))
        tls = {"cert_file": str(FILES / certificate), "key_file": str(FILES / "server.key")}
        config = {"version": 1, "listen": {"admin": server.at["admin"]}, "admin": {"tls": tls}}
        (folder / "sluice.yaml").write_text(json.dumps(config))
        return folder

    def test_the_certificate_of_the_configuration_is_accepted_and_no_other(self):
        for certificate in ("server.crt", "chain.crt"):
            self.assert_works(self.sluice("status", cwd=self.configured(certificate, self.server)))
        mutual = self.configured("server.crt", self.mutual)
        self.assert_works(self.sluice("status", "--cert-file", str(FILES / "client.pem"), cwd=mutual))
        for certificate in ("sibling.crt", "renewed.crt"):
            self.assert_fails(
                self.sluice("status", cwd=self.configured(certificate, self.server)),
                f"administration at https://{self.server.at['admin']} (of ./sluice.yaml): TLS: the server's",
                "expected the certificate in admin.tls.cert_file",
            )


class Reload(TlsTest):
    def renew(self, name):
        for end in ("crt", "key"):
            shutil.copy(FILES / f"{name}.{end}", FILES / f"reread.{end}")

    def test_sighup_replaces_the_certificate_of_every_listener(self):
        self.renew("server")
        server = self.start(cert="reread")
        with contextlib.ExitStack() as stack:
            old = {name: stack.enter_context(self.connect(server, name)) for name in NAMES}
            (FILES / "reread.crt").write_text("no certificate")
            server.signal(signal.SIGHUP)
            for name in NAMES:
                harness.wait_for(
                    lambda: any(
                        "certificate was not replaced" in line and f"front_end={name}" in line
                        for line in server.log().splitlines()
                    ),
                    what="the line of the log",
                )
                self.assertTrue(self.answers(server, name))
            with self.connect(server, "admin") as over:
                over.sendall(b"POST /v1/rules/reload HTTP/1.0\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n")
                text = b"".join(iter(lambda: over.recv(65536), b"")).decode()
            self.assertTrue(text.startswith("HTTP/1.1 409 "), text)
            self.assertEqual(text.count(": the certificate was not replaced: "), len(NAMES) + 1, text)
            self.renew("renewed")
            server.signal(signal.SIGHUP)
            for name in NAMES:
                with self.subTest(name):
                    harness.wait_for(
                        lambda: self.answers(server, name, authority="other"), "the new one"
                    )
                    self.assertFalse(self.answers(server, name))
                    self.ask(old[name], name)

    def test_a_certificate_that_cannot_be_used_stops_the_start(self):
        (FILES / "broken.crt").write_text("no certificate")
        for name in NAMES:
            with self.subTest(name), self.assertRaises(AssertionError) as raised:
                tls = {"cert_file": str(FILES / "broken.crt"), "key_file": str(FILES / "server.key")}
                self.serve(
                    config={
                        "listen": dict.fromkeys(NAMES, "127.0.0.1:0"),
                        name: {"tls": tls},
                    }
                )
            self.assertIn(f"{name}.tls: cannot use the certificate in", str(raised.exception))


class Drain(TlsTest):
    def test_a_server_answers_encrypted_connections_before_it_drains(self):
        server = self.start(drain={"delay": f"{2 * harness.PATIENCE}s"})
        with contextlib.ExitStack() as stack:
            over = {name: stack.enter_context(self.connect(server, name)) for name in NAMES}
            server.signal(signal.SIGTERM)
            harness.wait_for(lambda: "draining" in server.log(), "the begin of the delay")
            for name in ("http", "resp"):
                self.ask(over[name], name)
        server.signal(signal.SIGTERM)  # ends the server at once

    def test_a_drained_server_closes_encrypted_connections(self):
        server = self.start()
        with contextlib.ExitStack() as stack:
            over = {name: stack.enter_context(self.connect(server, name)) for name in NAMES}
            silent = stack.enter_context(harness.Raw(server.at["http"]))
            server.signal(signal.SIGTERM)
            silent.reader.read()
            for name in ("http", "resp", "grpc"):
                with contextlib.suppress(OSError):
                    while over[name].recv(4096):
                        pass
        self.assertEqual(server.wait(), 0)


if __name__ == "__main__":
    unittest.main()

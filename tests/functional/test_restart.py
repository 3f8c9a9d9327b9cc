"""Restarts under load: a new process takes over the sockets of the old one, or a service manager
keeps them."""

import os
import signal
import socket
import subprocess
import threading
import time
import unittest

from harness import PATIENCE, Raw, ServerTest, binary, free_port, request, tool, wait_for, wait_until_received

RESTARTS = 20 if os.environ.get("SLUICE_LONG_TESTS") else 3
SETTLES = 0.3  # between two restarts
RULES = """
version: 1
rules:
  - name: page
    match: { path: /page }
    limits: [{ name: all, key: "{ip}", algorithm: fixed_window, limit: 4000000000, per: 1h }]
"""
BODY = b'{"attributes":{"path":"/page","ip":"192.0.2.1"}}'
CHECK = b"POST /v1/check HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s" % (len(BODY), BODY)
NGINX = """
daemon off; pid nginx.pid; error_log stderr; worker_processes 1;
events {{ }}
http {{
  access_log off;
  client_body_temp_path t1; proxy_temp_path t2; fastcgi_temp_path t3; uwsgi_temp_path t4; scgi_temp_path t5;
  upstream sluice {{ server {sluice}; keepalive 8; }}
  server {{
    listen {nginx};
    location = /page {{
      proxy_pass http://sluice/v1/auth;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_set_header Host localhost;
      proxy_set_header X-Original-Method GET;
      proxy_set_header X-Original-URI /page;
    }}
  }}
}}
"""


class Client(threading.Thread):
    """Sends requests, about 50 per second. Counts the failed ones and the connections."""

    def __init__(self, address):
        super().__init__(daemon=True)
        self.address, self.ends = address, False
        self.answered, self.connections, self.failures = 0, 0, []

    def run(self):
        raw = None
        while not self.ends:
            try:
                if raw is None:
                    raw, self.connections = Raw(self.address), self.connections + 1
                keeps = self.ask(raw)
                self.answered += 1
            except (EOFError, OSError, AssertionError) as error:
                self.failures.append(repr(error))
                keeps = False
            if not keeps and raw is not None:
                raw.close()
                raw = None
            time.sleep(0.02)
        if raw is not None:
            raw.close()

    def ask(self, raw):
        """Sends a request. Returns whether the connection may be used again."""
        raw.send(CHECK)
        answer = raw.answer()
        assert answer.status == 200, answer
        return answer["connection"] != "close"


class Newcomer(Client):
    """Opens a connection for each request."""

    def ask(self, raw):
        return super().ask(raw) and False


class Gateway(Client):
    """Asks nginx, which keeps connections to Sluice open."""

    def ask(self, raw):
        raw.send(b"GET /page HTTP/1.1\r\nHost: localhost\r\n\r\n")
        answer = raw.answer()
        assert answer.status == 200, answer
        return answer["connection"] != "close"


class RespClient(Client):
    """Like the clients of Redis, connects once more if a connection has ended."""

    def ask(self, raw):
        raw.send(b"CL.THROTTLE a 1000000000 1000000000 60\r\n")
        lines = [raw.reader.readline() for _ in range(6)]
        if not lines[0]:
            return False
        assert lines[:2] == [b"*5\r\n", b":0\r\n"], lines
        return True


class Restarts(ServerTest):
    def setUp(self):
        self.sluice_address = f"127.0.0.1:{free_port()}"
        self.resp_address = f"127.0.0.1:{free_port()}"
        self.unix_path = self.folder() / "http.sock"
        self.handover = self.folder() / "handover.sock"

    def config(self, **listen):
        return {
            "listen": {"http": self.sluice_address, "resp": self.resp_address, **listen},
            "drain": {"handover": str(self.handover)},
            "threads": 2,
        }

    def clients(self):
        nginx = f"127.0.0.1:{free_port()}"
        folder = self.folder()
        text = NGINX.format(sluice=self.sluice_address, nginx=nginx)
        (folder / "nginx.conf").write_text(text, "utf-8")
        self.start([tool("nginx"), "-p", str(folder), "-c", "nginx.conf"], folder, "nginx", nginx)
        return [
            *(Client(self.sluice_address) for _ in range(2)),
            Newcomer(self.sluice_address),
            *(Gateway(nginx) for _ in range(2)),
            *(RespClient(self.resp_address) for _ in range(2)),
        ]

    def run_clients(self, clients, restart):
        for client in clients:
            client.start()
        wait_for(lambda: all(client.answered > 5 for client in clients), what="the first answers")
        for _ in range(RESTARTS):
            restart()
            before = [client.answered for client in clients]
            wait_for(
                lambda: all(c.answered > b + 5 for c, b in zip(clients, before)), what="more answers"
            )
            time.sleep(SETTLES)
        for client in clients:
            client.ends = True
        for client in clients:
            client.join(PATIENCE)

    def test_a_new_process_takes_over_without_a_failed_request(self):
        memory = {"snapshot": str(self.folder() / "counters"), "snapshot_interval": "50ms"}
        config = {**self.config(), "memory": memory}
        old = [self.serve(RULES, config)]

        def restart():
            old.append(self.serve(RULES, config))
            self.assertEqual(old[-2].wait(), 0)
            self.assertIn("handed over", old[-2].log())

        clients = self.clients()
        self.run_clients(clients, restart)
        for client in clients:
            with self.subTest(type(client).__name__):
                self.assertEqual(client.failures, [])
        for client in clients:
            if isinstance(client, RespClient):
                self.assertLessEqual(client.connections, 1 + 2 * RESTARTS)
        self.assertEqual(old[-1].get("/healthz").status, 200)

    def test_unix_sockets_are_taken_over_and_stay(self):
        address = f"unix:{self.unix_path}"
        config = self.config(http=address, resp="off", admin=f"unix:{self.unix_path}.admin")
        old = self.serve(RULES, config)
        client = Newcomer(address)
        client.start()
        for _ in range(RESTARTS):
            new = self.serve(RULES, config)
            self.assertEqual(old.wait(), 0)
            self.assertEqual(request(address, "GET", "/healthz").status, 200)
            self.assertEqual(request(new.admin, "GET", "/healthz").status, 200)
            old = new
        client.ends = True
        client.join(PATIENCE)
        self.assertEqual(client.failures, [])
        self.assertEqual(old.stop(), 0)
        self.assertFalse(self.unix_path.exists())

    def test_if_the_new_process_cannot_start_the_old_one_stays(self):
        old = self.serve(RULES, self.config())
        with socket.socket() as other:
            other.bind(("127.0.0.1", 0))
            other.listen()
            used = f"127.0.0.1:{other.getsockname()[1]}"
            with self.assertRaisesRegex(AssertionError, "cannot listen"):
                self.serve(RULES, self.config(grpc=used))
        with self.assertRaisesRegex(AssertionError, "opened 2 sockets for it, more than the 1"):
            self.serve(RULES, {**self.config(), "threads": 1})
        self.assertEqual(old.get("/healthz").status, 200)
        self.assertIsNone(old.child.poll())

    def test_the_first_sigterm_after_a_handover_cuts_no_request(self):
        patient = {"header_timeout": f"{PATIENCE}s", "body_timeout": f"{PATIENCE}s"}
        config = {**self.config(), "bounds": patient}
        config["drain"]["timeout"] = f"{2 * PATIENCE}s"
        old = self.serve(RULES, config)
        with Raw(self.sluice_address) as raw, Raw(self.sluice_address) as other:
            for client in (raw, other):
                client.send(CHECK[:-5])
                wait_until_received(client.socket)
            self.serve(RULES, config)
            wait_for(lambda: "handed over" in old.log(), "the handover")
            old.signal(signal.SIGTERM)
            wait_for(lambda: "draining already" in old.log(), "the signal")
            raw.send(CHECK[-5:])
            self.assertEqual(raw.answer().status, 200)
            old.signal(signal.SIGTERM)
            self.assertEqual(old.wait(), 0)
        self.assertIn("connections were closed because of a second signal", old.log())

    def test_sigterm_ends_the_server_that_took_over(self):
        old = self.serve(RULES, self.config())
        change = b'{"mode":"shadow","for":"1h"}'
        self.assertEqual(old.admin_request("PATCH", "/v1/rules/page", change).status, 200)
        new = self.serve(RULES, self.config())
        self.assertEqual(old.wait(), 0)
        self.assertIn("a temporary change of a rule ends with this server rule=page key=mode was=shadow", old.log())
        new.signal(signal.SIGTERM)
        self.assertEqual(new.wait(), 0)
        self.assertFalse(self.handover.exists())
        with self.assertRaises(OSError):
            Raw(self.sluice_address)


# Listens, and starts the server with the socket as its descriptor 3, as a service manager does.
ACTIVATE = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.environ["LISTEN_FDS"] = "1"
os.environ["LISTEN_PID"] = str(os.getpid())
os.execv(sys.argv[2], sys.argv[2:])
"""


class SocketActivation(ServerTest):
    def test_connections_wait_while_the_server_restarts(self):
        with socket.create_server(("127.0.0.1", 0), backlog=100) as listening:
            address = "127.0.0.1:%d" % listening.getsockname()[1]
            os.set_inheritable(listening.fileno(), True)
            config = self.folder() / "sluice.yaml"
            config.write_text("version: 1\ndrain: { delay: 100ms }\nlisten: "
                              f"{{ http: {address}, grpc: off, resp: off, admin: off }}\n")
            argv = ["/usr/bin/python3", "-c", ACTIVATE, str(listening.fileno()), binary(), "serve",
                    "--config", str(config)]
            clients = [Newcomer(address) for _ in range(2)]
            for restart in range(RESTARTS):
                child = subprocess.Popen(argv, pass_fds=[listening.fileno()], stdout=subprocess.PIPE)
                try:
                    child.stdout.readline()
                    for client in clients:
                        if not client.is_alive():
                            client.start()
                    before = [client.answered for client in clients]
                    wait_for(
                        lambda: all(c.answered > b + 5 for c, b in zip(clients, before)), what="answers"
                    )
                    if restart == RESTARTS - 1:
                        for client in clients:
                            client.ends = True
                            client.join(PATIENCE)
                finally:
                    child.send_signal(signal.SIGTERM)
                    child.communicate(timeout=PATIENCE)
        self.assertEqual([client.failures for client in clients], [[], []])


if __name__ == "__main__":
    unittest.main()

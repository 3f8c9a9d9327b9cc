"""Starts the real program, and gateways in front of it, for the tests of this folder.

The harness stops every process group that it started, even when a test fails. The environment
variable SLUICE_BINARY contains the path of the program.
"""

import contextlib
import fcntl
import http.client
import http.server
import json
import os
import pathlib
import random
import select
import shutil
import signal
import socket
import subprocess
import tempfile
import termios
import threading
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGES = {
    "nginx": "nginx",
    "haproxy": "haproxy",
    "caddy": "caddy",
    "chromedriver": "chromium-driver",
    "chromium": "chromium",
    "wrk": "wrk",
    "slowhttptest": "slowhttptest",
    "promtool": "prometheus",
    "mvn": "maven",
    "java": "default-jdk-headless",
    "go": "golang-go",
    "cargo": "cargo",
    "fish": "fish",
    "man": "man-db",
    "mandoc": "mandoc",
    "tmux": "tmux",
    "valgrind": "valgrind",
    "vgdb": "valgrind",
    "zsh": "zsh",
}
PATIENCE = 60  # seconds: a test that waits for longer has failed
os.environ.setdefault("SLUICE_TIMEOUT", str(PATIENCE))  # of commands that ask a server
PORTS = range(12000, 22000)  # these, and those 10,000 above, are below the outgoing ports
_port_locks = []


def binary():
    path = os.environ.get("SLUICE_BINARY")
    if not path:
        raise RuntimeError("SLUICE_BINARY is not set: it names the program under test")
    return path


def tool(name):
    """Returns the path of a program from a Debian package. Fails the test if it is missing."""
    path = shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    if not path:
        raise AssertionError(f"{name} is missing: apt-get install {PACKAGES[name]}")
    return path


def wait_for(condition, what="the condition"):
    """Returns the condition's first true value."""
    end = time.monotonic() + PATIENCE
    pause = 0.0001
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"{what} did not come true within {PATIENCE} s")
        time.sleep(pause)
        pause = min(2 * pause, 0.02)


class Clock:
    """The wall clock of the programs that run with `environment`. It is stopped; a test moves it.
    Monotonic clocks, which measure deadlines and timeouts, do not change."""

    START = 1_800_000_000  # seconds since the epoch: a Friday, 08:00:00 UTC

    def __init__(self, folder):
        folder = pathlib.Path(folder)
        library, file = folder / "stopped_clock.so", folder / "clock"
        source = pathlib.Path(__file__).with_name("stopped_clock.cc")
        compiler = os.environ.get("CXX", "c++")
        subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source], check=True)
        file.write_bytes(bytes(8))
        self.file = open(file, "r+b", buffering=0)
        self.environment = {
            **os.environ,
            "LD_PRELOAD": str(library),
            "STOPPED_CLOCK_FILE": str(file),
        }
        self.set(self.START * 1_000_000)

    def set(self, microseconds):
        """Stops the clock at this time since the epoch. 0: it is the real clock."""
        self.microseconds = microseconds
        os.pwrite(self.file.fileno(), microseconds.to_bytes(8, "little"), 0)

    def advance(self, seconds):
        self.set(self.microseconds + round(seconds * 1_000_000))


def connect(address, timeout=PATIENCE):
    """Returns a socket connected to "host:port", "[v6]:port", "unix:PATH" or (host, port)."""
    if isinstance(address, str) and address.startswith("unix:"):
        made = socket.socket(socket.AF_UNIX)
        made.settimeout(timeout)
        made.connect(address[len("unix:") :])
        return made
    if isinstance(address, str):
        host, port = address.rsplit(":", 1)
        address = (host.strip("[]"), int(port))
    return socket.create_connection(address, timeout=timeout)


def wait_until_received(client):
    """Waits until the program at the other end of a connection has read all that was sent."""

    def has_arrived():  # for a Unix socket, this means: has been read
        return not any(fcntl.ioctl(client, termios.TIOCOUTQ, bytes(4)))

    wait_for(has_arrived, "the arrival of what was sent")
    if client.family == socket.AF_UNIX:
        return
    addresses = client.getpeername(), client.getsockname()
    ends = [f"{socket.htonl(int.from_bytes(socket.inet_aton(host), 'big')):08X}:{port:04X}"
            for host, port in addresses]  # fmt: skip

    def is_empty():
        lines = pathlib.Path("/proc/net/tcp").read_text().splitlines()
        queues = [words[4] for words in map(str.split, lines) if words[1:3] == ends]
        return queues and queues[0].endswith(":00000000")

    wait_for(is_empty, "an empty receive buffer")


def accepts(address):
    try:
        connect(address).close()
        return True
    except OSError:
        return False


def is_free(port):
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
            return True
        except OSError:
            return False


def free_port():
    """Returns a port that no outgoing connection uses, and that no other test uses while this process
    runs. The port 10,000 above is free too: a Redis cluster needs it."""
    for port in random.sample(PORTS, 1000):
        lock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            lock.bind(f"\0sluice-test-port-{port}")
        except OSError:
            lock.close()
            continue
        _port_locks.append(lock)
        if is_free(port) and is_free(port + 10000):
            return port
    raise AssertionError("no free port")


def replaced(text, *pairs):
    """Returns the text of a file with other ports and folders. `pairs` are (old, new)."""
    for old, new in pairs:
        if old not in text:
            raise AssertionError(f"{old!r} is not in the file any more")
        text = text.replace(old, new)
    return text


class Answer:
    """An HTTP response. The lookup of fields ignores case."""

    def __init__(self, status, fields, body, version="HTTP/1.1"):
        self.status, self.body, self.version = status, body, version
        self.fields = [(name.lower(), value) for name, value in fields]

    def __getitem__(self, name):
        return next((value for own, value in self.fields if own == name.lower()), None)

    def all(self, name):
        return [value for own, value in self.fields if own == name.lower()]

    @property
    def json(self):
        return json.loads(self.body)

    def __repr__(self):
        return f"Answer({self.status}, {self.fields}, {self.body[:300]!r})"


class Raw:
    """A connection that sends the given bytes unchanged."""

    def __init__(self, address, timeout=PATIENCE):
        self.socket = connect(address, timeout)
        self.reader = self.socket.makefile("rb")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.reader.close()
        self.socket.close()

    def send(self, data):
        self.socket.sendall(data.encode() if isinstance(data, str) else data)
        return self

    def answer(self, head=False):
        """Returns the next response. Raises EOFError if the connection ended instead."""
        line = self.reader.readline()
        if not line.endswith(b"\r\n"):
            raise EOFError(f"no status line but {line!r}")
        version, status, *_ = line.decode("latin-1").split(" ", 2)
        fields = []
        while (line := self.reader.readline()) != b"\r\n":
            if not line:
                raise EOFError("the header ended early")
            name, value = line.decode("utf-8").rstrip("\r\n").split(":", 1)
            fields.append((name, value.strip()))
        found = Answer(int(status), fields, b"", version)
        size = 0 if head or found.status < 200 else int(found["content-length"])
        found.body = self.reader.read(size)
        if len(found.body) < size:
            raise EOFError(f"the body ended after {len(found.body)} of {size} bytes")
        return found

    def ended(self):
        """Waits, and returns whether the peer closes without sending another byte."""
        try:
            return self.reader.read(1) == b""
        except ConnectionResetError:
            return True
        except TimeoutError:
            return False


def exchange(address, data, timeout=PATIENCE):
    """Sends these bytes on a new connection and returns one response."""
    with Raw(address, timeout) as raw:
        return raw.send(data).answer()


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path, timeout):
        super().__init__("localhost", timeout=timeout)
        self.path = path

    def connect(self):
        self.sock = connect(self.path, self.timeout)


def request(address, method, target, body=None, headers=None, timeout=PATIENCE):
    if str(address).startswith("unix:"):
        connection = UnixConnection(address, timeout)
    else:
        connection = http.client.HTTPConnection(address, timeout=timeout)
    with contextlib.closing(connection):
        if isinstance(body, str):
            body = body.encode()
        connection.request(method, target, body=body, headers=headers or {})
        got = connection.getresponse()
        fields = [(n, v.encode("latin-1").decode("utf-8")) for n, v in got.getheaders()]
        return Answer(got.status, fields, got.read())


class Process:
    """A program in a process group of its own; its standard error goes to a file."""

    def __init__(
        self, argv, folder, name, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL, **options
    ):
        self.name = name
        self.error_file = pathlib.Path(folder) / f"{name}.stderr"
        with open(self.error_file, "ab") as errors:
            self.child = subprocess.Popen(
                argv,
                cwd=folder,
                stdin=stdin,
                stdout=stdout,
                stderr=errors,
                start_new_session=True,
                **options,
            )

    @property
    def pid(self):
        return self.child.pid

    def log(self):
        return self.error_file.read_text("utf-8", "replace")

    def signal(self, number):
        self.child.send_signal(number)

    def pause(self):
        """Stops every thread, until SIGCONT. A signal alone lets other threads run for a while."""
        self.signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.child.pid, os.WSTOPPED | os.WNOWAIT)

    def wait(self, seconds=PATIENCE):
        return self.child.wait(seconds)

    def kill(self):
        """kill -9"""
        self.signal(signal.SIGKILL)
        self.wait()

    def stop(self):
        """Ends the process and returns its exit status."""
        try:
            if self.child.poll() is None:
                self.signal(signal.SIGCONT)
                self.signal(signal.SIGTERM)
                self.wait()
        except subprocess.TimeoutExpired:
            pass
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)  # its remaining children
            self.child.wait()
            if self.child.stdout:
                self.child.stdout.close()
        return self.child.returncode

    def wait_until_accepting(self, address):
        def ready():
            if self.child.poll() is not None:
                raise AssertionError(f"{self.name} ended at its start:\n{self.log()}")
            return accepts(address)

        wait_for(ready, f"{self.name} accepting at {address}")


class Sluice(Process):
    """`sluice serve` on free ports of the loopback, from a configuration file in `folder`.

    `config` overrides the harness's own configuration, key by key. `rules` is the text of a rules
    file. `clock` is a Clock. `under` is a command that runs the program. Without `named`, no flag
    names the configuration file, which is in the current folder.
    """

    def __init__(self, folder, rules=None, config=None, flags=(), clock=None, under=(), named=True,
                 **options):
        if clock:
            options["env"] = clock.environment
        self.folder = pathlib.Path(folder)
        whole = {"version": 1, "listen": {}, **(config or {})}
        whole["drain"] = {"delay": "0s", **whole.get("drain", {})}
        whole["listen"] = {
            "http": "127.0.0.1:0",
            "grpc": "off",
            "resp": "off",
            "admin": "127.0.0.1:0",
            **whole["listen"],
        }
        if rules is not None:
            self.rules_file = self.folder / "rules.yaml"
            self.rules_file.write_text(rules, "utf-8")
            whole.setdefault("rules", str(self.rules_file))
        config_file = self.folder / "sluice.yaml"
        config_file.write_text(json.dumps(whole, indent=1), "utf-8")
        super().__init__(
            [*under, binary(), "serve", *(["--config", str(config_file)] if named else []), *flags],
            folder,
            "sluice",
            stdout=subprocess.PIPE,
            **options,
        )
        try:
            self.ready_line = self._read_ready_line()
        except BaseException:
            self.stop()
            raise
        self.front_ends = dict(word.split("=", 1) for word in self.ready_line.split()[1:])
        self.http, self.admin = self.front_ends.get("http"), self.front_ends.get("admin")

    def _read_ready_line(self):
        line, end = b"", time.monotonic() + PATIENCE
        while not line.endswith(b"\n"):
            left = max(0, end - time.monotonic())
            if not select.select([self.child.stdout], [], [], left)[0]:
                raise AssertionError(f"no ready line within {PATIENCE} s:\n{self.log()}")
            byte = os.read(self.child.stdout.fileno(), 1)
            if not byte:
                raise AssertionError(f"sluice ended before it was ready:\n{self.log()}")
            line += byte
        text = line.decode().rstrip("\n")
        if not text.startswith("ready "):
            raise AssertionError(f"the first line is no ready line: {text!r}")
        return text

    def get(self, target, headers=None):
        return request(self.http, "GET", target, headers=headers)

    def check(self, body, headers=None):
        """Sends POST /v1/check with a JSON value, or with a text unchanged."""
        if not isinstance(body, (str, bytes)):
            body = json.dumps(body)
        return request(
            self.http,
            "POST",
            "/v1/check",
            body,
            {"Content-Type": "application/json", **(headers or {})},
        )

    def auth(self, method, uri, ip="192.0.2.1", deny=None, **headers):
        """Sends GET /v1/auth as a trusted gateway does."""
        target = "/v1/auth" + (f"?deny={deny}" if deny else "")
        fields = {"X-Original-Method": method, "X-Original-URI": uri, "X-Forwarded-For": ip}
        fields.update((name.replace("_", "-"), value) for name, value in headers.items())
        return self.get(target, fields)

    def admin_request(self, method, target, body=None, headers=None):
        return request(self.admin, method, target, body, headers)

    def metrics(self):
        """Returns the samples of /metrics, from the text of name and labels to the value."""
        lines = self.get("/metrics").body.decode().splitlines()
        pairs = (line.rsplit(" ", 1) for line in lines if line and not line.startswith("#"))
        return {name: float(value) for name, value in pairs}

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def resident_bytes(self):
        pages = pathlib.Path(f"/proc/{self.pid}/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")


class ServerTest(unittest.TestCase):
    """Tests that share the servers of their class. Every server must stop with status 0."""

    @classmethod
    def folder(cls):
        """Creates a folder. Processes started in it stop before it is removed."""
        made = tempfile.TemporaryDirectory(prefix="sluice-test-")
        cls.addClassCleanup(made.cleanup)
        os.chmod(made.name, 0o755)  # gateways drop root privileges
        return pathlib.Path(made.name)

    @classmethod
    def stopped_clock(cls):
        clock = Clock(cls.folder())
        cls.addClassCleanup(clock.file.close)
        return clock

    @classmethod
    def serve(cls, rules=None, config=None, flags=(), **options):
        server = Sluice(cls.folder(), rules, config, flags, **options)
        cls.addClassCleanup(cls._stop, server)
        return server

    @staticmethod
    def _stop(server):
        status = server.stop()
        if status != 0:
            raise AssertionError(f"stopped with status {status}:\n{server.log()[-4000:]}")

    @classmethod
    def start_process(cls, argv, folder, name):
        process = Process(argv, folder, name)
        cls.addClassCleanup(process.stop)
        return process

    @classmethod
    def start(cls, argv, folder, name, address):
        process = cls.start_process(argv, folder, name)
        process.wait_until_accepting(address)
        return process


class Application:
    """The application that a gateway protects. Answers with the status in X-Answer, or 200, and with
    the X-Cost of the request. Records the requests that reached it, and when."""

    def __init__(self):
        seen, times = [], []
        self.seen, self.times = seen, times

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True  # an answer is two writes

            def answer(self):
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                status = int(self.headers.get("X-Answer") or 200)
                fields = {name.lower(): value for name, value in self.headers.items()}
                seen.append((self.command, self.path, fields, body))
                times.append(time.monotonic())
                text = f"application: {self.command} {self.path}\n".encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(text)))
                if "X-Cost" in self.headers:
                    self.send_header("X-Cost", self.headers["X-Cost"])
                self.end_headers()
                self.wfile.write(text)

            do_GET = do_POST = do_PUT = do_DELETE = answer

            def log_message(self, *_):
                pass

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_):
                pass  # gateways reset connections that they no longer need

        self.server = Server(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self.server.server_address[1]}"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True)
        self.thread.start()

    def stop(self):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

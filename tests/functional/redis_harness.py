"""Starts real Redis servers for the tests of this folder: alone, with Sentinels, as a cluster.

Every server has a new folder and is stopped by its process id. It also dies if the test's process
is killed. Start servers from the main thread: they die with the thread that started them.
"""

import contextlib
import ctypes
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import time

from harness import PATIENCE, Process, ServerTest, free_port, wait_for

PACKAGES = {
    "redis-server": "redis-server",
    "redis-cli": "redis-tools",
    "openssl": "openssl",
}
SLOTS = 16384
_libc = ctypes.CDLL(None)


def tool(name):
    """Returns the path of a program from a Debian package. Fails the test if it is missing. If the
    environment variable SLUICE_REDIS_SERVER names a program, that is the redis-server."""
    if name == "redis-server" and os.environ.get("SLUICE_REDIS_SERVER"):
        return os.environ["SLUICE_REDIS_SERVER"]
    path = shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    if not path:
        raise AssertionError(f"{name} is missing: apt-get install {PACKAGES[name]}")
    return path


def die_with_parent():
    """Runs in the child between fork and exec."""
    _libc.prctl(1, signal.SIGKILL)


class RedisError(Exception):
    """An error reply of a server."""


class Resp:
    """A connection to Redis that speaks RESP2."""

    def __init__(self, address, timeout=PATIENCE):
        if isinstance(address, tuple):
            self.socket = socket.create_connection(address, timeout=timeout)
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        else:
            self.socket = socket.socket(socket.AF_UNIX)
            self.socket.settimeout(timeout)
            try:
                self.socket.connect(str(address))
            except OSError:
                self.socket.close()
                raise
        self.reader = self.socket.makefile("rb")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.reader.close()
        self.socket.close()

    @staticmethod
    def encode(words):
        words = [w if isinstance(w, bytes) else str(w).encode() for w in words]
        return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(w), w) for w in words)

    def read(self):
        """Returns the next reply. Raises RedisError if it is an error."""
        line = self.reader.readline()
        if not line.endswith(b"\r\n"):
            raise EOFError(f"no reply but {line!r}")
        kind, rest = line[:1], line[1:-2]
        if kind == b"+":
            return rest.decode()
        if kind == b"-":
            raise RedisError(rest.decode())
        if kind == b":":
            return int(rest)
        if kind == b"$":
            return None if rest == b"-1" else self.reader.read(int(rest) + 2)[:-2]
        if kind == b"*":
            return None if rest == b"-1" else [self._element() for _ in range(int(rest))]
        raise AssertionError(f"no reply: {line!r}")

    def _element(self):
        try:
            return self.read()
        except RedisError as error:
            return error

    def __call__(self, *words):
        self.socket.sendall(self.encode(words))
        return self.read()


class Redis:
    """A redis-server (or a Sentinel) on a Unix socket and, unless `tcp` is false, a port.

    `options` are lines of the configuration: {"maxmemory": "10mb"}. A list makes several lines.
    `clock` is a harness.Clock. If the environment variable SLUICE_MODULE names a file, the server
    loads that module.
    """

    def __init__(self, folder, options=None, name="redis", tcp=True, clock=None,
                 is_sentinel=False):
        self.folder = pathlib.Path(folder) / name
        self.folder.mkdir()
        self.name, self.is_sentinel, self.tcp, self.port = name, is_sentinel, tcp, None
        self.path = self.folder / "redis.sock"
        self.options = dict(options or {})
        self.environment = clock and clock.environment
        self.process = None
        self.user, self.password = "default", None  # this harness's own login

    def has_replicated(self, offset):
        """Returns whether this replica has what its master had written at an offset."""
        return int(self.info("replication").get("slave_repl_offset", -1)) >= offset

    def start(self):
        """Starts the server, or restarts it with the same options."""
        for left in (2, 1, 0):
            if self.tcp and self.port is None:
                self.port = free_port()
            self.process = Process(self._command(), self.folder, self.name, env=self.environment,
                                   preexec_fn=die_with_parent)
            try:
                self.wait_until_ready()
                break
            except AssertionError:
                self.process.stop()
                if not left or "Address already in use" not in self.output():
                    raise
                self.port = None
                (self.folder / "redis.conf").unlink()
        return self

    def _command(self):
        words = [tool("redis-server"), str(self._configuration())]
        return words + ["--sentinel"] if self.is_sentinel else words

    def _configuration(self):
        file = self.folder / "redis.conf"
        if file.exists():  # Sentinels and cluster nodes write into it: keep it for a restart
            return file
        lines = {
            "bind": "127.0.0.1",
            "port": self.port if self.tcp else 0,
            "unixsocket": self.path,
            "dir": self.folder,
            "logfile": self.folder / "log",
            "daemonize": "no",
        }
        if not self.is_sentinel:
            lines.update({
                "save": '""',
                "appendonly": "no",
                "repl-diskless-sync-delay": 0,
                "repl-ping-replica-period": 1,
            })
            if os.environ.get("SLUICE_MODULE"):
                lines["loadmodule"] = os.environ["SLUICE_MODULE"]
        lines.update(self.options)
        with open(file, "w") as out:
            for key, value in lines.items():
                for one in value if isinstance(value, list) else [value]:
                    print(key, one, file=out)
        return file

    def output(self):
        log = self.folder / "log"
        return self.process.log() + (log.read_text("utf-8", "replace") if log.exists() else "")

    def alive(self):
        return self.process is not None and self.process.child.poll() is None

    def wait_until_ready(self):
        def ready():
            if not self.alive():
                raise AssertionError(f"{self.name} ended at its start:\n{self.output()}")
            try:
                self.command("PING")
                return True
            except (OSError, EOFError, RedisError):
                return False

        wait_for(ready, f"{self.name} answering PING")

    def connection(self, timeout=PATIENCE):
        made = Resp(self.path, timeout)
        if self.password is not None:
            made("AUTH", self.user, self.password)
        return made

    def command(self, *words, timeout=PATIENCE):
        """Returns the reply to one command on a new connection."""
        with self.connection(timeout) as connection:
            return connection(*words)

    def config(self, key, value):
        self.command("CONFIG", "SET", key, value)

    def info(self, section="default"):
        text = self.command("INFO", section).decode()
        return dict(line.split(":", 1) for line in text.splitlines() if ":" in line)

    @property
    def address(self):
        return f"127.0.0.1:{self.port}"

    @property
    def url(self):
        return f"redis://{self.address}" if self.tcp else f"redis+unix://{self.path}"

    def kill(self):
        """kill -9"""
        self.process.signal(signal.SIGKILL)
        self.process.wait()
        with contextlib.suppress(FileNotFoundError):
            self.path.unlink()

    def pause(self):
        self.process.pause()

    def resume(self):
        self.process.signal(signal.SIGCONT)

    def stop(self):
        if self.process:
            self.process.stop()


class Certificates:
    """A new certificate authority, a certificate of `localhost` and one of a client. The paths are
    ca_crt, server_crt, server_key, client_crt and client_key."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder) / "certificates"
        self.folder.mkdir()
        self._openssl("req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 "
                      "-subj /CN=test-authority -keyout ca.key -out ca.crt")
        self._issue("server", "subjectAltName=DNS:localhost,IP:127.0.0.1")
        self._issue("client", "extendedKeyUsage=clientAuth")

    def _issue(self, name, extension):
        (self.folder / f"{name}.ext").write_text(extension + "\n")
        self._openssl("req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes "
                      f"-subj /CN={name} -keyout {name}.key -out {name}.csr")
        self._openssl(f"x509 -req -in {name}.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 2 "
                      f"-extfile {name}.ext -out {name}.crt")

    def _openssl(self, words):
        subprocess.run([tool("openssl"), *words.split()], cwd=self.folder, check=True,
                       capture_output=True)

    def __getattr__(self, name):
        if name.endswith(("_crt", "_key")):
            return str(self.folder / name.replace("_", "."))
        raise AttributeError(name)

    def server_options(self, port, ask_clients=False):
        """Returns the lines of a server's configuration for TLS at a port."""
        return {
            "tls-port": port,
            "tls-cert-file": self.server_crt,
            "tls-key-file": self.server_key,
            "tls-ca-cert-file": self.ca_crt,
            "tls-auth-clients": "yes" if ask_clients else "no",
        }


class SentinelSet:
    """One master, two replicas and three Sentinels. These replace a dead master only while a test
    waits for that, so that no server is thought dead because the machine is busy."""

    name = "orders"

    def __init__(self, folder):
        self.folder = folder
        self.servers = [Redis(folder, name=f"redis{i}") for i in range(3)]
        self.sentinels = []

    def start(self):
        master, *replicas = self.servers
        master.start()
        for replica in replicas:
            replica.options["replicaof"] = f"127.0.0.1 {master.port}"
            replica.start()
        wait_for(lambda: all(r.info("replication")["master_link_status"] == "up" for r in replicas),
                 what="the replicas' links")
        for i in range(3):
            sentinel = Redis(self.folder, self._options(master), f"sentinel{i}",
                             is_sentinel=True)
            self.sentinels.append(sentinel)
            sentinel.start()
        wait_for(self._complete, what="the Sentinels knowing each other and the replicas")
        return self

    def _options(self, master):
        return {
            "sentinel": [
                f"monitor {self.name} 127.0.0.1 {master.port} 2",
                f"down-after-milliseconds {self.name} {1000 * PATIENCE}",
                f"failover-timeout {self.name} 4000",
            ],
        }

    def _complete(self):
        for sentinel in self.sentinels:
            flat = sentinel.command("SENTINEL", "MASTER", self.name)
            facts = dict(zip(flat[::2], flat[1::2]))
            if facts[b"num-slaves"] != b"2" or facts[b"num-other-sentinels"] != b"2":
                return False
        return True

    @property
    def url(self):
        return f"redis+sentinel://{','.join(s.address for s in self.sentinels)}/{self.name}"

    def master(self):
        """Returns the server that most Sentinels report as the master."""
        ports = [int(s.command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self.name)[1])
                 for s in self.sentinels if s.alive()]
        port = max(ports, key=ports.count)
        return next(server for server in self.servers if server.port == port)

    def wait_until_replicated(self):
        """Waits until every replica has all that the master has now."""
        master = self.master()
        offset = int(master.info("replication")["master_repl_offset"])
        replicas = [server for server in self.servers if server is not master]
        wait_for(lambda: all(one.has_replicated(offset) for one in replicas), "the replicas")

    def wait_for_master_other_than(self, old):
        def elected():
            now = self.master()
            return now is not old and now.info("replication")["role"] == "master" and now

        self._set_down_after(500)
        try:
            return wait_for(elected, "another master")
        finally:
            self._set_down_after(1000 * PATIENCE)

    def _set_down_after(self, milliseconds):
        for sentinel in self.sentinels:
            if sentinel.alive():
                sentinel.command("SENTINEL", "SET", self.name, "down-after-milliseconds", milliseconds)

    def stop(self):
        for server in self.sentinels + self.servers:
            server.stop()


def crc16(data):
    crc = 0
    for byte in data:
        crc ^= byte << 8
        for _ in range(8):
            crc = ((crc << 1) ^ 0x1021 if crc & 0x8000 else crc << 1) & 0xFFFF
    return crc


def slot_of(key):
    """Returns the slot of a Redis key in a cluster."""
    key = key if isinstance(key, bytes) else key.encode()
    start = key.find(b"{")
    end = key.find(b"}", start + 1)
    if 0 <= start and start + 1 < end:
        key = key[start + 1 : end]
    return crc16(key) % SLOTS


class RedisCluster:
    """A cluster of three masters and, unless `replicas` is 0, a replica of each."""

    def __init__(self, folder, masters=3, replicas=1, node_timeout_ms=1500, options=None):
        self.masters, self.replicas = masters, replicas
        common = {
            "cluster-enabled": "yes",
            "cluster-node-timeout": node_timeout_ms,
            "cluster-replica-validity-factor": 0,
            **(options or {}),
        }
        count = masters * (1 + replicas)
        self.servers = [Redis(folder, common, f"node{i}") for i in range(count)]

    def start(self):
        for server in self.servers:
            server.start()
        made = subprocess.run(
            [tool("redis-cli"), "--cluster", "create", *(s.address for s in self.servers),
             "--cluster-replicas", str(self.replicas), "--cluster-yes"],
            capture_output=True, text=True, timeout=PATIENCE,
        )
        if made.returncode != 0:
            raise AssertionError(f"no cluster: {made.stdout}{made.stderr}")
        wait_for(self.complete, what="the cluster being whole")
        return self

    def complete(self):
        """Returns whether all running nodes report "ok" and all replicas follow their masters."""
        for server in self.living():
            if b"cluster_state:ok" not in server.command("CLUSTER", "INFO"):
                return False
            facts = server.info("replication")
            if facts["role"] == "slave" and facts["master_link_status"] != "up":
                return False
        return len(self.living()) < len(self.servers) or all(
            self.replica_of(self.owner(slot)) for slot in (0, SLOTS // 2, SLOTS - 1)
            if self.replicas)

    def living(self):
        return [server for server in self.servers if server.alive()]

    @property
    def url(self):
        return "redis+cluster://" + ",".join(s.address for s in self.servers[: self.masters])

    def by_port(self, port):
        return next(server for server in self.servers if server.port == port)

    def owner(self, slot):
        """Returns the master of a slot according to the first running node."""
        for first, last, master, *_ in self.living()[0].command("CLUSTER", "SLOTS"):
            if first <= slot <= last:
                return self.by_port(master[1])
        return None

    def replica_of(self, master):
        """Returns a replica of the master, or None."""
        mine = self._id(master)
        for line in self.living()[0].command("CLUSTER", "NODES").decode().splitlines():
            words = line.split()
            if words[3] == mine and "fail" not in words[2]:
                return self.by_port(int(words[1].split("@")[0].rsplit(":", 1)[1]))
        return None

    @staticmethod
    def _id(server):
        return server.command("CLUSTER", "MYID").decode()

    def move_slot(self, slot, to, pause=0.0, batch=10):
        """Moves a slot while it is in use, as `redis-cli --cluster reshard` does. Waits `pause`
        seconds in each state that clients may see."""
        source = self.owner(slot)
        from_id, to_id = self._id(source), self._id(to)
        to.command("CLUSTER", "SETSLOT", slot, "IMPORTING", from_id)
        source.command("CLUSTER", "SETSLOT", slot, "MIGRATING", to_id)
        time.sleep(pause)
        while keys := source.command("CLUSTER", "GETKEYSINSLOT", slot, batch):
            source.command("MIGRATE", "127.0.0.1", to.port, "", 0, 5000, "KEYS", *keys)
            time.sleep(pause)
        masters = [s for s in self.living() if s.info("replication")["role"] == "master"]
        for server in [to, source, *(m for m in masters if m not in (to, source))]:
            server.command("CLUSTER", "SETSLOT", slot, "NODE", to_id)

    def stop(self):
        for server in self.servers:
            server.stop()


class RedisTest(ServerTest):
    """Tests that start Redis servers, which outlive the Sluice servers that use them."""

    @classmethod
    def redis(cls, options=None, **more):
        return cls.started(Redis(cls.folder(), options, **more))

    @classmethod
    def sentinels(cls):
        return cls.started(SentinelSet(cls.folder()))

    @classmethod
    def cluster(cls, **more):
        return cls.started(RedisCluster(cls.folder(), **more))

    @classmethod
    def started(cls, server):
        cls.addClassCleanup(server.stop)
        return server.start()

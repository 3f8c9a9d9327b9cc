"""Sends RESP requests to a Redis server or to Sluice, byte for byte."""

import contextlib
import pathlib
import shutil

from harness import PATIENCE, Process, connect, free_port, wait_until_received


def frame(*words):
    """Returns the bytes of a request as clients send it."""
    parts = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(p), p) for p in parts)


def pairs(reply):
    """Returns the pairs of a decision in RESP2 as a dict."""
    texts = [part.decode() if isinstance(part, bytes) else part for part in reply]
    return dict(zip(texts[::2], texts[1::2], strict=True))


class Resp:
    """A connection that reads replies of either protocol and returns errors as RespError."""

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
        self.socket.sendall(data)
        return self

    def ask(self, *words):
        self.send(frame(*words))
        return self.reply()

    def reply(self):
        line = self.reader.readline()
        if not line.endswith(b"\r\n"):
            raise EOFError(f"no reply but {line!r}")
        kind, rest = line[:1], line[1:-2]
        if kind == b"+":
            return rest.decode()
        if kind == b"-":
            return RespError(rest.decode())
        if kind == b":":
            return int(rest)
        if kind == b"_" or rest == b"-1":
            return None
        if kind in b"$=":
            data = self.reader.read(int(rest) + 2)[:-2]
            return data[4:] if kind == b"=" else data
        if kind in b"*~":
            return [self.reply() for _ in range(int(rest))]
        if kind == b"%":
            return {self.reply(): self.reply() for _ in range(int(rest))}
        raise AssertionError(f"what is {line!r}")

    def read_to_end(self):
        """Returns all bytes until the peer closes. Raises TimeoutError if it does not."""
        return self.reader.read()


class RespError(str):
    def __repr__(self):
        return f"RespError({str.__repr__(self)})"


def everything(path, data, pieces=None):
    """Returns the reply to these bytes and whether the server then closes the connection. The server
    has a single thread and listens on this Unix socket. Such a socket knows which bytes its peer has
    read, and the server has replied to them when it has then answered others."""
    address = f"unix:{path}"
    with contextlib.closing(connect(address)) as made, Resp(address) as other:
        with contextlib.suppress(ConnectionError):
            for piece in pieces or [data]:
                made.sendall(piece)
                wait_until_received(made)
        for _ in range(3):
            other.ask("PING")
        made.setblocking(False)
        got = b""
        while True:
            try:
                more = made.recv(65536)
            except BlockingIOError:
                return got, False
            except ConnectionResetError:
                return got, True
            if not more:
                return got, True
            got += more


class RedisServer(Process):
    """Debian's Redis server, for comparison."""

    def __init__(self, folder, *flags):
        program = shutil.which("redis-server")
        if not program:
            raise AssertionError("redis-server is missing: apt-get install redis-server")
        port = free_port()
        self.address = f"127.0.0.1:{port}"
        self.path = pathlib.Path(folder) / "redis.sock"
        super().__init__(
            [program, "--port", str(port), "--unixsocket", str(self.path), "--save", "",
             "--appendonly", "no", *flags],
            pathlib.Path(folder),
            "redis",
        )
        self.wait_until_accepting(self.address)

"""Clients of gRPC that send a few bytes at a time are disconnected at the timeouts of docs/envoy.md."""

import select
import threading
import time
import unittest

from harness import PATIENCE, ServerTest
from test_grpc_transport import HEALTH, REFLECTION, Frames, channel, unary

HEADER, BODY, IDLE = 0.5, 1, 1.5  # the timeouts in seconds
STEP = 0.1  # between two pieces


def message_of(size):
    return b"\0" + size.to_bytes(4, "big") + b"x" * size


def header(path, end=True):
    block = Frames.header(path)
    return Frames.frame(Frames.HEADERS, block, flags=4 if end else 0, stream=1)


def endless_calls():
    """Yields calls whose message never comes, one after another."""
    for stream in range(1, 100_000, 2):
        yield Frames.frame(Frames.HEADERS, Frames.header(HEALTH + "Check"), flags=4, stream=stream)


def pings():
    return (Frames.frame(Frames.PING, b"12345678") for _ in range(999))


def byte_by_byte(data):
    return (data[i : i + 1] for i in range(len(data)))


GREETING = Frames.GREETING + Frames.frame(Frames.SETTINGS)
DATA = Frames.frame(Frames.DATA, message_of(5000), stream=1)
# What arrives at once, the pieces that follow, and the time after which the connection ends.
OF_PARTS = {
    "the preface": (b"", byte_by_byte(GREETING * 100), HEADER),
    "a header": (GREETING, byte_by_byte(header(HEALTH + "Check" + "x" * 90) * 9), HEADER),
    "a header in many frames": (
        GREETING + header(HEALTH + "Check", end=False),
        (Frames.frame(Frames.CONTINUATION, Frames.literal("a", "b"), stream=1) for _ in range(999)),
        HEADER,
    ),
    "a PING": (GREETING, byte_by_byte(Frames.frame(Frames.PING, b"x" * 8) * 99), HEADER),
    # The header of a frame, 9 bytes, has the shorter timeout.
    "a message": (GREETING + header(HEALTH + "Check") + DATA[:9], byte_by_byte(DATA[9:]), BODY),
    "a message to reflection": (
        GREETING + header(REFLECTION.format("v1")) + DATA[:9],
        byte_by_byte(DATA[9:]),
        BODY,
    ),
}
WITHOUT_A_CALL = {
    "a message in many frames": (
        GREETING + header(HEALTH + "Check"),
        (Frames.frame(Frames.DATA, bytes([byte]), stream=1) for byte in message_of(5000)),
        IDLE,
    ),
    "reflection without messages": (GREETING + header(REFLECTION.format("v1")), pings(), IDLE),
    "calls without messages": (GREETING, endless_calls(), IDLE + BODY),
    "PINGs": (GREETING, pings(), IDLE),
}


class Drip(threading.Thread):
    """Sends pieces until the server ends the stream."""

    def __init__(self, address, at_once, pieces):
        super().__init__(daemon=True)
        self.peer, self.pieces, self.lasted = Frames(address, greet=False), pieces, None
        self.peer.socket.sendall(at_once)
        self.began = time.monotonic()

    def run(self):
        with self.peer:
            while time.monotonic() - self.began < PATIENCE:
                try:
                    if self.ended():
                        self.lasted = time.monotonic() - self.began
                        break
                    self.peer.socket.sendall(next(self.pieces, b""))
                except OSError:
                    self.lasted = time.monotonic() - self.began
                    break

    def ended(self):
        """Reads for a step. Returns whether the stream has ended."""
        end = time.monotonic() + STEP
        while (left := end - time.monotonic()) > 0:
            if select.select([self.peer.socket], [], [], left)[0]:
                if not self.peer.socket.recv(1 << 16):
                    return True
        return False


class Drips(ServerTest):
    def check(self, drips, idle):
        bounds = {"header_timeout": HEADER, "body_timeout": BODY, "idle_timeout": idle}
        server = self.serve(
            config={
                "listen": {"grpc": "127.0.0.1:0"},
                "bounds": {name: f"{seconds * 1000:.0f}ms" for name, seconds in bounds.items()},
            }
        )
        address = server.front_ends["grpc"]
        clients = {name: Drip(address, *drip[:2]) for name, drip in drips.items()}
        for client in clients.values():
            client.start()
        for name, client in clients.items():
            with self.subTest(name):
                client.join(2 * PATIENCE)
                self.assertIsNotNone(client.lasted, "the connection does not end")
                self.assertGreater(client.lasted, drips[name][2] - 0.1)
        with channel(address) as over:
            self.assertEqual(unary(over, HEALTH + "Check"), b"\x08\x01")

    def test_a_connection_ends_if_a_part_of_a_call_takes_too_long(self):
        self.check(OF_PARTS, idle=PATIENCE)

    def test_a_connection_ends_if_no_call_becomes_complete(self):
        self.check(WITHOUT_A_CALL, idle=IDLE)


if __name__ == "__main__":
    unittest.main()

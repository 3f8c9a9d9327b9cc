"""A proxy between a client and a server that simulates faults of the network or of the server.
It is a separate program, so that a busy test does not slow it down.

    gate.py HOST:PORT | PATH      prints its own port, then obeys the lines of JSON on stdin
"""

import asyncio
import collections
import json
import pathlib
import random
import select
import subprocess
import sys

if __name__ != "__main__":
    from harness import PATIENCE

OPEN = {"way": "open", "latency": 0.0, "loss": 0.0}


class Line:
    """One direction of a connection. Keeps the order of delayed bytes, as TCP does."""

    def __init__(self, gate, reader, writer, is_reply):
        self.gate, self.reader, self.writer, self.is_reply = gate, reader, writer, is_reply
        self.free_at = 0.0  # when all bytes sent so far have arrived
        self.late = collections.deque()  # bytes that have not arrived: (when, bytes)

    async def run(self):
        loop = asyncio.get_running_loop()
        while data := await self.reader.read(1 << 16):
            await self.gate.passable.wait()
            way = self.gate.state
            if self.is_reply and way["way"] in ("cut", "garbage"):
                data = self.gate.spoil(data)
            late = way["latency"] / 2
            if random.random() < way["loss"]:
                late += random.uniform(0.2, 0.4)  # sent again after a timeout; later bytes wait
            self.free_at = max(self.free_at, loop.time() + late)
            if self.late or self.free_at > loop.time():
                self.late.append((self.free_at, data))
                loop.call_at(self.free_at, self._write_late)
            else:
                self._write(data)
            if self.is_reply and way["way"] == "cut":
                await asyncio.sleep(0)
                return

    def _write_late(self):
        now = asyncio.get_running_loop().time()
        while self.late and self.late[0][0] <= now + 1e-4:
            self._write(self.late.popleft()[1])

    def _write(self, data):
        if not self.writer.is_closing():
            self.writer.write(data)


class Gate:
    def __init__(self, target):
        self.target, self.state = target, dict(OPEN)
        self.server, self.port, self.pairs = None, 0, set()
        self.accepted = self.spoiled = 0
        self.passable = asyncio.Event()
        self.passable.set()

    def spoil(self, data):
        """Returns the spoiled reply and counts down the replies still to be spoiled."""
        way = self.state
        self.spoiled += 1
        if way["times"]:
            way["times"] -= 1
            if not way["times"]:
                self.state = {**way, "way": "open"}
        return data[: way["bytes"]] if way["way"] == "cut" else bytes.fromhex(way["garbage"])

    async def listen(self):
        self.server = await asyncio.start_server(self.serve, "127.0.0.1", self.port)
        self.port = self.server.sockets[0].getsockname()[1]

    async def serve(self, reader, writer):
        self.accepted += 1
        await self.passable.wait()
        try:
            if ":" in self.target:
                host, port = self.target.rsplit(":", 1)
                there = await asyncio.open_connection(host, int(port))
            else:
                there = await asyncio.open_unix_connection(self.target)
        except OSError:
            writer.transport.abort()
            return
        self.pairs.update((writer, there[1]))
        lines = [Line(self, reader, there[1], False), Line(self, there[0], writer, True)]
        tasks = [asyncio.ensure_future(line.run()) for line in lines]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for one in (writer, there[1]):
                self.pairs.discard(one)
                one.close()

    async def obey(self, order):
        order = json.loads(order)
        if order["way"] == "report":
            return {"accepted": self.accepted, "spoiled": self.spoiled}
        if order["way"] == "refuse":
            if self.server:
                self.server.close()
                self.server = None
        elif self.server is None:
            await self.listen()
        self.state = {**OPEN, **order}
        self.passable.clear() if order["way"] == "hole" else self.passable.set()
        if order.get("end", order["way"] == "refuse"):
            for writer in list(self.pairs):
                writer.transport.abort()
            await asyncio.sleep(0)  # until the connections are closed
        return {}


async def main(target):
    gate = Gate(target)
    await gate.listen()
    print(gate.port, flush=True)
    orders = asyncio.StreamReader(limit=1 << 22)
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(orders), sys.stdin)
    while order := await orders.readline():
        print(json.dumps(await gate.obey(order)), flush=True)


class SteeredGate:
    """A running gate in front of "host:port" or a Unix socket's path, controlled by a test."""

    def __init__(self, target):
        self.child = subprocess.Popen(
            [sys.executable, "-B", str(pathlib.Path(__file__)), str(target)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # ends when its stdin does
        self.port = int(self._line())
        self.address = f"127.0.0.1:{self.port}"
        self.url = f"redis://{self.address}"

    def _line(self):
        if not select.select([self.child.stdout], [], [], PATIENCE)[0]:
            raise AssertionError("the gate does not answer")
        return self.child.stdout.readline()

    def _order(self, **order):
        self.child.stdin.write(json.dumps(order).encode() + b"\n")
        self.child.stdin.flush()
        return json.loads(self._line())

    def open(self, latency=0.0, loss=0.0):
        """Lets all bytes pass with a round-trip delay of `latency` seconds. A share of segments is
        lost and sent again after 200 to 400 ms, as with TCP."""
        self._order(way="open", latency=latency, loss=loss)

    def cut_replies(self, bytes=3, times=1):
        """Ends the next replies (0: all) after this many bytes, and their connections too."""
        self._order(way="cut", bytes=bytes, times=times)

    def garble_replies(self, garbage=b"\x16\x03\x01 HTTP/1.1 400 ?!\r\n", times=1):
        """Sends garbage instead of the next replies (0: all)."""
        self._order(way="garbage", garbage=garbage.hex(), times=times)

    def swallow(self):
        """A black hole: connections stay open and new ones are accepted, but no byte passes until
        the gate opens again. Then all bytes arrive, as TCP retransmits them."""
        self._order(way="hole")

    def refuse(self):
        """Ends all connections and refuses new ones."""
        self._order(way="refuse")

    def end_connections(self):
        """Ends all connections; new ones pass."""
        self._order(way="open", end=True)

    def accepted(self):
        """Returns the number of connections so far."""
        return self._order(way="report")["accepted"]

    def spoiled(self):
        """Returns the number of replies that were cut or replaced so far."""
        return self._order(way="report")["spoiled"]

    def stop(self):
        self.child.stdin.close()
        self.child.stdout.close()
        try:
            self.child.wait(PATIENCE)
        finally:
            self.child.kill()
            self.child.wait()


if __name__ == "__main__":
    try:
        asyncio.run(main(sys.argv[1]))
    except KeyboardInterrupt:
        pass

"""The RESP front end answers invalid requests as a real Redis does, and closes as Redis does."""

from harness import ServerTest
from resp_harness import RedisServer, everything, frame

CASES = {
    "a count that is no number": b"*x\r\n",
    "no count": b"*\r\n",
    "a count with a plus": b"*+1\r\n",
    "a count with a leading zero": b"*01\r\n",
    "a count with a blank": b"* 1\r\n",
    "a count past 31 bits": b"*2147483648\r\n",
    "a count past 64 bits": b"*99999999999999999999\r\n",
    "a count of minus zero": b"*-0\r\n",
    "an empty request, then another": b"*0\r\nPING\r\n",
    "a negative count, then another": b"*-5\r\nPING\r\n",
    "no dollar": b"*1\r\nPING\r\n",
    "another type": b"*1\r\n:1\r\n",
    "nothing for a bulk": b"*1\r\n\r\nPING\r\n",
    "a line feed for a bulk": b"*1\r\n\nPING\r\n",
    "an array in an array": b"*1\r\n*1\r\n$4\r\nPING\r\n",
    "a bulk that is no number": b"*1\r\n$x\r\n",
    "a size with a leading zero": b"*1\r\n$04\r\nPING\r\n",
    "a size of many zeros": b"*1\r\n$0000000000000004\r\nPING\r\n",
    "a size of minus zero": b"*1\r\n$-0\r\nPING\r\n",
    "a count of many zeros": b"*00000001\r\n$4\r\nPING\r\n",
    "a size of nothing": b"*2\r\n$4\r\nECHO\r\n$0\r\n\r\n",
    "a size that ends in a line feed": b"*1\r\n$4\nPING\r\n",
    "a size past 32 bits": b"*1\r\n$4294967300\r\nPING\r\n",
    "arrays in arrays without end": b"*1\r\n" * 1000,
    "no size of a bulk": b"*1\r\n$\r\n",
    "a negative size": b"*1\r\n$-1\r\n",
    "a size past the bound": b"*1\r\n$536870913\r\n",
    "a size past 64 bits": b"*1\r\n$9223372036854775808\r\n",
    "an error behind a request": b"PING\r\n*x\r\nPING\r\n",
    "an error within a request": b"*2\r\n$4\r\nECHO\r\nx\r\n",
    "an open quote": b'ECHO "a\r\n',
    "an open single quote": b"ECHO 'a\r\n",
    "a quote within a word": b'ECHO "a"b\r\n',
    "an inline command with quotes": b'ECHO "a\\x41\\n\\"" \r\n',
    "an inline command with single quotes": b"ECHO 'it\\'s'\r\n",
    "an inline command by a line feed": b"PING\n",
    "blank lines": b"\r\n \r\nPING\r\n",
    "a long inline command": b"a" * 70000,
    "a long count": b"*" + b"1" * 70000,
    "a long size": b"*1\r\n$" + b"1" * 70000,
    "wrong ends of lines": b"*1\rX$4\rYPINGZZPING\r\n",
    "a NUL byte hides the line": b"PI\0NG\r\nPING\r\n",
    "a NUL byte in a word": frame("EC\0HO", "a"),
    "an unknown command": frame("NOTHING", "a", "b" * 200, "c"),
    "a command of line ends": frame("a\r\nb", "c\nd"),
    "a command that is empty": frame(""),
    "a long unknown command": frame("x" * 1000, "y" * 1000),
    "too few arguments": frame("ECHO"),
    "too many arguments": frame("PING", "a", "b"),
    "a part too little": frame("CLIENT"),
    "an unknown part": frame("CLIENT", "NOTHING"),
    "a part with too few arguments": frame("CLIENT", "SETNAME"),
    "a name with a blank": frame("CLIENT", "SETNAME", "a b"),
    "a switch that is neither": frame("CLIENT", "NO-EVICT", "maybe"),
    "a database past the last": frame("SELECT", "99"),
    "a database that is no number": frame("SELECT", "a"),
    "a password where none is": frame("AUTH", "x"),
    "a user that is none": frame("AUTH", "nobody", "x"),
    "too much of a password": frame("AUTH", "a", "b", "c"),
    "a protocol that is none": frame("HELLO", "4"),
    "a protocol that is no number": frame("HELLO", "a"),
    "an option of HELLO that is none": frame("HELLO", "3", "WHAT"),
    "half an option of HELLO": frame("HELLO", "3", "AUTH", "x"),
    "QUIT before more": frame("QUIT") + frame("PING"),
    "RESET": frame("RESET") + frame("PING"),
    "ECHO of anything": frame("ECHO", b"\0\r\n\xff"),
    "a line of HTTP's": b"POST / HTTP/1.1\r\nHost: a\r\n\r\nPING\r\n",
    "a header field of HTTP's": b"host: a\r\n\r\nPING\r\n",
    "HTTP in a frame": frame("Post", "/") + frame("PING"),
    "PING of RESP3": frame("PING") + frame("CLIENT", "GETNAME"),
}
UNKNOWN_CASES = {
    "a command without the password": frame("PING"),
    "HELLO without the password": frame("HELLO", "3"),
    "many arguments without the password": b"*11\r\n",
    "a long argument without the password": b"*1\r\n$16385\r\n",
    "just as many arguments": frame(*["PING"] * 10),
    "a wrong password": frame("AUTH", "wrong") + frame("PING"),
    "a wrong password of HELLO": frame("HELLO", "2", "AUTH", "default", "wrong"),
    "the password": frame("AUTH", "secret") + frame("PING"),
    "an unknown command without the password": frame("NOTHING"),
    "too few arguments without the password": frame("ECHO"),
    "QUIT without the password": frame("QUIT"),
    "RESET without the password": frame("RESET"),
}


class SameAsRedis(ServerTest):
    @classmethod
    def setUpClass(cls):
        cls.redis = RedisServer(cls.folder())
        cls.addClassCleanup(cls.redis.stop)
        cls.resp = cls.front_end({})

    @classmethod
    def front_end(cls, config):
        path = cls.folder() / "resp.sock"
        config = {"listen": {"resp": f"unix:{path}"}, "threads": 1, **config}
        cls.serve("version: 1\nrules: []\n", config)
        return path

    def compare(self, cases, redis, resp, byte_by_byte=False):
        for name, sent in cases.items():
            pieces = [sent[i : i + 1] for i in range(len(sent))] if byte_by_byte else None
            with self.subTest(name):
                self.assertEqual(*(everything(path, sent, pieces) for path in (resp, redis)))

    def test_invalid_requests_are_answered_as_by_redis(self):
        self.compare(CASES, self.redis.path, self.resp)

    def test_invalid_requests_byte_by_byte_are_answered_as_by_redis(self):
        short = {name: sent for name, sent in CASES.items() if len(sent) <= 1000}
        self.compare(short, self.redis.path, self.resp, byte_by_byte=True)

    def test_requests_without_the_password_are_answered_as_by_redis(self):
        folder = self.folder()
        (folder / "secret").write_text("secret")
        redis = RedisServer(folder, "--requirepass", "secret")
        self.addCleanup(redis.stop)
        users = [{"name": "default", "password_file": str(folder / "secret")}]
        self.compare(UNKNOWN_CASES, redis.path, self.front_end({"resp": {"users": users}}))

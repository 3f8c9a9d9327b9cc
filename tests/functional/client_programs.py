"""The programs of clients/README.md, and the server that they ask."""

import math
import re
import time

from harness import ROOT, free_port, replaced

PAGE = (ROOT / "clients/README.md").read_text("utf-8")


def programs(language):
    """Returns the blocks of code in a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.M | re.S)


def check_program(test, text, run, *pairs):
    """Checks a program with a new server. `run` runs a text and returns the words that it printed.
    `pairs` replace its deadline, since a busy machine is late."""
    port = free_port()
    test.serve(programs("yaml")[0], {"listen": {"resp": f"127.0.0.1:{port}"}})
    # The port last: its digits may be those of a deadline.
    text = replaced(text, *pairs, ("6380", str(port)))
    start = time.monotonic()
    printed = [run(text) for _ in range(4)]
    took = math.ceil(1000 * (time.monotonic() - start))
    test.assertEqual([words[0] for words in printed], ["allowed"] * 3 + ["denied"])
    # A mistyped attribute never passes.
    test.assertEqual(run(replaced(text, ('"key"', '"keyy"')))[0], "denied")
    test.assertTrue(60_000 - took <= int(printed[3][1]) <= 60_000, (printed, took))

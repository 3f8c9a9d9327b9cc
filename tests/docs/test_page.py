"""What counts as a command of a page, and as its output."""

import pathlib
import re
import unittest

import page

DOCS = pathlib.Path(__file__).parents[2] / "docs"


def steps(text):
    return [(step.command, step.output) for step in page.steps_of(text)[0]]


class Commands(unittest.TestCase):
    def test_a_block_of_commands_has_one_step_for_each_statement(self):
        self.assertEqual(steps("```sh\ncat <<END\n\nx\nEND\nfor i in 1 2; do\n  echo $i\ndone\n```"),
                         [("cat <<END\n\nx\nEND", None), ("for i in 1 2; do\n  echo $i\ndone", None)])

    def test_a_comment_below_a_command_is_its_output(self):
        self.assertEqual(steps('```sh\ncurl a \\\n  -d 1\n# {"b":\n#  2}\nls\n```'),
                         [("curl a \\\n  -d 1", '{"b":\n 2}\n'), ("ls", None)])

    def test_a_block_right_below_is_the_output_of_the_whole_block(self):
        found = page.steps_of("```sh\nls\nid\n```\n\nIt prints:\n\n```\na\nb\n```\n")[0]
        self.assertEqual([(step.output, step.of) for step in found], [(None, 1), ("a\nb", 2)])

    def test_a_block_of_another_section_is_not_its_output(self):
        self.assertEqual(steps("```sh\nls\n```\n## B\n```\na\n```\n")[0], ("ls", None))

    def test_a_prompt_separates_commands_from_their_output(self):
        self.assertEqual(steps("```\n$ echo 'a\n  b'\na\n...\n\n$ id\n```"), [("echo 'a\n  b'", "a\n..."), ("id", None)])

    def test_a_line_for_a_redis_client_runs(self):
        self.assertIn("redis-cli -p 6380 <<'END'\nPING\nEND", steps("```\n> PING\nPONG\n```")[0][0])

    def test_a_plain_block_that_begins_with_a_command_runs(self):
        self.assertEqual(steps("```\n./dev run\n```"), [("./dev run", None)])

    def test_a_block_with_a_reason_does_not_run(self):
        self.assertEqual(page.steps_of("<!-- not run: a cluster -->\n```sh\nls\n```"), ([], [(3, "a cluster")]))

    def test_no_command_escapes_in_another_block(self):
        for block in ("text\nx\ncurl http://a", "console\n./dev test", "\nreply\n$ ls /", "yaml\nx\nsluice serve --x"):
            with self.assertRaisesRegex(page.Wrong, "does not run"):
                page.steps_of(f"```{block}\n```")

    def test_a_command_without_an_end_is_wrong(self):
        with self.assertRaisesRegex(page.Wrong, "has no end"):
            page.steps_of("```sh\necho 'a\n```")


class Outputs(unittest.TestCase):
    def test_dots_are_any_text(self):
        self.assertTrue(page.agrees("a\n...\nd", "a\nb\nc\nd\n"))
        self.assertTrue(page.agrees("a\n...\nd", "a\nd"))
        self.assertTrue(page.agrees("AVv0… x", "AVv012 x"))

    def test_everything_else_is_compared(self):
        self.assertFalse(page.agrees("a\n...\nd", "a\nb\nc"))
        self.assertFalse(page.agrees("200", "200\n429"))
        self.assertFalse(page.agrees("limit 10", "limit 11"))
        self.assertFalse(page.agrees("", "a"))

    def test_times_differ_between_two_runs(self):
        self.assertTrue(page.agrees('{"retry_after_ms":59967}', '{"retry_after_ms":3}'))
        self.assertTrue(page.agrees("Date: Sat, 21 Nov 2026 03:25:24 GMT", "date: Mon, 23 Nov 2026 00:00:00 GMT"))
        self.assertTrue(page.agrees('"user";r=9;t=60', '"user";r=9;t=58'))
        self.assertFalse(page.agrees('"user";r=9;t=60', '"user";r=8;t=60'))
        self.assertFalse(page.agrees('{"remaining":2}', '{"remaining":3}'))

    def test_wrapped_json_is_the_same(self):
        self.assertTrue(page.agrees('{"a":1,\n  "b":[2]}', '{"a":1,"b":[2]}'))


def read_by_people(path):
    """Returns the text of a page without its comments, whose commands only tests run."""
    return re.sub(r"(?s)<!--.*?-->", "", path.read_text("utf-8"))


def words_of(path):
    return len(read_by_people(path).split())


def minutes_of(path):
    """Returns the minutes of reading, at 240 words or 300 Chinese characters a minute."""
    words, characters = re.subn("[\u4e00-\u9fff]", " ", read_by_people(path))
    return len(re.sub("[\u3000-\u303f\uff00-\uffef]", " ", words).split()) / 240 + characters / 300


class Index(unittest.TestCase):
    """docs/README.md."""

    def test_the_pages_can_be_read(self):
        """Before a page exceeds ten minutes, at 240 words a minute, cut what helps least."""
        pages = {path.name: words_of(path) for path in DOCS.glob("*.md")}
        self.assertEqual({name: words for name, words in pages.items() if words > 2400}, {})
        self.assertLessEqual(len(pages), 26)
        self.assertLessEqual(sum(pages.values()), 50_000)

    def test_it_lists_each_page_and_its_minutes(self):
        index = (DOCS / "README.md").read_text("utf-8")
        pages = {str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md")} - {"README.md"}
        self.assertEqual(pages - set(re.findall(r"\]\(([^)#]+)\)", index)), set())
        stated = re.findall(r"(?m)^\| \[([\w/-]+\.md)\].*\| (\d+) \|$", index)
        stated += re.findall(r"\]\((zh/[\w-]+\.md)\)\s\((\d+)\)", index)
        self.assertEqual({name for name, _ in stated}, pages)
        for name, minutes in stated:
            self.assertAlmostEqual(int(minutes), minutes_of(DOCS / name), delta=1, msg=name)


if __name__ == "__main__":
    unittest.main()

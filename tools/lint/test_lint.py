"""Each check refuses a bad file with its place, and accepts a good one."""

import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

LINT = pathlib.Path(__file__).resolve().parent
PUT_OFF = "TO" + "DO"


def needs(program):
    return unittest.skipUnless(shutil.which(program), f"{program} is not installed")


class Lint(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.tree = pathlib.Path(folder.name)

    def write(self, path, text):
        (self.tree / path).parent.mkdir(parents=True, exist_ok=True)
        (self.tree / path).write_text(text, "utf-8")

    def run_check(self, check, *arguments, program=None):
        return subprocess.run([program or LINT / check, *arguments], cwd=self.tree, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)

    def accepts(self, check, path, text, *options):
        self.write(path, text)
        result = self.run_check(check, *options, path)
        self.assertEqual(result.returncode, 0, result.stdout)

    def refuses(self, check, path, text, complaint, *options):
        """The check fails and prints the complaint, a part of a line such as "x.h:1: why"."""
        self.write(path, text)
        result = self.run_check(check, *options, path)
        self.assertNotEqual(result.returncode, 0, result.stdout)
        self.assertIn(complaint, result.stdout)


class Built(Lint):
    def test_refuses_a_test_that_is_in_no_target(self):
        self.write("src/CMakeLists.txt", "sluice_test(a SOURCES x_test.cc\n  y_test.cc)\n")
        self.accepts("built", "src/x_test.cc", "")
        self.accepts("built", "src/y_test.cc", "")
        self.refuses("built", "src/a_x_test.cc", "",
                     "src/a_x_test.cc is in no target; expected its name in src/CMakeLists.txt")
        self.refuses("built", "src/z/x_test.cc", "", "src/z/CMakeLists.txt")


class Sizes(Lint):
    def test_refuses_a_source_of_1001_lines(self):
        self.accepts("sizes", "src/x.cc", "//\n" * 1000)
        self.refuses("sizes", "src/x.cc", "//\n" * 1001, "src/x.cc:1001: 1001 lines, at most 1000")

    def test_refuses_a_public_header_of_421_lines(self):
        self.accepts("sizes", "include/sluice/x.h", "//\n" * 420)
        self.accepts("sizes", "include/sluice/detail/x.h", "//\n" * 1000)
        self.refuses("sizes", "include/sluice/x.h", "//\n" * 421,
                     "include/sluice/x.h:421: 421 lines, at most 420")

    def test_refuses_work_that_is_put_off(self):
        self.accepts("sizes", "x.py", f"# {PUT_OFF}S is a word\n")
        self.refuses("sizes", "x.py", f"\n# {PUT_OFF}: later\n", "x.py:2: do it, or leave it out")


class Headers(Lint):
    def check(self, allowed, *more):
        for path, text in (("tools/lint/headers.txt", f"# A comment.\n{allowed}"), *more,
                           ("src/a/x.h", ""), ("src/a/x.cc", '#include "a/x.h"\n'),
                           ("src/a/x_test.cc", '#include "a/x.h"\n'),
                           ("src/a/y.h", '#include "a/x.h"\n'), ("src/a/y.cc", '#include "a/y.h"\n'),
                           ("src/b.cc", '#include "a/y.h"\n'), ("src/c.cc", '#include "a/y.h"\n')):
            self.write(path, text)
        shutil.copy(LINT / "headers", self.tree / "tools/lint/headers")
        sources = sorted(str(path.relative_to(self.tree)) for path in self.tree.glob("src/**/*.*"))
        result = self.run_check("headers", *sources, program=self.tree / "tools/lint/headers")
        return result.returncode, result.stdout

    def test_refuses_a_header_with_one_user_that_is_not_listed(self):
        self.assertEqual(self.check(""), (1, "src/a/x.h: only src/a/y includes it; move it there\n"))
        self.assertEqual(self.check("src/a/x.h\n"), (0, ""))

    def test_refuses_a_listed_header_that_has_another_number_of_users(self):
        self.assertIn("src/a/y.h: does not have exactly one user",
                      self.check("src/a/x.h\nsrc/a/y.h\n")[1])


    def test_refuses_two_types_of_one_name(self):
        hidden = "namespace a {\nnamespace {\nstruct T {};\n}  // namespace\n}  // namespace a\n"
        shown = "namespace a {\nclass T final : public B {\n};\n}  // namespace a\n"
        same = "namespace a {\nnamespace b {\n}  // namespace b\nenum class T : int {};\n}  // namespace a\n"
        other = "namespace a::b {\nstruct T {};\n}  // namespace a::b\n"
        self.assertEqual(self.check("src/a/x.h\n", ("src/p.cc", hidden), ("src/q.cc", shown), ("src/r.cc", other)),
                         (0, ""))
        self.assertEqual(self.check("src/a/x.h\n", ("src/p.cc", same)),
                         (1, "src/p.cc and src/q.cc define a::T; make them one, or rename one\n"))


class Lists(Lint):
    PAGE = "## Add a thing\n\n<!-- as `kThing`: at most {} -->\n\n1. `src/a/x.{{h,cc}}`: it. `src/NAME/`.{}\n"

    def check(self, most, more, complaint=None):
        for path, text in (("src/a/x.h", "kThing"), ("src/a/x.cc", "kThing"), ("src/b.cc", "kThing"),
                           ("src/a/x_test.cc", "kThing"), ("src/c.cc", "kThings")):
            self.write(path, text.replace("kThings", "nothing"))
        page = self.PAGE.format(most, more)
        if complaint is None:
            self.accepts("lists", "PAGE.md", page)
        else:
            self.refuses("lists", "PAGE.md", page, complaint)

    def test_accepts_a_list_that_names_every_file_of_its_example(self):
        self.check(2, " `src/b.cc` too.")

    def test_refuses_a_list_that_lacks_a_file(self):
        self.check(2, "", "PAGE.md: Add a thing: src/b has kThing, but the list does not name it")

    def test_refuses_more_files_than_the_list_allows(self):
        self.check(1, " `src/b.cc`", "2 files have kThing, at most 1: src/a/x, src/b")

    def test_refuses_a_file_that_does_not_exist(self):
        self.check(2, " `src/b.cc`, `src/gone.cc`", "there is no src/gone.cc")

    def test_refuses_an_example_that_is_gone(self):
        self.refuses("lists", "PAGE.md", "## Add\n<!-- as `kGone`: at most 1 -->\n",
                     "no source has kGone")


class LayersTest(Lint):
    def test_accepts_what_points_to_the_left(self):
        self.accepts("layers", "src/cli/x.cc", "#include <zlib.h>\n#include \"server/api/x.h\"\n"
                     "#include \"x.h\"\n#include \"generated.pb.h\"\n")
        self.accepts("layers", "src/core/x.cc", "#include <array>\n#include \"sluice/limit.h\"\n")
        self.accepts("layers", "src/server/api/a/x.cc", "#include \"server/api/a/y.h\"\n"
                     "#include \"server/decide/y.h\"\n")

    def test_tests_may_include_everything(self):
        for path in "src/core/x_test.cc", "src/core/x_bench.cc", "src/core/test_values.h":
            self.accepts("layers", path, "#include \"cli/x.h\"\n#include <gtest/gtest.h>\n")

    def test_refuses_a_higher_layer(self):
        self.refuses("layers", "src/core/x.cc", "\n#include \"limiter/x.h\"\n",
                     "src/core/x.cc:2: core must not include limiter")

    def test_refuses_a_layer_of_the_same_rank(self):
        self.refuses("layers", "src/rules/x.cc", "#include \"stores/memory/x.h\"\n",
                     "src/rules/x.cc:1: rules must not include stores")

    def test_refuses_a_public_header_of_a_higher_layer(self):
        self.refuses("layers", "src/core/x.cc", "#include \"sluice/limiter.h\"\n",
                     "src/core/x.cc:1: core must not include limiter")
        self.refuses("layers", "include/sluice/limit.h", "#include \"sluice/rule.h\"\n",
                     "include/sluice/limit.h:1: core must not include rules")

    def test_refuses_a_private_header_in_a_public_one(self):
        self.refuses("layers", "include/sluice/limit.h", "#include \"core/x.h\"\n",
                     "include/sluice/limit.h:1: a public header includes what is not public")

    def test_refuses_an_include_that_climbs(self):
        self.refuses("layers", "src/cli/x.cc", "#include \"../core/x.h\"\n",
                     "src/cli/x.cc:1: an include that climbs")

    def test_refuses_a_folder_that_the_order_does_not_name(self):
        self.refuses("layers", "src/other/x.cc", "int x;\n",
                     "src/other/x.cc:1: a folder without a place in the layers")
        self.refuses("layers", "src/server/other/x.cc", "int x;\n",
                     "src/server/other/x.cc:1: a folder without a rank in the server")

    def test_refuses_a_folder_of_the_server_of_the_same_or_a_higher_rank(self):
        self.refuses("layers", "src/server/net/x.cc", "#include \"server/config/x.h\"\n",
                     "src/server/net/x.cc:1: net must not include config")
        self.refuses("layers", "src/server/api/a/x.cc", "#include \"server/api/b/x.h\"\n",
                     "src/server/api/a/x.cc:1: api/a must not include api/b")

    def test_refuses_other_libraries_in_the_lowest_layers_and_in_public_headers(self):
        for path in "src/core/x.cc", "src/limiter/x.cc", "include/sluice/rule.h":
            self.refuses("layers", path, "#include <boost/asio.hpp>\n",
                         f"{path}:1: only the standard library here")
        for path in "src/stores/x.cc", "include/sluice/asio.h", "include/sluice/middleware/x.h":
            self.accepts("layers", path, "#include <boost/asio.hpp>\n")
        self.refuses("layers", "include/sluice/asio.h", "#include <zlib.h>\n",
                     "include/sluice/asio.h:1: only the standard library here")

    def test_refuses_a_page_that_does_not_quote_the_order(self):
        page = (LINT / "../../ARCHITECTURE.md").read_text("utf-8")
        self.accepts("layers", "x.md", page)
        self.refuses("layers", "x.md", page.replace("core ← limiter", "limiter ← core"), "x.md:")
        self.refuses("layers", "x.md", "text\n", "x.md:1: the page does not quote the order")


class Prose(Lint):
    def test_refuses_words_of_the_list_in_comments_texts_names_and_pages(self):
        self.refuses("prose", "x.cc", "int x;  // shall\n", 'x.cc:1: "shall": write must')
        self.refuses("prose", "x.cc", "\nf(\"the text anew\");\n", 'x.cc:2: "anew": write')
        self.refuses("prose", "x.cc", "int desk;\n", "x.cc:1:")
        self.refuses("prose", "x.py", "x = 1  # shall\n", 'x.py:1: "shall"')
        self.refuses("prose", "x.md", "\nIt shall.\n", 'x.md:2: "shall"')

    def test_accepts_them_in_code(self):
        self.accepts("prose", "x.cc", "int shall = 1;  // must\n")
        self.accepts("prose", "x.md", "`shall`\n```\nshall\n```\n")

    def test_refuses_half_width_punctuation_next_to_chinese(self):
        for text, mark, wide in (("限流,", ",", "，"), ("GCRA,以及", ",", "，"), ("**算法**:令牌桶", ":", "："),
                                 ("见 `x`; 然后", ";", "；"), ("请求 (每秒)", "(", "（"), ("用户 (`x`)放行", ")", "）"),
                                 ("[页面](x.md),再看", ",", "，"), ("它放行。真的?", "?", "？"), ("放行. 拒绝", ".", "。"),
                                 ('称为"突发"', '"', "“ or ”")):
            self.refuses("prose", "x.md", f"\n{text}\n", f"x.md:2: {mark} next to Chinese: write {wide}")
        self.refuses("prose", "x.md", "```text\n200,或拒绝\n```\n", "x.md:2: , next to Chinese: write ，")
        self.refuses("prose", "x.md", "```yaml\nper: 1s   # 周期(秒)\n```\n", "x.md:2: ( next to Chinese")

    def test_accepts_full_width_punctuation_and_half_width_code(self):
        self.accepts("prose", "x.md", "限流，GCRA（以及 `f(a, b)`）：“突发” 1.5 倍；见 [页面](x.md)。\n\n1. 第一步\n")
        self.accepts("prose", "x.md", '```json\n{"message":"请求过多","code": 429}\n```\n[A](a.md), [中文](b.md)\n')
        self.accepts("prose", "x.md", "```yaml\nper: 1s   # 每秒一次，最多 (x, y)\n```\n")

    def test_refuses_a_second_word_for_one_thing_in_chinese(self):
        self.refuses("prose", "x.md", "每个键一个计数器\n", "write key")
        self.accepts("prose", "x.md", "关键的槽位\n")


@needs("clang-format-19")
class Format(Lint):
    def test_refuses_a_source_that_is_not_formatted(self):
        shutil.copy(LINT / "../../.clang-format", self.tree)
        self.accepts("format", "x.cc", "int f();\n")
        self.refuses("format", "x.cc", "int f();\nint  g( );\n", "x.cc:2:4: error:")


@needs("shellcheck")
class Scripts(Lint):
    def test_refuses_what_shellcheck_refuses(self):
        for path in "x.sh", "x":
            self.accepts("scripts", path, "#!/usr/bin/env bash\nprintf '%s' \"$1\"\n")
            self.refuses("scripts", path, "#!/usr/bin/env bash\necho $1\n", f"{path}:2:6: note:")

    def test_ignores_other_files(self):
        self.accepts("scripts", "x", "#!/usr/bin/env python3\necho $1\n")
        self.accepts("scripts", "x.md", "echo $1\n")
        self.accepts("scripts", "x.bin", "\0\0echo $1\n")


@needs("clang-tidy-19")
class Tidy(Lint):
    def setUp(self):
        super().setUp()
        shutil.copy(LINT / "../../.clang-tidy", self.tree)
        self.write("compile_commands.json", json.dumps([
            {"directory": str(self.tree), "file": "x.cc", "command": "clang++-19 -c x.cc"}]))

    def test_refuses_what_clang_tidy_refuses(self):
        self.accepts("tidy", "x.cc", "int f() { return 1; }\n", ".")
        self.refuses("tidy", "x.cc", "\nint BadName() { return 1; }\n", "x.cc:2:5: error:", ".")

    def test_analyzes_only_with_its_option(self):
        source = "int f(int a) {\n  int* p = nullptr;\n  return a > 1 ? *p : 0;\n}\n"
        self.accepts("tidy", "x.cc", source, ".")
        self.refuses("tidy", "x.cc", source, "clang-analyzer-core", "--analyzer", ".")


@needs("ctags")
class Docs(Lint):
    def test_refuses_a_public_function_without_a_comment(self):
        self.accepts("docs", "x.h", "// A type.\nclass X {\n public:\n  // Returns it.\n"
                     "  int f();\n\n private:\n  int g();\n};\n")
        self.refuses("docs", "x.h", "// A type.\nclass X {\n public:\n  int f();\n};\n",
                     "x.h:4: error: f has no comment")


@needs("git")
class History(Lint):
    def setUp(self):
        super().setUp()
        (self.tree / "tools/lint").mkdir(parents=True)
        shutil.copy(LINT / "history", self.tree / "tools/lint/history")
        self.git("init", "--quiet")
        self.commit("Begin")
        self.git("tag", "v1")

    def git(self, *arguments):
        person = {f"GIT_{role}_{field}": "someone@localhost" for role in ("AUTHOR", "COMMITTER")
                  for field in ("NAME", "EMAIL")}
        subprocess.run(["git", *arguments], cwd=self.tree, check=True, stdout=subprocess.DEVNULL,
                       env={**os.environ, **person, "GIT_CONFIG_GLOBAL": "/dev/null"})

    def commit(self, *paragraphs):
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", *(f"-m{one}" for one in paragraphs))

    def history(self):
        result = self.run_check("history", program=self.tree / "tools/lint/history")
        return result.returncode, result.stdout

    def test_accepts_a_good_commit(self):
        self.write("x.cc", "//\n" * 500)
        self.commit("Add comments", "They say why.")
        self.assertEqual(self.history(), (0, ""))

    def test_refuses_bad_commits(self):
        for paragraphs, complaint in (
                (("Added comments", "Why."), "the subject is not in the imperative"),
                (("Add " + "x" * 69, "Why."), "the subject has 73 characters, at most 72"),
                (("Add comments",), "there is no body")):
            with self.subTest(complaint):
                self.commit(*paragraphs)
                self.assertEqual(self.history()[0], 1)
                self.assertIn(f"({paragraphs[0]}): {complaint}", self.history()[1])
                self.git("tag", "--force", "v1")

    def test_refuses_501_changed_lines_outside_of_generated_files(self):
        self.write("x.cc", "//\n" * 501)
        self.write("docs/reference/rules.md", "-\n" * 501)
        self.commit("Add comments", "They say why.")
        self.assertIn("(Add comments): it changes 501 lines, at most 500", self.history()[1])

    def test_counts_no_moved_lines_of_a_pure_move(self):
        lines = [f"int x{i};" for i in range(501)]
        self.write("x.cc", "\n".join(lines))
        self.git("add", "--all")
        self.git("commit", "--quiet", "-mAdd numbers", "-mThey count.")
        self.git("tag", "--force", "v1")
        (self.tree / "x.cc").unlink()
        self.write("y.cc", "#include <z.h>\n" + "\n".join(reversed(lines)))
        self.commit("Move the numbers", "A pure move.")
        self.assertEqual(self.history(), (0, ""))
        self.git("tag", "--force", "v1")
        self.write("y.cc", "\n".join(f"{one}  // moved" for one in lines))
        self.commit("Move the numbers again", "A pure move, it says.")
        self.assertIn("it changes 1002 lines, at most 500", self.history()[1])


if __name__ == "__main__":
    unittest.main()

"""The commands of a Markdown page, and whether an output is the one that the page shows."""

import dataclasses
import difflib
import re
import subprocess

FENCE = re.compile(r"^(\s*)```(.*)$")
NOT_RUN = re.compile(r"<!-- not run: (.+) -->$")
PAGE_NOT_RUN = re.compile(r"(?m)^<!-- page not run: (.+) -->$")
# A line that begins like this is a command: a block that has one must run, or say why it does not.
COMMAND = re.compile(
    r"\s*(\$ |> [A-Z]|(sudo|sluice(?= [-a-z])|curl|apt-get|apt|git|redis-cli|redis-server|valkey-cli|nginx|envoy|caddy"
    r"|haproxy|docker|kubectl|helm|systemctl|journalctl|cmake|ctest|ninja|conan|vcpkg|make|mvn|java|npm|node"
    r"|pip|python3?|go|cargo|cat|printf|export|sed|awk|cd|cp|install|mkdir|wrk|dpkg|kill|SLUICE_\w+=\S+) "
    r"|(\./|[\w.]+/)*(dev|build/\w+/[\w/]*\w+)( |$))")
# YAML for Sluice: a whole file, or a part of rules or of a configuration.
SLUICE_YAML = re.compile(r"\A(#.*\n)*(version|rules|limits|listen|store|redis|admin|drain|envoy|log|memory):|\A- \{")
# What differs between two runs: durations, also those in fields of HTTP, times, dates of HTTP, seconds
# of work.
VARIES = [(re.compile(r'("?\w+_ms"?[:=] ?|"durationUntilReset":")\d+'), r"\1N"),
          (re.compile(r"(?i)(;t=|\b(?:retry-after|x-ratelimit-reset): )\d+"), r"\1N"),
          (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"), "TIME"),
          (re.compile(r"(?im)^date: .*$"), "Date: D"),
          (re.compile(r"\b\d+\.\d+ s\b"), "N s")]


class Wrong(Exception):
    """What is wrong with the page, or with what it says."""


@dataclasses.dataclass
class Step:
    line: int
    command: str = ""
    output: str | None = None  # what the page shows, of
    of: int = 1  # the number of steps that end with this one
    kind: str = "command"  # or "hidden", or "yaml" and "file": the command is their text


def is_whole(command):
    """Whether a shell would run these lines, and not wait for more."""
    done = subprocess.run(["bash", "-n"], input=command + "\n", capture_output=True, text=True, check=False)
    return not done.stderr and not command.endswith("\\")


def statements(lines, first):
    """The statements of a block of commands. Lines that begin with "# " are the output of the one above."""
    steps, text = [], ""
    for number, line in enumerate(lines, first):
        if not text and steps and line.startswith("# "):
            steps[-1].output = (steps[-1].output or "") + line[2:] + "\n"
            continue
        if not text and (not line or line.startswith("#")):
            continue
        start = start if text else number
        text += line + "\n"
        if is_whole(text[:-1]):
            steps.append(Step(start, text[:-1]))
            text = ""
    if text:
        raise Wrong(f"{start}: this command has no end: {text}")
    return steps


def transcript(lines, first, prompt):
    """The commands after a prompt, each with the output below it."""
    steps, text, start = [], None, 0
    for number, line in enumerate(lines, first):
        if text is not None:
            text += "\n" + line
        elif line.startswith(prompt):
            text, start = line[2:], number
        elif steps:
            steps[-1].output = (steps[-1].output or "") + line + "\n"
        if text is not None and (prompt == "> " or is_whole(text)):
            if prompt == "> ":
                text = f"redis-cli -p 6380 <<'END'\n{text}\nEND"
            steps.append(Step(start, text))
            text = None
    for step in steps:
        step.output = (step.output or "").strip("\n") or None
    return steps


def blocks(text):
    """The fenced blocks and the comments `<!-- run`: (line, language, lines, line before the block,
    whether a heading is between it and the block above)."""
    before, opened, heading = "", None, False
    for number, line in enumerate(text.split("\n"), 1):
        fence = FENCE.match(line)
        if opened:
            if line.strip() == ("-->" if opened[1] == "run" else "```"):
                yield (*opened[:3], before, heading)
                before, opened, heading = "", None, False
            else:
                opened[2].append(line[opened[3]:] if not line[:opened[3]].strip() else line.strip())
        elif fence:
            opened = number + 1, fence[2].strip(), [], len(fence[1]), "```"
        elif line.strip() == "<!-- run":
            opened = number + 1, "run", [], 0, "-->"
        elif line.startswith("#"):
            before, heading = "", True
        elif line.strip():
            before = line.strip()


def steps_of(text):
    """Returns the steps of a page, and the reasons of the blocks that do not run."""
    if found := PAGE_NOT_RUN.search(text):
        return [], [(1, "the page: " + found[1])]
    steps, skipped, last = [], [], None
    for line, language, lines, before, heading in blocks(text):
        above, last = None if heading else last, None
        if found := NOT_RUN.match(before):
            skipped.append((line, found[1]))
        elif language in ("", "sh") and lines and lines[0].startswith("$ "):
            steps += transcript(lines, line, "$ ")
        elif language == "" and lines and lines[0].startswith("> "):
            steps += transcript(lines, line, "> ")
        elif language in ("sh", "run") or language == "" and lines and COMMAND.match(lines[0]):
            last = statements(lines, line)
            for step in last:
                step.kind = "hidden" if language == "run" else "command"
            steps += last
        elif language in ("", "json") and above and above[-1].output is None:
            above[-1].output, above[-1].of = "\n".join(lines), len(above)
        elif language == "yaml" and SLUICE_YAML.search("\n".join(lines)):
            steps.append(Step(line, "\n".join(lines) + "\n", kind="yaml"))
        else:
            for number, content in enumerate(lines, line):
                if language != "cpp" and COMMAND.match(content):
                    raise Wrong(f"{number}: this block has a command and does not run: {content.strip()}; "
                                "write it as ```sh, or say why it does not run (CONTRIBUTING.md)")
            steps.append(Step(line, "\n".join(lines) + "\n", kind="file"))
    return steps, skipped


def plain(text):
    """The text without what differs between two runs."""
    text = "\n".join(line.rstrip() for line in text.replace("\r", "").strip().split("\n"))
    for pattern, to in VARIES:
        text = pattern.sub(to, text)
    return text


def agrees(shown, actual):
    """Whether `actual` is the output that the page shows, where ... is any text. JSON may be wrapped."""
    shown, actual = plain(shown), plain(actual)
    if shown[:1] in ("{", "["):
        shown, actual = "".join(shown.split()), "".join(actual.split())
    pattern = ""
    for part in re.split(r"((?:^|(?<=\n))\.\.\.(?:\n|$)|\.\.\.|…)", shown):
        pattern += (r"(?:.*\n)*?" if part in ("...\n",) else r"[\s\S]*" if part in ("...", "…") else re.escape(part))
    return re.fullmatch(pattern, actual) is not None


def difference(shown, actual):
    return "\n".join(difflib.unified_diff(plain(shown).split("\n"), plain(actual).split("\n"),
                                          "the page shows", "the output is", n=1, lineterm=""))


def commands_of(text):
    """The commands of a page, without their comments."""
    return [re.sub(r"(?m)\s+# .*$", "", step.command) for step in steps_of(text)[0] if step.kind == "command"]

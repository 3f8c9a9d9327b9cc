#!/usr/bin/env bash
# Compares each snippet in the docs with the example that it names:
#
#   <!-- snippet: examples/quickstart.cc quickstart -->     directly above a fenced block
#   // [start quickstart] ... // [end quickstart]           marks the region in the example
#   <!-- output: example_quickstart -->                     the output of this program
#
# C++ code in the docs must be such a snippet. The indentation of a region is removed.
#
# Usage: check_snippets.sh ROOT PROGRAMS [FILE.md...]. PROGRAMS is the folder of the built examples.
# The default files are README*.md and the pages of docs/. Exit status 1 if a snippet differs.
set -euo pipefail
programs=$(readlink -f -- "$2")
cd "$1"
shift 2
shopt -s nullglob
[ $# -gt 0 ] || set -- README*.md docs/*.md docs/*/*.md

# Prints the lines of region $2 in file $1, without the indentation of the first mark.
region() {
  awk -v name="$2" '
    { mark = $0; sub(/^[ \t]*(\/\/|#) */, "", mark) }
    mark == "[end " name "]" { inside = 0 }
    inside { line = $0; if (substr(line, 1, length(indent)) == indent) line = substr(line, length(indent) + 1); print line }
    mark == "[start " name "]" { inside = 1; indent = $0; sub(/[^ \t].*/, "", indent) }' "$1"
}

# Prints the lines of the fenced block after line $2 of file $1.
block() {
  awk -v from="$2" 'NR <= from { next } /^```/ { if (open) exit; open = 1; next } open' "$1"
}

# Prints what the mark "KIND: SOURCE [NAME]" refers to.
source_of() {
  case $1 in
    snippet:) [ ! -e "$2" ] || region "$2" "$3" ;;
    output:) [ ! -x "$programs/$2" ] || "$programs/$2" ;;
  esac
}

failed=0
checked=0
check() {
  local page=$1 line=$2 wanted
  shift 2
  checked=$((checked + 1))
  wanted=$(source_of "$1" "$2" "${3-}")
  if ! sed -n "$((line + 1))p" "$page" | grep -q '^```'; then
    echo "$page:$line: no fenced block directly below the mark of a snippet" >&2
  elif [ -z "$wanted" ]; then
    echo "$page:$line: there is no ${1%:} of $2 ${3-}" >&2
  elif diff -u --label "$2 ${3-}" --label "$page:$line" \
    <(printf '%s\n' "$wanted") <(block "$page" "$line") >&2; then
    return
  fi
  failed=1
}

for page in "$@"; do
  [ -e "$page" ] || continue
  if ! awk '/^```cpp/ && last !~ /^<!-- snippet: / { print FILENAME ":" NR ": C++ code without a snippet mark"; bad = 1 }
            { last = $0 } END { exit bad }' "$page" >&2; then
    failed=1
  fi
  while IFS=: read -r line mark; do
    mark=${mark#<!-- }
    read -ra words <<<"${mark%% -->*}"
    check "$page" "$line" "${words[@]}"
  done < <(grep -nE '^<!-- (snippet|output): ' "$page")
done
if [ "$checked" -eq 0 ]; then
  echo "no snippets found in: $*" >&2
  exit 1
fi
[ "$failed" -ne 0 ] || echo "$checked snippets match their examples"
exit "$failed"

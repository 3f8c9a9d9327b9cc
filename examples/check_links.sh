#!/usr/bin/env bash
# Checks that the relative links of Markdown pages lead to existing files and headings.
#
# Usage: check_links.sh ROOT [FILE.md...]. The files are relative to ROOT. The default files are all pages
# of the project. Exit status 1 if a link is broken.
set -euo pipefail
cd "$1"
shift
shopt -s nullglob
[ $# -gt 0 ] || set -- *.md docs/*.md {bench,deploy,examples,examples/logs,tests/vectors}/README.md

# Prints the lines of a page outside of fenced blocks.
prose() { awk '/^[ \t]*```/ { fenced = !fenced; next } !fenced' "$1"; }

# Prints the anchors of the headings of a page, as GitHub builds them.
anchors() {
  prose "$1" | sed -n 's/^##* //p' | tr '[:upper:]' '[:lower:]' | sed 's/[^a-z0-9 _-]//g; s/ /-/g'
}

# Prints the relative links of a page, without those in code.
links_of() {
  # shellcheck disable=SC2016
  prose "$1" | sed 's/`[^`]*`//g' | grep -oE '\]\([^) ]+\)' | sed 's/^](//; s/)$//' | grep -v '^[a-z]*:'
}

failed=0
links=0
for page in "$@"; do
  while IFS= read -r link; do
    links=$((links + 1))
    target=${link%%#*}
    file=${target:+$(dirname "$page")/$target}
    file=${file:-$page}
    if [ ! -e "$file" ]; then
      echo "$page: $link: no such file" >&2
      failed=1
    elif [[ $link == *'#'* ]] && ! anchors "$file" | grep -qxF -- "${link#*#}"; then
      echo "$page: $link: no such heading" >&2
      failed=1
    fi
  done < <(links_of "$page")
done
[ "$failed" -ne 0 ] || echo "$links links are valid"
[ "$links" -gt 0 ] || echo "no links found" >&2
exit "$((failed || links == 0))"

#!/usr/bin/env bash
# Checks that the relative links of Markdown pages lead to existing files and headings.
#
# Usage: check_links.sh ROOT [FILE.md...]. The files are relative to ROOT. The default files are all pages
# of the project. Exit status 1 if a link is broken.
set -euo pipefail
cd "$1"
shift
shopt -s nullglob
[ $# -gt 0 ] || set -- *.md docs/*.md docs/*/*.md {bench,deploy,examples,examples/logs,tests/vectors}/README.md

# Prints PAGE, LINK, FILE and whether the heading of the link exists, for each relative link outside of code.
# The first pass collects the anchors of headings, as GitHub builds them: letters of other scripts stay, and
# the punctuation of Chinese goes. The bytes do not depend on the locale.
links_of() {
  # shellcheck disable=SC2016
  LC_ALL=C awk '
    FNR == 1 { fenced = 0; folder = FILENAME; if (!sub(/\/[^\/]*$/, "", folder)) folder = "." }
    /^[ \t]*```/ { fenced = !fenced; next }
    fenced { next }
    pass == 1 && sub(/^#+ /, "") {
      name = tolower($0); gsub(/，|：|；|？|、|（|）|“|”/, "", name)
      gsub(/[^a-z0-9 _\200-\377-]/, "", name); gsub(/ /, "-", name)
      anchors[FILENAME "#" name] = 1
    }
    pass == 2 {
      gsub(/`[^`]*`/, "")
      while (match($0, /\]\([^) ]+\)/)) {
        link = substr($0, RSTART + 2, RLENGTH - 3)
        $0 = substr($0, RSTART + RLENGTH)
        if (link ~ /^[a-z]+:/) continue
        target = link; anchor = ""
        if (i = index(link, "#")) { target = substr(link, 1, i - 1); anchor = substr(link, i + 1) }
        file = target == "" ? FILENAME : folder "/" target
        while (sub(/[^\/.]+\/\.\.\//, "", file) || sub(/^\.\//, "", file)) { }
        print FILENAME, link, file, anchor == "" || (file "#" anchor) in anchors
      }
    }' pass=1 "$@" pass=2 "$@"
}

failed=0
links=0
while read -r page link file found; do
  links=$((links + 1))
  if [ ! -e "$file" ]; then
    echo "$page: $link: no such file" >&2
    failed=1
  elif ((!found)); then
    echo "$page: $link: no such heading" >&2
    failed=1
  fi
done < <(links_of "$@")
[ "$failed" -ne 0 ] || echo "$links links are valid"
[ "$links" -gt 0 ] || echo "no links found" >&2
exit "$((failed || links == 0))"

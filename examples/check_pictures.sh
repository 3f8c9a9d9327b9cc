#!/usr/bin/env bash
# Compares the pictures in FOLDER with those that PROGRAM draws, except for screenshots (*.png) and
# quota.svg, which shows no decisions. Exit status 1 if one differs.
#
# Usage: check_pictures.sh PROGRAM FOLDER
set -euo pipefail
drawn=$(mktemp -d)
trap 'rm -rf "$drawn"' EXIT
"$1" "$drawn"
diff -r --exclude='*.png' --exclude=quota.svg "$drawn" "$2" || {
  echo "the pictures differ; to draw them again: $1 $2" >&2
  exit 1
}

#!/usr/bin/env bash
# Compares the pictures in FOLDER with those that PROGRAM draws, except for screenshots (*.png). Exit
# status 1 if one differs.
#
# Usage: check_pictures.sh PROGRAM FOLDER
set -euo pipefail
drawn=$(mktemp -d)
trap 'rm -rf "$drawn"' EXIT
"$1" "$drawn"
diff -r --exclude='*.png' "$drawn" "$2" || {
  echo "the pictures differ; to draw them again: $1 $2" >&2
  exit 1
}

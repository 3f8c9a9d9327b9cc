# What the commands of ./dev share: the folder of the project, messages, packages, builds.
# shellcheck shell=bash
set -euo pipefail

root=$(cd -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")/../.." && pwd -P)
jobs=$(nproc 2>/dev/null || echo 2)
cd "$root"
# shellcheck source=tools/dev/packages.sh
. tools/dev/packages.sh

say() { printf 'dev: %s\n' "$*" >&2; }
die() {
  printf 'dev: error: %s\n' "$*" >&2
  exit 1
}
usage_error() {
  printf 'dev: %s; see ./dev help\n' "$*" >&2
  exit 2
}

print_help() { "$root/dev" help "${0##*/}"; }

# configure PRESET CMAKE OPTIONS...
configure() {
  local preset=$1 launcher
  shift
  launcher=$(command -v ccache || true)
  export CCACHE_SLOPPINESS=${CCACHE_SLOPPINESS-pch_defines,time_macros} # for precompiled headers
  [[ -e build/$preset/build.ninja ]] || say "configuring build/$preset"
  cmake --preset "$preset" "-DCMAKE_CXX_COMPILER_LAUNCHER=$launcher" "$@" --log-level=WARNING \
    </dev/null >/dev/null
}

# build PRESET TARGET... [-- CMAKE OPTIONS...]
build() {
  local preset=$1 targets=()
  shift
  while (($#)) && [[ $1 != -- ]]; do
    targets+=("$1")
    shift
  done
  (($# == 0)) || shift
  configure "$preset" "$@" || return
  NINJA_STATUS='[%f/%t %e] ' cmake --build "build/$preset" --parallel "$jobs" \
    --target "${targets[@]}" </dev/null 2>&1 | show_progress "$preset"
}

# show_progress PRESET: turns ninja's status lines into a message every few seconds, with an
# estimate. Prints all other lines.
show_progress() {
  local line finished all seconds next=3
  while IFS= read -r line; do
    if [[ $line =~ ^\[([0-9]+)/([0-9]+)\ ([0-9]+)\.[0-9]+\]\  ]]; then
      finished=${BASH_REMATCH[1]} all=${BASH_REMATCH[2]} seconds=${BASH_REMATCH[3]}
      ((seconds >= next && finished < all)) || continue
      next=$((seconds + 5 + seconds / 20))
      say "building $1: $finished of $all steps in $seconds s, about" \
        "$((seconds * (all - finished) / finished + 1)) s left"
    elif [[ $line != 'ninja: no work to do.' && $line != 'ninja: Entering directory'* ]]; then
      printf '%s\n' "$line"
    fi
  done
}

# Sources of the project, committed or not: each FILE that matches one of the patterns.
sources() {
  if git -c safe.directory="$root" rev-parse --git-dir >/dev/null 2>&1; then
    git -c safe.directory="$root" ls-files -z --cached --others --exclude-standard -- "$@"
  else
    local expression=() pattern
    for pattern in "$@"; do
      if [[ $pattern == */* ]]; then pattern=./$pattern; else pattern="./*$pattern"; fi
      expression+=(-o -path "$pattern")
    done
    find . -path ./build -prune -o -type f \( "${expression[@]:1}" \) -printf '%P\0'
  fi | sort -zu | while IFS= read -r -d '' file; do
    [[ ! -f $file ]] || printf '%s\0' "$file"
  done
}

# The Debian packages that the commands of ./dev need, and how they are installed.
# shellcheck shell=bash disable=SC2034 # the commands use the lists

# The default Boost of Debian 12 is 1.74; Debian 13 has only one.
boost=''
! grep -qx 'VERSION_ID="12"' /etc/os-release 2>/dev/null || boost=1.81
packages_run=(g++ cmake ninja-build "libboost$boost-dev" "libboost-context$boost-dev" "libboost-json$boost-dev"
  libcli11-dev libisal-dev libnghttp2-dev libprotobuf-dev libre2-dev
  libssl-dev libxxhash-dev libyaml-cpp-dev protobuf-compiler zlib1g-dev)
packages_quick_test=(libgtest-dev librapidcheck-dev python3 tzdata)
packages_test=("${packages_quick_test[@]}" clang-19 libclang-rt-19-dev lld-19 llvm-19 pkgconf)
# Programs that the tests start: Redis, gateways, clients, promtool.
packages_redis=(libfaketime openssl redis-server redis-tools)
packages_grpc=(libgrpc++-dev nghttp2-client pkgconf protobuf-compiler-grpc python3-grpcio)
packages_peers=(caddy chromium chromium-driver curl fish haproxy iproute2 jq libcpp-httplib-dev
  libnginx-mod-http-lua man-db mandoc nginx-light prometheus python3 python3-redis python3-selenium
  python3-venv python3-yaml slowhttptest tmux valgrind wrk zsh "${packages_grpc[@]}" "${packages_redis[@]}")
command -v npm >/dev/null || packages_peers+=(nodejs npm)
packages_long=(maven default-jdk-headless)
command -v go >/dev/null || packages_long+=(golang-go)
command -v cargo >/dev/null || packages_long+=(cargo)
# For the systems of `./dev test --on`. QEMU runs the programs for arm64.
packages_trixie=(libbenchmark-dev libcpp-httplib-dev libgrpc++-dev protobuf-compiler-grpc valkey-server
  "${packages_redis[@]}")
packages_arm64=(cmake crossbuild-essential-arm64 ninja-build python3 qemu-user tzdata
  "libboost$boost-dev:arm64" "libboost-json$boost-dev:arm64" libgtest-dev:arm64 librapidcheck-dev:arm64
  libre2-dev:arm64 libxxhash-dev:arm64 libyaml-cpp-dev:arm64)
packages_bench=(libbenchmark-dev mawk nginx-light python3 redis-server redis-tools wrk
  "${packages_grpc[@]}")
packages_quick_lint=(clang-format-19 python3 shellcheck universal-ctags)
packages_tidy=(clang-19 clang-tidy-19)
packages_package=(build-essential debhelper dpkg-dev lintian python3)
# For packages for arm64, on a system that can install its libraries. QEMU runs the program for its manual.
packages_cross=(crossbuild-essential-arm64 cmake ninja-build libcli11-dev protobuf-compiler qemu-user
  "libboost$boost-dev:arm64" "libboost-context$boost-dev:arm64" "libboost-json$boost-dev:arm64"
  libisal-dev:arm64 libnghttp2-dev:arm64 libprotobuf-dev:arm64 libre2-dev:arm64 libssl-dev:arm64
  libxxhash-dev:arm64 libyaml-cpp-dev:arm64 zlib1g-dev:arm64)
packages_check=(buildah curl mmdebstrap python3-venv systemd-container)

# install PURPOSE PACKAGE...: installs the packages that are missing. Never removes one.
install() {
  local purpose=$1 package present
  shift
  command -v dpkg-query >/dev/null || die "this is not Debian: install the equivalent packages yourself, \
and use cmake directly (CONTRIBUTING.md): $*"
  present=$(dpkg-query -W -f '${Package} ${db:Status-Status}\n${Package}:${Architecture} ${db:Status-Status}\n' \
    "$@" 2>/dev/null || true)
  local missing=()
  for package in "$@"; do
    [[ " ${missing[*]} " == *" $package "* ]] || grep -qxF "$package installed" <<<"$present" ||
      missing+=("$package")
  done
  ((${#missing[@]})) || return 0

  local apt=(env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300
    -o Acquire::Retries=3 -qq)
  if ((EUID != 0)); then
    command -v sudo >/dev/null || die "these packages are missing, and only root can install them \
(there is no sudo here). As root: apt-get install --no-install-recommends ${missing[*]}"
    if [[ ! -t 2 ]] && ! sudo -n true 2>/dev/null; then
      die "these packages are missing, and sudo wants a password but has no terminal to ask. \
First: sudo apt-get install --no-install-recommends ${missing[*]}"
    fi
    apt=(sudo "${apt[@]}")
  fi
  say "to $purpose, installing with apt-get: ${missing[*]}"
  "${apt[@]}" update </dev/null >&2 || say "apt-get update failed; trying with the present package lists"
  without_services "${apt[@]}" install --yes --no-remove --no-install-recommends "${missing[@]}" \
    </dev/null >&2 ||
    die "apt-get could not install: ${missing[*]} (see its message above). dev never \
removes a package (--no-remove): if apt-get has to remove one, install these by hand"
}

# without_services COMMAND...: runs the command so that no package starts its service (nginx,
# prometheus); the tests start their own. See invoke-rc.d(8). Keeps an existing policy.
without_services() {
  local policy=/usr/sbin/policy-rc.d sudo=() status=0
  [[ $1 != sudo ]] || sudo=(sudo)
  if [[ -e $policy ]]; then
    "$@"
    return
  fi
  printf '#!/bin/sh\nexit 101\n' | "${sudo[@]}" tee "$policy" >/dev/null
  "${sudo[@]}" chmod 755 "$policy"
  "$@" || status=$?
  "${sudo[@]}" rm -f "$policy"
  return "$status"
}

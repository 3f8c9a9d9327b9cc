# Builds the package with the libraries of Debian 12 instead of those of ConanCenter:
#   conan create packaging/conan --profile packaging/conan/debian12.profile
[settings]
os=Linux
arch=x86_64
compiler=gcc
compiler.version=12
compiler.libcxx=libstdc++11
compiler.cppstd=20
build_type=Release

[platform_requires]
boost/1.81.0
openssl/3.0
re2/20220601
xxhash/0.8.1
yaml-cpp/0.7.0

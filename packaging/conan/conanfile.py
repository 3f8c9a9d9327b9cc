"""The Conan recipe of the library, from this checkout: conan create packaging/conan --build=missing"""

import os
import re

from conan import ConanFile
from conan.tools.build import check_min_cppstd
from conan.tools.cmake import CMake, CMakeDeps, CMakeToolchain, cmake_layout
from conan.tools.files import copy, load

ROOT = os.path.join("..", "..")


class Sluice(ConanFile):
    name = "sluice"
    description = "Rate limiter: exact, in memory or in Redis, with limits in YAML"
    license = "Apache-2.0"
    topics = ("rate-limiting", "token-bucket", "gcra", "redis")
    package_type = "static-library"
    settings = "os", "arch", "compiler", "build_type"
    options = {"rules": [True, False], "redis": [True, False], "quota": [True, False]}
    default_options = {"rules": True, "redis": True, "quota": False}

    def set_version(self):
        text = load(self, os.path.join(self.recipe_folder, ROOT, "CMakeLists.txt"))
        self.version = re.search(r"project\(sluice VERSION ([\d.]+)", text)[1]

    def export_sources(self):
        for pattern in ("CMakeLists.txt", "LICENSE", "cmake/*", "include/*", "proto/*", "src/*"):
            copy(self, pattern, os.path.join(self.recipe_folder, ROOT), self.export_sources_folder)

    def requirements(self):
        self.requires("xxhash/[>=0.8.1 <1]")
        if self.options.rules:
            self.requires("re2/[>=20220601]")
            self.requires("yaml-cpp/[>=0.7 <1]")
        if self.options.quota:
            self.requires("libnghttp2/[>=1.52 <2]")
            self.requires("protobuf/[>=3.21]")
        if self.options.redis or self.options.quota:
            self.requires("boost/[>=1.81 <2]", options={"header_only": True}, transitive_headers=True)
            self.requires("openssl/[>=3 <4]")

    def validate(self):
        check_min_cppstd(self, 20)

    def layout(self):
        cmake_layout(self)

    def generate(self):
        CMakeDeps(self).generate()
        toolchain = CMakeToolchain(self)
        toolchain.cache_variables.update({
            "SLUICE_BUILD_CLI": False,
            "SLUICE_BUILD_TESTS": False,
            "SLUICE_BUILD_BENCH": False,
            "SLUICE_BUILD_EXAMPLES": False,
            "SLUICE_BUILD_RULES": bool(self.options.rules),
            "SLUICE_BUILD_REDIS": bool(self.options.redis),
            "SLUICE_BUILD_QUOTA": bool(self.options.quota),
        })
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        CMake(self).install()

    def package_info(self):
        # The package's own CMake files have the targets sluice::sluice, ::rules, ::redis and ::quota_client.
        self.cpp_info.set_property("cmake_find_mode", "none")
        self.cpp_info.builddirs = [os.path.join("lib", "cmake", "sluice")]

"""Tandem as a Conan 2 package, built from the tree that this recipe stands in, with Debian's own libraries:

conan create packaging/conan [-o tandem/*:shared=False] [-c tools.system.package_manager:mode=install]
"""

import pathlib
import re

from conan import ConanFile
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout
from conan.tools.files import copy
from conan.tools.system.package_manager import Apt

LIBRARIES = "libdnnl-dev libopenblas-serial-dev libhwy-dev libfmt-dev libzip-dev libleveldb-dev zlib1g-dev libcli11-dev nlohmann-json3-dev"


class Tandem(ConanFile):
    name = "tandem"
    license = "Apache-2.0"
    description = "Training neural networks on all the devices you have"
    package_type = "library"
    settings = "os", "arch", "compiler", "build_type"
    options = {"shared": [True, False]}
    default_options = {"shared": True}

    def set_version(self):
        project = (self._tree() / "CMakeLists.txt").read_text(encoding="utf-8")
        self.version = re.search(r"project\(tandem VERSION ([0-9.]+)", project)[1]

    def _tree(self):
        return pathlib.Path(self.recipe_folder).parent.parent

    def export_sources(self):
        for pattern in ("CMakeLists.txt", "LICENSE", "cmake/*", "include/*", "src/*", "tools/*"):
            copy(self, pattern, self._tree(), self.export_sources_folder)

    def system_requirements(self):
        Apt(self).install(LIBRARIES.split())

    def layout(self):
        cmake_layout(self)

    def generate(self):
        toolchain = CMakeToolchain(self)
        for part in ("TESTS", "EXAMPLES", "BENCH", "WERROR"):
            toolchain.cache_variables[f"TANDEM_{part}"] = False
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        copy(self, "LICENSE", self.source_folder, pathlib.Path(self.package_folder) / "licenses")
        CMake(self).install()

    def package_info(self):
        # The package brings its own configuration for find_package, which knows what a static library needs.
        self.cpp_info.set_property("cmake_find_mode", "none")
        self.cpp_info.builddirs = ["lib/cmake/tandem"]
        self.cpp_info.libs = ["tandem"]

# Spack package of Trireme, built from a checkout:
#   spack repo create site && mkdir -p site/packages/trireme && cp packaging/spack/package.py site/packages/trireme/
#   spack repo add site && spack dev-build trireme@0.2.0 ^openmpi        # or the MPI of the site
from spack_repo.builtin.build_systems.cmake import CMakePackage

from spack.package import *


class Trireme(CMakePackage):
    """Pre-trains large language models: one native program, without Python at run time."""

    version("0.2.0")

    variant("mpi", default=True, description="Runs of several processes")
    variant("cuda", default=False, description="Plug-in for NVIDIA's GPUs")

    depends_on("cxx", type="build")
    depends_on("cmake@3.25:", type="build")
    depends_on("ninja", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("onednn@2.7:")
    depends_on("cli11")
    depends_on("tomlplusplus")
    depends_on("nlohmann-json")
    depends_on("fmt@9:")
    depends_on("oniguruma")
    depends_on("utf8proc")
    depends_on("sentencepiece")
    depends_on("simdjson")
    depends_on("xxhash")
    depends_on("yaml-cpp")
    depends_on("cpp-httplib")
    depends_on("zlib-api")
    depends_on("xz")
    depends_on("zstd")
    depends_on("mpi@3:", when="+mpi")
    depends_on("cuda@12:", when="+cuda")

    generator("ninja")
    conflicts("%gcc@:11", msg="Trireme is C++20")

    def cmake_args(self):
        return [
            self.define("TRIREME_TESTS", False),
            self.define_from_variant("TRIREME_CUDA", "cuda"),
            self.define("CMAKE_DISABLE_FIND_PACKAGE_MPI", not self.spec.satisfies("+mpi")),
        ]

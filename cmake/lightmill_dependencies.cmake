# Every dependency is named here once, with its minimum version and why it is there.
# The Debian packages that hold them are listed in tools/packages.txt.
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
find_package(fmt 9.1 REQUIRED)                 # text: g++ 12 has no <format>
find_package(nlohmann_json 3.11 REQUIRED)      # master files, --json
find_package(OpenSSL 3.0 REQUIRED COMPONENTS Crypto)  # SHA-256 of digests and manifests
pkg_check_modules(xxhash REQUIRED IMPORTED_TARGET libxxhash>=0.8)   # XXH3-128 of a frame's clusters
pkg_check_modules(hwy REQUIRED IMPORTED_TARGET libhwy>=1.0.3)       # SIMD with run-time dispatch
find_package(CLI11 2.1 REQUIRED)               # the program's options
pkg_check_modules(tomlplusplus REQUIRED IMPORTED_TARGET tomlplusplus>=3.3)  # ladder files
find_package(HDF5 1.10.7 REQUIRED COMPONENTS C)  # sources, results, saved pedestals (1.10.7: SWMR fixes)
find_package(PNG 1.6 REQUIRED)               # plots, images
find_package(CURL 7.85 REQUIRED)             # fetching models (7.85: protocols by name)
find_package(JPEG REQUIRED)                  # images (libjpeg-turbo 2.1: pixels as Pillow has them)
if(LIGHTMILL_TESTS)
  find_package(GTest 1.12 REQUIRED)            # tests
  include(GoogleTest)
endif()
if(LIGHTMILL_BENCH)
  find_package(benchmark 1.7 REQUIRED)         # bench/
endif()

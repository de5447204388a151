# Two commands do everything on a fresh machine: `make demo` and `make test`.
# PRESET chooses another build of CMakePresets.json.

PRESET ?= release
BUILD := build/$(PRESET)
JOBS ?= $(shell nproc)

.PHONY: help demo test program build setup format check bench clean

help:
	@echo "make demo    simulate frames, find photon clusters, plot the spectrum and the hit map"
	@echo "make test    build and run all tests"
	@echo "make build   build only: $(BUILD)/app/lightmill"
	@echo "make check   format, layers, links and lint, as CI checks them"
	@echo "make format  format all sources"
	@echo "make bench   benchmarks"
	@echo "make clean   remove build/ and demo/"

setup:
	@tools/setup

$(BUILD)/build.ninja: CMakeLists.txt CMakePresets.json cmake/lightmill_targets.cmake cmake/lightmill_dependencies.cmake | setup
	cmake --preset $(PRESET) $(if $(shell command -v ccache),-DCMAKE_CXX_COMPILER_LAUNCHER=ccache)

build: setup $(BUILD)/build.ninja
	@cmake --build $(BUILD) --parallel $(JOBS)

program: setup $(BUILD)/build.ninja
	@cmake --build $(BUILD) --parallel $(JOBS) --target lightmill

demo: program
	@tools/demo $(BUILD)/app/lightmill demo

test: build
	@tools/run_tests $(BUILD) $(JOBS)

bench: build
	@$(BUILD)/bench/bench_find

format:
	@git ls-files '*.hpp' '*.cpp' | xargs clang-format-19 -i

check: setup
	@tools/check_format
	@tools/check_layers
	@tools/check_links
	@tools/check_tidy $(BUILD)

clean:
	rm -rf build demo

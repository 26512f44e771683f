# The front door. CMake does the work; this file remembers how to call it.

BUILD  ?= build
PREFIX ?= /usr/local
JOBS   ?= $(shell nproc)
TESTS  ?= .

DEPS := scripts/install-deps.sh

sources = $(shell find $(wildcard include src tools examples bench tests cmake python) \
            -name '*.h' -o -name '*.cpp')

# Vector kernels are compiled for this machine, or for every machine that others may have. One folder holds either
# and changes over by compiling its kernels again.
HERE       := -DTANDEM_THIS_MACHINE=ON
EVERYWHERE := -DTANDEM_THIS_MACHINE=OFF

generator = $(if $(wildcard $(1)/CMakeCache.txt),,-G Ninja)
# $(call configure,folder,cmake options): when they are others than last time; the build notices other changes by itself.
configure = test "$$(cat $(1)/configured 2>/dev/null)" = '$(2)' || \
  { cmake -S . -B $(1) $(call generator,$(1)) $(2) && echo '$(2)' > $(1)/configured; }
# Looks again for what may have been installed meanwhile.
refresh = cmake -S . -B $(BUILD) $(call generator,$(BUILD)) >/dev/null
# Brings compile_commands.json up to date for checkers, which do not read another compiler's precompiled headers.
refresh_check = cmake -S . -B build-check -G Ninja $(HERE) -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON >/dev/null
# $(call build,folder,cmake options,targets)
build = $(call configure,$(1),$(2)) && cmake --build $(1) --parallel $(JOBS) --target $(3)
# $(call ctest,folder,seconds until a test counts as stuck, on a busy machine, too)
ctest = ctest --test-dir $(1) --parallel $(JOBS) --output-on-failure --no-tests=error --timeout $(2) \
  --tests-regex '$(TESTS)'
quick = --label-exclude soak

# The Python module is built with the interpreter of a virtualenv of its own.
VENV   := $(BUILD)/venv
PYTHON := -DTANDEM_PYTHON=ON -DPython_EXECUTABLE=$(abspath $(VENV))/bin/python
venv = mkdir -p $(BUILD) && scripts/make-venv.sh $(VENV) $(BUILD)

.PHONY: build python wheel test soak demo bench peers interop check check-folders check-names check-docs check-format check-cppcheck check-tidy \
        format install uninstall test-asan test-tsan test-python-asan test-clang test-aarch64 test-cuda clean help

build:
	@$(DEPS) build
	@$(venv)
	@$(call build,$(BUILD),$(HERE) $(PYTHON),all)

python:
	@$(DEPS) build
	@$(venv)
	@$(call build,$(BUILD),$(HERE) $(PYTHON),tandem_python)

# The module as files that others install, each tried in a virtualenv of its own. Python 3.10 and 3.11 have a wheel each,
# the later ones one together: make wheel WHEEL_PYTHON='python3.10 python3.11 python3.12'
WHEEL_PYTHON ?=
wheel:
	@$(DEPS) build
	@CMAKE_BUILD_PARALLEL_LEVEL=$(JOBS) scripts/make-wheel.sh $(BUILD)/wheel $(WHEEL_PYTHON)

test: build
	@$(call ctest,$(BUILD),900) $(quick)

soak:
	@$(DEPS) build
	@$(venv)
	@$(call build,$(BUILD),$(EVERYWHERE) $(PYTHON),all)
	@TANDEM_SOAK=1 $(call ctest,$(BUILD),7200)
	@$(if $(filter .,$(TESTS)),$(MAKE) test-python-asan)

demo:
	@$(DEPS) build
	@$(call build,$(BUILD),$(HERE),tandem_demo)
	@$(BUILD)/bin/demo $(ARGS)

python_names = $(filter py_%,$(NAMES))
cpp_names = $(filter-out py_%,$(NAMES))
python_bench = $(VENV)/bin/python bench/python_face.py --bench $(BUILD)/bin/tandem-bench

bench:
	@$(DEPS) build
	@$(venv)
	@$(call build,$(BUILD),$(HERE) $(PYTHON),tandem_bench tandem_python)
ifdef PEERS
	@python3 bench/compare.py --bench $(BUILD)/bin/tandem-bench --python $(VENV)/bin/python --peers $(PEERS) $(NAMES)
else
	@$(if $(NAMES),$(if $(cpp_names),$(BUILD)/bin/tandem-bench $(cpp_names)),$(BUILD)/bin/tandem-bench)
	@$(if $(NAMES),$(if $(python_names),$(python_bench) $(python_names)),$(python_bench))
endif

peers:
	@test -n "$(PEERS)" || { echo "usage: make peers PEERS=<folder to install the peers into>"; exit 1; }
	@$(DEPS) peers
	@scripts/make-peers.sh $(PEERS)

interop:
	@test -n "$(PEERS)" || { echo "usage: make interop PEERS=<folder of make peers> [OPS='add ..']"; exit 1; }
	@$(DEPS) build interop
	@$(venv)
	@$(call configure,$(BUILD),$(HERE) $(PYTHON)) && $(refresh)
	@$(call build,$(BUILD),$(HERE) $(PYTHON),tandem_interop tandem_mirrored_fit tandem_demo tandem_python)
	@$(PEERS)/tensorflow/bin/python tests/interop/run.py --program $(BUILD)/bin/tandem-interop $(OPS)
	@$(PEERS)/tensorflow/bin/python tests/interop/checkpoints.py --program $(BUILD)/bin/tandem-interop
	@$(PEERS)/tensorflow/bin/python tests/interop/model_checkpoints.py --program $(BUILD)/bin/tandem-interop
	@$(PEERS)/tensorflow/bin/python tests/interop/trajectories.py --program $(BUILD)/bin/tandem-interop
	@$(PEERS)/tensorflow/bin/python tests/interop/fits.py --program $(BUILD)/bin/tandem-interop
	@$(PEERS)/tensorflow/bin/python tests/interop/accuracy.py --programs $(BUILD)/bin
	@rm -f $(BUILD)/python_scripts.json
	@$(PEERS)/tensorflow/bin/python python/tests/record.py $(BUILD)/python_scripts.json
	@$(VENV)/bin/python -W ignore python/tests/record.py $(BUILD)/python_scripts.json --check
	@rm -rf $(BUILD)/keras_files
	@$(PEERS)/tensorflow/bin/python python/tests/keras_files.py write $(BUILD)/keras_files/keras
	@$(VENV)/bin/python -W ignore python/tests/keras_files.py read $(BUILD)/keras_files/keras
	@$(VENV)/bin/python -W ignore python/tests/keras_files.py write $(BUILD)/keras_files/tandem
	@$(PEERS)/tensorflow/bin/python python/tests/keras_files.py read $(BUILD)/keras_files/tandem
	@PYTHONPATH=python:$(BUILD)/python $(PEERS)/pytorch/bin/python python/tests/exchange.py torch
	@PYTHONPATH=python:$(BUILD)/python $(PEERS)/jax/bin/python python/tests/exchange.py jax

# The loader finds libraries under its own folders only once it has looked at them again.
install:
	@$(DEPS) build
	@$(call build,$(BUILD),$(EVERYWHERE) -DTANDEM_PYTHON=OFF,tandem tandem_plugins tandem_tool)
	@cmake --install $(BUILD) --prefix $(PREFIX)
	@test -n "$(DESTDIR)" -o "$$(id -u)" -ne 0 || ldconfig

uninstall:
	@cmake -P cmake/Uninstall.cmake $(BUILD)/install_manifest.txt
	@test -n "$(DESTDIR)" -o "$$(id -u)" -ne 0 || ldconfig

check: check-folders check-names check-docs check-format check-cppcheck check-tidy

check-folders:
	@$(DEPS) check
	python3 scripts/check-folder-order.py

check-names:
	@$(DEPS) check
	python3 scripts/check-type-names.py
	python3 scripts/exported-names.py

check-docs:
	@$(DEPS) check
	python3 scripts/check-docs.py

check-format:
	@$(DEPS) check
	@clang-format --dry-run -Werror $(sources)

check-cppcheck:
	@$(DEPS) build check
	@$(refresh_check) && mkdir -p build-check/cppcheck
	cppcheck --project=build-check/compile_commands.json --file-filter='src/*' -j $(JOBS) --quiet \
	  --cppcheck-build-dir=build-check/cppcheck --enable=warning,performance,portability \
	  --suppress=passedByValue --suppress=duplInheritedMember --suppress=invalidPointerCast --inline-suppr --error-exitcode=1

check-tidy:
	@$(DEPS) build check
	@$(refresh_check)
	run-clang-tidy -quiet -p build-check -j $(JOBS) '$(CURDIR)/src/.*\.cpp$$'

format:
	@$(DEPS) check
	@clang-format -i $(sources)

test-asan:
	@$(DEPS) build sanitize
	@$(call build,build-asan,$(HERE) "-DTANDEM_SANITIZE=address;undefined",all)
	@$(call ctest,build-asan,900) $(quick)

test-tsan:
	@$(DEPS) build sanitize
	@$(call build,build-tsan,$(HERE) -DTANDEM_SANITIZE=thread,all)
	@$(call ctest,build-tsan,900) $(quick)

# The Python tests over a sanitized library.
test-python-asan:
	@$(DEPS) build sanitize
	@$(venv)
	@$(call build,build-python-asan,$(HERE) $(PYTHON) -DTANDEM_SANITIZE=address -DTANDEM_TESTS=OFF -DTANDEM_EXAMPLES=OFF -DTANDEM_BENCH=OFF -DTANDEM_TOOL=OFF -DTANDEM_INSTALL=OFF,tandem_python tandem_plugins)
	@scripts/test-python-asan.sh build-python-asan $(VENV)

test-clang:
	@$(DEPS) build check
	@$(call build,build-clang,$(HERE) -DCMAKE_CXX_COMPILER=clang++,all)
	@$(call ctest,build-clang,900) $(quick)

# The parts that depend on the processor, under an emulator.
AARCH64_TESTS := core kernels ops

test-aarch64: TESTS = ^($(subst $() ,|,$(AARCH64_TESTS)))/
test-aarch64:
	@$(DEPS) build aarch64
	@scripts/make-sysroot.sh arm64 build-aarch64/sysroot
	@$(call build,build-aarch64,--toolchain cmake/aarch64.cmake -DTANDEM_TOOL=OFF -DTANDEM_EXAMPLES=OFF,$(AARCH64_TESTS:%=tandem_test_%))
	@$(call ctest,build-aarch64,1800) $(quick)

# For owners of an NVIDIA GPU: see scripts/test-cuda.sh.
test-cuda:
	@$(DEPS) build
	@$(call build,$(BUILD),$(HERE),all)
	@scripts/test-cuda.sh $(BUILD) $(PEERS)

clean:
	@rm -rf $(BUILD) build-wheel build-check build-asan build-tsan build-python-asan build-clang build-aarch64

help:
	@echo 'make build                  the library, the programs and the tests, in $(BUILD)/'
	@echo 'make python                 the Python module, in the virtualenv $(VENV)'
	@echo 'make wheel [WHEEL_PYTHON=..] the Python module as wheels, in $(BUILD)/wheel/dist, for the interpreters that are named'
	@echo 'make test [TESTS=regex]     all tests that take seconds'
	@echo 'make soak [TESTS=regex]     all tests at length, and of every instruction set: up to two hours'
	@echo 'make demo                   trains a convolutional network on Fashion-MNIST, saves, restores, evaluates'
	@echo 'make bench [NAMES=..]       our own figures; with PEERS=folder beside those of other libraries'
	@echo 'make peers PEERS=folder     installs the libraries to compare with'
	@echo 'make interop PEERS=folder   compares our ops, gradients, trainings and checkpoints with TensorFlow'
	@echo 'make install [PREFIX=..]    headers, library, the tandem command, CMake and pkg-config files'
	@echo 'make uninstall              removes what the last install from $(BUILD)/ brought'
	@echo 'make check                  folder order, clang-format, cppcheck, clang-tidy'
	@echo 'make format                 rewrites all sources with clang-format'
	@echo 'make test-asan test-tsan    the tests with address+undefined, with thread sanitizer'
	@echo 'make test-python-asan       the Python tests over a library with address sanitizer'
	@echo 'make test-clang             the tests built with clang'
	@echo 'make test-aarch64           the tests of core, kernels and ops for 64-bit ARM, under qemu'
	@echo 'make test-cuda [PEERS=..]   on a machine with an NVIDIA GPU: the suites on it, figures, and a report to send'
	@echo 'make clean'

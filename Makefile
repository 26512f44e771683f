# The front door. CMake does the work; this file remembers how to call it.

BUILD  ?= build
PREFIX ?= /usr/local
JOBS   ?= $(shell nproc)
TESTS  ?= .

DEPS := scripts/install-deps.sh

sources = $(shell find $(wildcard include src tools examples bench tests cmake) \
            -name '*.h' -o -name '*.cpp')

# $(call configure,folder,cmake options): once; afterwards the build notices changes by itself.
configure = test -f $(1)/build.ninja -o -f $(1)/Makefile || cmake -S . -B $(1) -G Ninja $(2)
# Brings compile_commands.json up to date without building.
refresh = cmake -S . -B $(BUILD) $(if $(wildcard $(BUILD)/CMakeCache.txt),,-G Ninja) >/dev/null
# The same for checkers, which do not read another compiler's precompiled headers.
refresh_check = cmake -S . -B build-check -G Ninja -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON >/dev/null
# $(call build,folder,cmake options,target)
build = $(call configure,$(1),$(2)) && cmake --build $(1) --parallel $(JOBS) --target $(3)
# $(call ctest,folder): one test at a time, because some measure time and use all cores.
ctest = ctest --test-dir $(1) --output-on-failure --tests-regex '$(TESTS)'

.PHONY: build test demo bench peers interop check check-folders check-format check-cppcheck check-tidy format \
        install test-asan test-tsan test-clang clean help

build:
	@$(DEPS) build
	@$(call build,$(BUILD),,all)

test: build
	@$(call ctest,$(BUILD))

demo:
	@$(DEPS) build
	@$(call build,$(BUILD),,demo)
	@$(BUILD)/bin/demo $(ARGS)

bench:
	@$(DEPS) build
	@$(call build,$(BUILD),,tandem-bench)
ifdef PEERS
	@python3 bench/compare.py --bench $(BUILD)/bin/tandem-bench --peers $(PEERS) $(NAMES)
else
	@$(BUILD)/bin/tandem-bench $(NAMES)
endif

peers:
	@test -n "$(PEERS)" || { echo "usage: make peers PEERS=<folder to install the peers into>"; exit 1; }
	@$(DEPS) peers
	@scripts/make-peers.sh $(PEERS)

interop:
	@test -n "$(PEERS)" || { echo "usage: make interop PEERS=<folder of make peers> [OPS='add ..']"; exit 1; }
	@$(DEPS) build interop
	@$(refresh)
	@$(call build,$(BUILD),,tandem-interop mirrored_fit demo)
	@$(PEERS)/tensorflow/bin/python tests/interop/run.py --program $(BUILD)/bin/tandem-interop $(OPS)
	@$(PEERS)/tensorflow/bin/python tests/interop/checkpoints.py --program $(BUILD)/bin/tandem-interop
	@$(PEERS)/tensorflow/bin/python tests/interop/trajectories.py --program $(BUILD)/bin/tandem-interop
	@$(PEERS)/tensorflow/bin/python tests/interop/fits.py --program $(BUILD)/bin/tandem-interop
	@$(PEERS)/tensorflow/bin/python tests/interop/accuracy.py --programs $(BUILD)/bin

install: build
	@cmake --install $(BUILD) --prefix $(PREFIX)

check: check-folders check-format check-cppcheck check-tidy

check-folders:
	@$(DEPS) check
	python3 scripts/check-folder-order.py

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
	@$(call build,build-asan,'-DTANDEM_SANITIZE=address;undefined',all)
	@$(call ctest,build-asan)

test-tsan:
	@$(DEPS) build sanitize
	@$(call build,build-tsan,-DTANDEM_SANITIZE=thread,all)
	@$(call ctest,build-tsan)

test-clang:
	@$(DEPS) build check
	@$(call build,build-clang,-DCMAKE_CXX_COMPILER=clang++,all)
	@$(call ctest,build-clang)

clean:
	@rm -rf $(BUILD) build-check build-asan build-tsan build-clang

help:
	@echo 'make build                  the library, the programs and the tests, in $(BUILD)/'
	@echo 'make test [TESTS=regex]     all tests'
	@echo 'make demo                   trains a convolutional network on Fashion-MNIST, saves, restores, evaluates'
	@echo 'make bench [NAMES=..]       our own figures; with PEERS=folder beside those of other libraries'
	@echo 'make peers PEERS=folder     installs the libraries to compare with'
	@echo 'make interop PEERS=folder   compares our ops, gradients, trainings and checkpoints with TensorFlow'
	@echo 'make install [PREFIX=..]    headers, shared library, CMake and pkg-config files'
	@echo 'make check                  folder order, clang-format, cppcheck, clang-tidy'
	@echo 'make format                 rewrites all sources with clang-format'
	@echo 'make test-asan test-tsan    the tests with address+undefined, with thread sanitizer'
	@echo 'make test-clang             the tests built with clang'
	@echo 'make clean'

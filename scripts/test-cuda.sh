#!/bin/bash
# On a machine with an NVIDIA GPU: runs the suites that elsewhere run on doubles (docs/gpu.md) on the
# real device, then figures of training, beside those of other libraries where a folder of `make
# peers` is given. Everything that is printed goes to a report as well, to be sent back.
#
#   scripts/test-cuda.sh <build folder> [<folder of peers>]
set -o pipefail
build=$1
peers=$2
report=cuda-report.txt
benchmarks="mlp10 mlp1024 convnet gpt_block"

say() { printf '\n== %s ==\n' "$*"; }

run() {
  say devices
  "$build/bin/tandem" devices --links --libraries || return 1
  if ! "$build/bin/tandem" devices | grep -q ' cuda '; then
    echo "there is no CUDA device here; without one, make test runs the same suites on doubles"
    return 1
  fi
  nvidia-smi --query-gpu=name,driver_version,memory.total,compute_cap --format=csv
  say tests
  TANDEM_TEST_CUDA=real ctest --test-dir "$build" --output-on-failure --timeout 900 \
    --tests-regex '^ops/|QueueContract.*/cuda|CudaTexts|CudaEquivalenceTest|CapturedStepsTest.*/cuda'
  local status=$?
  say figures
  if [ -n "$peers" ]; then
    python3 bench/compare.py --bench "$build/bin/tandem-bench" --peers "$peers" $benchmarks
  else
    "$build/bin/tandem-bench" $benchmarks
  fi
  return $status
}

run 2>&1 | tee "$report"
status=$?
echo "this is in $report, too; please send it to the project"
exit $status

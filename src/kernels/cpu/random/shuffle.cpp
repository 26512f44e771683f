// A random order of n rows, and rows put into an order.
#include <cstring>
#include <numeric>
#include <utility>

#include "kernels/cpu/random/random_source.h"
#include "kernels/part.h"
#include "op/registry.h"

namespace tandem::kernels::cpu {
namespace {

/// Fisher and Yates, as Durstenfeld wrote it down: each place from the last on is exchanged with
/// one that is not behind it. Block i of the sequence decides on place i.
op::ExecutablePtr prepare_permutation(const op::Signature& s, int) {
  return op::executable(
      [source = RandomSource(s), n = s.outputs[0].shape.count()](const op::Launch& launch) {
        if (launch.part != 0) return;
        const PhiloxSequence sequence = source.sequence(launch);
        auto* order = launch.out<int64_t>(0);
        std::iota(order, order + n, int64_t{0});
        for (int64_t i = n - 1; i > 0; --i) {
          const PhiloxBlock words = sequence.block(static_cast<uint64_t>(i));
          const uint64_t bits = uint64_t{words[1]} << 32 | words[0];
          const auto places = static_cast<unsigned __int128>(i) + 1;
          std::swap(order[i], order[static_cast<int64_t>(bits * places >> 64)]);
        }
      });
}

op::ExecutablePtr prepare_permute_rows(const op::Signature& s, int) {
  const auto& [dtype, shape] = s.outputs[0];
  const size_t row =
      shape.rows() == 0 ? 0 : static_cast<size_t>(shape.count() / shape.rows()) * size_of(dtype);
  return op::executable(
      [row, rows = shape.rows(), inverse = s.attrs.get<bool>("inverse")](const op::Launch& launch) {
        if (row == 0 || (inverse && launch.part != 0)) return;
        const auto [begin, end] =
            inverse ? std::pair<int64_t, int64_t>(0, rows) : op::part_of(rows, launch);
        const auto* order = launch.in<int64_t>(1);
        for (int64_t i = begin; i < end; ++i) {
          const int64_t from = inverse ? i : order[i];
          const int64_t to = inverse ? order[i] : i;
          std::memcpy(launch.out<char>(0) + static_cast<size_t>(to) * row,
                      launch.in<char>(0) + static_cast<size_t>(from) * row, row);
        }
      });
}

}  // namespace

void register_shuffle(op::BackendKernels& kernels) {
  kernels.add("random_permutation", {DType::int64}, prepare_permutation);
  kernels.add("permute_rows", all_dtypes(), prepare_permute_rows);
}

}  // namespace tandem::kernels::cpu

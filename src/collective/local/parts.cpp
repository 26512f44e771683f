/// take_part and put_part on the CPU. With the axes before the cut one and those from it on each as
/// one, the whole is [outer, parts, run] and a part is [outer, run].
#include <algorithm>
#include <cstring>

#include "kernels/part.h"
#include "op/registry.h"

namespace tandem::collective::local {
namespace {

using op::Launch;
using op::Signature;

/// Sizes in bytes.
struct PartLayout {
  PartLayout(const Signature& s, const op::TensorType& part)
      : parts(s.attrs.get<int64_t>("parts")), run(static_cast<int64_t>(size_of(part.dtype))) {
    const auto axis = static_cast<int>(s.attrs.get<int64_t>("axis"));
    for (int i = axis; i < part.shape.rank(); ++i) run *= part.shape.extent(i);
  }

  int64_t parts;
  int64_t run;
};

/// The bytes of the output that a thread makes.
std::pair<int64_t, int64_t> own_bytes(const op::TensorType& output, const Launch& launch) {
  const int64_t rows = output.shape.leading_extent();
  if (rows == 0) return {0, 0};
  const auto row = static_cast<int64_t>(output.bytes()) / rows;
  const auto [begin, end] = op::part_of(rows, launch);
  return {begin * row, end * row};
}

op::ExecutablePtr prepare_take(const Signature& s, int) {
  return op::executable(
      [layout = PartLayout(s, s.outputs[0]), type = s.outputs[0]](const Launch& launch) {
        const char* whole = launch.in<char>(0) + *launch.in<int32_t>(1) * layout.run;
        char* part = launch.out<char>(0);
        const auto [begin, end] = own_bytes(type, launch);
        for (int64_t at = begin; at < end;) {
          const int64_t within = at % layout.run;
          const int64_t count = std::min(layout.run - within, end - at);
          const int64_t from = at / layout.run * layout.parts * layout.run + within;
          std::memcpy(part + at, whole + from, static_cast<size_t>(count));
          at += count;
        }
      });
}

op::ExecutablePtr prepare_put(const Signature& s, int) {
  return op::executable(
      [layout = PartLayout(s, s.inputs[0]), type = s.outputs[0]](const Launch& launch) {
        const char* part = launch.in<char>(0);
        const int32_t own = *launch.in<int32_t>(1);
        char* whole = launch.out<char>(0);
        const auto [begin, end] = own_bytes(type, launch);
        for (int64_t at = begin; at < end;) {
          const int64_t within = at % layout.run;
          const int64_t count = std::min(layout.run - within, end - at);
          const int64_t place = at / layout.run;
          if (place % layout.parts == own) {
            const int64_t from = place / layout.parts * layout.run + within;
            std::memcpy(whole + at, part + from, static_cast<size_t>(count));
          } else {
            std::memset(whole + at, 0, static_cast<size_t>(count));
          }
          at += count;
        }
      });
}

}  // namespace

void register_part_kernels(op::BackendKernels& kernels) {
  kernels.add("take_part", kernels::all_dtypes(), prepare_take);
  kernels.add("put_part", kernels::all_dtypes(), prepare_put);
}

}  // namespace tandem::collective::local

/// Parts of values on the CPU. For take_part and put_part, with the axes before the cut one and
/// those from it on each as one, the whole is [outer, parts, run] and a part is [outer, run].
#include <algorithm>
#include <cstring>

#include "collective/tree.h"
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

/// Parts one behind the other, in elements.
struct StackedParts {
  explicit StackedParts(const Signature& s)
      : parts(static_cast<int>(s.attrs.get<int64_t>("parts"))),
        whole(s.attrs.get<Shape>("whole").total_extent()),
        part(s.attrs.get<Shape>("part").total_extent()),
        program(static_cast<int>(s.attrs.get<int64_t>("program"))) {}

  /// Which of the program's replicas is the first that has a part of the same whole.
  int first_replica(const Launch& launch) const {
    const int replica = launch.step->replica;
    return (program > 0 ? replica % program : replica) / parts * parts;
  }

  int parts;
  int64_t whole;
  int64_t part;
  int program;  // So many replicas run the program; 0: all.
};

/// The elements of the output that a thread makes, by chunks.
std::pair<int64_t, int64_t> own_elements(int64_t count, const Launch& launch) {
  constexpr int64_t kChunk = op::Split::kChunk;
  const auto [first, last] = op::part_of((count + kChunk - 1) / kChunk, launch);
  return {first * kChunk, std::min(last * kChunk, count)};
}

/// The whole of parts, of which `part_at(launch, of, i)` gives the i-th.
template <class PartAt>
op::ExecutablePtr prepare_whole(const Signature& s, const PartAt& part_at) {
  const auto size = static_cast<int64_t>(size_of(s.outputs[0].dtype));
  return op::executable([of = StackedParts(s), size, part_at](const Launch& launch) {
    char* whole = launch.out<char>(0);
    const auto [begin, end] = own_elements(of.whole, launch);
    for (int64_t at = begin; at < end;) {
      const int64_t within = at % of.part;
      const int64_t n = std::min(of.part - within, end - at);
      const char* part = part_at(launch, of, static_cast<int>(at / of.part));
      std::memcpy(whole + at * size, part + within * size, static_cast<size_t>(n * size));
      at += n;
    }
  });
}

op::ExecutablePtr prepare_join(const Signature& s, int) {
  return prepare_whole(s, [](const Launch& launch, const StackedParts& of, int part) {
    return static_cast<const char*>(
        launch.peers[of.first_replica(launch) + part][launch.operands[0]]);
  });
}

op::ExecutablePtr prepare_read(const Signature& s, int) {
  return prepare_whole(s, [](const Launch& launch, const StackedParts&, int part) {
    return static_cast<const char*>(launch.range<char>(part));
  });
}

/// Calls visit(begin in the part, begin in the whole, elements) for what a thread makes of this
/// replica's part, and with the end of the whole for what is behind it.
template <class Visit>
void visit_own(const StackedParts& of, const Launch& launch, const Visit& visit) {
  const auto [begin, end] = own_elements(of.part, launch);
  if (begin >= end) return;
  const int64_t start = launch.step->replica % of.parts * of.part;
  const int64_t last = std::clamp(of.whole - start, begin, end);
  if (begin < last) visit(begin, start + begin, last - begin);
  if (last < end) visit(last, of.whole, end - last);
}

op::ExecutablePtr prepare_own(const Signature& s, int) {
  const auto size = static_cast<int64_t>(size_of(s.outputs[0].dtype));
  return op::executable([of = StackedParts(s), size](const Launch& launch) {
    const char* whole = launch.in<char>(0);
    char* own = launch.out<char>(0);
    visit_own(of, launch, [&](int64_t to, int64_t from, int64_t n) {
      const auto bytes = static_cast<size_t>(n * size);
      if (from == of.whole) {
        std::memset(own + to * size, 0, bytes);
      } else {
        std::memcpy(own + to * size, whole + from * size, bytes);
      }
    });
  });
}

/// Sums `n` elements from `from` on of the values of `count` replicas, a block at a time.
template <class T>
void sum_run(const Launch& launch, int first, int count, int64_t from, T* to, int64_t n) {
  constexpr int64_t kBlock = 256;
  constexpr int kMostReplicas = 1 << 16;
  T sums[tree_depth(kMostReplicas)][kBlock];
  for (int64_t i = 0; i < n; i += kBlock) {
    const int64_t block = std::min(kBlock, n - i);
    const auto value = [&](int r, int) {
      return static_cast<const T*>(launch.peers[r][launch.operands[0]]) + from + i;
    };
    const auto add = [&](const T* a, const T* b, int depth) -> const T* {
      for (int64_t k = 0; k < block; ++k) sums[depth][k] = a[k] + b[k];
      return sums[depth];
    };
    std::copy_n(tree_sum(first, count, value, add), block, to + i);
  }
}

template <class T>
op::ExecutablePtr prepare_sum_to_part(const Signature& s, int) {
  return op::executable([of = StackedParts(s)](const Launch& launch) {
    T* own = launch.out<T>(0);
    visit_own(of, launch, [&](int64_t to, int64_t from, int64_t n) {
      if (from == of.whole) {
        std::fill_n(own + to, n, T{});
      } else {
        sum_run<T>(launch, of.first_replica(launch), of.parts, from, own + to, n);
      }
    });
  });
}

}  // namespace

void register_part_kernels(op::BackendKernels& kernels) {
  kernels.add("join_parts", kernels::all_dtypes(), prepare_join);
  kernels.add("read_parts", kernels::all_dtypes(), prepare_read);
  kernels.add("own_part", kernels::all_dtypes(), prepare_own);
  kernels.add("sum_to_part", {DType::float32}, prepare_sum_to_part<float>);
  kernels.add("sum_to_part", {DType::float64}, prepare_sum_to_part<double>);
  kernels.add("take_part", kernels::all_dtypes(), prepare_take);
  kernels.add("put_part", kernels::all_dtypes(), prepare_put);
}

}  // namespace tandem::collective::local

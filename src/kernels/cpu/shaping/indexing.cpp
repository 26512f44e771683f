// gather, its gradient scatter_add_rows, and one_hot: rows of a table by their indices. An index
// that is out of range is an error, in one_hot a row without a mark.
#include <algorithm>
#include <cstring>

#include "kernels/axis_view.h"
#include "kernels/cpu/wrapping.h"
#include "kernels/part.h"
#include "kernels/pattern.h"
#include "op/registry.h"

namespace tandem::kernels::cpu {
namespace {

template <class I>
class Gather {
 public:
  explicit Gather(const op::Signature& s)
      : table_(s.inputs[0].shape, s),
        indices_(s.inputs[1].shape.count()),
        element_(size_of(s.inputs[0].dtype)),
        split_(s.outputs[0].shape) {}

  void run(const op::Launch& launch) const {
    const auto [begin, end] = split_.part(launch);
    if (begin == end) return;
    if (begin % table_.inner == 0 && end % table_.inner == 0) {
      const int64_t first = begin / table_.inner;
      const int64_t last = end / table_.inner;
      switch (row_bytes()) {
        case 4:
          return rows<4>(launch, first, last);
        case 8:
          return rows<8>(launch, first, last);
        default:
          return rows<0>(launch, first, last);
      }
    }
    // One index, whose row several threads share.
    const I index = launch.in<I>(1)[0];
    table_.check("gather", index);
    std::memcpy(launch.out<char>(0) + static_cast<size_t>(begin) * element_,
                launch.in<char>(0) + static_cast<size_t>(index * table_.inner + begin) * element_,
                static_cast<size_t>(end - begin) * element_);
  }

 private:
  static constexpr int64_t kAhead = 8;
  static constexpr size_t kLine = 64;
  static constexpr size_t kPrefetched = 512;

  size_t row_bytes() const { return static_cast<size_t>(table_.inner) * element_; }

  /// Whole rows [first, last) of the result; kBytes is their size where it is known.
  template <size_t kBytes>
  void rows(const op::Launch& launch, int64_t first, int64_t last) const {
    const size_t bytes = kBytes == 0 ? row_bytes() : kBytes;
    const I* indices = launch.in<I>(1);
    char* out = launch.out<char>(0) + static_cast<size_t>(first) * bytes;
    for (int64_t row = first; row < last;) {
      const char* x =
          launch.in<char>(0) + static_cast<size_t>(row / indices_ * table_.size) * row_bytes();
      const int64_t start = row % indices_;
      const int64_t stop = std::min(indices_, start + last - row);
      for (int64_t i = start; i < stop; ++i, out += bytes) {
        if (i + kAhead < stop) prefetch(x, indices[i + kAhead], bytes);
        table_.check("gather", indices[i]);
        std::memcpy(out, x + static_cast<size_t>(indices[i]) * bytes, bytes);
      }
      row += stop - start;
    }
  }

  /// A hint may point anywhere: the index is not checked yet.
  static void prefetch(const char* x, I index, size_t bytes) {
    const auto row = reinterpret_cast<uintptr_t>(x) + static_cast<size_t>(index) * bytes;
    for (size_t at = 0; at < std::min(bytes, kPrefetched); at += kLine) {
      __builtin_prefetch(reinterpret_cast<const char*>(row + at));
    }
  }

  AxisView table_;
  int64_t indices_;
  size_t element_;
  RowSplit split_;
};

template <class Index>
op::ExecutablePtr gather_by(const op::Signature& s) {
  return op::executable(
      [gather = Gather<Index>(s)](const op::Launch& launch) { gather.run(launch); });
}

op::ExecutablePtr prepare_gather(const op::Signature& s, int) {
  return s.inputs[1].dtype == DType::int32 ? gather_by<int32_t>(s) : gather_by<int64_t>(s);
}

/// The values are added in the order of the indices, whoever adds them.
template <class T, class I>
void scatter_add(const AxisView& table, int64_t indices, int64_t begin, int64_t end,
                 const op::Launch& launch) {
  const T* values = launch.in<T>(0);
  const I* at = launch.in<I>(1);
  T* out = launch.out<T>(0);
  std::fill(out + begin, out + end, T(0));
  const int64_t per_outer = table.size * table.inner;
  for (int64_t outer = begin / per_outer; outer * per_outer < end; ++outer) {
    const int64_t low = std::max(begin - outer * per_outer, int64_t{0}) / table.inner;
    const int64_t high = std::min((end - outer * per_outer) / table.inner, table.size);
    for (int64_t i = 0; i < indices; ++i) {
      const int64_t row = at[i];
      table.check("scatter_add_rows", row);
      if (row < low || row >= high) continue;
      const T* x = values + (outer * indices + i) * table.inner;
      T* to = out + outer * per_outer + row * table.inner;
      for (int64_t k = 0; k < table.inner; ++k) to[k] = Wrapping<std::plus>()(to[k], x[k]);
    }
  }
}

template <class T>
op::ExecutablePtr prepare_scatter(const op::Signature& s, int) {
  const auto add =
      s.inputs[1].dtype == DType::int32 ? scatter_add<T, int32_t> : scatter_add<T, int64_t>;
  return op::executable([table = AxisView(s.outputs[0].shape, s),
                         indices = s.inputs[1].shape.count(), split = RowSplit(s.outputs[0].shape),
                         add](const op::Launch& launch) {
    const auto [begin, end] = split.part(launch);
    if (begin < end) add(table, indices, begin, end, launch);
  });
}

template <class U, class I>
op::ExecutablePtr one_hot(const op::Signature& s, U on, U off) {
  return op::executable([on, off, depth = s.attrs.get<int64_t>("depth"),
                         split = RowSplit(s.outputs[0].shape)](const op::Launch& launch) {
    const auto [begin, end] = split.part(launch);
    if (begin == end) return;
    U* out = launch.out<U>(0);
    std::fill(out + begin, out + end, off);
    const I* indices = launch.in<I>(0);
    for (int64_t row = begin / depth; row * depth < end; ++row) {
      const int64_t at = row * depth + indices[row];
      const bool in_range = indices[row] >= 0 && indices[row] < depth;
      if (in_range && at >= begin && at < end) out[at] = on;
    }
  });
}

template <class I>
op::ExecutablePtr prepare_one_hot(const op::Signature& s, int) {
  const DType dtype = s.outputs[0].dtype;
  const Pattern on(s.attrs.get<double>("on"), dtype);
  const Pattern off(s.attrs.get<double>("off"), dtype);
  return with_word(dtype,
                   [&]<class U>(U) { return one_hot<U, I>(s, on.word<U>(), off.word<U>()); });
}

}  // namespace

void register_indexing(op::BackendKernels& kernels) {
  kernels.add("gather", all_dtypes(), prepare_gather);
  kernels.add("scatter_add_rows", {DType::float32}, prepare_scatter<float>);
  kernels.add("scatter_add_rows", {DType::float64}, prepare_scatter<double>);
  kernels.add("one_hot", {DType::int32}, prepare_one_hot<int32_t>);
  kernels.add("one_hot", {DType::int64}, prepare_one_hot<int64_t>);
}

}  // namespace tandem::kernels::cpu

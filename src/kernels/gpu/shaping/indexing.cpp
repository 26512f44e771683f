// gather, its gradient scatter_add_rows, and one_hot: rows of a table by their indices. An index
// that is out of range is an error, in one_hot a row without a mark.
#include "device/gpu/dialect.h"
#include "kernels/axis_view.h"
#include "kernels/gpu/gpu_kernel.h"
#include "kernels/pattern.h"

namespace tandem::kernels::gpu {
namespace {

FaultNumberPtr out_of_range(const char* op, const AxisView& table) {
  return std::make_shared<FaultNumber>(
      [op, table](int64_t, int64_t index) { table.throw_out_of_range(op, index); });
}

// An item of the serial form copies whole rows; the first and the last may be shared with its
// neighbours.
constexpr const char* kGather = R"(
KERNEL NAME(MEMORY(0), MEMORY(1), MEMORY(2), i64 count, i64 size, i64 indices, i64 inner,
            MEMORY(3), i64 report, i64 ticket) {
  const GLOBAL T* x = AT(T, 0);
  const GLOBAL I* at = AT(I, 1);
  GLOBAL T* y = AT(T, 2);
#ifdef SERIAL
  i64 i = count * GID() / GSIZE();
  const i64 end = count * (GID() + 1) / GSIZE();
  i64 first = i % inner;
  i64 k = i / inner % indices;
  x += i / inner / indices * size * inner;
  while (i < end) {
    const i64 m = inner - first < end - i ? inner - first : end - i;
    const i64 index = at[k];
    GLOBAL T* t = y + i;
    if (index >= 0 && index < size) {
      const GLOBAL T* s = x + index * inner + first;
      INDEPENDENT for (i64 j = 0; j < m; ++j) t[j] = s[j];
    } else {
      report_fault(AT(u32, 3), report, ticket, k, index);
      for (i64 j = 0; j < m; ++j) t[j] = 0;
    }
    i += m;
    first = 0;
    if (++k == indices) {
      k = 0;
      x += size * inner;
    }
  }
#else
  EACH(i, count) {
    const i64 row = i / inner;
    const i64 outer = row / indices;
    const i64 index = at[row - outer * indices];
    if (index >= 0 && index < size) {
      y[i] = x[(outer * size + index) * inner + i - row * inner];
    } else {
      report_fault(AT(u32, 3), report, ticket, row - outer * indices, index);
      y[i] = 0;
    }
  }
#endif
}
)";

Words words_of(Words words, DType indices) {
  words.emplace_back("I", type_name(indices));
  return words;
}

ExecutablePtr prepare_gather(const Signature& s, const Device& device) {
  const AxisView table(s.inputs[0].shape, s);
  const Kernel kernel(device, {.name = "gather",
                               .words = words_of(word_of(s.inputs[0].dtype), s.inputs[1].dtype),
                               .body = kGather});
  return op::executable([kernel, table, indices = count_of(s.inputs[1]),
                         count = count_of(s.outputs[0]),
                         fault = out_of_range("gather", table)](const Launch& launch) {
    if (count == 0) return;
    Call call(launch, kernel);
    call.in(0).in(1).out(0).whole(count).whole(table.size).whole(indices).whole(table.inner);
    call.fault(*fault).each(count);
  });
}

// scatter_add_rows adds the values in the order of the indices, so that sums are the same each time
// and on each device. Each element of the result has one item that looks for its values among the
// indices: all of them, which suits few indices and items that take many rows.
constexpr const char* kScatter = R"(
KERNEL NAME(MEMORY(0), MEMORY(1), MEMORY(2), i64 count, i64 size, i64 indices, i64 inner,
            MEMORY(3), i64 report, i64 ticket) {
  const GLOBAL T* x = AT(T, 0);
  const GLOBAL I* at = AT(I, 1);
  GLOBAL T* y = AT(T, 2);
#ifdef SERIAL
  /* The rows [low, high) of each table that the item has a share of. */
  const i64 rows = count / inner;
  const i64 begin = rows * GID() / GSIZE();
  const i64 end = rows * (GID() + 1) / GSIZE();
  for (i64 i = begin * inner; i < end * inner; ++i) y[i] = 0;
  for (i64 outer = begin / size; outer * size < end; ++outer) {
    const i64 low = begin > outer * size ? begin - outer * size : 0;
    const i64 high = end - outer * size < size ? end - outer * size : size;
    for (i64 k = 0; k < indices; ++k) {
      const i64 index = at[k];
      if (index >= low && index < high) {
        const GLOBAL T* s = x + (outer * indices + k) * inner;
        GLOBAL T* t = y + (outer * size + index) * inner;
        INDEPENDENT for (i64 j = 0; j < inner; ++j) t[j] += s[j];
      } else if (index < 0 || index >= size) {
        report_fault(AT(u32, 3), report, ticket, k, index);
      }
    }
  }
#else
  EACH(i, count) {
    const i64 row = i / inner;
    const i64 outer = row / size;
    const i64 own = row - outer * size;
    T sum = 0;
    for (i64 k = 0; k < indices; ++k) {
      const i64 index = at[k];
      if (index == own) sum += x[(outer * indices + k) * inner + i - row * inner];
      if (index < 0 || index >= size) report_fault(AT(u32, 3), report, ticket, k, index);
    }
    y[i] = sum;
  }
#endif
}
)";

// For many indices each row has a list of the places in `indices` that name it. The lists lie end
// to end; row r's begins at starts[r]. They are filled in any order, and then put in order: atomics
// on whole numbers only, so that the result does not depend on who comes first.
constexpr const char* kClearCounts = R"(
KERNEL NAME(MEMORY(0), i64 size) {
  GLOBAL i32* counts = AT(i32, 0);
  EACH(r, size) counts[r] = 0;
}
)";

constexpr const char* kCountRows = R"(
KERNEL NAME(MEMORY(0), MEMORY(1), i64 size, i64 indices, MEMORY(2), i64 report, i64 ticket) {
  const GLOBAL I* at = AT(I, 0);
  GLOBAL i32* counts = AT(i32, 1);
  EACH(k, indices) {
    const i64 index = at[k];
    if (index >= 0 && index < size) {
      ATOMIC_ADD(counts + index, 1);
    } else {
      report_fault(AT(u32, 2), report, ticket, k, index);
    }
  }
}
)";

// One group: an item adds up a run of the counts, then one item the runs.
constexpr const char* kStarts = R"(
KERNEL NAME(MEMORY(0), MEMORY(1), i64 size) {
  GLOBAL i32* counts = AT(i32, 0);
  GLOBAL i64* starts = AT(i64, 1);
#ifdef SERIAL
  i64 sum = 0;
  for (i64 r = 0; r < size; ++r) {
    starts[r] = sum;
    sum += counts[r];
    counts[r] = 0;
  }
  starts[size] = sum;
#else
  LOCAL i64 sums[GROUP_SIZE];
  const i64 begin = size * LID() / GROUP_SIZE;
  const i64 end = size * (LID() + 1) / GROUP_SIZE;
  i64 sum = 0;
  for (i64 r = begin; r < end; ++r) sum += counts[r];
  sums[LID()] = sum;
  BARRIER();
  if (LID() == 0) {
    i64 all = 0;
    for (int l = 0; l < GROUP_SIZE; ++l) {
      const i64 own = sums[l];
      sums[l] = all;
      all += own;
    }
    starts[size] = all;
  }
  BARRIER();
  sum = sums[LID()];
  for (i64 r = begin; r < end; ++r) {
    starts[r] = sum;
    sum += counts[r];
    counts[r] = 0;
  }
#endif
}
)";

constexpr const char* kFillLists = R"(
KERNEL NAME(MEMORY(0), MEMORY(1), MEMORY(2), MEMORY(3), i64 size, i64 indices) {
  const GLOBAL I* at = AT(I, 0);
  GLOBAL i32* counts = AT(i32, 1);
  const GLOBAL i64* starts = AT(i64, 2);
  GLOBAL i64* lists = AT(i64, 3);
  EACH(k, indices) {
    const i64 index = at[k];
    if (index >= 0 && index < size) lists[starts[index] + ATOMIC_ADD(counts + index, 1)] = k;
  }
}
)";

// The place of an entry in its list is the number of smaller ones; no two are alike.
constexpr const char* kOrderLists = R"(
KERNEL NAME(MEMORY(0), MEMORY(1), MEMORY(2), MEMORY(3), i64 size, i64 indices) {
  const GLOBAL I* at = AT(I, 0);
  const GLOBAL i64* starts = AT(i64, 1);
  const GLOBAL i64* lists = AT(i64, 2);
  GLOBAL i64* ordered = AT(i64, 3);
  const i64 filled = starts[size];
  EACH(e, indices) {
    if (e < filled) {
      const i64 entry = lists[e];
      const i64 row = at[entry];
      i64 place = starts[row];
      const i64 end = starts[row + 1];
      for (i64 other = place; other < end; ++other)
        place += lists[other] < entry ? 1 : 0;
      ordered[place] = entry;
    }
  }
}
)";

constexpr const char* kAddLists = R"(
KERNEL NAME(MEMORY(0), MEMORY(1), MEMORY(2), MEMORY(3), i64 count, i64 size, i64 indices, i64 inner) {
  const GLOBAL T* x = AT(T, 0);
  GLOBAL T* y = AT(T, 1);
  const GLOBAL i64* starts = AT(i64, 2);
  const GLOBAL i64* lists = AT(i64, 3);
  EACH(i, count) {
    const i64 row = i / inner;
    const i64 outer = row / size;
    const GLOBAL T* own = x + outer * indices * inner + i - row * inner;
    const i64 end = starts[row - outer * size + 1];
    T sum = 0;
    for (i64 e = starts[row - outer * size]; e < end; ++e) sum += own[lists[e] * inner];
    y[i] = sum;
  }
}
)";

/// All indices are looked through for each element, or for the rows of a few items.
class ScatterByScan final : public op::Executable {
 public:
  ScatterByScan(const Signature& s, const Device& device)
      : table_(s.outputs[0].shape, s),
        count_(count_of(s.outputs[0])),
        indices_(count_of(s.inputs[1])),
        kernel_(device, {.name = "scatter_add_rows",
                         .words = words_of(types_of(s.inputs[0].dtype), s.inputs[1].dtype),
                         .body = kScatter}),
        fault_(out_of_range("scatter_add_rows", table_)) {}

  void run(const Launch& launch) const override {
    if (count_ == 0) return;
    Call call(launch, kernel_);
    call.in(0).in(1).out(0).whole(count_).whole(table_.size).whole(indices_).whole(table_.inner);
    call.fault(*fault_);
    // In the serial form each item reads all indices: not more items than run at once.
    kernel_.is_serial() ? call.groups(kernel_.device().units, 1) : call.each(count_);
  }

 private:
  const AxisView table_;
  const int64_t count_;
  const int64_t indices_;
  const Kernel kernel_;
  const FaultNumberPtr fault_;
};

/// Makes a list of the indices for each row, in the workspace:
///
///   starts (size + 1)   lists (indices)   ordered (indices)   counts (size, 4 bytes each)
class ScatterByLists final : public op::Executable {
 public:
  ScatterByLists(const Signature& s, const Device& device)
      : table_(s.outputs[0].shape, s),
        count_(count_of(s.outputs[0])),
        indices_(count_of(s.inputs[1])),
        clear_(device, {.name = "scatter_clear", .body = kClearCounts}),
        count_rows_(device, by_index("scatter_count", s, kCountRows)),
        starts_(device, {.name = "scatter_starts", .body = kStarts}),
        fill_(device, by_index("scatter_fill", s, kFillLists)),
        order_(device, by_index("scatter_order", s, kOrderLists)),
        add_(device,
             {.name = "scatter_add", .words = types_of(s.inputs[0].dtype), .body = kAddLists}),
        fault_(out_of_range("scatter_add_rows", table_)) {}

  size_t workspace_bytes() const override {
    return counts_at() + static_cast<size_t>(table_.size) * sizeof(int32_t);
  }

  void run(const Launch& launch) const override {
    if (count_ == 0) return;
    const int64_t size = table_.size;
    const size_t ordered = lists_at() + static_cast<size_t>(indices_) * sizeof(int64_t);
    Call(launch, clear_).workspace(counts_at()).whole(size).each(size);
    Call(launch, count_rows_)
        .in(1)
        .workspace(counts_at())
        .whole(size)
        .whole(indices_)
        .fault(*fault_)
        .each(indices_);
    Call(launch, starts_)
        .workspace(counts_at())
        .workspace()
        .whole(size)
        .groups(1, starts_.is_serial() ? 1 : devices::gpu::kGroupSize);
    Call(launch, fill_)
        .in(1)
        .workspace(counts_at())
        .workspace()
        .workspace(lists_at())
        .whole(size)
        .whole(indices_)
        .each(indices_);
    Call(launch, order_)
        .in(1)
        .workspace()
        .workspace(lists_at())
        .workspace(ordered)
        .whole(size)
        .whole(indices_)
        .each(indices_);
    Call(launch, add_)
        .in(0)
        .out(0)
        .workspace()
        .workspace(ordered)
        .whole(count_)
        .whole(size)
        .whole(indices_)
        .whole(table_.inner)
        .each(count_);
  }

 private:
  static KernelText by_index(const char* name, const Signature& s, const char* body) {
    return {.name = name, .words = words_of({}, s.inputs[1].dtype), .body = body};
  }

  size_t lists_at() const { return static_cast<size_t>(table_.size + 1) * sizeof(int64_t); }
  size_t counts_at() const {
    return lists_at() + 2 * static_cast<size_t>(indices_) * sizeof(int64_t);
  }

  const AxisView table_;
  const int64_t count_;
  const int64_t indices_;
  const Kernel clear_, count_rows_, starts_, fill_, order_, add_;
  const FaultNumberPtr fault_;
};

ExecutablePtr prepare_scatter(const Signature& s, const Device& device) {
  constexpr int64_t kFewIndices = 64;
  const bool scans = queue_of(device).compiler().form() == KernelForm::serial ||
                     count_of(s.inputs[1]) <= kFewIndices;
  if (scans) return std::make_shared<ScatterByScan>(s, device);
  return std::make_shared<ScatterByLists>(s, device);
}

constexpr const char* kOneHot = R"(
KERNEL NAME(MEMORY(0), MEMORY(1), i64 rows, i64 depth, i64 on, i64 off) {
  const GLOBAL I* at = AT(I, 0);
  GLOBAL T* y = AT(T, 1);
#ifdef SERIAL
  const i64 begin = rows * GID() / GSIZE();
  const i64 end = rows * (GID() + 1) / GSIZE();
  for (i64 i = begin * depth; i < end * depth; ++i) y[i] = (T)off;
  for (i64 row = begin; row < end; ++row) {
    const i64 index = at[row];
    if (index >= 0 && index < depth) y[row * depth + index] = (T)on;
  }
#else
  EACH(i, rows * depth) y[i] = (T)(at[i / depth] == i % depth ? on : off);
#endif
}
)";

ExecutablePtr prepare_one_hot(const Signature& s, const Device& device) {
  const DType dtype = s.outputs[0].dtype;
  const auto word = [&](const char* attribute) {
    const Pattern pattern(s.attrs.get<double>(attribute), dtype);
    return static_cast<int64_t>(pattern.word<uint64_t>());
  };
  const Kernel kernel(
      device,
      {.name = "one_hot", .words = words_of(word_of(dtype), s.inputs[0].dtype), .body = kOneHot});
  return op::executable([kernel, rows = count_of(s.inputs[0]), count = count_of(s.outputs[0]),
                         depth = s.attrs.get<int64_t>("depth"), on = word("on"),
                         off = word("off")](const Launch& launch) {
    if (count == 0) return;
    Call(launch, kernel).in(0).out(0).whole(rows).whole(depth).whole(on).whole(off).each(count);
  });
}

}  // namespace

void register_indexing(op::BackendKernels& kernels) {
  add_kernel(kernels, "gather", all_dtypes(), prepare_gather);
  add_kernel(kernels, "scatter_add_rows", {DType::float32, DType::float64}, prepare_scatter);
  add_kernel(kernels, "one_hot", {DType::int32, DType::int64}, prepare_one_hot);
}

}  // namespace tandem::kernels::gpu

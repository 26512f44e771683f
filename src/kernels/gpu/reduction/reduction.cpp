// Many elements become one. Where those lie side by side, a group of items, or one item of a CPU,
// takes a result (by rows); otherwise items walk down the columns of many results at once.
//
// Where there are too few results to fill the device, what meets in one is cut into parts:
//
//   input --> parts of each result, in workspace --> results
//
// Both arrows are calls of one text. Sums are of short runs, which are then added up in float64, so
// that errors do not grow with the length.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/gpu/columns.h"
#include "kernels/gpu/factor_text.h"
#include "kernels/gpu/gpu_kernel.h"
#include "kernels/gpu/nest_text.h"
#include "kernels/reduce_nests.h"

namespace tandem::kernels::gpu {
namespace {

using Axes = std::vector<int64_t>;

// T: elements. C: what they are joined in. A: what the folds of runs are joined in. OP(a, b),
// START: the fold of nothing. FINISHED(v): a result from a fold.

constexpr const char* kByRows = R"(
KERNEL NAME(MEMORY(0), MEMORY(1), i64 results, i64 parts, i64 meeting, i64 run,
            MEMORY(2), i64 divisor, double factor KEPT_PARAMETERS REDUCED_PARAMETERS) {
  SCRATCH(C)
  const double scale = factor_of(AT(const i64, 2), divisor, factor);
  ROWS(r, results * parts) {
    const i64 result = parts == 1 ? r : r / parts;
    const i64 part = r - result * parts;
    const GLOBAL T* x = AT(const T, 0) + KEPT_AT(result);
#ifdef SERIAL
    if (meeting == run && meeting < 2 * LANES) {
      C few = START;
      for (i64 c = 0; c < meeting; ++c) few = OP(few, x[c]);
      AT(T, 1)[r] = (T)FINISHED(few);
      continue;
    }
#endif
    const i64 end = meeting * (part + 1) / parts;
    LANES_OF(A, all, START)
#ifdef SERIAL
    for (i64 at = meeting * part / parts; at < end;) {
      const GLOBAL T* from = x + REDUCED_AT(at);
      i64 n = run - at % run;
      if (n > end - at) n = end - at;
      if (n > 512) n = 512;
      LANES_OF(C, v, START)
      LANEWISE(C, e, from[c], c, l, n, v[l] = OP(v[l], e);)
      for (int l = 0; l < LANES; ++l) all[l] = OP(all[l], v[l]);
      at += n;
    }
#else
    for (i64 first = meeting * part / parts + LID(); first < end; first += 32 * LSIZE()) {
      C v = START;
      for (i64 at = first; at < end && at < first + 32 * LSIZE(); at += LSIZE()) {
        v = OP(v, x[REDUCED_AT(at)]);
      }
      all[0] = OP(all[0], v);
    }
#endif
    LANES_OF(C, joined, (C)all[l_])
    JOIN(C, joined, OP)
    ONCE AT(T, 1)[r] = (T)FINISHED(joined[0]);
  }
}
)";

constexpr const char* kByColumns = R"(
KERNEL NAME(MEMORY(0), MEMORY(1), i64 results, i64 parts, i64 meeting, i64 run,
            MEMORY(2), i64 divisor, double factor KEPT_PARAMETERS REDUCED_PARAMETERS) {
  const double scale = factor_of(AT(const i64, 2), divisor, factor);
  const i64 tasks = COLUMN_TASKS(results / run, run);
  EACH(t, tasks * parts) {
    const i64 part = t / tasks;
    const i64 first = COLUMN_OF(t % tasks, run);
    const i64 result = OUTER_OF(t % tasks, run) * run + first;
    const int n = COLUMNS_FROM(first, run);
    const i64 rows = PART_ROWS(part, parts, meeting);
    const GLOBAL T* x = AT(const T, 0) + KEPT_AT(result);
    A all[COLUMN_WIDTH];
    C v[COLUMN_WIDTH];
    WIDE(l, n) all[l] = START;
    for (i64 block = 0; block < rows; block += 32) {
      WIDE(l, n) v[l] = START;
      for (i64 k = block; k < rows && k < block + 32; ++k) {
        const i64 row = PART_ROW(k, part, parts, meeting);
        const GLOBAL T* from = x + REDUCED_AT(row);
        WIDE(l, n) v[l] = OP(v[l], from[l]);
      }
      WIDE(l, n) all[l] = OP(all[l], v[l]);
    }
    GLOBAL T* out = AT(T, 1) + part * results + result;
    WIDE(l, n) out[l] = (T)FINISHED((C)all[l]);
  }
}
)";

/// How two numbers become one.
struct Fold {
  const char* type;   // The type of elements,
  const char* own;    // the one they are joined in,
  const char* wide;   // and the one the folds of runs are joined in.
  const char* join;   // OP(a, b)
  std::string start;  // The fold of nothing.
  bool scaled = false;
};

/// Whole numbers wrap round, which only unsigned ones may.
const char* wrapping_type(DType dtype) {
  if (dtype == DType::int32) return "u32";
  if (dtype == DType::int64) return "u64";
  return type_name(dtype);
}

Fold sum_of(DType dtype) {
  const bool floating = dtype == DType::float32 || dtype == DType::float64;
  const char* type = wrapping_type(dtype);
  return {type, type, floating ? "double" : type, "((a) + (b))", "0", floating};
}

Fold product_of(DType dtype) {
  const char* type = wrapping_type(dtype);
  return {type, type, type, "((a) * (b))", "1"};
}

std::string lowest(DType dtype) {
  switch (dtype) {
    case DType::int32:
      return "(-2147483647 - 1)";
    case DType::int64:
      return "(-9223372036854775807 - 1)";
    case DType::uint8:
      return "0";
    default:
      return "-INFINITY";
  }
}

std::string highest(DType dtype) {
  switch (dtype) {
    case DType::int32:
      return "2147483647";
    case DType::int64:
      return "9223372036854775807";
    case DType::uint8:
      return "255";
    default:
      return "INFINITY";
  }
}

/// PoCL 3.1 loses the lanes of a loop over bytes.
const char* promoted_type(DType dtype) { return dtype == DType::uint8 ? "i32" : type_name(dtype); }

Fold maximum_of(DType dtype) {
  return {type_name(dtype), promoted_type(dtype), promoted_type(dtype), "MAX_OF(a, b)",
          lowest(dtype)};
}
Fold minimum_of(DType dtype) {
  return {type_name(dtype), promoted_type(dtype), promoted_type(dtype), "MIN_OF(a, b)",
          highest(dtype)};
}

/// Any is the maximum of bytes that are 0 or 1, all is their minimum.
Fold any_of(DType) { return {"u8", "i32", "i32", "MAX_OF(a, b)", "0"}; }
Fold all_of(DType) { return {"u8", "i32", "i32", "MIN_OF(a, b)", "1"}; }

/// One call: `results` of what `meeting` elements each become.
class Pass {
 public:
  Pass(const Device& device, const std::string& name, const Fold& fold, const ReduceNests& nests,
       bool by_rows)
      : nests_(nests),
        by_rows_(by_rows),
        results_(nests.kept.count()),
        meeting_(nests.reduced.count()),
        kernel_(device, text(name, fold, nests, by_rows)) {
    Nest<1> runs = by_rows ? nests.reduced : nests.kept;
    run_ = std::max<int64_t>(1, runs.take_inner().size);
    parts_ = by_rows ? row_parts() : columns().parts(kernel_);
  }

  int64_t parts() const { return parts_; }
  int64_t results() const { return results_; }

  /// From what the call has been given, which is memory for the elements and for the results.
  void issue(Call& call, const Launch& launch, const Factor& factor) const {
    call.whole(results_).whole(parts_).whole(meeting_).whole(run_);
    factor.pass(call, launch);
    pass_nest(call, nests_.kept);
    pass_nest(call, nests_.reduced);
    if (by_rows_) {
      call.rows(results_ * parts_, meeting_ / parts_);
    } else {
      columns().issue(call, kernel_, parts_);
    }
  }

  const Kernel& kernel() const { return kernel_; }

  /// The pass that joins the parts that this one leaves.
  Pass joining(const Device& device, const std::string& name, const Fold& fold) const {
    ReduceNests nests;
    nests.kept.add({results_, {by_rows_ ? parts_ : 1}});
    nests.reduced.add({parts_, {by_rows_ ? 1 : results_}});
    Pass pass(device, name, fold, nests, by_rows_);
    pass.parts_ = 1;
    return pass;
  }

 private:
  static KernelText text(const std::string& name, const Fold& fold, const ReduceNests& nests,
                         bool by_rows) {
    Words words = {
        {"T", fold.type},      {"C", fold.own},
        {"A", fold.wide},      {"OP(a, b)", fold.join},
        {"START", fold.start}, {"FINISHED(v)", fold.scaled ? "((v) * (C)scale)" : "(v)"}};
    add_nest(words, "KEPT", nests.kept);
    add_nest(words, "REDUCED", nests.reduced);
    return {.name = name,
            .words = words,
            .functions = {kFactor, kColumns},
            .body = by_rows ? kByRows : kByColumns};
  }

  Columns columns() const { return {results_ / run_, meeting_, run_}; }

  int64_t row_parts() const {
    const int64_t units = kernel_.device().units;
    const int64_t wanted = (kernel_.is_serial() ? 4 : 8) * units / std::max<int64_t>(1, results_);
    constexpr int64_t kWorthAPart = 16 << 10;
    return std::max<int64_t>(1, std::min(wanted, meeting_ / kWorthAPart));
  }

  ReduceNests nests_;
  bool by_rows_;
  int64_t results_;
  int64_t meeting_;
  Kernel kernel_;
  int64_t run_ = 1;  // The innermost axis: what lies side by side, by rows of what meets.
  int64_t parts_ = 1;
};

class Reduce final : public op::Executable {
 public:
  Reduce(const Pass& pass, std::unique_ptr<const Pass> join, size_t size, const Factor& factor,
         bool is_empty)
      : pass_(pass), join_(std::move(join)), size_(size), factor_(factor), is_empty_(is_empty) {}

  size_t workspace_bytes() const override {
    return join_ ? static_cast<size_t>(pass_.parts() * pass_.results()) * size_ : 0;
  }

  void run(const Launch& launch) const override {
    if (pass_.results() == 0) return;
    Call first(launch, pass_.kernel());
    // What has no elements need not have an address either.
    is_empty_ ? first.out(0) : first.in(0);
    if (!join_) return pass_.issue(first.out(0), launch, factor_);
    pass_.issue(first.workspace(), launch, Factor());
    Call second(launch, join_->kernel());
    join_->issue(second.workspace().out(0), launch, factor_);
  }

 private:
  const Pass pass_;
  const std::unique_ptr<const Pass> join_;  // Null: there is one part.
  const size_t size_;
  const Factor factor_;
  const bool is_empty_;
};

ReduceNests nests_of(const Signature& s) {
  const Shape& shape = s.inputs[0].shape;
  if (shape.count() > 0) return reduce_nests(shape, s.attrs.get<Axes>("axes"));
  ReduceNests nothing;
  nothing.kept.add({count_of(s.outputs[0]), {1}});
  nothing.reduced.add({0, {1}});
  return nothing;
}

/// By rows where that reads memory as it lies. A GPU has better use for a group than a few
/// elements.
bool by_rows(const ReduceNests& nests, const Device& device) {
  constexpr int64_t kShort = 32;
  constexpr int64_t kManyResults = 256;
  if (!nests.reduces_innermost()) return false;
  return is_serial(device) || nests.reduced.count() > kShort || nests.kept.count() < kManyResults;
}

ExecutablePtr prepare_fold(const Signature& s, const Device& device, const Fold& fold,
                           const Factor& factor) {
  const ReduceNests nests = nests_of(s);
  const Pass pass(device, s.op->name, fold, nests, by_rows(nests, device));
  std::unique_ptr<const Pass> join;
  if (pass.parts() > 1) {
    join = std::make_unique<const Pass>(pass.joining(device, s.op->name, fold));
  }
  return std::make_shared<Reduce>(pass, std::move(join), size_of(s.outputs[0].dtype), factor,
                                  count_of(s.inputs[0]) == 0);
}

ExecutablePtr prepare_sum(const Signature& s, const Device& device) {
  int64_t meeting = 1;
  for (int64_t axis : s.attrs.get<Axes>("axes")) {
    meeting *= s.inputs[0].shape[static_cast<int>(axis)];
  }
  return prepare_fold(s, device, sum_of(s.inputs[0].dtype), Factor(s.attrs, meeting));
}

auto prepare_with(Fold (*fold_of)(DType)) {
  return [fold_of](const Signature& s, const Device& device) {
    return prepare_fold(s, device, fold_of(s.inputs[0].dtype), Factor());
  };
}

constexpr const char* kShare = R"(
KERNEL NAME(MEMORY(0), MEMORY(1), i64 count) {
  const GLOBAL T* x = AT(const T, 0);
  GLOBAL T* out = AT(T, 1);
  EACH(i, count) out[i] = x[i] > 0 ? 1 / x[i] : 0;
}
)";

ExecutablePtr prepare_share(const Signature& s, const Device& device) {
  const Kernel kernel(device,
                      {.name = "share", .words = types_of(s.inputs[0].dtype), .body = kShare});
  return op::executable([kernel, count = count_of(s.outputs[0])](const Launch& launch) {
    if (count > 0) Call(launch, kernel).in(0).out(0).whole(count).each(count);
  });
}

}  // namespace

void register_reduction(op::BackendKernels& kernels) {
  using enum DType;
  add_kernel(kernels, "reduce", {float32, float64, int32, int64}, prepare_sum);
  add_kernel(kernels, "reduce_prod", {float32, float64, int32, int64}, prepare_with(product_of));
  const std::vector<DType> ordered = {float32, float64, int32, int64, uint8};
  add_kernel(kernels, "reduce_max", ordered, prepare_with(maximum_of));
  add_kernel(kernels, "reduce_min", ordered, prepare_with(minimum_of));
  add_kernel(kernels, "reduce_any", {boolean}, prepare_with(any_of));
  add_kernel(kernels, "reduce_all", {boolean}, prepare_with(all_of));
  add_kernel(kernels, "share", {float32, float64}, prepare_share);
}

}  // namespace tandem::kernels::gpu

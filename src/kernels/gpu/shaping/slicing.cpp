// strided_slice takes elements at even distances; `place`, its reverse and gradient, puts elements
// at even distances and a value everywhere else.
#include "kernels/gpu/axes.h"
#include "kernels/gpu/shaping/gpu_strided_copy.h"
#include "kernels/pattern.h"

namespace tandem::kernels::gpu {
namespace {

using List = std::vector<int64_t>;

ExecutablePtr prepare_slice(const Signature& s, const Device& device) {
  return op::executable([copy = StridedCopy(device, s.outputs[0].dtype, sliced(s))](
                            const Launch& launch) { copy.run(launch); });
}

// Along axis a the output has n[a] places. Element k of the input is at begin[a] + k * step[a], for
// the m[a] elements that it has. An item of the serial form writes whole rows of the inner axis;
// the first and the last may be shared with its neighbours.
constexpr const char* kPlace = R"(
KERNEL NAME(MEMORY(0), MEMORY(1), i64 count, i64 from, i64 word, AXES) {
  LISTS
  const GLOBAL T* x = AT(T, 0) + from;
  GLOBAL T* y = AT(T, 1);
  const T value = (T)word;
  const i64 inner = n[RANK - 1];
#ifdef SERIAL
  const i64 inner_begin = begin[RANK - 1];
  const i64 inner_step = step[RANK - 1];
  const i64 inner_xs = xs[RANK - 1];
  const i64 inner_end = inner_begin + m[RANK - 1] * inner_step;
  i64 i = count * GID() / GSIZE();
  const i64 end = count * (GID() + 1) / GSIZE();
  while (i < end) {
    const i64 row = i / inner;
    const i64 first = i - row * inner;
    const i64 last = inner < first + end - i ? inner : first + end - i;
    i64 at = row;
    i64 offset = 0;
    int within = 1;
    for (int a = RANK - 2; a >= 0; --a) {
      const i64 place = at % n[a] - begin[a];
      at /= n[a];
      const i64 k = place / step[a];
      within = within && place >= 0 && k < m[a] && k * step[a] == place;
      offset += k * xs[a];
    }
    GLOBAL T* t = y + row * inner;
    if (!within) {
      for (i64 j = first; j < last; ++j) t[j] = value;
    } else if (inner_step == 1) {
      const i64 low = inner_begin < first ? first : inner_begin > last ? last : inner_begin;
      const i64 high = inner_end < low ? low : inner_end > last ? last : inner_end;
      const GLOBAL T* s = x + offset;
      for (i64 j = first; j < low; ++j) t[j] = value;
      if (inner_xs == 1) {
        INDEPENDENT for (i64 j = low; j < high; ++j) t[j] = s[j - inner_begin];
      } else {
        for (i64 j = low; j < high; ++j) t[j] = s[(j - inner_begin) * inner_xs];
      }
      for (i64 j = high; j < last; ++j) t[j] = value;
    } else {
      for (i64 j = first; j < last; ++j) t[j] = value;
      i64 k = first <= inner_begin ? 0 : (first - inner_begin + inner_step - 1) / inner_step;
      for (; k < m[RANK - 1] && inner_begin + k * inner_step < last; ++k)
        t[inner_begin + k * inner_step] = x[offset + k * inner_xs];
    }
    i += last - first;
  }
#else
  EACH(i, count) {
    i64 at = i;
    i64 offset = 0;
    int within = 1;
    for (int a = RANK - 1; a >= 0; --a) {
      const i64 rest = at / n[a];
      const i64 place = at - rest * n[a] - begin[a];
      at = rest;
      const i64 k = place / step[a];
      within = within && place >= 0 && k < m[a] && k * step[a] == place;
      offset += k * xs[a];
    }
    y[i] = within ? x[offset] : value;
  }
#endif
}
)";

/// Where the elements of the input lie along an axis of the output, from low places to high ones.
struct PlacedAxis {
  int64_t to_size = 1;
  int64_t from_size = 1;
  int64_t begin = 0;
  int64_t step = 1;
  int64_t from_stride = 0;  ///< Negative where the attribute step is.

  bool is_whole() const { return begin == 0 && step == 1 && from_size == to_size; }
};

class Placing {
 public:
  explicit Placing(const Signature& s) {
    const Shape& from = s.inputs[0].shape;
    const Shape& to = s.outputs[0].shape;
    const List strides = strides_of(from);
    for (int axis = 0; axis < to.rank(); ++axis) {
      const auto i = static_cast<size_t>(axis);
      PlacedAxis placed{to[axis], from[axis], s.attrs.get<List>("begin")[i],
                        s.attrs.get<List>("step")[i], strides[i]};
      if (placed.step < 0) {
        const int64_t last = std::max<int64_t>(placed.from_size - 1, 0);
        base_ += last * placed.from_stride;
        placed.begin += last * placed.step;
        placed.step = -placed.step;
        placed.from_stride = -placed.from_stride;
      }
      add(placed);
    }
    if (axes_.empty()) axes_.push_back({});
    const size_t missing = text_rank(axes_.size()) - axes_.size();
    axes_.insert(axes_.begin(), missing, PlacedAxis{});
  }

  size_t rank() const { return axes_.size(); }
  int64_t base() const { return base_; }

  void pass(Call& call) const {
    for (int64_t PlacedAxis::*list :
         {&PlacedAxis::to_size, &PlacedAxis::from_size, &PlacedAxis::begin, &PlacedAxis::step,
          &PlacedAxis::from_stride}) {
      for (const PlacedAxis& axis : axes_) call.whole(axis.*list);
    }
  }

 private:
  /// A whole axis becomes one with the axis around it, if that has no gaps.
  void add(PlacedAxis axis) {
    if (axis.is_whole() && !axes_.empty() && axes_.back().step == 1 &&
        axes_.back().from_stride == axis.from_stride * axis.to_size) {
      axis.to_size *= axes_.back().to_size;
      const int64_t inner = axis.from_size;
      axis.from_size *= axes_.back().from_size;
      axis.begin = axes_.back().begin * inner;
      axes_.back() = axis;
    } else {
      axes_.push_back(axis);
    }
  }

  std::vector<PlacedAxis> axes_;
  int64_t base_ = 0;
};

ExecutablePtr prepare_place(const Signature& s, const Device& device) {
  const op::TensorType& type = s.outputs[0];
  const Placing placing(s);
  Words words = word_of(type.dtype);
  add_axes(words, placing.rank(), {"n", "m", "begin", "step", "xs"});
  const Kernel kernel(device, {.name = "place", .words = words, .body = kPlace});
  const auto value =
      static_cast<int64_t>(Pattern(s.attrs.get<double>("value"), type.dtype).word<uint64_t>());
  return op::executable([kernel, placing, count = count_of(type), value](const Launch& launch) {
    Call call(launch, kernel);
    call.in(0).out(0).whole(count).whole(placing.base()).whole(value);
    placing.pass(call);
    call.each(count);
  });
}

}  // namespace

void register_slicing(op::BackendKernels& kernels) {
  add_kernel(kernels, "strided_slice", all_dtypes(), prepare_slice);
  add_kernel(kernels, "place", all_dtypes(), prepare_place);
}

}  // namespace tandem::kernels::gpu

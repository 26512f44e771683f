// strided_slice takes elements at even distances; `place`, its reverse and gradient, puts elements
// at even distances and a value everywhere else.
#include <algorithm>
#include <cstring>

#include "kernels/cpu/shaping/strided_copy.h"
#include "kernels/pattern.h"
#include "op/registry.h"

namespace tandem::kernels::cpu {
namespace {

using List = std::vector<int64_t>;

op::ExecutablePtr prepare_slice(const op::Signature& s, int) {
  return op::executable([copy = StridedCopy(s.outputs[0], sliced(s))](const op::Launch& launch) {
    copy.run(launch);
  });
}

/// Puts the elements of the input at their places and the value around them, axis by axis.
template <class U>
class Placing {
 public:
  Placing(const op::Signature& s, U value)
      : value_(value), split_(s.outputs[0].shape), step_(s.attrs.get<List>("step")) {
    const Shape& from = s.inputs[0].shape;
    const Shape& to = s.outputs[0].shape;
    const auto& begin = s.attrs.get<List>("begin");
    const List from_strides = strides_of(from);
    const List to_strides = strides_of(to);
    for (size_t i = 0; i < step_.size(); ++i) {
      const auto axis = static_cast<int>(i);
      axes_.push_back({from[axis], to[axis], begin[i], from_strides[i], to_strides[i]});
    }
    // Inner axes that are whole lie in the result as they lie in the input: they are one run.
    while (!axes_.empty() && axes_.back().begin == 0 && step_[axes_.size() - 1] == 1 &&
           axes_.back().from_size == axes_.back().to_size) {
      run_ *= axes_.back().to_size;
      axes_.pop_back();
    }
  }

  void run(const op::Launch& launch) const {
    const auto [begin, end] = split_.part(launch);
    if (begin == end) return;
    if (axes_.empty()) {
      std::copy(launch.in<U>(0) + begin, launch.in<U>(0) + end, launch.out<U>(0) + begin);
    } else {
      const int64_t unit = axes_[0].to_stride;
      place(0, begin / unit, end / unit, launch.in<U>(0), launch.out<U>(0));
    }
  }

 private:
  struct Extent {
    int64_t from_size, to_size, begin, from_stride, to_stride;
  };

  /// Places [begin, end) of an axis of the result.
  void place(size_t axis, int64_t begin, int64_t end, const U* x, U* out) const {
    const Extent& at = axes_[axis];
    const auto fill = [&](int64_t first, int64_t last) {
      if (first < last) std::fill(out + first * at.to_stride, out + last * at.to_stride, value_);
    };
    if (step_[axis] == 1) {
      const int64_t first = std::clamp(at.begin, begin, end);
      const int64_t last = std::clamp(at.begin + at.from_size, begin, end);
      fill(begin, first);
      place_all(axis, first, last, x, out);
      fill(last, end);
      return;
    }
    fill(begin, end);
    for (int64_t i = 0; i < at.from_size; ++i) {
      const int64_t to = at.begin + i * step_[axis];
      if (to >= begin && to < end) place_one(axis, x + i * at.from_stride, out + to * at.to_stride);
    }
  }

  /// Places one after another, all of which the input has.
  void place_all(size_t axis, int64_t first, int64_t last, const U* x, U* out) const {
    const Extent& at = axes_[axis];
    if (first >= last) return;
    x += (first - at.begin) * at.from_stride;
    out += first * at.to_stride;
    if (axis + 1 == axes_.size()) {
      std::memcpy(out, x, static_cast<size_t>((last - first) * run_) * sizeof(U));
      return;
    }
    for (int64_t i = first; i < last; ++i, x += at.from_stride, out += at.to_stride) {
      place_one(axis, x, out);
    }
  }

  void place_one(size_t axis, const U* x, U* out) const {
    if (axis + 1 == axes_.size()) {
      std::copy_n(x, run_, out);
    } else {
      place(axis + 1, 0, axes_[axis + 1].to_size, x, out);
    }
  }

  U value_;
  RowSplit split_;
  List step_;
  std::vector<Extent> axes_;
  int64_t run_ = 1;
};

op::ExecutablePtr prepare_place(const op::Signature& s, int) {
  const Pattern value(s.attrs.get<double>("value"), s.outputs[0].dtype);
  return with_word(s.outputs[0].dtype, [&]<class U>(U) {
    return op::executable([placing = Placing<U>(s, value.word<U>())](const op::Launch& launch) {
      placing.run(launch);
    });
  });
}

}  // namespace

void register_slicing(op::BackendKernels& kernels) {
  kernels.add("strided_slice", all_dtypes(), prepare_slice);
  kernels.add("place", all_dtypes(), prepare_place);
}

}  // namespace tandem::kernels::cpu

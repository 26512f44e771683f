// Reads a variable and sets it, or adds to it or subtracts from it: each thread its own rows, in
// the variable's memory.
#include <algorithm>
#include <cstring>
#include <functional>

#include "kernels/cpu/wrapping.h"
#include "kernels/part.h"
#include "op/registry.h"

namespace tandem::kernels::cpu {
namespace {

using op::ExecutablePtr;
using op::Launch;
using op::Signature;

/// The bytes of a thread's rows.
std::pair<size_t, size_t> bytes_of(const RowSplit& split, size_t element, const Launch& launch) {
  const auto [begin, end] = split.part(launch);
  return {static_cast<size_t>(begin) * element, static_cast<size_t>(end - begin) * element};
}

ExecutablePtr prepare_read(const Signature& s, int) {
  const op::TensorType& type = s.ranges[0];
  return op::executable(
      [split = RowSplit(type.shape), element = size_of(type.dtype)](const Launch& launch) {
        const auto [first, bytes] = bytes_of(split, element, launch);
        if (bytes > 0)
          std::memcpy(launch.out<char>(0) + first, launch.range<char>(0) + first, bytes);
      });
}

ExecutablePtr prepare_assign(const Signature& s, int) {
  const op::TensorType& type = s.ranges[0];
  return op::executable(
      [split = RowSplit(type.shape), element = size_of(type.dtype)](const Launch& launch) {
        const auto [first, bytes] = bytes_of(split, element, launch);
        if (bytes > 0)
          std::memcpy(launch.range<char>(0) + first, launch.in<char>(0) + first, bytes);
      });
}

template <class T, class F>
ExecutablePtr prepare_update(const Signature& s, int) {
  return op::executable([split = RowSplit(s.ranges[0].shape)](const Launch& launch) {
    const auto [begin, end] = split.part(launch);
    const T* delta = launch.in<T>(0);
    T* variable = launch.range<T>(0);
    for (int64_t i = begin; i < end; ++i) variable[i] = F()(variable[i], delta[i]);
  });
}

template <class T>
ExecutablePtr prepare_accumulate(const Signature& s, int) {
  return op::executable([split = RowSplit(s.ranges[0].shape),
                         first_only = s.attrs.get<bool>("first_only"),
                         first = s.attrs.get<int64_t>("first"),
                         members = s.attrs.get<int64_t>("members")](const Launch& launch) {
    const auto [begin, end] = split.part(launch);
    const T* value = launch.in<T>(0);
    T* sum = launch.range<T>(0);
    if (launch.step->replica / members == first) {
      std::copy(value + begin, value + end, sum + begin);
    } else if (!first_only) {
      for (int64_t i = begin; i < end; ++i) sum[i] = Wrapping<std::plus>()(sum[i], value[i]);
    }
  });
}

template <class... T>
void register_updates(op::BackendKernels& kernels) {
  (kernels.add("assign_add", {dtype_of<T>}, prepare_update<T, Wrapping<std::plus>>), ...);
  (kernels.add("assign_sub", {dtype_of<T>}, prepare_update<T, Wrapping<std::minus>>), ...);
  (kernels.add("accumulate", {dtype_of<T>}, prepare_accumulate<T>), ...);
}

}  // namespace

void register_assign(op::BackendKernels& kernels) {
  kernels.add("read_variable", all_dtypes(), prepare_read);
  kernels.add("assign", all_dtypes(), prepare_assign);
  register_updates<float, double, int32_t, int64_t>(kernels);
}

}  // namespace tandem::kernels::cpu

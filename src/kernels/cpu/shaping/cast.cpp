// Converts the elements of any dtype to any other.
#include <cstdint>

#include "kernels/conversion.h"
#include "kernels/part.h"
#include "op/registry.h"
#include "tandem/error.h"

namespace tandem::kernels::cpu {
namespace {

using op::ExecutablePtr;
using op::Launch;
using op::Signature;

template <class From, class To>
ExecutablePtr cast_to(const Signature& s) {
  return op::executable([split = RowSplit(s.outputs[0].shape)](const Launch& launch) {
    const auto [begin, end] = split.part(launch);
    const From* x = launch.in<From>(0);
    To* out = launch.out<To>(0);
    for (int64_t i = begin; i < end; ++i) out[i] = converted<To>(x[i]);
  });
}

template <class From>
ExecutablePtr prepare_cast(const Signature& s, int) {
  switch (s.outputs[0].dtype) {
    case DType::float32:
      return cast_to<From, float>(s);
    case DType::float64:
      return cast_to<From, double>(s);
    case DType::float16:
      return cast_to<From, Float16>(s);
    case DType::bfloat16:
      return cast_to<From, BFloat16>(s);
    case DType::uint8:
      return cast_to<From, uint8_t>(s);
    case DType::int32:
      return cast_to<From, int32_t>(s);
    case DType::int64:
      return cast_to<From, int64_t>(s);
    case DType::boolean:
      return cast_to<From, bool>(s);
    case DType::int8:
      return cast_to<From, int8_t>(s);
    case DType::int16:
      return cast_to<From, int16_t>(s);
    case DType::uint16:
      return cast_to<From, uint16_t>(s);
    case DType::uint32:
      return cast_to<From, uint32_t>(s);
    case DType::uint64:
      return cast_to<From, uint64_t>(s);
  }
  throw Unimplemented(s.str() + ": no such dtype");
}

}  // namespace

void register_cast(op::BackendKernels& kernels) {
  const auto add = [&](DType from, op::PrepareFn prepare) {
    kernels.add("cast", {from}, std::move(prepare));
  };
  add(DType::float32, prepare_cast<float>);
  add(DType::float64, prepare_cast<double>);
  add(DType::float16, prepare_cast<Float16>);
  add(DType::bfloat16, prepare_cast<BFloat16>);
  add(DType::uint8, prepare_cast<uint8_t>);
  add(DType::int32, prepare_cast<int32_t>);
  add(DType::int64, prepare_cast<int64_t>);
  add(DType::boolean, prepare_cast<bool>);
  add(DType::int8, prepare_cast<int8_t>);
  add(DType::int16, prepare_cast<int16_t>);
  add(DType::uint16, prepare_cast<uint16_t>);
  add(DType::uint32, prepare_cast<uint32_t>);
  add(DType::uint64, prepare_cast<uint64_t>);
}

}  // namespace tandem::kernels::cpu

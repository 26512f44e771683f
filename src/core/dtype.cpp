#include "tandem/dtype.h"

#include <array>

namespace tandem {
namespace {

struct DTypeInfo {
  size_t size;
  std::string_view name;
};

constexpr std::array<DTypeInfo, 13> kInfo = {{
    {4, "float32"},
    {8, "float64"},
    {2, "float16"},
    {2, "bfloat16"},
    {1, "uint8"},
    {4, "int32"},
    {8, "int64"},
    {1, "bool"},
    {1, "int8"},
    {2, "int16"},
    {2, "uint16"},
    {4, "uint32"},
    {8, "uint64"},
}};

}  // namespace

size_t size_of(DType dtype) { return kInfo[static_cast<size_t>(dtype)].size; }
std::string_view name_of(DType dtype) { return kInfo[static_cast<size_t>(dtype)].name; }

}  // namespace tandem

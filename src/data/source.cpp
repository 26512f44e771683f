#include "data/source.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/tensor_type.h"
#include "data/table.h"
#include "tandem/error.h"

namespace tandem::data {

int64_t Cursor::skip(int64_t count) {
  Item item;
  int64_t passed = 0;
  while (passed < count && next(item)) ++passed;
  return passed;
}

Element element_of(const Source& source, Item&& item) {
  if (const Table* table = source.table()) return table->row(item.place);
  return std::move(item.element);
}

std::string describe(const Element& element) {
  return fmt::format("({})", listed(types_of(element)));
}

void internal::check_count(size_t taken, const Element& element) {
  if (taken == element.size()) return;
  throw InvalidArgument(fmt::format("{} tensors are taken from an element of {}, {}", taken,
                                    element.size(), describe(element)));
}

void internal::check_unpacking(std::string_view transformation, const structure::Flat& arguments) {
  if (arguments.rest.empty()) return;
  throw InvalidArgument(
      fmt::format("{}: the function takes tensors and structures of a fixed number of them, or one "
                  "Tensors; lists, maps and plain values cannot be told apart in an element",
                  transformation));
}

}  // namespace tandem::data

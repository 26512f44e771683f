#include "data/position.h"

#include <fmt/format.h>

#include <charconv>

#include "tandem/error.h"

namespace tandem::data {
namespace {

// "tandem data position 1\nEPOCH ELEMENTS\nSTAGES\n": text, so that a checkpoint's reader can see
// it.
constexpr std::string_view kHeading = "tandem data position 1\n";

/// Takes a number and the character after it off the front of `bytes`.
int64_t take_number(std::string_view& bytes, char after) {
  int64_t number = -1;
  const auto [end, error] = std::from_chars(bytes.data(), bytes.data() + bytes.size(), number);
  const auto length = static_cast<size_t>(end - bytes.data());
  if (error != std::errc() || number < 0 || length == bytes.size() || bytes[length] != after) {
    throw DataLoss("restore: a position of a data set with damaged numbers");
  }
  bytes.remove_prefix(length + 1);
  return number;
}

}  // namespace

std::string to_bytes(const Position& position) {
  return fmt::format("{}{} {}\n{}\n", kHeading, position.epoch, position.elements,
                     position.transformations);
}

Position position_from(std::string_view bytes) {
  if (!bytes.starts_with(kHeading)) {
    throw DataLoss(
        fmt::format("restore: {} bytes that are not what Iterator::save() returned", bytes.size()));
  }
  bytes.remove_prefix(kHeading.size());
  Position position;
  position.epoch = take_number(bytes, ' ');
  position.elements = take_number(bytes, '\n');
  if (!bytes.ends_with('\n')) throw DataLoss("restore: a position of a data set that is cut off");
  position.transformations = bytes.substr(0, bytes.size() - 1);
  return position;
}

}  // namespace tandem::data

#include "tensor/npy_array.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <string>

#include "core/tensor_type.h"
#include "tandem/config.h"
#include "tandem/error.h"
#include "tensor/body.h"
#include "tensor/npy_header.h"
#include "tensor/row_slices.h"

static_assert(std::endian::native == std::endian::little, "arrays are written as they lie");

namespace tandem::npy {
namespace {

std::string read_text(ByteSource& source, size_t bytes) {
  if (bytes > source.remaining()) {
    throw DataLoss(fmt::format("the header should have {} bytes, only {} are left", bytes,
                               source.remaining()));
  }
  std::string text(bytes, '\0');
  source.read(text.data(), bytes);
  return text;
}

size_t read_length(ByteSource& source, int major, int minor) {
  if (minor != 0 || major < 1 || major > 3) {
    throw Unimplemented(
        fmt::format("format version {}.{}; 1.0, 2.0 and 3.0 are known", major, minor));
  }
  size_t length = 0;
  const std::string bytes = read_text(source, major == 1 ? 2 : 4);
  for (size_t i = bytes.size(); i-- > 0;) length = length << 8 | static_cast<uint8_t>(bytes[i]);
  return length;
}

Header read_header(ByteSource& source) {
  if (source.remaining() < kMagic.size() + kVersionBytes ||
      read_text(source, kMagic.size()) != kMagic) {
    throw DataLoss("not an array in NumPy's format");
  }
  const std::string version = read_text(source, kVersionBytes);
  const size_t length =
      read_length(source, static_cast<uint8_t>(version[0]), static_cast<uint8_t>(version[1]));
  return parse_header(read_text(source, length));
}

void swap_bytes(char* data, size_t bytes, size_t element) {
  if (element == 1) return;
  for (size_t i = 0; i < bytes; i += element) std::reverse(data + i, data + i + element);
}

/// Copies an array from columns first to rows first.
void transpose(const char* from, char* to, const Shape& shape, size_t element) {
  std::array<int64_t, Shape::kMaxRank> index{};
  std::array<int64_t, Shape::kMaxRank> strides{};
  int64_t stride = 1;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    strides[static_cast<size_t>(axis)] = stride;
    stride *= shape[axis];
  }
  int64_t at = 0;
  for (int64_t i = 0; i < shape.count(); ++i) {
    std::memcpy(to + static_cast<size_t>(i) * element, from + static_cast<size_t>(at) * element,
                element);
    for (int axis = shape.rank() - 1; axis >= 0; --axis) {
      const auto a = static_cast<size_t>(axis);
      at += strides[a];
      if (++index[a] < shape[axis]) break;
      at -= strides[a] * shape[axis];
      index[a] = 0;
    }
  }
}

}  // namespace

Tensor read_array(ByteSource& source) {
  const Header header = read_header(source);
  const TensorType type{header.dtype, header.shape};
  const size_t bytes = type.bytes();
  if (bytes > source.remaining()) {
    throw DataLoss(
        fmt::format("{} has {} bytes, only {} are left", type.str(), bytes, source.remaining()));
  }
  auto body = new_body(devices::host_device(), header.dtype, header.shape);
  auto* data = static_cast<char*>(body->data());
  const size_t element = size_of(header.dtype);
  if (header.fortran_order && header.shape.rank() > 1) {
    std::vector<char> columns(bytes);
    source.read(columns.data(), bytes);
    transpose(columns.data(), data, header.shape, element);
  } else {
    source.read(data, bytes);
  }
  if (header.big_endian) swap_bytes(data, bytes, element);
  if (header.dtype == DType::boolean) {
    // Any byte but 0 is true to NumPy; in C++ no other than 1 may be.
    std::for_each(data, data + bytes, [](char& value) { value = value != 0 ? 1 : 0; });
  }
  if (source.remaining() > 0) {
    throw DataLoss(
        fmt::format("{} bytes are left after the array {}", source.remaining(), type.str()));
  }
  return Tensor(std::move(body));
}

Image::Image(const Tensor& tensor)
    : tensor_(whole(tensor)), header_(header_of(tensor.dtype(), tensor.shape())) {
  const TensorBody& body = *tensor_.body();
  check_has_value(body, "saving");
  if (body.device()->space().host_readable()) {
    body.ready.wait(config::wait_deadline());
    elements_ = {static_cast<const char*>(body.data()), body.bytes()};
  } else {
    copy_.resize(body.bytes());
    tensor_.copy_to_host(copy_.data());
    elements_ = copy_;
  }
}

}  // namespace tandem::npy

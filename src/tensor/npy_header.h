/// The header of NumPy's array format: how the bytes after it are to be understood.
/// https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "tandem/dtype.h"
#include "tandem/shape.h"

namespace tandem::npy {

/// What stands before the header's text: magic, version, then the text's length in 2 or 4 bytes.
inline constexpr std::string_view kMagic = "\x93NUMPY";
inline constexpr size_t kVersionBytes = 2;

struct Header {
  DType dtype{};
  bool big_endian = false;
  bool fortran_order = false;  ///< The first axis varies fastest.
  Shape shape;
};

/// Reads text such as "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }". Throws
/// DataLoss, or Unimplemented for element types that have no DType and for more axes than Shape
/// has.
Header parse_header(std::string_view text);

/// Everything that stands before the elements of an array as we write it: version 1.0, little
/// endian, rows first, filled up to a multiple of 64 bytes. Throws InvalidArgument for bfloat16.
std::string header_of(DType dtype, const Shape& shape);

}  // namespace tandem::npy

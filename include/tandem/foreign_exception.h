/// An exception of another language than C++, on its way through the library from a function of the
/// user's to the call that made the library use it: data sets, functions and callbacks let it pass
/// unchanged, from thread to thread, where they put their own words before errors of C++. Whoever
/// binds Tandem to a language derives its carrier from this.
#pragma once

#include <exception>

#include "tandem/export.h"

namespace tandem {

class TANDEM_API ForeignException : public std::exception {
 public:
  ~ForeignException() override;
};

}  // namespace tandem

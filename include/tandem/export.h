// Marks what the shared library offers; everything else stays hidden inside it.
#pragma once

// A file that is missing ends a compilation at once; after #error it goes on, with an error for
// each construct that is new in C++20.
#if __cplusplus < 202002L
#include "Tandem is a C++20 library: compile with -std=c++20 or later"
#endif

#define TANDEM_API __attribute__((visibility("default")))

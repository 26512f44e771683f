// Makes OpenBLAS use the vectors of CPUs that are newer than itself.
//
// It chooses its kernels by the CPU's model number when it is loaded, and takes a model that it
// does not know for the oldest there is: products on an Emerald Rapids Xeon then take five times as
// long. The linker's --wrap sends that choice here. Where it fell on kernels without the vectors
// that this CPU has, it is made again for an older model that has them. A choice of the user's
// stands.

#include <cstdlib>
#include <string_view>

// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming): what --wrap asks for
extern "C" {
extern void* gotoblas;  // The chosen kernels; null until they are chosen.
char* openblas_get_corename();
void __real_gotoblas_dynamic_init();
void __wrap_gotoblas_dynamic_init();
}

namespace {

constexpr const char* kUsersChoice = "OPENBLAS_CORETYPE";

bool has_wide_vectors(std::string_view core) {
  for (const std::string_view wide : {"Haswell", "Zen", "SkylakeX", "Cooperlake", "Sapphire"}) {
    if (core.starts_with(wide)) return true;
  }
  return false;
}

/// A model that OpenBLAS knows, with the vectors of this CPU; null where it has no wide ones.
const char* known_model() {
#ifdef __x86_64__
  __builtin_cpu_init();  // Before main nobody else has done it.
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq")) {
    return "SkylakeX";
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return "Haswell";
#endif
  return nullptr;
}

}  // namespace

void __wrap_gotoblas_dynamic_init() {
  __real_gotoblas_dynamic_init();
  const char* model = known_model();
  if (std::getenv(kUsersChoice) != nullptr || model == nullptr ||
      has_wide_vectors(openblas_get_corename())) {
    return;
  }
  gotoblas = nullptr;
  setenv(kUsersChoice, model, 1);
  __real_gotoblas_dynamic_init();
  unsetenv(kUsersChoice);
}
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)

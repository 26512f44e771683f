#include "core/single_thread.h"

// The two functions of the OpenMP runtime that the providers bring along; nothing else of it is
// used.
extern "C" int omp_get_max_threads(void);
extern "C" void omp_set_num_threads(int);

namespace tandem::core {

SingleThreadScope::SingleThreadScope() : former_(omp_get_max_threads()) { omp_set_num_threads(1); }
SingleThreadScope::~SingleThreadScope() { omp_set_num_threads(former_); }

}  // namespace tandem::core

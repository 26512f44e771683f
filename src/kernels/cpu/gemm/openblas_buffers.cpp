// Makes the serial build of OpenBLAS safe to call from many threads.
//
// Built without USE_LOCKING, as Debian builds it, OpenBLAS hands out its packing buffers from an
// unguarded table: two threads in cblas_sgemm at the same moment may get the same buffer, and both
// products are wrong. The linker's --wrap sends the two functions of that table here. A thread
// takes one buffer from the table, under a lock, keeps it, and gives it back when it ends; so a
// call in the steady state takes no lock and finds its buffer warm in its own cache.

#include <mutex>

// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming): what --wrap asks for
extern "C" {
void* __real_blas_memory_alloc(int);
void __real_blas_memory_free(void*);
void* __wrap_blas_memory_alloc(int);
void __wrap_blas_memory_free(void*);
}

namespace {

std::mutex& table_mutex() {
  static std::mutex mutex;
  return mutex;
}

void* take_from_table(int procedure) {
  const std::lock_guard lock(table_mutex());
  return __real_blas_memory_alloc(procedure);
}

void give_to_table(void* buffer) {
  const std::lock_guard lock(table_mutex());
  __real_blas_memory_free(buffer);
}

struct ThreadBuffer {
  void* memory = nullptr;
  bool taken = false;

  ~ThreadBuffer() {
    if (memory != nullptr) give_to_table(memory);
    memory = nullptr;
  }
};

thread_local ThreadBuffer own;

}  // namespace

void* __wrap_blas_memory_alloc(int procedure) {
  if (own.taken) return take_from_table(procedure);  // a call within a call
  if (own.memory == nullptr) own.memory = take_from_table(procedure);
  own.taken = true;
  return own.memory;
}

void __wrap_blas_memory_free(void* buffer) {
  if (buffer != own.memory) {
    give_to_table(buffer);
  } else {
    own.taken = false;
  }
}
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)

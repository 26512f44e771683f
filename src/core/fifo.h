/// First in, first out, in one piece of memory that is used round and round: it grows to the most
/// that it ever held at once and then allocates nothing, where a deque goes on allocating.
#pragma once

#include <cassert>
#include <cstddef>
#include <utility>
#include <vector>

namespace tandem::core {

template <class T>
class Fifo {
 public:
  bool empty() const { return size_ == 0; }
  size_t size() const { return size_; }

  /// The oldest is number 0.
  T& operator[](size_t i) { return slots_[(first_ + i) & (slots_.size() - 1)]; }
  const T& operator[](size_t i) const { return slots_[(first_ + i) & (slots_.size() - 1)]; }
  T& front() { return (*this)[0]; }
  const T& front() const { return (*this)[0]; }
  T& back() { return (*this)[size_ - 1]; }

  void push_back(T value) {
    if (size_ == slots_.size()) grow();
    (*this)[size_++] = std::move(value);
  }

  /// Takes the oldest out. What it held is let go of here, where nobody keeps it.
  T pop_front() {
    assert(size_ > 0);
    T oldest = std::exchange(front(), T());
    first_ = (first_ + 1) & (slots_.size() - 1);
    --size_;
    return oldest;
  }

 private:
  static constexpr size_t kLeast = 8;  // A power of two, as all sizes are.

  void grow() {
    std::vector<T> larger(slots_.empty() ? kLeast : 2 * slots_.size());
    for (size_t i = 0; i < size_; ++i) larger[i] = std::move((*this)[i]);
    slots_.swap(larger);
    first_ = 0;
  }

  std::vector<T> slots_;
  size_t first_ = 0;
  size_t size_ = 0;
};

}  // namespace tandem::core

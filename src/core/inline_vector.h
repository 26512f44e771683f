/// A list of plain values that takes memory of the heap only when it has more than `kInline` of
/// them. For lists that are made anew in each step and must not allocate.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <type_traits>
#include <vector>

namespace tandem::core {

template <class T, size_t kInline>
class InlineVector {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  void push_back(const T& value) {
    if (size_ == kInline) heap_.assign(begin(), end());
    if (size_ < kInline) {
      std::construct_at(inline_data() + size_, value);
    } else {
      heap_.push_back(value);
    }
    ++size_;
  }

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  const T* data() const { return size_ <= kInline ? inline_data() : heap_.data(); }
  const T& operator[](size_t i) const { return data()[i]; }
  const T* begin() const { return data(); }
  const T* end() const { return data() + size_; }

 private:
  const T* inline_data() const { return reinterpret_cast<const T*>(inline_.data()); }
  T* inline_data() { return reinterpret_cast<T*>(inline_.data()); }

  alignas(T) std::array<std::byte, kInline * sizeof(T)> inline_;
  std::vector<T> heap_;  // All of the values, once they are more than kInline.
  size_t size_ = 0;
};

}  // namespace tandem::core

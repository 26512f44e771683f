/// What moves between devices in one call of a function, for people: explain() lists it.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace tandem::graph {

class DeviceEdges {
 public:
  /// Values are copied, in the order of the calls.
  void add(const std::string& from, const std::string& to, size_t bytes);

  /// Whether one copy waits for what the one before it brought.
  enum class Order { one_by_one, any };

  /// "copied between devices in a call:\n  /device:GPU:0 to /device:GPU:1: 2 values, 1.0 MB\n",
  /// and, where they come one by one, a warning of values that go back and forth. Empty where
  /// nothing is copied.
  std::string str(const std::string& when, Order order = Order::one_by_one) const;

 private:
  struct Edge {
    std::string from;
    std::string to;
    int values = 0;
    size_t bytes = 0;
  };
  struct Pair {
    std::string first;  // The device that the last copy of the two came from,
    std::string second;
    int turns = 0;  // and how often that was another one than before.
  };

  std::vector<Edge> edges_;
  std::vector<Pair> pairs_;
};

}  // namespace tandem::graph

/// What the replicas of a program tell each other in a run, by the axes of a mesh, for people.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "graph/program.h"

namespace tandem::graph {

/// How many values, and the bytes of one replica's.
struct ToldAlong {
  int count = 0;
  size_t bytes = 0;

  void add(const op::TensorTypes& types, int64_t rows) {
    ++count;
    for (const op::TensorType& type : types) bytes += type.bytes(rows);
  }
  ToldAlong times(int runs) const { return {count * runs, bytes * static_cast<size_t>(runs)}; }
  ToldAlong& operator+=(const ToldAlong& other) {
    count += other.count;
    bytes += other.bytes;
    return *this;
  }
  /// "replicas with the same rows: 3 sums a run, 12 kB", a line; empty where nothing is told.
  std::string line(const char* who, const char* what = "sums") const;
};

struct AxisSums {
  ToldAlong model;  ///< Those of replicas that have the same rows.
  ToldAlong data;   ///< Those of replicas that have the same parts of the weights,
  ToldAlong all;    ///< and of all.

  AxisSums& add(const AxisSums& other, int runs) {
    model += other.model.times(runs);
    data += other.data.times(runs);
    all += other.all.times(runs);
    return *this;
  }
};

/// The sums of a run with `rows` rows on each replica. What more than `model` neighbours sum, where
/// that is given, is of all.
AxisSums axis_sums(const Program& program, int64_t rows, int model = 0);

}  // namespace tandem::graph

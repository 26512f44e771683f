/// A data set whose batches are dealt to replicas.
#pragma once

#include <iterator>
#include <optional>
#include <string>
#include <string_view>

#include "tandem/data.h"
#include "tandem/distribute/strategy.h"

namespace tandem::distribute {

/// Batches for replicas. Each epoch is one of the data set's.
class TANDEM_API DistributedDataset {
 private:
  /// What an element of the data set is.
  enum class Dealing {
    global_batch,   ///< A batch of all replicas, or the share of this process's in it.
    process_batch,  ///< A batch of this process's replicas.
    replica_batch,  ///< A batch of one replica.
  };

 public:
  class TANDEM_API Iterator {
   public:
    /// The next element: the parts of each of its tensors; nothing at the end.
    std::optional<PerReplicas> next();

    /// See data::Iterator.
    int64_t position() const { return elements_.position(); }
    std::string save() const { return elements_.save(); }

    /// The rows of the last element, those of all replicas of all processes.
    int64_t rows() const { return rows_; }

    /// For the library's own use. Where the data are each process's own, one more than the rows
    /// that this one has for the next element, or 0 at its end; processes that hear this of each
    /// other before they call next() need not meet in it.
    int64_t next_rows();
    void hear_rows(std::vector<int64_t> of_all) { heard_ = std::move(of_all); }

   private:
    friend class DistributedDataset;
    /// What the replicas of this process have of an element: for each of its tensors a list.
    struct OwnParts {
      std::vector<Tensors> values;
      int64_t said = 0;  // See next_rows().
    };

    Iterator(Strategy strategy, data::Iterator elements, Dealing dealing)
        : strategy_(std::move(strategy)), elements_(std::move(elements)), dealing_(dealing) {}
    std::optional<PerReplicas> next_of_own();
    OwnParts take();
    Strategy strategy_;
    data::Iterator elements_;
    Dealing dealing_;
    Tensors last_;  // What the last element was.
    int64_t rows_ = 0;
    std::optional<OwnParts> ahead_;  // What next() will return, where it was asked for its rows.
    std::vector<int64_t> heard_;     // What all have said of the next element; empty: nothing.
  };

  Iterator iterator() const;
  Iterator iterator(int64_t epoch) const;
  /// See data::Dataset::restore.
  Iterator restore(std::string_view position) const;
  /// Steps of an epoch, or data::kInfinite or data::kUnknown.
  int64_t cardinality() const;

  /// For the library's own use: whose batches they are, what they are made of, and the same with
  /// a deadline for each.
  const Strategy& strategy() const { return strategy_; }
  std::string str() const { return dataset_.str(); }
  DistributedDataset within_deadline() const {
    return {strategy_, dataset_.within_deadline(), dealing_};
  }

  class Steps;
  /// `for (const PerReplicas& batch : dataset)`: the next epoch.
  Steps begin() const;
  std::default_sentinel_t end() const { return {}; }

 private:
  friend class Strategy;
  DistributedDataset(Strategy strategy, data::Dataset dataset, Dealing dealing)
      : strategy_(std::move(strategy)), dataset_(std::move(dataset)), dealing_(dealing) {}
  Strategy strategy_;
  data::Dataset dataset_;
  Dealing dealing_;
};

class DistributedDataset::Steps {
 public:
  explicit Steps(Iterator iterator) : iterator_(std::move(iterator)) { ++*this; }
  const PerReplicas& operator*() const { return *value_; }
  Steps& operator++() {
    value_.reset();
    value_ = iterator_.next();
    return *this;
  }
  bool operator==(std::default_sentinel_t) const { return !value_; }

 private:
  Iterator iterator_;
  std::optional<PerReplicas> value_;
};

inline DistributedDataset::Steps DistributedDataset::begin() const { return Steps(iterator()); }

}  // namespace tandem::distribute

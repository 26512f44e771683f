/// Data sets: where the elements and batches of a program come from. A Dataset is a cheap handle on
/// a description, a source and the transformations after it; an Iterator goes through the elements
/// once.
///
///   auto batches = data::Dataset::from_tensor_slices(x, y).shuffle(60'000).batch(128).prefetch(2);
///   for (const auto& [x, y] : batches.as<std::pair<Tensor, Tensor>>()) step(x, y);
///
/// An element is a list of tensors on the host. The elements and their order are a function of the
/// data set and of the number of the epoch alone: threads and prefetching do not change them. So a
/// position is a number, and restoring one gives exactly the elements that would have come.
///
/// Elements of arrays in memory are moved as places in them: shuffle, take, skip, shard, repeat and
/// filter copy nothing, and batch copies each row once, or not at all where rows lie one after
/// another.
///
/// The functions given to map, filter and from_generator run eagerly on the host, outside of any
/// device scope, trace or gradient tape of the caller, perhaps on other threads, and perhaps again
/// when a position is restored. What they throw is thrown by next() with the transformation and the
/// number of the element before it; what is not a tandem::Error becomes Unavailable.
///
/// Any thread may use a Dataset; an Iterator belongs to one thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tandem/structure.h"
#include "tandem/tensor.h"

namespace tandem::data {

using Element = Tensors;

/// What cardinality() says where there is no number.
inline constexpr int64_t kInfinite = -1;
inline constexpr int64_t kUnknown = -2;

class Source;
struct FileShare;
template <class T>
class ElementsAs;

/// A way through the elements of one epoch.
class TANDEM_API Iterator {
 public:
  ~Iterator();
  Iterator(Iterator&&) noexcept;
  Iterator& operator=(Iterator&&) noexcept;

  /// The next element, or nothing at the end, and then always. Throws what a transformation threw,
  /// again on each later call; DeadlineExceeded naming the transformation when an element that
  /// another thread makes does not come (config::set_wait_deadline).
  std::optional<Element> next();

  /// How many elements next() has returned; those before a restored position count.
  int64_t position() const;

  /// For the library's own use: the rows of the batch that the last element is a share of, or -1.
  int64_t batch_rows() const;
  int64_t epoch() const;

  /// The position as bytes, for Dataset::restore.
  std::string save() const;

 private:
  friend class Dataset;
  struct Body;
  explicit Iterator(std::unique_ptr<Body> body);
  std::unique_ptr<Body> body_;
};

/// What a range-for goes through: `Element` or another structure made of an element's tensors.
template <class T>
class InputIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = T;
  using difference_type = std::ptrdiff_t;
  using pointer = const T*;
  using reference = const T&;

  explicit InputIterator(Iterator iterator) : iterator_(std::move(iterator)) { ++*this; }

  const T& operator*() const { return *value_; }
  const T* operator->() const { return &*value_; }
  InputIterator& operator++();
  bool operator==(std::default_sentinel_t) const { return !value_; }

 private:
  Iterator iterator_;
  std::optional<T> value_;
};

namespace internal {

using ElementFn = std::function<Element(const Element&)>;
using ElementTest = std::function<bool(const Element&)>;
using Generator = std::function<std::optional<Element>()>;
using FileReader = std::function<Generator(const std::string& path)>;

/// `next`, whose results are tensors or structures of them, as a generator.
template <class Next>
Generator flat_generator(Next next) {
  return [next = std::move(next)]() mutable -> std::optional<Element> {
    auto element = next();
    if (!element) return std::nullopt;
    return structure::flattened(std::move(*element)).tensors;
  };
}

TANDEM_API void check_unpacking(std::string_view transformation, const structure::Flat& arguments);
TANDEM_API void check_count(size_t taken, const Element& element);

template <class T>
T unpacked(const Element& element) {
  if constexpr (std::is_same_v<T, Element>) {
    return element;
  } else {
    static const size_t kTaken = structure::flattened(T()).tensors.size();
    check_count(kTaken, element);
    return structure::rebuilt(T(), element);
  }
}

template <class F>
constexpr bool has_one_signature() {
  constexpr bool kOneSignature = structure::HasOneSignature<F>;
  static_assert(kOneSignature,
                "tandem: map and filter accept a callable with one signature; write the types of "
                "its parameters, as in [](const Tensor& x), where it has `auto`");
  return kOneSignature;
}

/// `f` from the flat list of an element's tensors: one `Tensors`, or tensors and structures of
/// them.
template <class Result, class... Args>
std::function<Result(const Element&)> on_elements(std::string_view transformation,
                                                  std::function<Result(Args...)> f) {
  using Arguments = std::tuple<std::remove_cvref_t<Args>...>;
  if constexpr (std::is_same_v<Arguments, std::tuple<Element>>) {
    return f;
  } else {
    check_unpacking(transformation, structure::flattened(Arguments()));
    return [f = std::move(f)](const Element& element) {
      return std::apply(f, unpacked<Arguments>(element));
    };
  }
}

}  // namespace internal

struct MapOptions {
  /// How many calls of the function may run at once, that of the caller of next() among them. With
  /// more than one, other threads work ahead; the elements stay in order.
  int parallel = 1;
};

struct BatchOptions {
  bool drop_remainder = false;  ///< Leaves out the last batch where it is smaller.
};

struct ShuffleOptions {
  /// Unless a seed is set, one is drawn when the transformation is made: see random::set_seed.
  std::optional<uint64_t> seed{};
  bool reshuffle_each_epoch = true;  ///< If not, each epoch has the order of epoch 0.
};

class TANDEM_API Dataset {
 public:
  // ---- Sources ----

  /// The rows of tensors, or of structures of them, all with the same number. Rows are not copied.
  /// Throws InvalidArgument without a tensor, for a scalar, and naming both where rows differ.
  template <class... T>
  static Dataset from_tensor_slices(const T&... tensors) {
    return from_slices(structure::flattened(std::tuple<T...>(tensors...)).tensors);
  }

  /// What `start()` or `start(epoch)` returns is called for one element after the other, until it
  /// returns none: a std::optional of a Tensor or a structure of them. Later elements have as many
  /// tensors as the first, of the same dtypes, else next() throws InvalidArgument naming both.
  template <class Start>
  static Dataset from_generator(Start start) {
    return generated([start = std::move(start)](int64_t epoch) {
      if constexpr (std::is_invocable_v<const Start&, int64_t>) {
        return internal::flat_generator(start(epoch));
      } else {
        return internal::flat_generator(start());
      }
    });
  }

  /// The elements of files, one file after the other: what `read(path)` returns is called for them
  /// as for from_generator. Processes may read different ones: distribute::AutoShardPolicy::file.
  /// What it throws gets the path before it. Throws InvalidArgument without a file.
  template <class Read>
  static Dataset from_files(std::vector<std::string> paths, Read read) {
    return read_from(std::move(paths), [read = std::move(read)](const std::string& path) {
      return internal::flat_generator(read(path));
    });
  }

  /// The scalars 0 to stop - 1, or start, start + step, .. short of stop, int64. Throws
  /// InvalidArgument for a step of 0.
  static Dataset range(int64_t stop);
  static Dataset range(int64_t start, int64_t stop, int64_t step = 1);

  /// Elements side by side: the tensors of each set's element one after another, until the first
  /// set ends. Throws InvalidArgument without a set.
  template <class... Datasets>
  static Dataset zip(const Datasets&... datasets) {
    return zip(std::vector<Dataset>{datasets...});
  }
  static Dataset zip(const std::vector<Dataset>& datasets);

  // ---- Transformations; each returns a new data set ----

  /// `f(x, y)` of each element (x, y): a Tensor or a structure of them. `f` takes tensors and
  /// structures of a fixed number of them, or one Tensors. Throws InvalidArgument for other
  /// functions and for options.parallel < 1.
  template <class F>
  Dataset map(F f, const MapOptions& options = {}) const {
    if constexpr (internal::has_one_signature<F>()) {
      auto on_element = internal::on_elements("map", std::function(std::move(f)));
      const auto flat = [f = std::move(on_element)](const Element& element) {
        return structure::flattened(f(element)).tensors;
      };
      return mapped(flat, options);
    } else {
      return *this;
    }
  }

  /// The elements for which `f`, as for map, returns true: a bool or a boolean scalar.
  template <class F>
  Dataset filter(F f) const {
    if constexpr (internal::has_one_signature<F>()) {
      auto on_element = internal::on_elements("filter", std::function(std::move(f)));
      return filtered([f = std::move(on_element)](const Element& element) {
        if constexpr (std::is_same_v<std::remove_cvref_t<decltype(f(element))>, Tensor>) {
          return f(element).template item<bool>();
        } else {
          return f(element);
        }
      });
    } else {
      return *this;
    }
  }

  /// `size` elements at a time as one, with a new leading axis. Throws InvalidArgument for a size
  /// below 1; next() does naming two elements of other shapes or dtypes.
  Dataset batch(int64_t size, const BatchOptions& options = {}) const;

  /// Each element is drawn from a buffer of the next `buffer` ones: a uniform order where all fit
  /// in. Throws InvalidArgument for a buffer below 1.
  Dataset shuffle(int64_t buffer, const ShuffleOptions& options = {}) const;

  /// The elements of these numbers, one after another. All elements are kept meanwhile, of arrays
  /// in memory their places. Throws InvalidArgument for a negative number and where the elements
  /// never end; next() does for a number that no element has.
  Dataset in_order(const std::vector<int64_t>& order) const;

  /// The elements `count` times, or for ever. Each time is the next epoch of the transformations
  /// before. Throws InvalidArgument for a negative count.
  Dataset repeat(int64_t count) const;
  Dataset repeat() const;

  /// The first `count` elements, and those after them. Throw InvalidArgument for a negative count.
  Dataset take(int64_t count) const;
  Dataset skip(int64_t count) const;

  /// Elements index, index + shards, .. Throws InvalidArgument unless 0 <= index < shards.
  Dataset shard(int64_t shards, int64_t index) const;

  /// Keeps the elements of epoch 0 in memory once somebody has been through all of them, and then
  /// gives them again in each epoch. Throws InvalidArgument where they never end.
  Dataset cache() const;

  /// Works up to `count` elements, at most 2^16, ahead on a thread of low priority, which rests
  /// until half of them are taken; who calls next() and finds none works itself. Where the
  /// transformations before only move memory there is no thread, since it would cost more than it
  /// saves. Throws InvalidArgument for a count below 1.
  Dataset prefetch(int64_t count) const;

  /// The same elements, made on a thread of their own wherever functions of the user are called, so
  /// that one that never comes is a DeadlineExceeded of next() that names the transformation. fit
  /// reads data sets so.
  Dataset within_deadline() const;

  // ---- Use ----

  /// The number of elements of an epoch, kInfinite or kUnknown (after a filter or a generator).
  int64_t cardinality() const;

  /// Without a number, each call is the next epoch of this data set, copies of the handle included:
  /// 0, 1, .. Throws InvalidArgument for a negative one.
  Iterator iterator() const;
  Iterator iterator(int64_t epoch) const;

  /// An iterator where save() was called. In-memory sources are not read for what lies before;
  /// generators and filters are run again. Throws DataLoss for bytes that are no position,
  /// InvalidArgument for one of another data set, with both described. What a map does is not
  /// compared, nor is the number of prefetched elements.
  Iterator restore(std::string_view position) const;

  /// `for (const Element& element : dataset)`: the next epoch.
  InputIterator<Element> begin() const { return InputIterator<Element>(iterator()); }
  std::default_sentinel_t end() const { return {}; }

  /// The same with a structure made of each element's tensors, which have the right number or it
  /// is InvalidArgument: `for (const auto& [x, y] : dataset.as<std::pair<Tensor, Tensor>>())`.
  template <class T>
  ElementsAs<T> as() const;

  /// "from_tensor_slices(float32[60000,784]) | shuffle(60000, seed 7) | batch(128)"
  std::string str() const;

  /// For the library's own use: of each batch the rows of `count` replicas from `first` on, where
  /// batches are dealt to `all` replicas. The batches and their order stay the same, and the other
  /// rows are not made where that can be.
  Dataset share_of_replicas(int first, int count, int all) const;

  /// How many files the elements come from, 0 where not all do; and the same data set made of some
  /// of them, which throws InvalidArgument where it is not batched. Strategies ask for both.
  int64_t files() const;
  Dataset share_of_files(const FileShare& share) const;

 private:
  struct Body;
  explicit Dataset(std::shared_ptr<const Source> source);
  static Dataset from_slices(const Tensors& tensors);
  static Dataset generated(std::function<internal::Generator(int64_t epoch)> start);
  static Dataset read_from(std::vector<std::string> paths, internal::FileReader read);
  Dataset mapped(internal::ElementFn f, const MapOptions& options) const;
  Dataset filtered(internal::ElementTest f) const;

  std::shared_ptr<Body> body_;
};

template <class T>
class ElementsAs {
 public:
  explicit ElementsAs(Dataset dataset) : dataset_(std::move(dataset)) {}
  InputIterator<T> begin() const { return InputIterator<T>(dataset_.iterator()); }
  std::default_sentinel_t end() const { return {}; }

 private:
  Dataset dataset_;
};

template <class T>
ElementsAs<T> Dataset::as() const {
  return ElementsAs<T>(*this);
}

template <class T>
InputIterator<T>& InputIterator<T>::operator++() {
  value_.reset();  // Its memory may be that of the next.
  const std::optional<Element> element = iterator_.next();
  if (element) value_.emplace(internal::unpacked<T>(*element));
  return *this;
}

}  // namespace tandem::data

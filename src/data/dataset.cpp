// The public handles Dataset and Iterator. A Dataset checks its arguments and puts a transformation
// behind the last one; an Iterator is a cursor through the transformations, with its position.
#include <fmt/format.h>

#include <atomic>
#include <exception>

#include "data/draws.h"
#include "data/position.h"
#include "data/source.h"
#include "runtime/random_calls.h"
#include "tandem/error.h"

namespace tandem::data {

// ---- Iterator ----

struct Iterator::Body {
  SourcePtr source;
  int64_t epoch = 0;
  CursorPtr cursor;  // It is destroyed before `source`.
  int64_t position = 0;
  int64_t batch_rows = -1;
  std::exception_ptr error;
};

Iterator::Iterator(std::unique_ptr<Body> body) : body_(std::move(body)) {}
Iterator::~Iterator() = default;
Iterator::Iterator(Iterator&&) noexcept = default;
Iterator& Iterator::operator=(Iterator&&) noexcept = default;

std::optional<Element> Iterator::next() {
  if (body_->error) std::rethrow_exception(body_->error);
  Item item;
  try {
    if (!body_->cursor->next(item)) return std::nullopt;
  } catch (...) {
    body_->error = std::current_exception();
    throw;
  }
  ++body_->position;
  body_->batch_rows = item.batch_rows;
  return element_of(*body_->source, std::move(item));
}

int64_t Iterator::position() const { return body_->position; }
int64_t Iterator::batch_rows() const { return body_->batch_rows; }
int64_t Iterator::epoch() const { return body_->epoch; }

std::string Iterator::save() const {
  return to_bytes({body_->epoch, body_->position, body_->source->str()});
}

// ---- Dataset ----

struct Dataset::Body {
  SourcePtr source;
  std::atomic<int64_t> next_epoch{0};
};

Dataset::Dataset(SourcePtr source) : body_(std::make_shared<Body>()) {
  body_->source = std::move(source);
}

namespace {

void check_at_least(int64_t least, int64_t value, const char* transformation, const char* what) {
  if (value >= least) return;
  throw InvalidArgument(
      fmt::format("{}: {} is {}, at least {} is accepted", transformation, what, value, least));
}

}  // namespace

Dataset Dataset::from_slices(const Tensors& tensors) {
  if (tensors.empty()) throw InvalidArgument("from_tensor_slices: no tensor is given");
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].rank() == 0) {
      throw InvalidArgument(
          fmt::format("from_tensor_slices: tensor {} is a scalar, which has no rows", i));
    }
    if (tensors[i].shape()[0] != tensors[0].shape()[0]) {
      throw InvalidArgument(
          fmt::format("from_tensor_slices: tensor 0 has {} rows and tensor {} has {}, {}",
                      tensors[0].shape()[0], i, tensors[i].shape()[0], describe(tensors)));
    }
  }
  return Dataset(slices(tensors));
}

Dataset Dataset::generated(std::function<internal::Generator(int64_t epoch)> start) {
  return Dataset(generator(std::move(start), "from_generator"));
}

Dataset Dataset::read_from(std::vector<std::string> paths, internal::FileReader read) {
  if (paths.empty()) throw InvalidArgument("from_files: no file is given");
  return Dataset(files_source(std::move(paths), std::move(read)));
}

Dataset Dataset::range(int64_t stop) { return range(0, stop); }

Dataset Dataset::range(int64_t start, int64_t stop, int64_t step) {
  if (step == 0) {
    throw InvalidArgument(fmt::format("range: from {} to {} in steps of 0", start, stop));
  }
  return Dataset(data::range(start, stop, step));
}

Dataset Dataset::zip(const std::vector<Dataset>& datasets) {
  if (datasets.empty()) throw InvalidArgument("zip: no data set is given");
  std::vector<SourcePtr> sources;
  sources.reserve(datasets.size());
  for (const Dataset& dataset : datasets) sources.push_back(dataset.body_->source);
  return Dataset(data::zip(std::move(sources)));
}

Dataset Dataset::mapped(internal::ElementFn f, const MapOptions& options) const {
  check_at_least(1, options.parallel, "map", "parallel");
  return Dataset(data::map(body_->source, std::move(f), options.parallel));
}

Dataset Dataset::filtered(internal::ElementTest f) const {
  return Dataset(data::filter(body_->source, std::move(f)));
}

Dataset Dataset::batch(int64_t size, const BatchOptions& options) const {
  check_at_least(1, size, "batch", "the size");
  return Dataset(data::batch(body_->source, size, options.drop_remainder));
}

Dataset Dataset::shuffle(int64_t buffer, const ShuffleOptions& options) const {
  check_at_least(1, buffer, "shuffle", "the buffer");
  const auto drawn = [] {
    const op::RandomRun run = runtime::next_random_run();
    return mixed(mixed(run.unseeded_seed) + run.call);
  };
  const uint64_t seed = options.seed ? *options.seed : drawn();
  return Dataset(data::shuffle(body_->source, buffer, seed, options.reshuffle_each_epoch));
}

Dataset Dataset::in_order(const std::vector<int64_t>& order) const {
  for (const int64_t number : order) check_at_least(0, number, "in_order", "each number");
  if (body_->source->cardinality() == kInfinite) {
    throw InvalidArgument("in_order: the elements never end; take some of them");
  }
  return Dataset(data::in_order(body_->source, order));
}

Dataset Dataset::repeat(int64_t count) const {
  check_at_least(0, count, "repeat", "the count");
  return Dataset(data::repeat(body_->source, count));
}

Dataset Dataset::repeat() const { return Dataset(data::repeat(body_->source, std::nullopt)); }

Dataset Dataset::take(int64_t count) const {
  check_at_least(0, count, "take", "the count");
  return Dataset(data::take(body_->source, count));
}

Dataset Dataset::skip(int64_t count) const {
  check_at_least(0, count, "skip", "the count");
  return Dataset(data::skip(body_->source, count));
}

Dataset Dataset::shard(int64_t shards, int64_t index) const {
  if (shards < 1 || index < 0 || index >= shards) {
    throw InvalidArgument(
        fmt::format("shard: index {} of {} shards; the index is at least 0 and "
                    "less than the number of shards",
                    index, shards));
  }
  return Dataset(data::shard(body_->source, shards, index));
}

Dataset Dataset::share_of_replicas(int first, int count, int all) const {
  return Dataset(data::share(body_->source, {first, count, all}));
}

int64_t Dataset::files() const { return body_->source->files(); }

Dataset Dataset::share_of_files(const FileShare& share) const {
  return Dataset(body_->source->of_files(share));
}

Dataset Dataset::cache() const {
  if (cardinality() == kInfinite) {
    throw InvalidArgument(fmt::format("cache: the elements of {} never end", str()));
  }
  return Dataset(data::cache(body_->source));
}

Dataset Dataset::prefetch(int64_t count) const {
  check_at_least(1, count, "prefetch", "the count");
  return Dataset(data::prefetch(body_->source, count));
}

Dataset Dataset::within_deadline() const { return Dataset(data::within_deadline(body_->source)); }

int64_t Dataset::cardinality() const { return body_->source->cardinality(); }
std::string Dataset::str() const { return body_->source->str(); }

Iterator Dataset::iterator() const { return iterator(body_->next_epoch++); }

Iterator Dataset::iterator(int64_t epoch) const {
  check_at_least(0, epoch, "iterator", "the epoch");
  auto body = std::make_unique<Iterator::Body>();
  body->source = body_->source;
  body->epoch = epoch;
  body->cursor = body_->source->open(static_cast<uint64_t>(epoch));
  return Iterator(std::move(body));
}

Iterator Dataset::restore(std::string_view bytes) const {
  const Position position = position_from(bytes);
  if (position.transformations != str()) {
    throw InvalidArgument(fmt::format(
        "restore: the position is of another data set, '{}'; this one is '{}'. A shuffle without a "
        "seed has another in each process",
        position.transformations, str()));
  }
  Iterator iterator = this->iterator(position.epoch);
  const int64_t passed = iterator.body_->cursor->skip(position.elements);
  if (passed < position.elements) {
    throw InvalidArgument(
        fmt::format("restore: the position is after {} elements of '{}', which now "
                    "ends after {}",
                    position.elements, str(), passed));
  }
  iterator.body_->position = passed;
  return iterator;
}

}  // namespace tandem::data

#include "data/ahead.h"

#include <fmt/format.h>

#include <condition_variable>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>

#include "core/background.h"
#include "core/interruptible.h"
#include "core/signal.h"
#include "tandem/config.h"
#include "tandem/error.h"
#include "tandem/log.h"

namespace tandem::data {
namespace {

using Work = std::function<void(Item& item, int64_t number)>;
using Lock = std::unique_lock<std::mutex>;

// More than this many items are not kept ahead, whatever the capacity.
constexpr int64_t kMostAhead = int64_t{1} << 16;

struct AheadItem {
  Item item;
  bool done = false;
  bool end = false;  // There was no item.
  std::exception_ptr error;
};

/// What the caller and the threads share. It lives as long as the last of them.
class Workshop {
 public:
  Workshop(SourcePtr source, uint64_t epoch, Work work, const AheadOptions& options)
      : source_(std::move(source)),
        cursor_(source_->open(epoch)),
        work_(std::move(work)),
        name_(options.name),
        caller_works_(options.caller_works),
        items_(static_cast<size_t>(std::min(options.capacity, kMostAhead))) {}

  /// Passes over items before anything has been taken.
  int64_t skip(int64_t count) {
    const int64_t passed = cursor_->skip(count);
    passed_ += passed;
    return passed;
  }

  bool take(Item& item) {
    Lock lock(mutex_);
    auto deadline = core::Clock::now() + config::wait_deadline();
    while (true) {
      if (AheadItem& ahead = item_at(head_); head_ < tail_ && ahead.done)
        return hand_out(ahead, item);
      if (caller_works_ && may_begin()) {
        make_next(lock);
        deadline = core::Clock::now() + config::wait_deadline();
        continue;
      }
      const uint32_t seen = changed_.value();
      lock.unlock();
      const bool in_time = wait_past(seen, deadline);
      lock.lock();
      if (!in_time) throw_late();
    }
  }

  /// What a thread does.
  void work_in_background() {
    core::enter_background();
    Lock lock(mutex_);
    while (true) {
      room_.wait(lock, [&] { return stopped_ || (!resting_ && may_begin()); });
      if (stopped_) break;
      make_next(lock);
    }
    --threads_;
    changed_.advance();
  }

  /// Counts the threads that stop() waits for.
  void expect_threads(int more) {
    const Lock lock(mutex_);
    threads_ += more;
  }

  /// Ends the threads; false when they do not end in time.
  bool stop() {
    Lock lock(mutex_);
    stopped_ = true;
    room_.notify_all();
    const auto patience = late_      ? std::chrono::nanoseconds(0)
                          : is_left_ ? std::chrono::milliseconds(200)
                                     : config::wait_deadline();
    const auto deadline = core::Clock::now() + patience;
    while (threads_ > 0) {
      const uint32_t seen = changed_.value();
      lock.unlock();
      const bool in_time = changed_.wait_past(seen, deadline);
      lock.lock();
      if (!in_time) return threads_ == 0;
    }
    return true;
  }

  const char* name() const { return name_; }

 private:
  AheadItem& item_at(int64_t number) { return items_[static_cast<size_t>(number) % items_.size()]; }

  int64_t capacity() const { return static_cast<int64_t>(items_.size()); }

  /// Who leaves by an interruption does not wait for the threads either: see stop().
  bool wait_past(uint32_t seen, core::Clock::time_point deadline) {
    try {
      return core::wait_interruptibly(deadline,
                                      [&](auto until) { return changed_.wait_past(seen, until); });
    } catch (...) {
      const Lock lock(mutex_);
      is_left_ = true;
      throw;
    }
  }

  /// Items come from the source one after another, so one thread at a time asks for them.
  bool may_begin() const { return !asking_ && !ended_ && tail_ - head_ < capacity(); }

  void make_next(Lock& lock) {
    const int64_t number = tail_++;
    AheadItem& ahead = item_at(number);
    asking_ = true;
    if (tail_ - head_ == capacity()) resting_ = true;
    lock.unlock();
    bool got = false;
    std::exception_ptr error;
    try {
      got = cursor_->next(ahead.item);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    asking_ = false;
    if (!got) ended_ = true;
    if (got && work_) {
      announce();
      lock.unlock();
      try {
        work_(ahead.item, passed_ + number);
      } catch (...) {
        error = std::current_exception();
      }
      lock.lock();
    }
    if (error) ended_ = true;
    ahead.error = error;
    ahead.end = !got;
    ahead.done = true;
    announce();
  }

  void announce() {
    changed_.advance();
    if (!resting_ && may_begin()) room_.notify_one();
  }

  /// The end and an error stay where they are, for whoever asks again.
  bool hand_out(AheadItem& ahead, Item& item) {
    if (ahead.error) std::rethrow_exception(ahead.error);
    if (ahead.end) return false;
    std::swap(item, ahead.item);
    ahead.done = false;
    ++head_;
    if (resting_ && tail_ - head_ <= capacity() / 2) {
      resting_ = false;
      room_.notify_all();
    }
    return true;
  }

  [[noreturn]] void throw_late() {
    late_ = true;
    const bool in_source = asking_ && tail_ - 1 == head_;
    throw DeadlineExceeded(
        fmt::format("{}: element {} was not ready within {:.3g} s; it is still in {}", name_,
                    passed_ + head_, std::chrono::duration<double>(config::wait_deadline()).count(),
                    in_source ? source_->str() : "the function"));
  }

  const SourcePtr source_;
  const CursorPtr cursor_;
  const Work work_;
  const char* const name_;
  const bool caller_works_;
  int64_t passed_ = 0;  // The items that were passed over before the first one.

  std::mutex mutex_;
  std::condition_variable room_;  // Tells threads that there is something to do.
  core::Signal changed_;          // Tells the caller that an item is done, or can be begun.
  std::vector<AheadItem> items_;
  int64_t head_ = 0;      // The item to hand out next,
  int64_t tail_ = 0;      // and to begin next.
  bool asking_ = false;   // Somebody is within cursor_->next().
  bool ended_ = false;    // Nothing more is begun.
  bool resting_ = false;  // The threads are resting.
  bool stopped_ = false;
  bool late_ = false;
  bool is_left_ = false;  // The caller was interrupted.
  int threads_ = 0;
};

class Ahead final : public Cursor {
 public:
  Ahead(std::shared_ptr<Workshop> workshop, int threads)
      : workshop_(std::move(workshop)), wanted_(threads) {}

  ~Ahead() override {
    const bool ended = workshop_->stop();
    for (auto& thread : threads_) {
      if (ended) {
        thread.join();
      } else {
        thread.detach();
      }
    }
    if (ended) return;
    logging::write(logging::Level::error,
                   fmt::format("{}: a function did not return within the deadline; its thread is "
                               "left to itself",
                               workshop_->name()));
  }
  Ahead(const Ahead&) = delete;
  Ahead& operator=(const Ahead&) = delete;

  bool next(Item& item) override {
    if (!started_) start();
    return workshop_->take(item);
  }

  int64_t skip(int64_t count) override {
    return started_ ? Cursor::skip(count) : workshop_->skip(count);
  }

 private:
  void start() {
    started_ = true;
    for (int i = 0; i < wanted_; ++i) {
      workshop_->expect_threads(1);
      try {
        threads_.emplace_back([workshop = workshop_] { workshop->work_in_background(); });
      } catch (const std::system_error& error) {
        workshop_->expect_threads(-1);
        throw ResourceExhausted(
            fmt::format("{}: a thread cannot be started: {}", workshop_->name(), error.what()));
      }
    }
  }

  const std::shared_ptr<Workshop> workshop_;
  const int wanted_;
  bool started_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace

CursorPtr run_ahead(SourcePtr source, uint64_t epoch, Work work, const AheadOptions& options) {
  auto workshop = std::make_shared<Workshop>(std::move(source), epoch, std::move(work), options);
  return std::make_unique<Ahead>(std::move(workshop), options.threads);
}

}  // namespace tandem::data

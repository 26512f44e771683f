#include "collective/exchanger.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <pthread.h>

#include <algorithm>

#include "tandem/error.h"

namespace tandem::collective {
namespace {

using core::Clock;

constexpr size_t kLargeBytes = size_t{512} << 10;
constexpr size_t kMostRunning = 4;  // Exchanges at once.
constexpr size_t kMostSpare = 64;
// Shared memory does not always wake its readers, so naps begin short and become longer.
constexpr std::chrono::microseconds kFirstNap{50};
constexpr std::chrono::microseconds kLongestNap{10'000};
constexpr std::chrono::milliseconds kNoticeable{100};

double seconds_between(Clock::time_point a, Clock::time_point b) {
  return std::chrono::duration<double>(b - a).count();
}

/// FNV-1a, which is the same on all machines.
uint32_t hash_more(uint32_t hash, uint64_t number) {
  for (int shift = 0; shift < 64; shift += 8) {
    hash = (hash ^ static_cast<uint32_t>(number >> shift & 0xff)) * 16777619u;
  }
  return hash;
}

uint32_t shape_of(const op::Exchange& exchange) {
  uint32_t hash = hash_more(2166136261u, static_cast<uint64_t>(exchange.kind));
  hash = hash_more(hash, static_cast<uint64_t>(exchange.root));
  for (const op::Piece& piece : exchange.pieces) {
    hash = hash_more(hash, static_cast<uint64_t>(piece.count));
    hash = hash_more(hash, static_cast<uint64_t>(piece.dtype));
  }
  return hash;
}

uint32_t signature_of(const std::string& name, uint32_t shape) {
  for (const char c : name) shape = (shape ^ static_cast<unsigned char>(c)) * 16777619u;
  return shape;
}

void check_pieces(const op::Exchange& exchange, int size) {
  if (exchange.root < 0 || exchange.root >= size) {
    throw InvalidArgument(fmt::format("{} '{}': root {} is none of {} ranks",
                                      name_of(exchange.kind), exchange.name, exchange.root, size));
  }
  for (const op::Piece& piece : exchange.pieces) {
    if (piece.count >= 0 && (piece.data != nullptr || piece.count == 0)) continue;
    throw InvalidArgument(fmt::format("{} '{}': a piece of {} elements at {}",
                                      name_of(exchange.kind), exchange.name, piece.count,
                                      piece.data));
  }
}

void check_message(const op::PeerMessage& message, int rank, int size) {
  if (message.peer < 0 || message.peer >= size || message.peer == rank) {
    throw InvalidArgument(fmt::format("message '{}': rank {} is none of the others of {} ranks",
                                      message.name, message.peer, size));
  }
}

}  // namespace

/// Keeps the exchanger's own thread away from the transport.
class Exchanger::CallersTurn {
 public:
  explicit CallersTurn(Exchanger& exchanger) : exchanger_(exchanger) {
    exchanger_.callers_.fetch_add(1);
    lock_ = std::unique_lock(exchanger_.mutex_);
  }
  ~CallersTurn() {
    const bool wake = exchanger_.callers_.fetch_sub(1) == 1 && exchanger_.large_ > 0;
    lock_.unlock();
    if (wake) exchanger_.changed_.notify_one();
  }
  CallersTurn(const CallersTurn&) = delete;
  CallersTurn& operator=(const CallersTurn&) = delete;

  std::unique_lock<std::mutex>& lock() { return lock_; }

 private:
  Exchanger& exchanger_;
  std::unique_lock<std::mutex> lock_;
};

Exchanger::Exchanger(std::unique_ptr<Transport> transport, ExchangerOptions options)
    : options_(std::move(options)),
      transport_(std::move(transport)),
      context_{*transport_, memory_, options_.rank, options_.size, options_.tag_seed} {
  if (!options_.judge) {
    options_.judge = [](const ExchangeTrouble& trouble) {
      const std::string text = fmt::format("{}: waited {:.1f} s for ranks {}{}{}", trouble.exchange,
                                           trouble.seconds, fmt::join(trouble.ranks, ", "),
                                           trouble.detail.empty() ? "" : ": ", trouble.detail);
      return trouble.kind == ExchangeTrouble::Kind::overdue
                 ? std::make_exception_ptr(DeadlineExceeded(text))
                 : std::make_exception_ptr(Unavailable(text));
    };
  }
}

Exchanger::~Exchanger() { finish(); }

void Exchanger::finish() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
  const std::lock_guard lock(mutex_);
  if (started_.empty() && !failed_ && !given_up_ && last_ticket_ > 0) {
    transport_->flush();
    end_sending();
  }
  fail(std::make_exception_ptr(FailedPrecondition("this group of processes has ended")));
  give_up();
}

/// What was sent between two ranks may still have to be fetched from here.
void Exchanger::end_sending() {
  const auto deadline = Clock::now() + std::chrono::seconds(1);
  while (!posted_.empty() && Clock::now() < deadline) {
    transport_->progress();
    drive_messages();
  }
}

void Exchanger::meet() {
  const op::Exchange nothing{.kind = op::ExchangeKind::sum, .pieces = {}, .name = "meeting"};
  for (int i = 0; i < 2; ++i) {
    wait(start(nothing));
    const std::lock_guard lock(mutex_);
    transport_->flush();
  }
  const std::lock_guard lock(mutex_);
  met_ = true;
}

Exchanger::Ticket Exchanger::start(const op::Exchange& exchange) {
  check_pieces(exchange, options_.size);
  CallersTurn turn(*this);
  throw_if_failed();
  Started& started = *started_.emplace_back(take(exchange));
  started.ticket = ++last_ticket_;
  started.name = exchange.name;
  started.running = false;
  started.moved = Clock::now();
  if (started.large) {
    ++large_;
    begin_thread();
  }
  drive();
  return last_ticket_;
}

/// The thread that goes on with what has begun while no caller waits.
void Exchanger::begin_thread() {
  if (thread_.joinable()) return;
  thread_ = std::thread([this] { run_thread(); });
  pthread_setname_np(thread_.native_handle(), "tandem-exchange");
}

void Exchanger::send(const op::PeerMessage& message) {
  check_message(message, options_.rank, options_.size);
  CallersTurn turn(*this);
  throw_if_failed();
  posted_.emplace_back(++last_message_, context_, message, RankMessage::Kind::sent);
  ++large_;
  drive();
  if (large_ > 0) begin_thread();
}

void Exchanger::receive(const op::PeerMessage& message) {
  check_message(message, options_.rank, options_.size);
  CallersTurn turn(*this);
  throw_if_failed();
  const Ticket number = ++last_message_;
  posted_.emplace_back(number, context_, message, RankMessage::Kind::received);
  wait_until(turn, [&] {
    return std::ranges::none_of(posted_, [&](const Posted& each) { return each.number == number; });
  });
}

bool Exchanger::Started::is(const op::Exchange& exchange) const {
  return kind == exchange.kind && root == exchange.root &&
         std::ranges::equal(pieces, exchange.pieces, [](const op::Piece& a, const op::Piece& b) {
           return a.data == b.data && a.count == b.count && a.dtype == b.dtype;
         });
}

/// The same exchange of an earlier step, or a new one.
std::unique_ptr<Exchanger::Started> Exchanger::take(const op::Exchange& exchange) {
  const auto found = std::ranges::find_if(spare_, [&](const auto& s) { return s->is(exchange); });
  if (found != spare_.end()) {
    auto taken = std::move(*found);
    spare_.erase(found);
    return taken;
  }
  auto made = std::make_unique<Started>();
  made->kind = exchange.kind;
  made->root = exchange.root;
  made->pieces.assign(exchange.pieces.begin(), exchange.pieces.end());
  made->bytes = bytes_of(exchange);
  made->large = made->bytes >= kLargeBytes;
  made->shape = shape_of(exchange);
  made->messages = make_exchange(context_, exchange);
  return made;
}

void Exchanger::wait(Ticket ticket) {
  CallersTurn turn(*this);
  wait_until(turn, [&] { return started_.empty() || started_.front()->ticket > ticket; });
}

template <class IsDone>
void Exchanger::wait_until(CallersTurn& turn, const IsDone& is_done) {
  Clock::time_point idle_since{};
  while (throw_if_failed(), !is_done()) {
    if (drive()) {
      idle_since = {};
      continue;
    }
    const auto now = Clock::now();
    if (idle_since == Clock::time_point{}) idle_since = now;
    if (now - idle_since < core::kSpinTime && core::AtWork::cores_suffice()) continue;
    look_for_trouble(now);
    sleep(turn.lock());
  }
}

void Exchanger::fail(std::exception_ptr failure) {
  const std::lock_guard lock(failure_mutex_);
  if (failure_ != nullptr) return;
  failure_ = std::move(failure);
  failed_ = true;
}

std::exception_ptr Exchanger::failure() const {
  const std::lock_guard lock(failure_mutex_);
  return failure_;
}

Exchanger::Waiting Exchanger::waiting() const {
  const std::lock_guard lock(failure_mutex_);
  return waiting_;
}

/// Lets the first exchanges go on; true if something happened.
bool Exchanger::drive() {
  bool moved = transport_->progress();
  moved = drive_messages() || moved;
  const size_t count = std::min(started_.size(), kMostRunning);
  for (size_t i = 0; i < count; ++i) {
    Started& started = *started_[i];
    bool went_on = !started.running;
    if (!started.running)
      started.messages->begin(started.ticket, signature_of(started.name, started.shape));
    started.running = true;
    if (!started.messages->is_done()) went_on = started.messages->advance() || went_on;
    if (went_on) {
      started.moved = Clock::now();
      note_waiting({});
    }
    moved = moved || went_on;
  }
  if (moved) nap_ = kFirstNap;
  while (!started_.empty() && started_.front()->running && started_.front()->messages->is_done()) {
    if (started_.front()->large) --large_;
    if (spare_.size() == kMostSpare) spare_.erase(spare_.begin());
    spare_.push_back(std::move(started_.front()));
    started_.erase(started_.begin());
    note_waiting({});
  }
  return moved;
}

bool Exchanger::drive_messages() {
  bool moved = false;
  for (auto each = posted_.begin(); each != posted_.end();) {
    if (each->message.advance()) {
      moved = true;
      each->moved = Clock::now();
    }
    if (!each->message.is_done()) {
      ++each;
      continue;
    }
    if (each->message.kind() == RankMessage::Kind::sent) --large_;
    each = posted_.erase(each);
  }
  return moved;
}

/// Does what look_for_trouble does for messages between two ranks. A receiver may take its time.
void Exchanger::look_at_messages(Clock::time_point now) {
  for (const Posted& each : posted_) {
    const int peer = each.message.peer();
    const bool is_received = each.message.kind() == RankMessage::Kind::received;
    ExchangeTrouble trouble{.kind = ExchangeTrouble::Kind::overdue,
                            .ranks = {peer},
                            .exchange = fmt::format("message '{}' {} rank {}", each.message.name(),
                                                    is_received ? "from" : "to", peer),
                            .seconds = seconds_between(each.moved, now),
                            .detail = transport_->failure(peer)};
    if (!trouble.detail.empty()) {
      trouble.kind = ExchangeTrouble::Kind::peer_lost;
    } else if (!is_received || now - each.moved < options_.timeout) {
      continue;
    }
    return fail(options_.judge(trouble));
  }
}

/// Is called when nothing moves. Finds out whether it ever will.
void Exchanger::look_for_trouble(Clock::time_point now) {
  look_at_messages(now);
  if (started_.empty() || !started_.front()->running) return;
  const Started& first = *started_.front();
  const auto idle = now - first.moved;
  ExchangeTrouble trouble;
  trouble.seconds = seconds_between(first.moved, now);
  trouble.exchange = fmt::format("{} #{} '{}'", name_of(first.kind), first.ticket, first.name);
  const std::vector<int> awaited = first.messages->awaited();
  for (const int rank : awaited) {
    if (transport_->failure(rank).empty()) continue;
    trouble.kind = ExchangeTrouble::Kind::peer_lost;
    trouble.ranks = {rank};
    trouble.detail = transport_->failure(rank);
    fail(options_.judge(trouble));
    return;
  }
  if (idle >= options_.timeout) {
    trouble.ranks = awaited;
    fail(options_.judge(trouble));
  } else if (idle >= kNoticeable) {
    note_waiting({fmt::format("{}, for rank {}", trouble.exchange, fmt::join(awaited, ", ")),
                  first.ticket,
                  fmt::format("{} '{}' of {} bytes (shape {:08x})", name_of(first.kind), first.name,
                              first.bytes, first.shape)});
  }
}

void Exchanger::note_waiting(Waiting waiting) {
  const bool waits = !waiting.text.empty();
  if (!waits && !waits_) return;
  waits_ = waits;
  const std::lock_guard lock(failure_mutex_);
  waiting_ = std::move(waiting);
}

/// Returns when something can be moved, or soon. Others may have the lock meanwhile.
void Exchanger::sleep(std::unique_lock<std::mutex>& lock) {
  const int events = transport_->arm();
  if (events < 0) return;
  pollfd entry{events, POLLIN, 0};
  const timespec patience{0, std::chrono::nanoseconds(nap_).count()};
  lock.unlock();
  ppoll(&entry, 1, &patience, nullptr);
  lock.lock();
  nap_ = std::min(2 * nap_, kLongestNap);
}

void Exchanger::throw_if_failed() {
  if (!failed_.load(std::memory_order_relaxed)) return;
  give_up();
  std::rethrow_exception(failure());
}

/// Afterwards nothing touches the pieces of exchanges.
void Exchanger::give_up() {
  if (given_up_) return;
  given_up_ = true;
  if (!met_) {
    transport_->abandon();
    for (auto& started : started_)
      static_cast<void>(started.release());  // UCX may know its memory.
    started_.clear();
    posted_.clear();
    large_ = 0;
    return;
  }
  transport_->disconnect();
  for (const auto& started : started_) {
    if (started->running) started->messages->cancel();
  }
  started_.clear();
  for (Posted& each : posted_) each.message.cancel();
  posted_.clear();
  large_ = 0;
}

void Exchanger::run_thread() {
  std::unique_lock lock(mutex_);
  const auto has_work = [&] { return large_ > 0 && callers_ == 0 && !failed_; };
  while (!ending_) {
    if (!has_work()) {
      changed_.wait(lock, [&] { return ending_ || has_work(); });
    } else if (!drive()) {
      look_for_trouble(Clock::now());
      sleep(lock);
    }
  }
}

}  // namespace tandem::collective

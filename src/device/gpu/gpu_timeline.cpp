#include "device/gpu/gpu_timeline.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "tandem/config.h"
#include "tandem/error.h"

namespace tandem::devices::gpu {
namespace {

/// A mark costs a microsecond or two, about as much as a small kernel.
constexpr int kCommandsPerMark = 16;

constexpr const char* kTakeOver = R"(
KERNEL NAME(MEMORY(0), MEMORY(1), i64 ticket) {
  GLOBAL u32* own = AT(u32, 0);
  const GLOBAL u32* other = AT(u32, 1);
  if (GID() != 0 || own[0] != 0 || other[0] == 0) return;
  for (int i = 0; i < 8; ++i) own[i] = other[i];
  ((GLOBAL i64*)own)[1] = ticket;
}
)";

const char* name_of(GpuTimeline::Role role) {
  constexpr const char* kNames[] = {"", "input", "exchange"};
  return kNames[static_cast<size_t>(role)];
}

/// Asks until the answer is yes. Most waits are short; a thread that goes on asking keeps a core
/// from others, who may be the ones that are waited for.
template <class Question>
bool poll(const Question& is_over, core::Clock::time_point deadline) {
  using namespace std::chrono_literals;
  const auto spins_until = core::Clock::now() + 50us;
  auto pause = 10us;
  while (!is_over()) {
    const auto now = core::Clock::now();
    if (now > deadline) return false;
    if (now < spins_until) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(pause);
      pause = std::min<std::chrono::microseconds>(pause * 2, 500us);
    }
  }
  return true;
}

}  // namespace

bool wait_for(const Mark& mark, core::Clock::time_point deadline) {
  return poll([&] { return mark.is_reached(); }, deadline);
}

GpuTimeline::GpuTimeline(std::string device, Role role, std::shared_ptr<GpuMemory> memory,
                         std::shared_ptr<Compiler> compiler, std::shared_ptr<ClockOffset> clock)
    : Timeline(std::move(device), name_of(role)),
      role_(role),
      memory_(std::move(memory)),
      compiler_(std::move(compiler)),
      clock_(std::move(clock)) {}

GpuTimeline::~GpuTimeline() {
  stop();
  if (fault_words_ != nullptr) memory_->driver().release(fault_words_);
}

void GpuTimeline::open() {
  if (stream_) return;
  Driver& driver = memory_->driver();
  auto stream = driver.create_stream();
  if (fault_words_ == nullptr) fault_words_ = driver.allocate(2 * sizeof(FaultWord));
  if (fault_words_ == nullptr) {
    throw ResourceExhausted(device() + ": out of memory: not even a word of it can be had");
  }
  stream->fill({fault_words_, 0}, 0, 2 * sizeof(FaultWord));
  stream_ = std::move(stream);
  profile::add_clock(std::static_pointer_cast<GpuTimeline>(shared_from_this()));
}

thread_local const GpuTimeline* GpuTimeline::capturing_here = nullptr;

CapturedRunPtr GpuTimeline::capture(const std::function<void()>& work) {
  const std::lock_guard issuing(this->issuing());
  const auto captured = std::make_shared<CapturedRun>();
  try {
    const auto capture = memory_->driver().capture();
    if (!capture) return nullptr;
    capture_ = capture.get();
    captured_ = captured.get();
    capturing_here = this;
    {
      const auto end = [](GpuTimeline*) { capturing_here = nullptr; };
      const std::unique_ptr<GpuTimeline, decltype(end)> capturing(this, end);
      work();
    }
    captured->commands = capture->finish();
  } catch (const Error&) {
    return nullptr;  // Whoever issues them one by one hears of it.
  }
  return captured;
}

void GpuTimeline::replay(const CapturedRunPtr& captured) {
  const std::lock_guard issuing(this->issuing());
  issue({"captured commands", profile::Activity::compute},
        {.may_find_fault = captured->may_find_fault},
        [&](Stream& stream, uint64_t) { captured->commands->run(stream); });
  hold(captured);
  const std::lock_guard lock(stream_mutex_);
  if (is_risky_) make_mark();
}

uint64_t GpuTimeline::begin_command() {
  open();
  last_ = next_ticket();
  stream_->set_timed(profile::is_profiling());
  if (!profile::is_profiling()) last_end_ns_ = 0;
  return last_;
}

void GpuTimeline::end_command(const CommandLabel& label, const Effect& effect) {
  if (profile::is_profiling()) {
    if (auto timing = stream_->last_timing()) {
      timings_.push_back(
          {last_, label, std::move(timing), profile::now_ns(), std::exchange(awaited_, nullptr)});
    }
  }
  if (effect.may_find_fault) {
    is_risky_ = true;
    const std::lock_guard lock(marks_mutex_);
    last_risky_ = last_;
  }
  if (++unmarked_ >= kCommandsPerMark) make_mark();
}

/// A mark that was reached and that nobody has any more, with room for a fault word, or an empty
/// one.
GpuTimeline::Marked GpuTimeline::take_spare() {
  const std::lock_guard lock(marks_mutex_);
  if (spare_.empty()) return {};
  Marked spare = std::move(spare_.back());
  spare_.pop_back();
  if (spare.mark.use_count() > 1) spare.mark.reset();
  return spare;
}

GpuTimeline::Marked GpuTimeline::make_mark() {
  Marked marked = take_spare();
  marked.ticket = last_;
  marked.has_fault = is_risky_;
  if (is_risky_) {
    if (!marked.fault) {
      // A read to other memory of the host would wait for all commands before it, on some devices.
      const auto room = memory_->driver().staging(sizeof(FaultWord));
      marked.fault = std::shared_ptr<FaultWord>(room, new (room.get()) FaultWord);
    }
    stream_->read(marked.fault.get(), {fault_words_, 0}, sizeof(FaultWord));
    is_risky_ = false;
  }
  marked.mark = stream_->mark(std::move(marked.mark));
  unmarked_ = 0;
  const std::lock_guard lock(marks_mutex_);
  marks_.push_back(marked);
  return marked;
}

/// The first mark that is not before `ticket`; without one where that has been reached.
GpuTimeline::Marked GpuTimeline::mark_behind(uint64_t ticket) {
  const std::lock_guard lock(stream_mutex_);
  {
    const std::lock_guard marks(marks_mutex_);
    if (reached_ >= ticket) return {};
    for (size_t i = 0; i < marks_.size(); ++i) {
      if (marks_[i].ticket >= ticket) return marks_[i];
    }
  }
  return make_mark();
}

/// There is a mark behind each run of captured commands that may find a fault, so it is theirs.
void GpuTimeline::note_reached(const Marked& marked) const {
  reached_ = std::max(reached_, marked.ticket);
  if (!marked.has_fault) return;
  looked_at_ = marked.ticket;
  if (fault_.report == 0) fault_ = *marked.fault;
  if (fault_.report != 0 && fault_.ticket == kCaptured) fault_.ticket = marked.ticket;
}

uint64_t GpuTimeline::reached() const {
  const std::lock_guard lock(marks_mutex_);
  while (!marks_.empty() && !lost_) {
    try {
      if (!marks_.front().mark->is_reached()) break;
      note_reached(marks_.front());
      spare_.push_back(marks_.pop_front());
    } catch (const Error&) {
      lost_ = std::current_exception();
    }
  }
  return lost_ ? issued() : reached_;
}

bool GpuTimeline::wait_until(uint64_t ticket, core::Clock::time_point deadline) {
  if (reached() >= ticket) return true;
  mark_behind(ticket);
  if (!poll([&] { return reached() >= ticket; }, deadline)) return false;
  const uint64_t reached = this->reached();
  const std::lock_guard lock(stream_mutex_);
  record_timings(reached);
  return true;
}

uint64_t GpuTimeline::fault_ticket() const {
  const std::lock_guard lock(marks_mutex_);
  if (lost_) return std::max<uint64_t>(reached_ + 1, 1);
  return fault_.report == 0 ? 0 : fault_.ticket;
}

std::exception_ptr GpuTimeline::fault_error() const {
  const std::lock_guard lock(marks_mutex_);
  return lost_ ? lost_ : FaultReports::instance().error_of(fault_, device());
}

std::exception_ptr GpuTimeline::loss() const {
  const std::lock_guard lock(marks_mutex_);
  return lost_;
}

/// A device that is lost stays so: every wait throws.
void GpuTimeline::clear_fault() {
  const std::lock_guard lock(stream_mutex_);
  const std::lock_guard marks(marks_mutex_);
  if (lost_) return;
  stream_->fill({fault_words_, 0}, 0, sizeof(FaultWord));
  fault_ = {};
}

Location GpuTimeline::open_fault_word() {
  const std::lock_guard lock(stream_mutex_);
  open();
  return {fault_words_, 0};
}

/// Commands up to `ticket` may have found something wrong of which nobody has heard.
bool GpuTimeline::may_be_bad(uint64_t ticket) const {
  const std::lock_guard lock(marks_mutex_);
  return fault_.report != 0 || (last_risky_ > looked_at_ && looked_at_ < ticket);
}

void GpuTimeline::wait_for(const Event& event, GpuTimeline& other) {
  const Marked marked = other.mark_behind(event.ticket());
  const bool takes_over = other.may_be_bad(event.ticket());
  issue(
      {"wait", profile::Activity::wait}, {.may_find_fault = takes_over},
      [&](Stream& stream, uint64_t ticket) {
        if (marked.mark) {
          stream.wait(*marked.mark);
          awaited_ = what_to_wait_for(other);
        }
        if (!takes_over) return;
        stream.copy({fault_words_, sizeof(FaultWord)}, {other.fault_words_, 0}, sizeof(FaultWord));
        take_over(stream, ticket);
      });
}

void GpuTimeline::set_fault(std::exception_ptr error) {
  const auto word = std::make_shared<FaultWord>();
  word->report = FaultReports::instance().add_known(std::move(error));
  issue({"wait", profile::Activity::wait}, {.may_find_fault = true},
        [&](Stream& stream, uint64_t ticket) {
          stream.write({fault_words_, sizeof(FaultWord)}, word.get(), sizeof(FaultWord));
          take_over(stream, ticket);
        });
  hold(word);
}

/// The device's fault word becomes the one beside it, if that is set and its own is not.
void GpuTimeline::take_over(Stream& stream, uint64_t ticket) {
  if (!take_over_) take_over_ = compiler_->add({.name = "take_over_fault", .body = kTakeOver});
  const Memory words = fault_words_;
  const KernelArgument arguments[] = {
      {words}, {.bits = 0}, {words}, {.bits = sizeof(FaultWord)}, {.bits = ticket}};
  stream.launch(compiler_->get(*take_over_), {}, arguments);
}

/// As a profile has it.
const char* GpuTimeline::what_to_wait_for(const GpuTimeline& other) const {
  if (other.role_ == Role::input) return "idle, waiting for its input";
  if (other.role_ == Role::exchange) return "idle, waiting for the exchange";
  return other.device() == device() ? "idle, waiting for its own computing"
                                    : "idle, waiting for another device";
}

/// Commands behind `reached` have no times yet. The last ones, which the host hears of soonest,
/// tell most about the clock.
void GpuTimeline::record_timings(uint64_t reached) {
  for (size_t i = 0; i < timings_.size() && timings_[i].ticket <= reached; ++i) {
    const Timing timing = timings_[i].command->timing();
    clock_->see(profile::now_ns() - static_cast<int64_t>(timing.end_ns));
  }
  while (!timings_.empty() && timings_.front().ticket <= reached) {
    const TimedLabel timed = timings_.pop_front();
    const Timing timing = timed.command->timing();
    record_idle(timed, timing);
    const CommandLabel& label = timed.label;
    const bool meets = role_ == Role::exchange && label.kind == profile::Activity::compute;
    profile::record_on(row(), {label.name, meets ? profile::Activity::reduce : label.kind,
                               by_host(timing.begin_ns), by_host(timing.end_ns), label.flops,
                               label.bytes, label.replica});
    last_end_ns_ = timing.end_ns;
  }
}

/// The device's clock began some other time than the host's.
int64_t GpuTimeline::by_host(uint64_t device_ns) const {
  return static_cast<int64_t>(device_ns) + clock_->ns;
}

/// What lies between a command and the one before it, and why.
void GpuTimeline::record_idle(const TimedLabel& timed, const Timing& timing) const {
  constexpr uint64_t kWorthTellingNs = 2000;
  if (last_end_ns_ == 0 || timing.begin_ns < last_end_ns_ + kWorthTellingNs) return;
  const int64_t begin = by_host(last_end_ns_);
  const char* why = "idle, between two commands";
  if (timed.awaited != nullptr) why = timed.awaited;
  if (timed.issued_ns > begin) why = "idle, waiting for the host";
  profile::record_on(row(), {why, profile::Activity::wait, begin, by_host(timing.begin_ns), 0, 0,
                             timed.label.replica});
}

void GpuTimeline::flush() noexcept {
  try {
    const uint64_t all = issued();
    if (!wait_until(all, core::Clock::now() + config::wait_deadline())) return;
    const std::lock_guard lock(stream_mutex_);
    record_timings(all);
  } catch (...) {
    // A profile tells what is known; the error comes to whoever waits for the results.
  }
}

void GpuTimeline::stop() noexcept {
  try {
    const bool done = wait_until(issued(), core::Clock::now() + std::chrono::seconds(2));
    if (done) return;
  } catch (...) {
  }
  // The device may still write to what it was given: it keeps it.
  auto* left = new core::Fifo<Marked>(std::move(marks_));
  static_cast<void>(left);
}

}  // namespace tandem::devices::gpu

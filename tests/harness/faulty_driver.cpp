#include "harness/faulty_driver.h"

#include "tandem/error.h"

namespace tandem::harness {
namespace {

using namespace devices::gpu;  // NOLINT: this file speaks of nothing else
using PlanPtr = std::shared_ptr<FaultPlan>;

void check(FaultPlan& plan, DriverCall call) {
  if (!plan.is_failing(call)) return;
  const std::string what = std::string(name_of(call)) + ": failed on purpose";
  if (call == DriverCall::compile) throw InvalidArgument(what + "\nline 7: error: no such word");
  if (call == DriverCall::ask_mark) throw Unavailable(what);
  throw ResourceExhausted(what);
}

class FaultyMark final : public Mark {
 public:
  FaultyMark(std::shared_ptr<Mark> inner, PlanPtr plan)
      : inner_(std::move(inner)), plan_(std::move(plan)) {}
  bool is_reached() const override {
    check(*plan_, DriverCall::ask_mark);
    return inner_->is_reached();
  }
  const Mark& inner() const { return *inner_; }

 private:
  const std::shared_ptr<Mark> inner_;
  const PlanPtr plan_;
};

class FaultyStream final : public Stream {
 public:
  FaultyStream(std::shared_ptr<Stream> inner, PlanPtr plan)
      : inner_(std::move(inner)), plan_(std::move(plan)) {}

  void launch(const Kernel& kernel, const Grid& grid,
              std::span<const KernelArgument> arguments) override {
    check(*plan_, DriverCall::launch);
    inner_->launch(kernel, grid, arguments);
  }
  void write(const Location& to, const void* from, size_t bytes) override {
    check(*plan_, DriverCall::write);
    inner_->write(to, from, bytes);
  }
  void read(void* to, const Location& from, size_t bytes) override {
    check(*plan_, DriverCall::read);
    inner_->read(to, from, bytes);
  }
  void copy(const Location& to, const Location& from, size_t bytes) override {
    check(*plan_, DriverCall::copy);
    inner_->copy(to, from, bytes);
  }
  void fill(const Location& to, uint8_t value, size_t bytes) override {
    check(*plan_, DriverCall::fill);
    inner_->fill(to, value, bytes);
  }
  std::shared_ptr<Mark> mark(std::shared_ptr<Mark>) override {
    check(*plan_, DriverCall::mark);
    return std::make_shared<FaultyMark>(inner_->mark(nullptr), plan_);
  }
  void wait(const Mark& mark) override {
    inner_->wait(dynamic_cast<const FaultyMark&>(mark).inner());
  }
  std::shared_ptr<TimedCommand> last_timing() override { return inner_->last_timing(); }
  void set_timed(bool timed) override { inner_->set_timed(timed); }

 private:
  const std::shared_ptr<Stream> inner_;
  const PlanPtr plan_;
};

class FaultyDriver final : public Driver {
 public:
  FaultyDriver(DriverPtr inner, PlanPtr plan, Description description)
      : inner_(std::move(inner)), plan_(std::move(plan)), description_(std::move(description)) {}

  const Description& description() const override { return description_; }
  Memory allocate(size_t bytes) override {
    if (plan_->is_failing(DriverCall::allocate)) return nullptr;
    const Memory memory = inner_->allocate(bytes);
    if (memory != nullptr) ++plan_->live_allocations;
    return memory;
  }
  void release(Memory memory) noexcept override {
    --plan_->live_allocations;
    inner_->release(memory);
  }
  std::shared_ptr<Stream> create_stream() override {
    check(*plan_, DriverCall::create_stream);
    return std::make_shared<FaultyStream>(inner_->create_stream(), plan_);
  }
  std::string_view dialect() const override { return inner_->dialect(); }
  std::shared_ptr<Module> compile(const std::string& text) override {
    check(*plan_, DriverCall::compile);
    return inner_->compile(text);
  }
  std::shared_ptr<Module> load(const std::string& binary) override { return inner_->load(binary); }
  std::string compiler() const override { return inner_->compiler(); }
  std::shared_ptr<char[]> staging(size_t bytes) override { return inner_->staging(bytes); }
  bool reaches(const Driver& other) const override {
    const auto* faulty = dynamic_cast<const FaultyDriver*>(&other);
    return faulty != nullptr && inner_->reaches(*faulty->inner_);
  }

 private:
  const DriverPtr inner_;
  const PlanPtr plan_;
  const Description description_;
};

}  // namespace

const char* name_of(DriverCall call) {
  constexpr const char* kNames[] = {"allocate", "create_stream", "compile", "launch", "write",
                                    "read",     "copy",          "fill",    "mark",   "ask_mark"};
  return kNames[static_cast<size_t>(call)];
}

void FaultPlan::fail(DriverCall call, int n, bool for_good) {
  const std::lock_guard lock(mutex_);
  failing_ = call;
  countdown_ = n;
  for_good_ = for_good;
}

void FaultPlan::fail_no_more() { fail({}, 0); }

bool FaultPlan::is_failing(DriverCall call) {
  const std::lock_guard lock(mutex_);
  ++counts_[call];
  if (countdown_ == 0 || call != failing_) return false;
  if (countdown_ > 1) {
    --countdown_;
    return false;
  }
  if (!for_good_) countdown_ = 0;
  return true;
}

int FaultPlan::calls(DriverCall call) const {
  const std::lock_guard lock(mutex_);
  const auto found = counts_.find(call);
  return found == counts_.end() ? 0 : found->second;
}

DriverPtr make_faulty(DriverPtr inner, std::shared_ptr<FaultPlan> plan) {
  const Description same = inner->description();
  return std::make_shared<FaultyDriver>(std::move(inner), std::move(plan), same);
}

DriverPtr describe_as(DriverPtr inner, const Description& description) {
  return std::make_shared<FaultyDriver>(std::move(inner), std::make_shared<FaultPlan>(),
                                        description);
}

}  // namespace tandem::harness

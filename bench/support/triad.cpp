#include "support/triad.h"

#include <memory>
#include <vector>

#include "bench.h"
#include "core/team.h"

namespace tandem::bench {

double triad_seconds(size_t count) {
  class Triad final : public core::Job {
   public:
    explicit Triad(size_t count) : a_(count, 1), b_(count, 2), c_(count, 3) {}
    void play(core::TeamThread& thread) override {
      for (const core::Members& members : thread.members()) {
        const size_t begin = a_.size() * static_cast<size_t>(members.subteam) / 2;
        const size_t end = a_.size() * static_cast<size_t>(members.subteam + 1) / 2;
        for (size_t i = begin; i < end; ++i) a_[i] = b_[i] + 3 * c_[i];
      }
    }

   private:
    std::vector<float> a_, b_, c_;
  };
  core::Team team({{1, "first"}, {1, "second"}});
  const auto job = std::make_shared<Triad>(count);
  return best_seconds([&] { team.run(job, std::chrono::seconds(10)); });
}

}  // namespace tandem::bench

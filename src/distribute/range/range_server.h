/// A parameter server: some elements of each variable, and the updates that are made to them. The
/// first server also has the variables that steps assign beside their gradients. Any thread may
/// call it: pushes and pulls take turns, so that nobody reads what is half updated.
///
/// Values and gradients are passed as lists of addresses, one for each piece, in this order:
///
///   gradients of the first call of apply_gradients: its pieces | of the second: .. | assigned
#pragma once

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "distribute/range/held_steps.h"
#include "distribute/range/parameter_layout.h"
#include "distribute/range/server_state.h"
#include "distribute/range/server_step.h"
#include "distribute/range/step_meeting.h"
#include "distribute/range/update_ledger.h"
#include "execution/replicas.h"
#include "function/function_body.h"
#include "tandem/distribute/strategy.h"
#include "tandem/function.h"

namespace tandem::distribute {

class RangeServer {
 public:
  /// Runs on `replicas`, a single one. Server `index` of those of `layout`, whose variables are
  /// those of all calls of apply_gradients one after another. With `sparse_update` rows without a
  /// gradient stay as they are; Unimplemented where gradients accumulate.
  RangeServer(const Strategy& strategy, graph::ReplicasPtr replicas, const ServerStep& step,
              const ParameterLayout& layout, int index, const LedgerOptions& options,
              bool sparse_update = false);

  /// The elements that it has of each variable, in the order in which they are passed.
  const std::vector<RangePiece>& pieces() const { return pieces_; }

  size_t calls() const { return calls_.size(); }
  bool reads_rows() const {
    return std::ranges::any_of(pieces_, [](const RangePiece& piece) { return piece.reads_rows; });
  }

  /// Gradients of some rows of a variable, one after another.
  struct RowGradients {
    std::vector<int64_t> rows;      ///< In ascending order, none twice.
    std::vector<std::byte> values;  ///< Whole rows.
  };

  PushAnswer push(const PushStamp& stamp, const Contribution& contribution);

  /// The squares of the elements of gradients, summed for each variable of the step. Some servers'
  /// have several parts, so these are added up. Empty: none are needed.
  using Squares = std::vector<double>;
  /// Whether it needs them.
  bool clips() const;
  /// What a server tells of the gradients of a step for their norms: the squares of its elements,
  /// or, where norms are to have the bits of one device's, the elements one piece after another.
  struct NormPart {
    Squares squares{};
    std::string elements{};
  };
  /// What it tells of the gradients of the step before `step`; empty where it lacks some.
  NormPart norm_part(int64_t step);
  /// The squares of whole gradients, from what all servers tell of their pieces; empty where some
  /// has told nothing. Any of the servers can say it.
  Squares joined(const std::vector<NormPart>& parts,
                 const std::vector<const std::vector<RangePiece>*>& pieces) const;

  /// Copies all pieces to these addresses, once the steps before `step` are applied where workers
  /// train in step; `squares` are those of all servers. Returns their version.
  int64_t pull(int64_t step, std::span<void* const> to, const RowLists& rows = {},
               const Squares& squares = {});

  /// The same, one piece after another to the end of `bytes`.
  int64_t append_values(int64_t step, std::string& bytes, const RowLists& rows = {},
                        const Squares& squares = {});
  /// What steps assign, the last of the pieces, as it is now.
  void append_assigned(std::string& bytes) const;
  size_t first_assigned() const { return pieces_.size() - assigned_.size(); }

  /// Applies what is held of the steps before `step`.
  void commit(int64_t step, const Squares& squares = {});

  StalenessStatistics statistics() const;

  /// All that updates read and write: its elements of variables and of slots, counters, rates; then
  /// what steps assign. Tasks that run the same program have the same list.
  const std::vector<StoreRange>& state() const { return state_.ranges(); }
  /// Those that updates only read, such as rates, by their places in the list.
  const std::vector<size_t>& settings() const { return settings_; }
  /// One checksum for each range, see ServerState::checksum_of.
  std::vector<uint64_t> checksums() const;
  /// Makes what is unmade of it.
  void make_state() const;
  void write_state(size_t place, const void* bytes);

  /// The ranges of the list one after another, and the bytes of that from `offset` on.
  uint64_t state_bytes() const { return state_.bytes(); }
  void copy_state(uint64_t offset, std::span<char> to) const;
  void write_state_part(uint64_t offset, std::string_view bytes);

  /// From now on what steps alone assign lies apart from its variables: for a process that serves
  /// while its own program assigns them, too, as where it resets a metric.
  void keep_assigned_apart();
  /// These variables take their values from such a part of a state.
  void write_variables(uint64_t offset, std::string_view bytes);

  /// How many updates each call of apply_gradients has made; without any, as the optimizers of this
  /// process count.
  void set_steps(const std::vector<int64_t>& steps = {});
  std::vector<int64_t> steps() const;

  /// What it knows of the updates that its values have.
  struct Notes {
    std::string ledger{};          ///< Which tickets it has made.
    std::vector<int64_t> steps{};  ///< As for set_steps.
  };
  /// For the holder of lock().
  Notes notes(const std::unique_lock<std::mutex>& held) const;

  /// What it has at one time: after the steps before `step`, where workers train in step.
  struct Snapshot {
    Notes notes;
    std::string state;  ///< Up to `most` bytes of the state from `offset` on.
  };
  Snapshot snapshot(int64_t step, uint64_t offset, size_t most, const Squares& squares = {});
  /// Forgets what is held; tickets of earlier generations than this are void.
  void restore_ledger(const std::string& saved, int64_t generation = 0);
  /// Tickets of earlier generations are void: what they ask for is gone, perhaps.
  int64_t generation() const { return generation_; }

  /// Where workers that share a step meet; they do on the first server.
  StepMeeting& meeting() { return meeting_; }

  /// While it is held nothing is updated.
  std::unique_lock<std::mutex> lock() const { return std::unique_lock(mutex_); }

 private:
  /// The pieces of a call of apply_gradients, and its update as a function.
  struct Call {
    size_t first;  // Among the pieces.
    size_t count;
    std::shared_ptr<const ServerUpdate> rule;
    std::unique_ptr<FlatFunction> update;
    int64_t step;  // How many updates were made.
    bool counts;   // Whether it counts the optimizer's iterations.
    NormLimits limits;
    size_t first_variable;  // The call's first one among those of the step.
    size_t variables;
  };
  /// Elements of a variable or of a slot that are updated beside their place.
  struct Aside {
    StoreRange place;  // All of the piece.
    StoreRange aside;
  };

  void add_call(const ServerStep& step, const PushedGradients& call, size_t first_variable,
                bool counts, const ParameterLayout& layout, int index);
  void note_state();
  Variable elements(size_t piece, const Variable& whole, int64_t count);
  int64_t room_for(size_t piece, int64_t count) const;
  enum class Way { out, back };
  void move_rows(const Call& call, const Contribution& contribution, Way way) const;
  Contribution with_all_rows(const Contribution& given,
                             std::vector<std::vector<std::byte>>& whole) const;
  graph::ConcreteFunctionPtr compiled(Call& call, const graph::ArgumentList& list) const;
  Tensors operands_of(const Call& call, const Contribution& contribution, double scale,
                      bool condition, std::vector<std::vector<std::byte>>& padded) const;
  void clip(StepSum& sum, const Squares& squares) const;
  /// Whether norms have the bits of one device's. Rows that rest have none to have.
  bool has_exact_norms() const { return replicas_->single_threaded && !sparse_update_; }
  void commit_locked(int64_t step, const Squares& squares);
  void apply_step(int64_t step, const Squares& squares);
  void apply(const Contribution& contribution, double scale);
  void update(Call& call, const Contribution& contribution, double scale, bool condition);
  void assign(const AssignedVariable& variable, const void* value) const;

  const Strategy strategy_;
  const graph::ReplicasPtr replicas_;
  const bool sparse_update_;
  StepMeeting meeting_;
  std::atomic<int64_t> generation_{0};
  mutable std::mutex mutex_;
  UpdateLedger ledger_;
  std::vector<RangePiece> pieces_;
  std::vector<Call> calls_;
  std::vector<AssignedVariable> assigned_;  // The last of the pieces.
  HeldSteps held_;
  StepSum sum_;     // The sum of the step whose norms were asked for last,
  NormPart norms_;  // and what is told of them.
  TensorTypes gradients_;
  const FlatFunction squares_of_;  // Takes whole gradients.
  ServerState state_;
  size_t updated_ = 0;  // Updates read or write so many of its ranges; steps alone assign the rest.
  std::vector<size_t> settings_;
  std::map<std::pair<size_t, int64_t>, std::vector<Aside>> asides_;  // By piece and room.
};

}  // namespace tandem::distribute

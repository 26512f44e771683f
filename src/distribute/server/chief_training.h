/// Training with parameter servers in other processes, as the chief sees it: it hands out tickets
/// to the workers, and does not train itself. Before the first step it gives the servers what its
/// own variables have and theirs have not, and where it waits for all steps, as at the end of an
/// epoch, it takes theirs; so what happens between (validation, callbacks, checkpoints) happens to
/// its variables as usual.
///
/// Servers write their own files of a checkpoint, and one that died comes back with what is in its
/// file. Where the chief has had something later from it, or no folder is shared, the chief sends
/// that. So all that was done since the chief waited for all steps last is lost:
///
///   staleness 0   all servers go back to it, and all steps since are done again
///   otherwise     that server alone; the tickets since are handed out again, and the servers that
///                 have made them make them no second time
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "distribute/server/server_shard.h"
#include "distribute/server/ticket_desk.h"
#include "distribute/server/traced_training.h"

namespace tandem::distribute {

class ChiefTraining final : public TaskTraining {
 public:
  /// `body` is the strategy's, which owns this.
  ChiefTraining(const Strategy::Body& body, const ParameterServerOptions& options,
                const ServerCluster& cluster);
  ~ChiefTraining() override;

  void meet() override;
  void end(const std::string& result, const std::string& error) override;
  StepOutcomePtr schedule(const FlatFunction& f, PerReplicas arguments,
                          const BatchNumber& number = {}) override;
  void join() override;
  bool is_done() const override;
  void bring_variables() override;
  const std::vector<Tensors>& results_of(const StepOutcome& outcome) override;
  void read_quietly(const std::function<void()>& read) override;
  void close() override;
  StalenessStatistics statistics() const override;
  std::string explain() const override;

  int count() const override;
  std::vector<checkpoint::KeptElements> elements_of(const StoreRange& variable) const override;
  std::vector<std::optional<checkpoint::WrittenKeeperFile>> write_files(
      const std::vector<checkpoint::KeeperFile>& files) override;
  std::string notes_of(int keeper) const override;
  void note_complete() override;

 private:
  /// What a server has, as far as the chief knows.
  struct Known {
    std::unique_ptr<RangeServer> mirror;  // The same ranges of the chief's variables.
    TicketDesk::ServingProcess process;  // The checksums of what it has: none if that is not known.
    std::string ledger;                  // Which tickets it had when it was read last.
    ServerShard writing{};               // Its file of a checkpoint that is being written,
    ServerShard saved{};                 // and of the last one; no path: none.
  };

  ServerWorker& tracer() override { return tracer_; }
  void begin(ServerStep& step);
  ServerStates all_states() const;
  void write_settings();
  enum class WriteKind { settings, values, all };
  void check_not_replaced(size_t server, ServerAnswer answer);
  bool write(size_t server, WriteKind kind);
  void write_surely(size_t server, WriteKind kind);
  cluster::ServiceText settled_answer(size_t server, PatientLine::Question& question,
                                      const std::function<bool()>& is_waiting = {});
  std::optional<checkpoint::WrittenKeeperFile> take_file(size_t server,
                                                         const cluster::ServiceText& answer,
                                                         const std::filesystem::path& path);
  void have_restored(size_t server);
  cluster::ServiceMessage write_message(Known& known, WriteKind kind) const;
  std::vector<uint64_t> changed_places(const Known& known, WriteKind kind) const;
  /// What was read of a server so far.
  struct ReadState {
    std::string statistics;
    RangeServer::Notes notes;
    std::shared_ptr<devices::MappedMemory> memory;
    uint64_t bytes = 0;
  };
  RangeServer::Squares squares_before(int64_t step);
  bool read_all();
  bool read_parts(std::vector<ReadState>& states);
  bool take_part(size_t server, const cluster::ServiceText& answer, ReadState& state);
  void take_state(Known& known, const ReadState& state);
  void take_back(int server, const TicketDesk::ServingProcess& process);

  ServerWorker tracer_;
  ServerStep* current_ = nullptr;  // The step of the session.
  bool has_ended_ = false;         // The session has.
  bool has_looped_ = false;        // The last session was a loop of one's own.
  bool has_worked_ = false;        // Followers want to know of the end of the last session.
  bool is_open_ = false;           // Servers have values that the chief's variables have not.
  std::vector<Known> servers_;
  std::vector<std::unique_ptr<PatientLine>> lines_;
  StalenessStatistics former_;  // What former sessions counted.
  StalenessStatistics statistics_;
  std::shared_ptr<TicketDesk> desk_;
  std::unique_ptr<cluster::ServiceHost> host_;
};

}  // namespace tandem::distribute

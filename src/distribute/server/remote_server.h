/// A parameter server in another process. Gradients go from where they lie, values come to where
/// they are wanted, and ride on the answer to a push, so that a step takes one round trip. Where
/// some rows of a variable are read alone, the push says which will be read next; they are asked
/// for where that was not known.
#pragma once

#include <optional>
#include <vector>

#include "distribute/server/server_cluster.h"
#include "distribute/server/server_link.h"

namespace tandem::distribute {

class RemoteServer final : public ServerLink {
 public:
  /// `mirror` knows which pieces the server has. `in_step`: the values after a push are not those
  /// of the next step until all have pushed.
  RemoteServer(const ServerCluster& cluster, int index, const RangeServer& mirror, int64_t session,
               bool in_step);

  /// Whose tickets are pushed from now on; what was read before is forgotten.
  void set_chief(uint64_t incarnation);
  void forget_values() override { pushed_.reset(); }

  const std::vector<RangePiece>& pieces() const override { return mirror_.pieces(); }
  void start_push(const PushStamp& stamp, const Contribution& given, const RowLists& next,
                  Places to) override;
  PushAnswer finish_push() override;
  void start_norms(int64_t step) override;
  RangeServer::NormPart finish_norms() override;
  const RangeServer& mirror() const override { return mirror_; }
  std::optional<std::string> sum_over_shares(const MeetingNumber& meeting, int share,
                                             std::string values) override;
  void start_pull(const WorkTicket& ticket, const RowLists& rows, Places to,
                  const RangeServer::Squares& squares = {}) override;
  std::optional<int64_t> finish_pull() override;

 private:
  void add_row_lists(MessageWriter& question, const RowLists& lists) const;
  bool has_pushed_for(const RowLists& rows) const;
  std::optional<cluster::ServiceText> settled_answer();
  cluster::AnswerPlacesPtr places_behind(size_t head, const RowLists& rows, Places to) const;
  int64_t take_values(MessageReader& reader) const;

  PatientLine line_;
  const RangeServer& mirror_;
  const std::chrono::nanoseconds patience_;
  const int64_t session_;
  const bool in_step_;
  const bool by_rows_;
  uint64_t chief_ = 0;
  RowLists rows_;  // That were asked for,
  Places to_;      // and where they are wanted.
  std::optional<PatientLine::Question> open_;
  std::optional<cluster::ServiceText> pushed_;  // The answer to the last push, with values
  std::vector<std::optional<std::vector<int64_t>>> next_;  // of these rows of each piece, or all.
};

}  // namespace tandem::distribute

#include "distribute/server/share_group.h"

#include <fmt/format.h>

#include "tandem/cluster.h"
#include "tandem/error.h"

namespace tandem::distribute {
namespace {

[[noreturn]] void throw_alone(std::string_view name) {
  throw Unimplemented(fmt::format(
      "ParameterServerStrategy with staleness 0: {}: workers only sum what they compute", name));
}

}  // namespace

void ShareGroup::enter(ServerLink& server, const WorkTicket& ticket) {
  server_ = &server;
  ticket_ = ticket;
  meetings_ = 0;
  is_void_ = false;
}

std::string ShareGroup::describe(int rank) const { return fmt::format("share {} of a step", rank); }

op::Group::Ticket ShareGroup::start(const op::Exchange& exchange) {
  if (exchange.kind != op::ExchangeKind::sum) throw_alone(exchange.name);
  const MeetingNumber meeting{ticket_.generation, ticket_.step(), meetings_++};
  const std::optional<std::string> sums =
      server_->sum_over_shares(meeting, ticket_.share, text_of_pieces(exchange.pieces));
  is_void_ = !sums;
  if (is_void_) throw Aborted(fmt::format("step {} is void", ticket_.step()));
  read_pieces(*sums, exchange.pieces);
  return 0;
}

void ShareGroup::send(const op::PeerMessage& message) { throw_alone(message.name); }
void ShareGroup::receive(const op::PeerMessage& message) { throw_alone(message.name); }
std::vector<std::string> ShareGroup::gather_texts(std::string_view name, std::string) {
  throw_alone(name);
}

}  // namespace tandem::distribute

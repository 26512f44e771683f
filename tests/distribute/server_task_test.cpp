// A task ps and those who ask it: of two chiefs the later one alone is heard, and its own file of a
// checkpoint is all that it needs to go on.
#include "distribute/server/server_task.h"

#include <gtest/gtest.h>

#include "distribute/server/server_cluster.h"
#include "distribute/server/server_shard.h"
#include "distribute/server/server_worker.h"
#include "distribute/strategy_body.h"
#include "harness/fresh_devices.h"
#include "harness/temp_folder.h"
#include "harness/throws.h"
#include "tandem/distribute/parameter_server.h"
#include "tandem/tandem.h"

namespace tandem::distribute {
namespace {

using Floats = std::vector<float>;

constexpr uint64_t kIncarnation = 3;  // The server's.

/// A server of one variable, whose gradient is -1 and whose rate is 1.
class ServerTasks : public harness::FreshDevices {
 protected:
  struct Served {
    Served()
        : strategy({.workers = 1}),
          scope(strategy.scope()),
          variable(zeros({100}), {.name = "counted"}),
          sgd(1.0, {.momentum = 0.5}),
          step([this](const Tensors&) {
            GradientTape tape;
            const Tensor loss = reduce_sum(variable.value()) * -1.0;
            const Variables variables = {variable};
            sgd.apply_gradients(tape.gradient(loss, variables), variables);
            return Tensors();
          }),
          server_step(step, 1),
          worker(strategy, {.device = strategy.body().devices()[0],
                            .owner = strategy.body().targets().owner}) {
      worker.compile(server_step, strategy.split(Tensors{ones({1})}));
      servers = make_servers(strategy, server_step, {}, 1, strategy.body().devices());
      task.open(*servers[0], 0, kIncarnation);
    }

    ServerAnswer ask(MessageWriter question) {
      ServerAnswer answer{};
      task.on_question({"worker", 0, 1}, question.take(), [&](cluster::ServiceMessage message) {
        answer = static_cast<ServerAnswer>(message.text[0]);
      });
      return answer;
    }
    ServerAnswer write(uint64_t chief, uint64_t incarnation = kIncarnation,
                       int64_t generation = 0) {
      MessageWriter question = question_of(ServerQuestion::write, 0);
      question.add(chief).add(incarnation).add_text(UpdateLedger({}).save()).add(generation);
      question.add_list(std::vector<int64_t>());
      return ask(question.add_list(std::vector<uint64_t>()).add(true));
    }
    ServerAnswer push(uint64_t chief, int64_t ticket) {
      const Floats gradient(100, -1);
      MessageWriter question = question_of(ServerQuestion::exchange, 0);
      question.add(chief).add(PushStamp{.incarnation = 1, .sequence = ticket, .ticket = ticket});
      question.add(false).add(true).align().add_bytes(gradient.data(), 400);
      return ask(question);
    }
    ServerAnswer pull(uint64_t chief, int64_t generation) {
      MessageWriter question = question_of(ServerQuestion::pull, 0);
      question.add(chief).add(generation).add(int64_t{0});
      return ask(question.add_list(std::vector<double>()));
    }
    ServerAnswer read(uint64_t chief) {
      MessageWriter question = question_of(ServerQuestion::read, 0);
      question.add(chief).add(int64_t{0}).add(uint64_t{0});
      return ask(question.add_list(std::vector<double>()));
    }

    const ParameterServerStrategy strategy;
    const Strategy::Scope scope;
    const Variable variable;
    const keras::optimizers::SGD sgd;
    const FlatFunction step;
    ServerStep server_step;
    ServerWorker worker;
    std::vector<std::unique_ptr<RangeServer>> servers;
    ServerTask task;
  };
};

TEST_F(ServerTasks, OfTwoChiefsTheLaterOneAloneWrites) {
  Served served;
  EXPECT_EQ(served.push(7, 0), ServerAnswer::ask_again);  // Nobody has said what it is to have.
  EXPECT_EQ(served.write(7), ServerAnswer::accepted);
  EXPECT_EQ(served.push(7, 0), ServerAnswer::accepted);
  EXPECT_EQ(served.write(9), ServerAnswer::accepted);
  // The former one is back after it was cut off for a while, and so are its workers.
  EXPECT_EQ(served.write(7), ServerAnswer::refused);
  EXPECT_EQ(served.push(7, 1), ServerAnswer::join_again);
  EXPECT_EQ(served.read(7), ServerAnswer::join_again);
  for (const ServerQuestion kind : {ServerQuestion::save, ServerQuestion::restore}) {
    MessageWriter question = question_of(kind, 0);
    question.add(uint64_t{7}).add_text("/nowhere/ckpt.data");
    question.add(uint64_t{0}).add(uint32_t{0}).add_list(std::vector<ShardRun>());
    EXPECT_NE(served.ask(question), ServerAnswer::accepted);
  }
  EXPECT_EQ(served.push(9, 1), ServerAnswer::accepted);
  EXPECT_EQ(served.variable.value().to_vector<float>()[0], 2.5f);  // 1, then 1 + 0.5.
}

TEST_F(ServerTasks, WhatIsMeantForAFormerProcessIsNotTaken) {
  Served served;
  // The chief does not know yet that this process has not what the former one had.
  EXPECT_EQ(served.write(7, kIncarnation - 1), ServerAnswer::ask_again);
  EXPECT_EQ(served.push(7, 0), ServerAnswer::ask_again);
  EXPECT_EQ(served.write(7), ServerAnswer::accepted);
  EXPECT_EQ(served.push(7, 0), ServerAnswer::accepted);
}

/// A read of a later step would have one applied of which other servers have not all.
TEST_F(ServerTasks, TicketsOfBeforeServersWentBackReadNothing) {
  Served served;
  EXPECT_EQ(served.write(7), ServerAnswer::accepted);
  EXPECT_EQ(served.pull(7, 0), ServerAnswer::accepted);
  EXPECT_EQ(served.write(7, kIncarnation, 2), ServerAnswer::accepted);
  EXPECT_EQ(served.pull(7, 1), ServerAnswer::join_again);
  EXPECT_EQ(served.pull(7, 2), ServerAnswer::accepted);
}

TEST_F(ServerTasks, GarbageIsRefusedAndChangesNothing) {
  Served served;
  EXPECT_EQ(served.write(7), ServerAnswer::accepted);
  EXPECT_EQ(served.push(7, 0), ServerAnswer::accepted);
  for (const char kind : {'X', 'P', 'R', 'W', 'C', 'E', 'Q', 'U', '!'}) {
    for (const size_t bytes : {0, 3, 20, 200}) {
      MessageWriter question;
      question.add(kind).add(int64_t{0}).add(uint64_t{7});
      if (kind == static_cast<char>(ServerQuestion::write)) question.add(kIncarnation);
      question.add_bytes(std::string(bytes, '\xff').data(), bytes);
      EXPECT_NE(served.ask(question), ServerAnswer::ask_again) << kind << " " << bytes;
    }
  }
  EXPECT_EQ(served.variable.value().to_vector<float>(), Floats(100, 1));
  EXPECT_EQ(served.push(7, 1), ServerAnswer::accepted);
}

/// A server of a table, of which workers send and read rows.
TEST_F(ServerTasks, RowsThatATableHasNotAreAnErrorByName) {
  const ParameterServerStrategy strategy({.workers = 1});
  const auto scope = strategy.scope();
  const Variable table(zeros({50, 4}), {.name = "table"});
  const keras::optimizers::SGD sgd(1.0);
  const FlatFunction step([&](const Tensors& arguments) {
    GradientTape tape;
    const Tensor loss = reduce_sum(gather(table.value(), arguments[0]));
    const Variables variables = {table};
    sgd.apply_gradients(tape.gradient(loss, variables), variables);
    return Tensors();
  });
  ServerStep server_step(step, 1);
  ServerWorker worker(
      strategy, {.device = strategy.body().devices()[0], .owner = strategy.body().targets().owner});
  worker.compile(server_step, strategy.split(Tensors{Tensor::from(std::vector<int32_t>{1}, {1})}));
  const auto servers = make_servers(strategy, server_step, {}, 2, strategy.body().devices());
  ServerTask task;
  task.open(*servers[1], 0);  // It has the last rows.
  const auto ask = [&](MessageWriter question) {
    std::string answer;
    task.on_question({"worker", 0, 1}, question.take(),
                     [&](cluster::ServiceMessage message) { answer = message.text; });
    return answer;
  };
  MessageWriter write = question_of(ServerQuestion::write, 0);
  write.add(uint64_t{7}).add(uint64_t{0}).add_text(UpdateLedger({}).save()).add(int64_t{0});
  write.add_list(std::vector<int64_t>()).add_list(std::vector<uint64_t>()).add(true);
  ask(write);
  const auto pull = [&](const std::vector<int64_t>& rows) {
    MessageWriter question = question_of(ServerQuestion::pull, 0);
    question.add(uint64_t{7}).add(int64_t{0}).add(int64_t{0}).add_list(std::vector<double>());
    return ask(question.add(true).add_list(rows));
  };
  const int64_t first = servers[1]->pieces()[0].begin / 4;
  EXPECT_EQ(pull({first, 49})[0], static_cast<char>(ServerAnswer::accepted));
  for (const std::vector<int64_t>& rows :
       {std::vector<int64_t>{-1}, {first - 1}, {50}, {int64_t{1} << 62}, {49, 48}, {48, 48}}) {
    const std::string answer = pull(rows);
    EXPECT_EQ(answer[0], static_cast<char>(ServerAnswer::refused));
    EXPECT_NE(answer.find("of variable 'table', where rows from"), std::string::npos) << answer;
    MessageWriter push = question_of(ServerQuestion::exchange, 0);
    push.add(uint64_t{7}).add(PushStamp{.incarnation = 1, .sequence = 1, .ticket = 1});
    push.add(false).add(true).add_list(rows).align();
    const std::vector<float> gradient(8, 1);
    EXPECT_EQ(ask(push.add_bytes(gradient.data(), 32))[0],
              static_cast<char>(ServerAnswer::refused));
  }
  EXPECT_EQ(table.value().to_vector<float>(), Floats(200, 0));
}

TEST_F(ServerTasks, ItsFileHasTheValuesAndTheUpdatesThatTheyHave) {
  const harness::TempFolder folder;
  Served served;
  served.write(7);
  served.push(7, 0);
  served.push(7, 5);
  checkpoint::KeeperFile file{.path = folder / "shard", .runs = {}};
  RangeServer& server = *served.servers[0];
  for (uint64_t place = 0; place < server.state().size(); ++place) {
    file.runs.push_back({place, 0, ServerState::bytes_of(server.state()[place])});
  }
  ServerShard shard = write_shard(server, file);
  std::filesystem::rename(folder / "shard.partial", folder / "shard");
  const Floats saved = served.variable.value().to_vector<float>();
  served.push(7, 1);
  EXPECT_NE(served.variable.value().to_vector<float>(), saved);

  const RangeServer::Notes notes = restore_shard(server, shard);
  EXPECT_EQ(served.variable.value().to_vector<float>(), saved);
  EXPECT_EQ(notes.steps, std::vector<int64_t>{2});
  // The ticket after the checkpoint counts again, those before it do not.
  served.push(7, 5);
  EXPECT_EQ(served.variable.value().to_vector<float>(), saved);
  served.push(7, 1);
  EXPECT_NE(served.variable.value().to_vector<float>(), saved);

  const Floats before = served.variable.value().to_vector<float>();
  ++shard.runs[0].crc;
  EXPECT_TRUE(harness::throws<DataLoss>([&] { restore_shard(server, shard); }, {"checksum"}));
  shard.path = folder / "another";
  EXPECT_TRUE(harness::throws<NotFound>([&] { restore_shard(server, shard); }, {"another"}));
  EXPECT_EQ(served.variable.value().to_vector<float>(), before);
}

}  // namespace
}  // namespace tandem::distribute

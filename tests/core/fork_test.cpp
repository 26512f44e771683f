#include "core/fork.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <functional>

#include "harness/fresh_devices.h"
#include "tandem/tandem.h"

namespace tandem {
namespace {

using ForkTest = harness::FreshDevices;

/// What `work` throws in a child of fork(), which then ends without further ado.
std::string error_in_child(const std::function<void()>& work) {
  int ends[2];
  if (pipe(ends) != 0) return "no pipe";
  const pid_t child = fork();
  if (child == 0) {
    std::string message = "nothing was thrown";
    try {
      work();
    } catch (const FailedPrecondition& error) {
      message = error.what();
    } catch (const std::exception& error) {
      message = std::string("another error: ") + error.what();
    }
    const ssize_t written = write(ends[1], message.data(), message.size());
    _exit(written < 0 ? 1 : 0);
  }
  close(ends[1]);
  std::string message(4096, ' ');
  const ssize_t size = read(ends[0], message.data(), message.size());
  message.resize(size < 0 ? 0 : static_cast<size_t>(size));
  close(ends[0]);
  waitpid(child, nullptr, 0);
  return message;
}

TEST_F(ForkTest, AChildIsToldAtOnceThatItCannotCompute) {
  const Tensor x = fill({600, 600}, 1);
  const auto product = function([](const Tensor& a) { return matmul(a, a); });
  product(x);
  for (const auto& work : std::vector<std::function<void()>>{
           [&] { product(x); }, [&] { matmul(x, x); }, [] { Tensor(1.0f); }}) {
    EXPECT_NE(error_in_child(work).find("this process was forked after Tandem had computed"),
              std::string::npos);
  }
  EXPECT_EQ(product(x).at<float>({0, 0}), 600);
}

}  // namespace
}  // namespace tandem

#include "collective/ucx/failed_assertion.h"

#include <cstdarg>
#include <cstdio>
#include <string_view>
#include <utility>

namespace tandem::collective::ucx {
namespace {

class SurvivingTransport final : public Transport {
 public:
  explicit SurvivingTransport(std::unique_ptr<Transport> transport)
      : transport_(std::move(transport)) {}

  const std::string& address() const override { return transport_->address(); }

  std::string connect(int peer, const std::string& address) override {
    std::string wrong;
    call([&] { wrong = transport_->connect(peer, address); });
    return is_broken() ? broken_ : wrong;
  }

  Request send(int peer, uint64_t tag, const void* data, size_t bytes) override {
    Request request = this;  // Any request of a broken transport has failed.
    call([&] { request = transport_->send(peer, tag, data, bytes); });
    return request;
  }

  Request receive(uint64_t tag, void* data, size_t bytes) override {
    Request request = this;
    call([&] { request = transport_->receive(tag, data, bytes); });
    return request;
  }

  Status test(Request request) override {
    Status status = Status::failed;
    call([&] { status = transport_->test(request); });
    return status;
  }

  void cancel(Request request) override {
    call([&] { transport_->cancel(request); });
  }

  bool progress() override {
    bool moved = false;
    call([&] { moved = transport_->progress(); });
    return moved;
  }

  int arm() override {
    int events = -1;
    call([&] { events = transport_->arm(); });
    return events;
  }

  const std::string& failure(int peer) const override {
    return is_broken() ? broken_ : transport_->failure(peer);
  }

  void flush() override {
    call([&] { transport_->flush(); });
  }
  void disconnect() override {
    call([&] { transport_->disconnect(); });
  }
  void abandon() override { transport_->abandon(); }

 private:
  bool is_broken() const { return !broken_.empty(); }

  template <class Call>
  void call(const Call& call) {
    if (is_broken()) return;
    try {
      call();
    } catch (FailedAssertion& failed) {
      broken_ = std::move(failed.text);
      transport_->abandon();
    }
  }

  std::unique_ptr<Transport> transport_;
  std::string broken_;
};

}  // namespace

std::unique_ptr<Transport> survive_assertions(std::unique_ptr<Transport> transport) {
  return std::make_unique<SurvivingTransport>(std::move(transport));
}

/// UCX's own, declared in its header ucs/debug/assert.h, which is not installed. On a thread of
/// UCX's nobody catches what it throws, and the process ends as it would without it.
extern "C" [[noreturn]] __attribute__((visibility("default"), format(printf, 4, 5))) void
ucs_fatal_error_format(const char* file, unsigned line, const char* function, const char* format,
                       ...);

extern "C" void ucs_fatal_error_format(const char* file, unsigned line, const char*,
                                       const char* format, ...) {
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  std::string_view name = file;
  name.remove_prefix(name.find_last_of('/') + 1);
  throw FailedAssertion{"UCX: " + std::string(name) + ":" + std::to_string(line) + ": " + text};
}

}  // namespace tandem::collective::ucx

#include "tandem/tensor/host_data.h"

#include "core/interruptible.h"
#include "device/memory_space.h"
#include "tandem/config.h"
#include "tensor/body.h"
#include "tensor/row_slices.h"

namespace tandem {

HostData host_data(const Tensor& tensor) {
  const BodyPtr& body = tensor.body();
  tensor.shape();  // Throws where there is no tensor at all.
  check_has_value(*body, "reading");
  const core::InterruptibleWaits interruptible;
  if (body->slices) return host_data(whole(tensor));
  if (!body->device()->space().host_readable()) {
    return host_data(on_device(tensor, devices::host_device()));
  }
  body->ready.wait(config::wait_deadline());
  return {body->data(), body};
}

}  // namespace tandem

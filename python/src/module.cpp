// The extension module `_tandem`: the library's nouns and ops as they are. The package `tandem`
// makes TensorFlow's names of them.
#include "binding.h"

NB_MODULE(_tandem, m) {
  using namespace tandem::python;
  nanobind::set_leak_warnings(false);  // Modules of users hold tensors until the interpreter ends.
  bind_errors(m);
  bind_tensor(m);
  bind_ops(m);
  bind_variable(m);
  bind_gradients(m);
  bind_function(m);
  bind_data(m);
  bind_distribute(m);
  bind_mesh(m);
  bind_servers(m);
  bind_checkpoint(m);  // Optimizers are Trackables.
  bind_optimizers(m);
  bind_config(m);
}

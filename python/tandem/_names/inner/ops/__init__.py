"""tensorflow.python.ops: the functions of the public modules, by the files in which TensorFlow has them."""

import sys

from tandem._names.inner.stand_ins import add_stand_ins

add_stand_ins(
    sys.modules[__name__],
    "array_ops check_ops clip_ops control_flow_assert control_flow_ops embedding_ops functional_ops gen_array_ops gen_math_ops gen_nn_ops init_ops init_ops_v2 linalg_ops lookup_ops "
    "math_ops nn nn_impl nn_ops random_ops sort_ops special_math_ops state_ops string_ops tensor_array_ops variables while_loop",
)

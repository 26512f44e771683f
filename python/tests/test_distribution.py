"""Models that are cut over devices, in processes of their own: devices are configured before they are used."""

import pathlib

PROGRAMS = pathlib.Path(__file__).parent / "programs"


def test_models_on_four_cpus(run):
    assert " passed" in run("-m", "pytest", "-q", "-p", "no:cacheprovider", str(PROGRAMS / "four_cpus.py"))


def test_a_mesh_over_processes(run):
    printed = run("-m", "tandem", "run", "--workers", "2", str(PROGRAMS / "mesh_over_processes.py"))
    assert printed.count("as on one device: True") == 14, printed


def test_optimizers_that_are_made_of_ops_train_on_replicas(run):
    program = """
import numpy as np, tandem as tf
from tandem import keras
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
class Own(keras.optimizers.Optimizer):
    def build(self, variables):
        super().build(variables)
        self.sums = self.add_optimizer_variables(variables, "sum")
    def update_step(self, gradient, variable, learning_rate):
        sum = self.sums[self._get_variable_index(variable)]
        self.assign_add(sum, gradient)
        self.assign_sub(variable, learning_rate * sum)
class Derived(keras.optimizers.Adam):
    def update_step(self, gradient, variable, learning_rate):
        super().update_step(gradient * 0.5, variable, learning_rate)
def trained(scope, make):
    with scope:
        model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2, kernel_initializer=keras.initializers.Constant(0.5))])
        model.compile(make(0.05), "mse")
    x = np.linspace(-1, 1, 32).reshape(8, 4)
    model.fit(x, np.ones((8, 2)), batch_size=4, epochs=3, shuffle=False, verbose=0)
    return model.get_weights()[0]
names = "Adadelta Adamax Ftrl Lamb Lion Nadam".split()
for make in [getattr(keras.optimizers, name) for name in names] + [Own, Derived]:
    np.testing.assert_allclose(trained(tf.distribute.MirroredStrategy().scope(), make), trained(tf.distribute.get_strategy().scope(), make), rtol=1e-4, err_msg=make.__name__)
print("alike")
"""
    assert "alike" in run("-c", program)

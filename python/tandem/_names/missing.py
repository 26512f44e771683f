"""What to say about names that TensorFlow has and this module does not."""

_ADVICE = {
    "Session": "there are no sessions; functions of tensors run at once, or under tf.function",
    "placeholder": "there are no placeholders; tf.function takes arguments",
    "compat": "names of TensorFlow 1 are not here",
    "lite": "models are not converted for other runtimes; C++ programs with this library read checkpoints that tf.train.Checkpoint writes",
    "tpu": "there are no TPUs; tf.config.list_physical_devices() lists the CPUs and GPUs that can be used",
    "xla": "there is no XLA; every tf.function is compiled as it is",
    "mlir": "there is no MLIR; tf.function has .explain(), which prints the program that it became",
    "dtensor": "keras.distribution.DeviceMesh, LayoutMap and ModelParallel cut models over devices",
    "estimator": "keras.Model.fit trains",
    **dict.fromkeys(
        ("AWQConfig", "Float8QuantizationConfig", "GPTQConfig", "Int4QuantizationConfig", "Int8QuantizationConfig", "QuantizationConfig"),
        "weights are not quantized; layers of dtype bfloat16 and float16 and keras.quantizers.AbsMaxQuantizer are there",
    ),
    "raw_ops": "the ops are there by their public names: tf.matmul, tf.nn.relu",
    "KubernetesClusterResolver": "Kubeflow's TFJob sets TF_CONFIG, which TFConfigClusterResolver reads",
    "SlurmClusterResolver": "under srun tf.distribute.MultiWorkerMirroredStrategy finds the other tasks by Slurm's variables",
    "GCEClusterResolver": "TF_CONFIG, which TFConfigClusterResolver reads, and SimpleClusterResolver say which processes there are",
}

OLD_MODULES = {  # Modules of Keras 2, whose names are one module further up now.
    "layers": (
        "advanced_activations", "convolutional", "core", "embeddings", "local", "merge", "noise", "normalization", "pooling", "recurrent", "recurrent_v2",
        "wrappers",
    ),
    "optimizers": (
        "adadelta", "adadelta_v2", "adagrad", "adagrad_v2", "adam", "adam_v2", "gradient_descent", "gradient_descent_v2", "nadam", "nadam_v2", "optimizer_v2",
        "rmsprop", "rmsprop_v2", "sgd",
    ),
    "saving": ("save",),
    "utils": ("data_utils", "generic_utils", "layer_utils", "np_utils", "vis_utils"),
}


def missing(module, name, namespace, more=()):
    """The error for a name that is not there, with the nearest that is."""
    import difflib

    if name.startswith("__"):
        return AttributeError(f"module {module!r} has no attribute {name!r}")
    known = [n for n in list(vars(namespace)) + list(more) if not n.startswith("_")]
    lower = {k.lower(): k for k in known}
    near = difflib.get_close_matches(name.lower(), list(lower), n=3, cutoff=0.55)
    text = f"{module}.{name} does not exist: TensorFlow may have it, tandem does not (yet)."
    if name in _ADVICE:
        return AttributeError(f"{text[:-1]}: {_ADVICE[name]}.")
    if near:
        text += f" Nearest: {', '.join(f'{module}.{lower[n]}' for n in near)}."
    return AttributeError(text)


class Namespace(type):
    """The class of a class whose attributes are names of TensorFlow's: others get the same words as a module's."""

    def __getattr__(cls, name):
        raise missing(f"{cls.__module__}.{cls.__qualname__}".replace("tandem.keras", "keras", 1), name, cls)


def install(module_name, globals_, late=None):
    """Gives a module a __getattr__ that says so.

    `late` has names of the module that are imported when one of them is first asked for: {"tandem.file": "name other=own_name"}.
    """
    import importlib
    import sys
    import types

    own_name = module_name.replace("tandem.keras", "keras", 1)
    homes = {}
    for home, names in (late or {}).items():
        for each in names.split():
            name, _, own = each.partition("=")
            homes[name] = (home, own or name)

    def __getattr__(name):
        if name in homes:
            home, own = homes[name]
            value = globals_[name] = getattr(importlib.import_module(home), own)
            return value
        if name in OLD_MODULES.get(own_name.removeprefix("keras."), ()):
            return sys.modules[module_name]
        raise missing(own_name, name, sys.modules[module_name], homes)

    globals_["__getattr__"] = __getattr__
    if homes:
        globals_["__dir__"] = lambda: sorted({*globals_, *homes})
        # `import *` takes the names that are imported late, too. A property of the class goes before the module's own __all__.
        names = property(lambda module: [n for n in [*globals_.get("__all__", globals_), *homes] if not n.startswith("_")])
        sys.modules[module_name].__class__ = type("Module", (types.ModuleType,), {"__all__": names})

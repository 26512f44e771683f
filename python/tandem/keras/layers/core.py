"""Layers of no particular kind: Dense, Embedding, functions as layers, masks, wrappers."""

import warnings

import numpy as np

import _tandem
from tandem import _ops
from tandem.keras import _parts, activations, constraints, initializers, regularizers
from tandem.keras._calls import InputSpec
from tandem.keras._layer import Layer


def floating(x):
    """The value as a floating one."""
    return x if x.dtype.is_floating else _tandem.cast(x, 0)


class _Sum:
    """A weight and the product that is added to it, as files have them: one value."""

    def __init__(self, weight, a, b, scale):
        self._weight, self._a, self._b, self._scale = weight, a, b, float(scale)
        self.name, self.shape = weight.name, weight.shape

    def numpy(self):
        return (self._weight + _tandem.matmul(self._a, self._b, False, False) * self._scale).numpy()

    def assign(self, value):
        self._weight.assign(value)
        for each in (self._a, self._b):
            each.assign(_tandem.zeros_like(each.read_value()))


class _Lora:
    """Weights that are trained by a product of two small ones that is added to them (Hu and others 2021, arXiv:2106.09685)."""

    lora_enabled = False

    def _begin_lora(self):
        if self.lora_rank:
            self.enable_lora(self.lora_rank, self.lora_alpha)

    def enable_lora(self, rank, lora_alpha=None, a_initializer="he_uniform", b_initializer="zeros"):
        """From now on the weights are not trained any more, but a product of two of this rank that is added to them."""
        name = "embeddings" if hasattr(self, "embeddings") else "kernel"
        if not self.built:
            raise ValueError(f"Cannot enable lora on a layer that isn't yet built. Layer {self.name!r}")
        if self.lora_enabled:
            raise ValueError("lora is already enabled. This can only be done once per layer.")
        weight = getattr(self, name)
        *outer, last = (int(s) for s in weight.shape)
        for which, shape, initializer in (("a", (*outer, rank), a_initializer), ("b", (rank, last), b_initializer)):
            own = f"lora_{name}_{which}"
            setattr(self, own, self.add_weight(shape, initializer, regularizer=getattr(self, f"{name}_regularizer"), name=own))
        weight.trainable = False
        self.lora_rank, self.lora_alpha, self.lora_enabled = rank, rank if lora_alpha is None else lora_alpha, True

    def _own_saved(self):
        if not self.lora_enabled:
            return super()._own_saved()
        added = [v for v in self._tandem_own_weights if v.name.startswith("lora_")]
        kept = [v for v in self._tandem_own_weights if not any(v is a for a in added)]
        return [_Sum(kept[0], *added, self.lora_alpha / self.lora_rank), *kept[1:]]

    def _with_lora(self, kernel):
        if not self.lora_enabled:
            return kernel
        return kernel + _tandem.matmul(self.lora_kernel_a, self.lora_kernel_b, False, False) * float(self.lora_alpha / self.lora_rank)


class Dense(_Lora, Layer):
    """activation(x kernel + bias)."""

    _takes_parts = True

    def __init__(self, units, activation=None, use_bias=True, kernel_initializer="glorot_uniform", bias_initializer="zeros", kernel_regularizer=None, bias_regularizer=None, activity_regularizer=None, kernel_constraint=None, bias_constraint=None, lora_rank=None, lora_alpha=None, **kwargs):
        super().__init__(activity_regularizer=activity_regularizer, **kwargs)
        if not isinstance(units, (int, np.integer)) or units <= 0:
            raise ValueError(f"Received an invalid value for `units`, expected a positive integer. Received: units={units}")
        self.lora_rank, self.lora_alpha = lora_rank, lora_rank if lora_alpha is None else lora_alpha
        self.units = int(units)
        self.activation = activations.get(activation)
        self.use_bias = use_bias
        self.kernel_initializer, self.bias_initializer = initializers.get(kernel_initializer), initializers.get(bias_initializer)
        self.kernel_regularizer, self.bias_regularizer = regularizers.get(kernel_regularizer), regularizers.get(bias_regularizer)
        self.kernel_constraint, self.bias_constraint = constraints.get(kernel_constraint), constraints.get(bias_constraint)
        self.input_spec = InputSpec(min_ndim=2)
        self.supports_masking = True

    def build(self, input_shape):
        if not input_shape or input_shape[-1] is None:
            raise ValueError("The last dimension of the inputs to a Dense layer should be defined. Found " + ("None." if input_shape else "a scalar."))
        self.kernel = self.add_weight((input_shape[-1], self.units), self.kernel_initializer, regularizer=self.kernel_regularizer, constraint=self.kernel_constraint, name="kernel")
        self.bias = self.add_weight((self.units,), self.bias_initializer, regularizer=self.bias_regularizer, constraint=self.bias_constraint, name="bias") if self.use_bias else None
        self.input_spec = InputSpec(min_ndim=2, axes={-1: input_shape[-1]})
        self.built = True
        self._begin_lora()

    def call(self, inputs, training=None):
        x = floating(_tandem.convert(inputs))
        if x._rank < 2:
            raise ValueError(f"Input 0 of layer \"{self.name}\" is incompatible with the layer: expected min_ndim=2, found ndim={x._rank}. Full shape received: {x.shape}")
        cut = _parts.cut_axis(self.kernel)
        if cut >= 0:
            y = _parts.product(x, self.kernel, self.bias, cut)
            return self.activation(y if cut == 0 or _parts.keeps_parts(self.activation) else _tandem.gather_parts(y))
        y = _tandem.matmul(_parts.joined(x) if _parts.in_use else x, self._with_lora(self.kernel), False, False)
        if self.use_bias:
            y = y + self.bias
        return self.activation(y)

    def compute_output_shape(self, input_shape):
        return tuple(input_shape[:-1]) + (self.units,)


class EinsumDense(_Lora, Layer):
    """A product with a kernel by Einstein's notation, a bias and an activation."""

    def __init__(self, equation, output_shape, activation=None, bias_axes=None, kernel_initializer="glorot_uniform", bias_initializer="zeros", kernel_regularizer=None, bias_regularizer=None, activity_regularizer=None, kernel_constraint=None, bias_constraint=None, lora_rank=None, lora_alpha=None, **kwargs):
        super().__init__(activity_regularizer=activity_regularizer, **kwargs)
        self.lora_rank, self.lora_alpha = lora_rank, lora_rank if lora_alpha is None else lora_alpha
        self.equation, self.bias_axes, self.activation = equation, bias_axes, activations.get(activation)
        self.partial_output_shape = (output_shape,) if isinstance(output_shape, int) else tuple(output_shape)
        self.kernel_initializer, self.bias_initializer = initializers.get(kernel_initializer), initializers.get(bias_initializer)
        self.kernel_regularizer, self.bias_regularizer = regularizers.get(kernel_regularizer), regularizers.get(bias_regularizer)
        self.kernel_constraint, self.bias_constraint = constraints.get(kernel_constraint), constraints.get(bias_constraint)

    def build(self, input_shape):
        inputs, rest = self.equation.replace(" ", "").split(",")
        kernel, output = rest.split("->")
        own = inputs.replace("...", "")
        sizes = dict(zip(reversed(own), reversed(list(input_shape))))
        out = output.replace("...", "")
        for label, size in zip(reversed(out), reversed(self.partial_output_shape)):
            if size is not None:
                sizes[label] = size
        initializer = self.kernel_initializer
        if isinstance(initializer, initializers.VarianceScaling):
            of_output = [i for i, l in enumerate(kernel) if l in output]
            initializer = initializer.for_axes([i for i in range(len(kernel)) if i not in of_output], of_output)
        self.kernel = self.add_weight(tuple(sizes[l] for l in kernel), initializer, regularizer=self.kernel_regularizer, constraint=self.kernel_constraint, name="kernel")
        if self.bias_axes:
            first = min(out.index(a) for a in self.bias_axes)
            shape = tuple(sizes[l] if l in self.bias_axes else 1 for l in out[first:])
            self.bias = self.add_weight(shape, self.bias_initializer, regularizer=self.bias_regularizer, constraint=self.bias_constraint, name="bias")
        else:
            self.bias = None
        self.built = True
        self._begin_lora()

    def call(self, inputs, training=None):
        y = _ops.einsum(self.equation, inputs, self._with_lora(self.kernel))
        return self.activation(y if self.bias is None else y + self.bias)


class Embedding(_Lora, Layer):
    """Rows of a table, by their numbers."""

    def __init__(self, input_dim, output_dim, embeddings_initializer="uniform", embeddings_regularizer=None, embeddings_constraint=None, mask_zero=False, weights=None, lora_rank=None, lora_alpha=None, input_length=None, **kwargs):
        if input_length is not None:
            warnings.warn("Argument `input_length` is deprecated. Just remove it.", stacklevel=2)
        super().__init__(**kwargs)
        if weights is not None:
            self._tandem_initial_weights = weights if isinstance(weights, list) else [weights]
        self.lora_rank, self.lora_alpha = lora_rank, lora_rank if lora_alpha is None else lora_alpha
        self.input_dim, self.output_dim, self.mask_zero = int(input_dim), int(output_dim), mask_zero
        self.embeddings_initializer = initializers.get(embeddings_initializer)
        self.embeddings_regularizer, self.embeddings_constraint = regularizers.get(embeddings_regularizer), constraints.get(embeddings_constraint)
        self.supports_masking = mask_zero
        self.autocast = False

    def build(self, input_shape=None):
        self.embeddings = self.add_weight((self.input_dim, self.output_dim), self.embeddings_initializer, regularizer=self.embeddings_regularizer, constraint=self.embeddings_constraint, name="embeddings")
        self.built = True
        self._begin_lora()

    def call(self, inputs):
        if hasattr(inputs, "_ragged_rows"):
            return inputs.with_flat_values(self.call(inputs.flat_values))
        x = _tandem.convert(inputs)
        if x._code not in (5, 6):
            x = _tandem.cast(x, 5)
        y = _parts.rows(self.embeddings, x) if _parts.cut_axis(self.embeddings) == 0 else _tandem.gather(self.embeddings, x, 0)
        if not self.lora_enabled:
            return y
        return y + _tandem.matmul(_tandem.gather(self.lora_embeddings_a, x, 0), self.lora_embeddings_b, False, False) * float(self.lora_alpha / self.lora_rank)

    def compute_mask(self, inputs, mask=None):
        return _tandem.not_equal(inputs, 0) if self.mask_zero and not hasattr(type(inputs), "_tandem_symbolic") else None


class Activation(Layer):
    """An activation as a layer."""

    _is_built_at_once = True
    _takes_parts = True

    def __init__(self, activation, **kwargs):
        super().__init__(**kwargs)
        self.activation = activations.get(activation)
        self.supports_masking = True

    def call(self, inputs):
        return self.activation(inputs if _parts.keeps_parts(self.activation) else _parts.joined(inputs))


class Lambda(Layer):
    """A function as a layer; variables that it uses are not tracked."""

    def __init__(self, function, output_shape=None, mask=None, arguments=None, **kwargs):
        super().__init__(**kwargs)
        self.function, self._output_shape, self.mask, self.arguments = function, output_shape, mask, arguments or {}
        self.supports_masking = mask is not None

    def compute_mask(self, inputs, mask=None):
        return self.mask(inputs, mask) if callable(self.mask) else self.mask

    def call(self, inputs, mask=None, training=None):
        from tandem.keras._calls import _parameters

        names, _, _ = _parameters(self.function)
        extra = dict(self.arguments)
        if "mask" in names:
            extra["mask"] = mask
        if "training" in names:
            extra["training"] = training
        return self.function(inputs, **extra)


class Identity(Layer):
    """Its input."""

    _is_built_at_once = True

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.supports_masking = True

    def call(self, inputs):
        return inputs


class Masking(Layer):
    """Masks the steps of sequences whose values are all mask_value."""

    _is_built_at_once = True

    def __init__(self, mask_value=0.0, **kwargs):
        super().__init__(**kwargs)
        self.mask_value = mask_value
        self.supports_masking = True

    def compute_mask(self, inputs, mask=None):
        if hasattr(type(inputs), "_tandem_symbolic"):
            return None
        return _tandem.reduce_any(_tandem.not_equal(inputs, self.mask_value), -1, False)

    def call(self, inputs):
        keep = _tandem.reduce_any(_tandem.not_equal(inputs, self.mask_value), -1, True)
        return inputs * _tandem.cast(keep, inputs._code)


# ---- Wrappers ----


class Wrapper(Layer):
    """What layers around another layer derive from."""

    def __init__(self, layer, **kwargs):
        super().__init__(**kwargs)
        self.layer = layer

    def build(self, input_shape=None):
        if not self.layer.built:
            self.layer.build(input_shape)
            self.layer.built = True
        self.built = True


class TimeDistributed(Wrapper):
    """A layer at each step of a sequence."""

    def build(self, input_shape):
        self.built = True

    def call(self, inputs, training=None, mask=None):
        from tandem.keras._calls import _parameters

        x = _tandem.convert(inputs)
        rows, steps, rest = x._sizes[0], int(x._sizes[1]), list(x._sizes[2:])
        flat = _tandem.reshape(x, [rows.times(steps) if isinstance(rows, _tandem.Size) else rows * steps] + rest)
        y = self.layer(flat, training=training) if "training" in _parameters(self.layer.call)[0] else self.layer(flat)
        return _tandem.reshape(y, [rows, steps] + list(y._sizes[1:]))


class SpectralNormalization(Wrapper):
    """Divides the kernel of a layer by its largest singular value."""

    def __init__(self, layer, power_iterations=1, **kwargs):
        super().__init__(layer, **kwargs)
        self.power_iterations = power_iterations

    def build(self, input_shape):
        super().build(input_shape)
        self.vector_u = self.add_weight((1, int(self.layer.kernel.shape[-1])), "truncated_normal", trainable=False, name="vector_u")

    def call(self, inputs, training=False):
        kernel = self.layer.kernel
        if training:
            w = _tandem.reshape(kernel.read_value(), (-1, int(kernel.shape[-1])))
            u = self.vector_u.read_value()
            unit = lambda t: t * _tandem.rsqrt(_tandem.maximum(_tandem.reduce_sum(t * t, None, False), 1e-12))  # noqa: E731
            for _ in range(self.power_iterations):
                v = unit(_tandem.matmul(u, w, False, True))
                u = unit(_tandem.matmul(v, w, False, False))
            u, v = _tandem.stop_gradient(u), _tandem.stop_gradient(v)
            sigma = _tandem.matmul(_tandem.matmul(v, w, False, False), u, False, True)
            self.vector_u.assign(u)
            kernel.assign(kernel.read_value() / _tandem.reshape(sigma, ()))
        return self.layer(inputs)


class TFSMLayer(Layer):
    """A model that was saved into a folder, as a layer: see tf.saved_model."""

    def __init__(self, filepath, call_endpoint="serve", call_training_endpoint=None, trainable=True, name=None, dtype=None):
        super().__init__(trainable=trainable, name=name, dtype=dtype)
        from tandem import saved_model

        self.filepath, self.call_endpoint = filepath, call_endpoint
        loaded = saved_model.load(filepath)
        self._loaded = loaded._model
        self._endpoint = loaded.signatures.get(call_endpoint, loaded)
        self.built = True

    def call(self, inputs, training=False):
        return self._endpoint(inputs)

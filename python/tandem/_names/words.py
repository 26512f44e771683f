"""The sentences that help() shows of functions and classes that other functions make: they have no body to stand in."""

_ELEMENTS = {
    "abs": "The absolute value of each element.", "acos": "The inverse cosine of each element.", "add": "x + y.",
    "asin": "The inverse sine of each element.", "atan": "The inverse tangent of each element.",
    "ceil": "The smallest integer that is not below each element.", "cos": "The cosine of each element.",
    "cosh": "The hyperbolic cosine of each element.", "equal": "True where x equals y.", "erf": "The error function of each element.",
    "exp": "e to the power of each element.", "expm1": "exp(x) - 1, exact for small x.",
    "floor": "The largest integer that is not above each element.", "floordiv": "x / y, rounded down.", "greater": "True where x is above y.",
    "greater_equal": "True where x is not below y.", "is_finite": "True for elements that are neither NaN nor infinite.",
    "is_inf": "True for infinite elements.", "is_nan": "True for elements that are NaN.", "less": "True where x is below y.",
    "less_equal": "True where x is not above y.", "log": "The natural logarithm of each element.", "log1p": "log(1 + x), exact for small x.",
    "logical_and": "True where both are.", "logical_not": "True where x is not.", "logical_or": "True where either is.",
    "logical_xor": "True where exactly one is.", "maximum": "The larger of two elements.", "minimum": "The smaller of two elements.",
    "mod": "The remainder of a division that is rounded down; it has the sign of the divisor.", "multiply": "x * y, element by element.", "negative": "-x.",
    "not_equal": "True where x differs from y.", "pow": "x to the power of y.", "reciprocal": "1 / x.",
    "rint": "The nearest integer; halves go to even ones.", "round": "The nearest integer; halves go to even ones.", "rsqrt": "1 / sqrt(x).",
    "sigmoid": "1 / (1 + exp(-x)).", "sin": "The sine of each element.", "sinh": "The hyperbolic sine of each element.",
    "softplus": "log(1 + exp(x)).", "sqrt": "The square root of each element.", "square": "x * x.",
    "squared_difference": "(x - y) ** 2.", "subtract": "x - y.", "tan": "The tangent of each element.",
    "tanh": "The hyperbolic tangent of each element.",
}

_REDUCTIONS = {
    "all": "True if all elements are, over axes.", "any": "True if any element is, over axes.",
    "logsumexp": "The logarithm of the sum of the exponentials over axes.", "max": "The largest element over axes.", "mean": "The mean over axes.",
    "min": "The smallest element over axes.", "prod": "The product over axes.", "std": "The standard deviation over axes.",
    "sum": "The sum over axes.", "variance": "The variance over axes.",
}

_SEGMENTS = {
    f"segment_{name}": f"The {word} of the rows that have the same number."
    for name, word in {"max": "largest values", "mean": "mean", "min": "smallest values", "prod": "product", "sum": "sum"}.items()
}

_KERAS_OPS = {
    **{name: _ELEMENTS[name] for name in (
        "abs", "add", "ceil", "cos", "cosh", "equal", "erf", "exp", "expm1", "floor", "greater", "greater_equal", "less", "less_equal", "log",
        "log1p", "logical_and", "logical_or", "logical_xor", "maximum", "minimum", "mod", "multiply", "negative", "not_equal", "reciprocal", "rsqrt", "sin",
        "sinh", "sqrt", "square", "subtract", "tan",
    )},
    **{name: _REDUCTIONS[name] for name in ("all", "any", "logsumexp", "max", "mean", "min", "prod", "std", "sum")},
    **_SEGMENTS,
    "absolute": _ELEMENTS["abs"], "amax": _REDUCTIONS["max"], "amin": _REDUCTIONS["min"], "var": _REDUCTIONS["variance"],
    "append": "Two arrays one after the other.", "arccos": _ELEMENTS["acos"], "arccosh": "The inverse hyperbolic cosine of each element.",
    "arcsin": _ELEMENTS["asin"], "arcsinh": "The inverse hyperbolic sine of each element.", "arctan": _ELEMENTS["atan"],
    "arctan2": "The angle of the point (x2, x1), between -pi and pi.", "arctanh": "The inverse hyperbolic tangent of each element.",
    "average": "The mean over axes, each element with its weight.", "bartlett": "The Bartlett window.", "bincount": "How often each integer occurs.",
    "bitwise_and": "The bits that both integers have.", "bitwise_invert": "Each bit of integers inverted.",
    "bitwise_left_shift": "The bits of x moved up by y places.", "bitwise_or": "The bits that either integer has.",
    "bitwise_right_shift": "The bits of x moved down by y places.", "bitwise_xor": "The bits that exactly one integer has.",
    "blackman": "The Blackman window.", "broadcast_to": "The tensor repeated along axes of size 1 up to a shape.",
    "cholesky_inverse": "The inverse of a matrix whose Cholesky factor is given.", "concatenate": "Tensors one after another along an axis.",
    "copy": "A tensor of the same value.", "count_nonzero": "How many elements are not zero, over axes.", "deg2rad": "Degrees as radians.",
    "depth_to_space": "Moves channels into blocks of pixels.", "diag": "The diagonal of a matrix, or a matrix with the given one.",
    "diagonal": "The diagonals of matrices.", "divide": "x1 / x2.", "divide_no_nan": "x1 / x2, and 0 where x2 is 0.",
    "dsplit": "Parts along the third axis.", "einsum": "Sums of products by Einstein's notation.", "empty_like": "A tensor of the shape of another; zeros here.",
    "erfinv": "The inverse of erf.", "exp2": "2 to the power of each element.", "expand_dims": "The tensor with an axis of size 1 inserted.",
    "flip": "The elements in reversed order along axes.", "fliplr": "The columns in reversed order.", "flipud": "The rows in reversed order.",
    "floor_divide": "x1 / x2, rounded down.", "full_like": "One value in the shape of another tensor.", "gcd": "The greatest common divisor.",
    "hamming": "The Hamming window.", "hanning": "The Hann window.", "hsplit": "Parts along the second axis.",
    "hstack": "Tensors one after another along the second axis.", "i0": "The modified Bessel function of order 0.",
    "in_top_k": "Whether each target is among the k largest predictions of its row.", "isclose": "True where elements are close.",
    "isfinite": _ELEMENTS["is_finite"], "isinf": _ELEMENTS["is_inf"], "isnan": _ELEMENTS["is_nan"], "kaiser": "The Kaiser window.",
    "lcm": "The least common multiple.", "left_shift": "The bits of x moved up by y places.", "log10": "The logarithm to base 10.",
    "log2": "The logarithm to base 2.", "logdet": "The logarithm of the determinant of positive definite matrices.",
    "lstsq": "The x with the smallest |a @ x - b|.", "matrix_rank": "The number of singular values that are not negligible.",
    "moments": "The mean and the variance over axes.", "nan_to_num": "The elements with numbers in the place of NaN and infinities.",
    "nanargmax": "The index of the largest element that is not NaN.", "nanargmin": "The index of the smallest element that is not NaN.",
    "nancumprod": "The products up to each element, NaN as 1.", "nancumsum": "The sums up to each element, NaN as 0.",
    "nanmax": "The largest element that is not NaN.", "nanmin": "The smallest element that is not NaN.",
    "nanpercentile": "The values below which q percent of the elements lie that are not NaN.",
    "nanquantile": "The values below which the parts q of the elements lie that are not NaN.",
    "nanprod": "The product of the elements that are not NaN.", "nansum": "The sum of the elements that are not NaN.",
    "nextafter": "The next number after x1 in the direction of x2.", "nonzero": "The places of the elements that are not zero.",
    "norm": "The norm of vectors or matrices.", "normalize": "x, divided by its norm along an axis.", "ones_like": "Ones of the shape of another tensor.",
    "pinv": "The pseudo-inverse of matrices.", "power": "x1 to the power of x2.", "rad2deg": "Radians as degrees.", "remainder": _ELEMENTS["mod"],
    "repeat": "Each element repeated along an axis.", "reshape": "The same elements in another shape.",
    "right_shift": "The bits of x moved down by y places.", "roll": "The elements shifted along axes; what leaves at one end comes in at the other.",
    "scatter": "Zeros of a shape, to which values are added at indices.", "scatter_update": "The tensor with other values at indices.",
    "sign": "-1, 0 or 1 by the sign of each element.", "slogdet": "The sign and the logarithm of the absolute value of the determinant.",
    "solve_triangular": "The solutions of a triangular system.", "space_to_depth": "Moves blocks of pixels into channels.",
    "split": "Parts along an axis.", "squeeze": "The tensor without axes of size 1.", "stack": "Tensors of one shape along a new axis.",
    "stop_gradient": "The same value, through which no gradient passes.", "tensordot": "The sums of products over axes.",
    "trace": "The sum of a diagonal.", "transpose": "The tensor with its axes in another order.", "tril": "The matrices with zeros above a diagonal.",
    "triu": "The matrices with zeros below a diagonal.", "true_divide": "x1 / x2.", "unravel_index": "The coordinates of flat indices.",
    "unstack": "The slices along an axis, as a list.", "vsplit": "Parts along the first axis.", "vstack": "Tensors one after another along the first axis.",
    "zeros_like": "Zeros of the shape of another tensor.",
}

_INITIALIZERS = {
    f"{name}{kind}": f"{word} values whose variance fits the number of {fan}."
    for name, fan in {"Glorot": "inputs and outputs", "He": "inputs of a relu", "Lecun": "inputs"}.items()
    for kind, word in {"Normal": "Truncated normal", "Uniform": "Uniform"}.items()
}

_METRICS = {
    "Accuracy": "The part of predictions that equal the truth.", "BinaryAccuracy": "The part of predictions on the right side of the threshold.",
    "BinaryCrossentropy": "The mean cross entropy of yes-or-no predictions.",
    "CategoricalAccuracy": "The part of rows whose largest prediction is that of the true class, given as a one-hot vector.",
    "CategoricalCrossentropy": "The mean cross entropy of distributions over classes.", "CategoricalHinge": "The mean of categorical_hinge.",
    "CosineSimilarity": "The mean cosine of the angle between truth and prediction.", "FalseNegatives": "How many positives were predicted as negative.",
    "FalsePositives": "How many negatives were predicted as positive.", "Hinge": "The mean of hinge.", "KLDivergence": "The mean of kl_divergence.",
    "LogCoshError": "The mean of log_cosh.", "MeanAbsoluteError": "The mean of absolute differences.",
    "MeanAbsolutePercentageError": "100 times the mean of absolute differences, relative to the truth.",
    "MeanSquaredError": "The mean of squared differences.", "MeanSquaredLogarithmicError": "The mean of the squares of the differences of logarithms.",
    "Poisson": "The mean of poisson.", "PrecisionAtRecall": "The best precision at which recall is at least the given one.",
    "RecallAtPrecision": "The best recall at which precision is at least the given one.",
    "SensitivityAtSpecificity": "The best sensitivity at which specificity is at least the given one.",
    "SparseCategoricalAccuracy": "The part of rows whose largest prediction is that of the true class, given by number.",
    "SparseCategoricalCrossentropy": "The mean cross entropy of classes that are given by number.",
    "SparseTopKCategoricalAccuracy": "The part of rows whose true class, given by number, is among the k largest predictions.",
    "SpecificityAtSensitivity": "The best specificity at which sensitivity is at least the given one.", "SquaredHinge": "The mean of squared_hinge.",
    "TopKCategoricalAccuracy": "The part of rows whose true class, given as a one-hot vector, is among the k largest predictions.",
    "TrueNegatives": "How many negatives were predicted as negative.", "TruePositives": "How many positives were predicted as positive.",
}

_WORDS = {
    "tandem._ops.arithmetic": _ELEMENTS,
    "tandem._ops.reduction": {f"reduce_{name}": text for name, text in _REDUCTIONS.items()},
    "tandem._ops.segments": _SEGMENTS,
    "tandem.debugging": {
        f"assert_{name}": f"Raises InvalidArgumentError unless all x {sign} y."
        for name, sign in {"equal": "==", "none_equal": "!=", "less": "<", "less_equal": "<=", "greater": ">", "greater_equal": ">="}.items()
    },
    "tandem.nn": {"max_pool1d": "The maximum of each window of sequences.", "avg_pool1d": "The mean of each window of sequences."},
    "tandem._ops.rarer": {
        "max_pool3d": "The maximum of each window of volumes.", "avg_pool3d": "The mean of each window of volumes.",
        "rgb_to_yiq": "Coloured images as brightness and two colour channels, YIQ.", "yiq_to_rgb": "Images of YIQ channels in red, green and blue.",
        "rgb_to_yuv": "Coloured images as brightness and two colour channels, YUV.", "yuv_to_rgb": "Images of YUV channels in red, green and blue.",
    },
    "tandem.signal": {
        **{f"{way}fft{n}": f"The {word}Fourier transform along the last {axes}." for way, word in {"": "", "i": "inverse "}.items() for n, axes in {"": "axis", "2d": "two axes", "3d": "three axes"}.items()},
        "hann_window": "The Hann window.", "hamming_window": "The Hamming window.",
    },
    "tandem.keras.initializers": _INITIALIZERS,
    "tandem.keras.metrics": _METRICS,
    "tandem.keras.ops": _KERAS_OPS,
    "tandem.keras.layers.recurrent": {
        "SimpleRNN": "A layer whose state is tanh of products with its input and with itself.", "LSTM": "Long short-term memory (Hochreiter and Schmidhuber, 1997).",
        "GRU": "Gated recurrent units (Cho et al., 2014).",
    },
    "tandem.keras.layers.merging": {
        "add": "The sum of the inputs, as the layer Add.", "average": "The mean of the inputs, as the layer Average.",
        "maximum": "The largest of the inputs, as the layer Maximum.", "minimum": "The smallest of the inputs, as the layer Minimum.",
        "multiply": "The product of the inputs, as the layer Multiply.", "subtract": "The difference of two inputs, as the layer Subtract.",
    },
}


def describe(module_name, globals_):
    """Gives the functions and classes of a module their sentences."""
    for name, text in _WORDS[module_name].items():
        globals_[name].__doc__ = text


def describe_class(cls, words):
    """Gives methods and properties of a class that are no functions with a name their sentences."""
    for name, text in words.items():
        member = cls.__dict__[name]
        if isinstance(member, property):
            setattr(cls, name, property(member.fget, member.fset, member.fdel, text))
        else:
            member.__doc__ = text

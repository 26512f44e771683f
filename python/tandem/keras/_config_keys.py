"""The arguments in the configurations of built-in layers, in Keras's order, where it is not that of the constructor here. After an equals
sign stands what Keras has for what there is no argument for here."""

import json

_CONVOLUTION = "activation use_bias kernel_initializer bias_initializer kernel_regularizer bias_regularizer activity_regularizer kernel_constraint bias_constraint"
_PLAIN_CONVOLUTION = f"filters kernel_size strides padding data_format dilation_rate groups {_CONVOLUTION}"
_TRANSPOSED_CONVOLUTION = f"filters kernel_size strides padding output_padding data_format dilation_rate {_CONVOLUTION}"
_OF_DEPTHS = "bias_initializer depthwise_regularizer bias_regularizer activity_regularizer depthwise_constraint bias_constraint"
_DEPTHWISE = f"depth_multiplier kernel_size strides padding data_format dilation_rate activation use_bias depthwise_initializer {_OF_DEPTHS}"
_SEPARABLE = (
    "depth_multiplier filters kernel_size strides padding data_format dilation_rate activation use_bias depthwise_initializer pointwise_initializer "
    "bias_initializer depthwise_regularizer pointwise_regularizer bias_regularizer activity_regularizer depthwise_constraint pointwise_constraint bias_constraint"
)
_CONVOLUTION_LSTM = (
    "filters kernel_size strides padding data_format dilation_rate activation recurrent_activation use_bias kernel_initializer recurrent_initializer "
    "bias_initializer unit_forget_bias kernel_regularizer recurrent_regularizer bias_regularizer activity_regularizer kernel_constraint "
    "recurrent_constraint bias_constraint dropout recurrent_dropout seed"
)
_POOLING = "pool_size padding strides data_format"
_SEQUENCE = "return_sequences return_state go_backwards stateful unroll zero_output_for_mask"
_WEIGHTS = "kernel_initializer recurrent_initializer bias_initializer"
_PENALTIES = "kernel_regularizer recurrent_regularizer bias_regularizer"
_LIMITS = "kernel_constraint recurrent_constraint bias_constraint dropout recurrent_dropout"
_LOOKUP = "invert max_tokens num_oov_indices oov_token mask_token output_mode sparse=false pad_to_max_tokens"

KEYS = {
    "Dense": "units activation use_bias kernel_initializer bias_initializer kernel_regularizer bias_regularizer kernel_constraint bias_constraint quantization_config=null",
    "EinsumDense": "output_shape equation activation bias_axes kernel_initializer bias_initializer kernel_regularizer bias_regularizer activity_regularizer kernel_constraint bias_constraint quantization_config=null",
    "Embedding": "input_dim output_dim embeddings_initializer embeddings_regularizer activity_regularizer embeddings_constraint mask_zero quantization_config=null",
    **dict.fromkeys(("Conv1D", "Conv2D", "Conv3D"), _PLAIN_CONVOLUTION), **dict.fromkeys(("Conv1DTranspose", "Conv2DTranspose", "Conv3DTranspose"), _TRANSPOSED_CONVOLUTION),
    **dict.fromkeys(("DepthwiseConv1D", "DepthwiseConv2D"), _DEPTHWISE), **dict.fromkeys(("SeparableConv1D", "SeparableConv2D"), _SEPARABLE),
    **dict.fromkeys((f"{kind}Pooling{n}D" for kind in ("Max", "Average") for n in (1, 2, 3)), _POOLING),
    "RNN": f"{_SEQUENCE} cell",
    **dict.fromkeys(("ConvLSTM1D", "ConvLSTM2D", "ConvLSTM3D"), f"{_SEQUENCE.replace('unroll', 'unroll=false').replace('mask', 'mask=false')} {_CONVOLUTION_LSTM}"),
    "SimpleRNN": f"{_SEQUENCE} units activation use_bias {_WEIGHTS} {_PENALTIES} activity_regularizer {_LIMITS}",
    "LSTM": f"{_SEQUENCE} units activation recurrent_activation use_bias {_WEIGHTS} unit_forget_bias {_PENALTIES} activity_regularizer {_LIMITS} seed",
    "GRU": f"{_SEQUENCE} units activation recurrent_activation use_bias {_WEIGHTS} {_PENALTIES} activity_regularizer {_LIMITS} reset_after seed",
    "LSTMCell": f"units activation recurrent_activation use_bias unit_forget_bias {_WEIGHTS} {_PENALTIES} {_LIMITS} seed",
    "GRUCell": f"units activation recurrent_activation use_bias {_WEIGHTS} {_PENALTIES} {_LIMITS} reset_after seed",
    "MultiHeadAttention": "num_heads key_dim value_dim dropout use_bias use_gate=false output_shape attention_axes sliding_window=null kernel_initializer bias_initializer kernel_regularizer bias_regularizer activity_regularizer kernel_constraint bias_constraint seed",
    "GroupedQueryAttention": "head_dim num_query_heads num_key_value_heads use_bias use_gate sliding_window dropout kernel_initializer bias_initializer kernel_regularizer bias_regularizer activity_regularizer kernel_constraint bias_constraint seed",
    "ReversibleEmbedding": "input_dim output_dim embeddings_initializer embeddings_regularizer activity_regularizer embeddings_constraint mask_zero quantization_config=null tie_weights reverse_dtype logit_soft_cap",
    "Attention": "use_scale score_mode dropout seed",
    "AdditiveAttention": "use_scale dropout seed",
    "BatchNormalization": "axis momentum epsilon center scale beta_initializer gamma_initializer moving_mean_initializer moving_variance_initializer beta_regularizer gamma_regularizer beta_constraint gamma_constraint synchronized renorm=false renorm_clipping=null renorm_momentum=0.99",
    "LayerNormalization": "axis epsilon center scale rms_scaling beta_initializer gamma_initializer beta_regularizer gamma_regularizer beta_constraint gamma_constraint",
    "Normalization": "axis invert mean variance",
    **dict.fromkeys(("Dropout", "AlphaDropout"), "rate seed noise_shape"), "LeakyReLU": "negative_slope", "ELU": "alpha",
    "SpatialDropout1D": "rate seed name dtype", **dict.fromkeys(("SpatialDropout2D", "SpatialDropout3D"), "rate seed name dtype data_format"),
    "Resizing": "data_format height width interpolation crop_to_aspect_ratio pad_to_aspect_ratio fill_mode fill_value antialias",
    "RandomRotation": "data_format factor fill_mode fill_value interpolation seed",
    **dict.fromkeys(("RandomContrast", "RandomBrightness"), "data_format factor value_range seed"),
    "RandomZoom": "data_format height_factor width_factor fill_mode interpolation seed fill_value",
    "RandomTranslation": "data_format height_factor width_factor fill_mode interpolation seed fill_value",
    "RandomCrop": "data_format height width seed", "CenterCrop": "data_format height width", "RandomFlip": "data_format seed mode",
    "CategoryEncoding": "num_tokens output_mode", "Discretization": "bin_boundaries num_bins epsilon output_mode sparse=false name dtype",
    "Hashing": "num_bins salt mask_value output_mode sparse=false", "HashedCrossing": "num_bins output_mode sparse=false name dtype",
    "IntegerLookup": f"{_LOOKUP} vocabulary_dtype=\"int64\" idf_weights vocabulary vocabulary_size=null oov_method=\"floormod\" salt=null",
    "StringLookup": f"{_LOOKUP} idf_weights vocabulary vocabulary_size=null oov_method=\"floormod\" salt=null encoding=\"utf-8\"",
    "RandomGrayscale": "data_format factor", "RandomShear": "data_format x_factor y_factor fill_mode interpolation seed fill_value",
    **dict.fromkeys(("RandomHue", "RandomSaturation", "RandomSharpness", "RandomPosterization", "RandomColorDegeneration", "RandomInvert"), "data_format factor value_range seed"),
    "RandomErasing": "data_format factor scale fill_value value_range seed", "RandomGaussianBlur": "data_format factor kernel_size sigma value_range seed",
    "RandomColorJitter": "data_format value_range brightness_factor contrast_factor saturation_factor hue_factor seed",
    "RandomPerspective": "data_format factor scale interpolation fill_value seed",
    "RandomElasticTransform": "data_format factor scale interpolation fill_mode fill_value value_range seed",
    "RandAugment": "data_format value_range num_ops factor interpolation seed",
    "AugMix": "data_format value_range num_chains chain_depth factor alpha all_ops interpolation seed", "AutoContrast": "data_format value_range",
    "Equalization": "data_format bins value_range", "Solarization": "data_format value_range addition_factor threshold_factor seed",
    "CutMix": "data_format factor seed", "MixUp": "data_format alpha seed",
    "STFTSpectrogram": "mode frame_length frame_step fft_length window periodic scaling padding data_format expand_dims", "Cropping1D": "cropping",
}


def keys_of(cls, arguments):
    """The keys of a configuration: of arguments, whose values are None here, and with the values of those that there are none for."""
    if cls.__name__ not in KEYS:
        return dict.fromkeys(arguments)
    keys = (each.partition("=") for each in KEYS[cls.__name__].split())
    return {key: json.loads(value) if sign else None for key, sign, value in keys}


def is_beyond(cls, key):
    """Whether a key is one that there is no argument for."""
    return any(each.startswith(f"{key}=") for base in cls.__mro__ for each in KEYS.get(base.__name__, "").split())

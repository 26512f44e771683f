"""Layers that few programs have, where nothing is left to chance."""

import numpy as np
import tensorflow as tf
from tensorflow import keras

layers = keras.layers
source = np.random.default_rng(3)
images = source.uniform(0, 255, (2, 7, 6, 3)).astype("float32")
result = {}


def note(name, layer, x, **kwargs):
    y = layer(x, **kwargs)
    result[name] = y


def filled(layer, *shapes):
    """The layer with weights that both sides have."""
    layer.build(*shapes)
    layer.set_weights([np.random.default_rng(i).normal(0, 0.3, w.shape).astype("float32") for i, w in enumerate(layer.get_weights())])
    return layer


for name, layer in {
    "saturation": layers.RandomSaturation((0.3, 0.3)), "sharpness": layers.RandomSharpness((0.8, 0.8)), "degeneration": layers.RandomColorDegeneration((0.7, 0.7)),
    "posterization": layers.RandomPosterization((3, 3)), "invert": layers.RandomInvert((1.0, 1.0)), "grayscale": layers.RandomGrayscale(1.0),
    "hue": layers.RandomHue((0.0, 0.0)), "contrast": layers.AutoContrast(), "equal": layers.Equalization(), "solar": layers.Solarization(),
    "blur": layers.RandomGaussianBlur((1.0, 1.0), 3, (0.8, 0.8)), "erasing": layers.RandomErasing((1.0, 1.0), (1.0, 1.0), fill_value=7.0),
    "pipeline": layers.Pipeline([layers.Rescaling(1 / 255.0), layers.RandomInvert((1.0, 1.0), (0, 1))]),
    "shear": layers.RandomShear((0.0, 0.0), (0.0, 0.0)),
}.items():
    note(name, layer, images, training=True)
    note(f"{name}_one", layer, images[0], training=True)
note("posterized_01", layers.RandomPosterization((2, 2), value_range=(0, 1)), images / 255, training=True)

for rank in (1, 2, 3):
    x = source.normal(size=(2, *(7, 5, 6)[:rank], 2)).astype("float32")
    for kind in ("Average", "Max"):
        note(f"adaptive_{kind}{rank}", getattr(layers, f"Adaptive{kind}Pooling{rank}D")((3, 2, 4)[:rank] if rank > 1 else 3), x)
for padding in ("valid", "same"):
    for strides in (1, 2):
        x = source.normal(size=(2, 3, 4, 3, 2)).astype("float32")
        note(f"conv3d_transpose_{padding}{strides}", filled(layers.Conv3DTranspose(3, (2, 3, 3), strides=strides, padding=padding), x.shape), x)
x1, x3 = source.normal(size=(2, 3, 6, 2)).astype("float32"), source.normal(size=(1, 2, 4, 4, 3, 2)).astype("float32")
note("convlstm1", filled(layers.ConvLSTM1D(3, 3, padding="same", return_sequences=True), x1.shape), x1)
note("convlstm3", filled(layers.ConvLSTM3D(2, 2), x3.shape), x3)

query, value = source.normal(size=(2, 5, 6)).astype("float32"), source.normal(size=(2, 5, 6)).astype("float32")
grouped = filled(layers.GroupQueryAttention(4, 6, 2), query.shape, value.shape)
result["grouped"] = grouped(query, value)
result["grouped_causal"] = grouped(query, value, use_causal_mask=True)
result["grouped_scores"] = grouped(query, value, return_attention_scores=True)[1]
result["grouped_gate"] = filled(layers.GroupQueryAttention(4, 6, 3, use_gate=True, use_bias=False), query.shape, value.shape)(query, value)
reversible = filled(layers.ReversibleEmbedding(7, 6, logit_soft_cap=2.0), (None, 3))
result["reversible"] = reversible(query, reverse=True)
result["reversible_forward"] = reversible(np.array([[1, 2]]))
result["reversible_untied"] = filled(layers.ReversibleEmbedding(7, 6, tie_weights=False), (None, 3))(query, reverse=True)

sound = source.normal(size=(2, 400)).astype("float32")
result["mel"] = layers.MelSpectrogram(fft_length=64, sequence_stride=32, num_mel_bins=8, sampling_rate=8000)(sound)
for mode in ("log", "magnitude", "psd", "real", "imag", "stft"):
    result[f"stft_{mode}"] = layers.STFTSpectrogram(mode=mode, frame_length=32, frame_step=16)(sound[..., None])
result["stft_wide"] = layers.STFTSpectrogram(frame_length=32, padding="same", expand_dims=True, scaling="spectrum", periodic=True)(np.stack([sound, sound + 1], -1))
boxes = layers.MaxNumBoundingBoxes(3, bounding_box_format="xyxy")({"images": images, "bounding_boxes": {"boxes": source.uniform(0, 5, (2, 2, 4)).astype("float32"), "labels": np.ones((2, 2), "float32")}})
result["max_boxes"], result["max_labels"] = boxes["bounding_boxes"]["boxes"], boxes["bounding_boxes"]["labels"]

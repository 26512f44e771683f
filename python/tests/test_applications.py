"""Well-known models: their weights are those of Keras, in number, order and shape."""

import numpy as np
import pytest

from tandem import keras


def _description(model):
    """Numbers that a model of other layers, or of layers in another order, does not have."""
    shapes = [tuple(int(s) for s in w.shape) for w in model.weights]
    return len(model.layers), len(shapes), model.count_params(), sum(i * int(np.prod(s)) for i, s in enumerate(shapes, 1))


@pytest.mark.parametrize(
    "name, expected",
    [
        ("MobileNetV3Small", (157, 206, 939120, 152463320)),
        ("MobileNetV3Large", (187, 262, 2996352, 648142368)),
        ("EfficientNetV2B0", (270, 359, 5919312, 1471425544)),
        ("EfficientNetV2S", (513, 670, 20331360, 9176834248)),
        ("ConvNeXtTiny", (133, 180, 27820128, 3788282784)),
        ("InceptionResNetV2", (780, 896, 54336736, 34413273328)),
        ("NASNetMobile", (769, 1124, 4269716, 3582096345)),
    ],
)
def test_models_have_the_layers_and_weights_of_keras(name, expected):
    model = getattr(keras.applications, name)(weights=None, input_shape=(96, 96, 3), include_top=False)
    assert _description(model) == expected
    assert model(np.zeros((1, 96, 96, 3), "float32")).shape[0] == 1


def test_each_family_is_a_room_with_what_goes_with_it():
    for module in ("mobilenet_v3", "efficientnet_v2", "convnext", "inception_resnet_v2", "nasnet"):
        family = getattr(keras.applications, module)
        x = family.preprocess_input(np.full((1, 2, 2, 3), 255.0, "float32"))
        assert float(np.max(x)) == (1.0 if module in ("inception_resnet_v2", "nasnet") else 255.0) and callable(family.decode_predictions)


def test_stochastic_depth_leaves_out_whole_examples():
    layer = keras.applications.convnext.StochasticDepth(0.5)
    y = layer(np.ones((64, 2, 2, 1), "float32"), training=True).numpy().reshape(64, 4)
    assert set(np.unique(y)) == {0.0, 2.0} and (y == y[:, :1]).all() and float(np.max(layer(np.ones((1, 2))))) == 1.0

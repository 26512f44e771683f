"""Well-known models. Their weights are read from Keras's cache folder; nothing is downloaded."""

from tandem._names import missing as _missing
from tandem.keras.applications import (  # noqa: F401
    densenet, efficientnet, imagenet_utils, inception_v3, mobilenet, mobilenet_v2, resnet, resnet50, resnet_v2, vgg16, vgg19, xception,
)
from tandem.keras.applications.densenet import DenseNet121, DenseNet169, DenseNet201
from tandem.keras.applications.efficientnet import (
    EfficientNetB0, EfficientNetB1, EfficientNetB2, EfficientNetB3, EfficientNetB4, EfficientNetB5, EfficientNetB6, EfficientNetB7,
)
from tandem.keras.applications.inception_v3 import InceptionV3
from tandem.keras.applications.mobilenet import MobileNet
from tandem.keras.applications.mobilenet_v2 import MobileNetV2
from tandem.keras.applications.resnet import ResNet50, ResNet101, ResNet152
from tandem.keras.applications.resnet_v2 import ResNet50V2, ResNet101V2, ResNet152V2
from tandem.keras.applications.vgg16 import VGG16
from tandem.keras.applications.vgg19 import VGG19
from tandem.keras.applications.xception import Xception

_MODULES = {
    "convnext": "ConvNeXtBase ConvNeXtLarge ConvNeXtSmall ConvNeXtTiny ConvNeXtXLarge",
    "efficientnet_v2": "EfficientNetV2B0 EfficientNetV2B1 EfficientNetV2B2 EfficientNetV2B3 EfficientNetV2L EfficientNetV2M EfficientNetV2S",
    "inception_resnet_v2": "InceptionResNetV2",
    "mobilenet_v3": "MobileNetV3Large MobileNetV3Small",
    "nasnet": "NASNetLarge NASNetMobile",
}
_missing.install(__name__, globals(), {f"{__name__}.{module}": names for module, names in _MODULES.items()})
_named = __getattr__  # noqa: F821


def __getattr__(name):
    if name in _MODULES:
        import importlib

        return importlib.import_module(f"{__name__}.{name}")
    return _named(name)

__all__ = [  # Written by scripts/exported-names.py.
    "DenseNet121", "DenseNet169", "DenseNet201", "EfficientNetB0", "EfficientNetB1", "EfficientNetB2", "EfficientNetB3", "EfficientNetB4",
    "EfficientNetB5", "EfficientNetB6", "EfficientNetB7", "InceptionV3", "MobileNet", "MobileNetV2", "ResNet101", "ResNet101V2",
    "ResNet152", "ResNet152V2", "ResNet50", "ResNet50V2", "VGG16", "VGG19", "Xception", "densenet", "efficientnet", "imagenet_utils",
    "inception_v3", "mobilenet", "mobilenet_v2", "resnet", "resnet50", "resnet_v2", "vgg16", "vgg19", "xception",
]

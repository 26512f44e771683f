"""Well-known models. Their weights are read from Keras's cache folder; nothing is downloaded."""

from tandem._names import missing as _missing
from tandem.keras.applications import imagenet_utils, mobilenet_v2, resnet, resnet50, resnet_v2, vgg16, vgg19
from tandem.keras.applications.mobilenet_v2 import MobileNetV2
from tandem.keras.applications.resnet import ResNet50, ResNet101, ResNet152
from tandem.keras.applications.resnet_v2 import ResNet50V2, ResNet101V2, ResNet152V2
from tandem.keras.applications.vgg16 import VGG16
from tandem.keras.applications.vgg19 import VGG19

_missing.install(__name__, globals())

"""Times PyTorch on the benchmarks of tandem-bench. Each family of them is a module with a function ways(name)."""

import busy
import pytorch_ddp
import pytorch_memory
import pytorch_nn
import pytorch_pipeline
import pytorch_random
from data import CLASSIFIERS, ELEMENTWISE, FITS, INCEPTION, MOVEMENTS, TRANSFORMERS, parse_arguments, report
from data import steps_per_epoch

NAMES = (
    *CLASSIFIERS,
    "convnet",
    *TRANSFORMERS,
    *pytorch_memory.NAMES,
    *ELEMENTWISE,
    *MOVEMENTS,
    *pytorch_nn.NAMES,
    *pytorch_random.NAMES,
    *FITS,
    "inception",
    *busy.NAMES,
    "py_eager",
    *pytorch_ddp.NAMES,
    *pytorch_pipeline.NAMES,
)
arguments = parse_arguments(NAMES)

import pytorch_classifiers
import pytorch_convnet
import pytorch_elementwise
import pytorch_fit
import pytorch_inception
import pytorch_movement
import pytorch_transformer
import torch

torch.set_num_threads(arguments.threads)

FAMILIES = {
    **dict.fromkeys(CLASSIFIERS, pytorch_classifiers),
    "convnet": pytorch_convnet,
    **dict.fromkeys(TRANSFORMERS, pytorch_transformer),
    **dict.fromkeys(ELEMENTWISE, pytorch_elementwise),
    **dict.fromkeys(MOVEMENTS, pytorch_movement),
    **dict.fromkeys(pytorch_nn.NAMES, pytorch_nn),
    **dict.fromkeys(pytorch_random.NAMES, pytorch_random),
}


def report_busy(name: str) -> None:
    work = busy.NAMES[name][0]
    if work in FITS:
        busy.report(name, pytorch_fit.ways(work), steps_per_epoch(FITS[work].rows))
    else:
        busy.report(name, FAMILIES[work].ways(work))


def eager_add():
    """python_programs.eager_add in PyTorch's names."""
    a, b = torch.tensor([float(i) for i in range(8)]), torch.tensor([1.0] * 8)

    def run(steps):
        for _ in range(steps):
            c = a + b
        return float(c[0])

    return run


for name in arguments.names:
    if name == "py_eager":
        report(name, {"eager": eager_add})
    elif name in busy.NAMES:
        report_busy(name)
    elif name in pytorch_ddp.NAMES:
        pytorch_ddp.report_training(name)
    elif name in pytorch_pipeline.NAMES:
        pytorch_pipeline.report_training(name)
    elif name in pytorch_memory.NAMES:
        pytorch_memory.report_peak(name, arguments.threads)
    elif name in FITS:
        report(name, pytorch_fit.ways(name), steps_per_epoch(FITS[name].rows))
    elif name == "inception":
        report(name, pytorch_inception.ways(name), loss_step=INCEPTION.loss_steps)
    else:
        report(name, FAMILIES[name].ways(name))

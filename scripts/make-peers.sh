#!/usr/bin/env bash
# Installs the frameworks that Tandem is measured against, each in a virtual environment of its own:
# DIR/tensorflow, DIR/pytorch, DIR/jax. An environment that is already complete is left as it is.
set -euo pipefail

if [ $# -ne 1 ]; then
  echo "usage: $0 DIR" >&2
  exit 64
fi
dir=$1

# install_peer NAME MODULE PIP-ARGUMENTS... [-- PIP-ARGUMENTS...]: one pip call per group, then a trial import.
# The marker, written last, holds the arguments: a changed version makes the environment anew.
install_peer() {
  local venv=$dir/$1 module=$2 wanted="${*:3}"
  if [ -f "$venv/complete" ] && [ "$(cat "$venv/complete")" = "$wanted" ]; then
    echo "$venv is complete"
    return
  fi
  python3 -m venv --clear "$venv"
  local group=()
  for argument in "${@:3}" --; do
    if [ "$argument" = -- ]; then
      "$venv/bin/pip" install --disable-pip-version-check "${group[@]}"
      group=()
    else
      group+=("$argument")
    fi
  done
  (cd "$venv" && bin/python -c "import $module; print('$module', $module.__version__)")
  echo "$wanted" > "$venv/complete"
}

# PyPI's torch for Linux loads the CUDA libraries at import even on a machine with no GPU. What is listed here is what
# it links; the rest of its requirements (Triton, cuSOLVER, the Python bindings) is only used on a GPU, and pip's
# complaint that they are missing is of no account.
install_pytorch() {
  if [ "$(uname -sm)" != "Linux x86_64" ]; then
    install_peer pytorch torch torch==2.15.0 numpy
    return
  fi
  install_peer pytorch torch \
    --no-deps torch==2.15.0 -- \
    numpy filelock 'typing-extensions>=4.13' 'setuptools>=77' 'sympy>=1.13.3' 'networkx>=2.5.1' jinja2 'fsspec>=0.8.5' \
    'cuda-toolkit[cublas,cudart,cufft,cufile,cupti,cusparse,nvjitlink,nvrtc]==13.2.2' nvidia-cudnn-cu13==9.26.0.51 \
    nvidia-cusparselt-cu13==0.8.1 nvidia-nccl-cu13==2.30.7 nvidia-nvshmem-cu13==3.7.2
}

install_peer tensorflow tensorflow tensorflow-cpu==2.21.0 keras==3.15.1 scipy==1.17.1
install_peer jax jax 'jax[cpu]==0.10.2' numpy
install_pytorch

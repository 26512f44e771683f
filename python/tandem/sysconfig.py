"""How the library was built, tf.sysconfig."""


def get_build_info():
    """What the library was built with."""
    return {"is_cuda_build": False, "is_rocm_build": False}

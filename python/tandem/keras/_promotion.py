"""The dtype of what is computed of several dtypes, as Keras has it."""

import numpy as np

from tandem import dtypes


def result_type(*given):
    """The dtype of what is computed of values of these dtypes; Python's `int` and `float` yield to dtypes that have a width."""
    from tandem.keras.backend import floatx

    names = [t.__name__ if isinstance(t, type) and t in (bool, int, float) else dtypes.as_dtype(t or floatx()).name for t in given] or [floatx()]
    complexes = {n for n in names if n.startswith("complex")}
    floats = {n for n in names if n.startswith(("float", "bfloat")) and n != "float"}
    integers = {n for n in names if "int" in n and n != "int"}
    if complexes:
        return np.result_type(*complexes, *(floats - {"bfloat16"})).name
    if floats == {"float16", "bfloat16"}:
        return "float32"
    if floats:
        return max(floats, key=lambda n: int(n.lstrip("bfloat")))
    if "float" in names or ("uint64" in integers and any(n.startswith("int") for n in integers)):
        return floatx()
    if integers:
        return np.result_type(*integers).name
    return "int32" if "int" in names else "bool"

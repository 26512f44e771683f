"""Branches and loops on tensors, converted from source, tf.autograph."""


def converted(f):
    return f


def to_code(entity, recursive=True, experimental_optional_features=None):
    import inspect

    return inspect.getsource(getattr(entity, "python_function", entity))


def to_graph(entity, recursive=True, experimental_optional_features=None):
    return converted(entity)


def do_not_convert(func=None):
    if func is None:
        return do_not_convert
    func._tandem_do_not_convert = True
    return func


def set_verbosity(level, alsologtostdout=False):
    pass


def trace(*args):
    print(*args)


class experimental:
    do_not_convert = staticmethod(do_not_convert)

    @staticmethod
    def set_loop_options(**kwargs):
        pass

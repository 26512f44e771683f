"""A traced function for one kind of arguments, and what it says of itself."""

import _tandem
from tandem import nest
from tandem._names.lazy import np
from tandem._tensors.tensor import Tensor, TensorSpec
from tandem._tracing.structures import _has_spec, _map_up_to, _named
from tandem.errors import InvalidArgumentError


def _type_text(value):
    """The type of an argument or a result, as TensorFlow writes it."""
    if isinstance(value, dict):
        return f"Dict[{', '.join(f'[{key!r}, {_type_text(each)}]' for key, each in value.items())}]"
    if isinstance(value, (list, tuple)):
        return f"{'List' if isinstance(value, list) else 'Tuple'}[{', '.join(map(_type_text, value))}]"
    return repr(value) if _has_spec(value) else f"Literal[{value!r}]"


class ConcreteFunction:
    """A function for one kind of arguments."""

    def __init__(self, function, args, kwargs):
        self._function = function
        self._args, self._kwargs = function._bind(tuple(args), dict(kwargs))
        self._names = function._bind_names(len(self._args))
        self._names += [None] * (len(self._args) - len(self._names))
        self.name = function.__name__
        self._outputs = None

    @property
    def structured_input_signature(self):
        """The kinds of the arguments: those that have a place, and those that have a name alone."""
        named = [_named(value, name or "args") for name, value in zip(self._names, self._args)]
        return tuple(named), {name: _named(value, name) for name, value in self._kwargs.items()}

    def __call__(self, *args, **kwargs):
        full, by_name = list(self._args), dict(self._kwargs)
        given = [False] * len(full)
        for name, value in kwargs.items():
            name = self._parameter(name)
            if name in self._names:
                place = self._names.index(name)
                full[place], given[place] = self._taken(name, full[place], value), True
            elif name in by_name:
                by_name[name] = self._taken(name, by_name[name], value)
            else:
                raise TypeError(f"{self.name} got an unexpected keyword argument {name!r}")
        places = [i for i, done in enumerate(given) if not done]
        if len(args) != len(places):  # What is bound need not be given again.
            places = [i for i in places if _has_spec(full[i])]
        if len(args) > len(places):
            raise TypeError(f"{self.name} takes {len(places)} arguments here, {len(args)} were given")
        for place, value in zip(places, args):
            full[place] = self._taken(self._names[place], full[place], value)
        missing = [name for name, value in [*zip(self._names, full), *by_name.items()] if _has_spec(value)]
        if missing:
            raise TypeError(f"{self.name}: no value is given for {', '.join(repr(m) for m in missing)}")
        return self._function(*full, **by_name)

    def _parameter(self, name):
        """The parameter that a name stands for, which may be the one of its spec."""
        all_named = [*zip(self._names, self._args), *self._kwargs.items()]
        return next((own for own, spec in all_named if isinstance(spec, TensorSpec) and spec.name == name), name)

    def _taken(self, name, spec, value):
        """An argument, which is of the kind that the function was made for."""
        if not _has_spec(spec):
            if isinstance(value, (Tensor, np.ndarray)) or value != spec:
                raise TypeError(f"{self.name}: `{name}` is bound to {spec!r} in this concrete function, {value!r} was given")
            return spec
        return _map_up_to(spec, value, lambda s, v: self._tensor(name, s, v) if isinstance(s, TensorSpec) else v)

    def _tensor(self, name, spec, value):
        if hasattr(value, "_ragged_rows") or getattr(value, "_is_text_tensor", False) or getattr(value, "_is_complex", False) or spec.dtype._code is None:
            return value
        tensor = value if isinstance(value, Tensor) else _tandem.convert(value, spec.dtype._code)
        if tensor._code != spec.dtype._code:
            raise InvalidArgumentError(f"{self.name}: `{name}` is {spec.dtype.name} in this concrete function, {tensor.dtype.name} was given")
        return tensor

    def _described_outputs(self):
        """The kinds of the results, found without values."""
        if self._outputs is None:
            from tandem.keras._symbolic import KerasTensor, output_spec

            specs = [leaf for leaf in nest.flatten((self._args, self._kwargs)) if isinstance(leaf, TensorSpec)]
            is_open = any(spec.shape.rank is None for spec in specs)  # Numbers stand for tensors of any rank.
            sizes = lambda spec: [] if spec.shape.rank is None else spec.shape.as_list()  # noqa: E731
            stand = lambda leaf: KerasTensor(sizes(leaf), leaf.dtype.name) if isinstance(leaf, TensorSpec) else leaf  # noqa: E731
            args, kwargs = nest.map_structure(stand, (self._args, self._kwargs))
            found = output_spec(self._function._callable(), args, kwargs)
            known = lambda leaf: TensorSpec(None if is_open else leaf.shape, leaf.dtype) if isinstance(leaf, KerasTensor) else leaf  # noqa: E731
            self._outputs = (nest.map_structure(known, found),)
        return self._outputs[0]

    @property
    def structured_outputs(self):
        """The kinds of the results, in their structure."""
        return self._described_outputs()

    @property
    def outputs(self):
        """The kinds of the tensors that it returns."""
        return [s for s in nest.flatten(self._described_outputs()) if isinstance(s, TensorSpec)]

    @property
    def output_shapes(self):
        """The shapes of the results, in their structure."""
        return nest.map_structure(lambda s: s.shape if isinstance(s, TensorSpec) else None, self._described_outputs())

    @property
    def output_dtypes(self):
        """The dtypes of the results, in their structure."""
        return nest.map_structure(lambda s: s.dtype if isinstance(s, TensorSpec) else None, self._described_outputs())

    @property
    def inputs(self):
        """The kinds of the tensors that it takes."""
        return [s for s in nest.flatten(self.structured_input_signature) if isinstance(s, TensorSpec)]

    @property
    def graph(self):
        """The function, whose program `explain` shows."""
        return self

    def as_graph_def(self):
        """The program as text."""
        return self._function.explain()

    def explain(self):
        """The program as text: its instructions, what was fused, who computes them."""
        return self._function.explain()

    def _named_types(self):
        """The parameters with the types of their arguments, and the type of the result."""
        named = [(name or "args", _type_text(value)) for name, value in [*zip(self._names, self._args), *self._kwargs.items()]]
        return named, _type_text(self._described_outputs())

    def pretty_printed_signature(self, verbose=True):
        """The signature as text."""
        named, result = self._named_types()
        listed = "".join(f"\n  {name} (POSITIONAL_OR_KEYWORD): {kind}" for name, kind in named)
        return f"Input Parameters:{listed}\nOutput Type:\n  {result}\nCaptures:\n  None"

    def __str__(self):
        return f"ConcreteFunction {self.pretty_printed_signature()}"

    def __repr__(self):
        named, result = self._named_types()
        return f"<ConcreteFunction ({', '.join(f'{name}: {kind}' for name, kind in named)}) -> {result} at {hex(id(self))}>"

    def __reduce__(self):
        return ConcreteFunction, (self._function, self._args, self._kwargs)

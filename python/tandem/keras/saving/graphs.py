"""Described models as configurations: their layers, and how these are called."""

from tandem.keras.saving.objects import deserialize_keras_object, serialize_keras_object
from tandem.keras.saving.steps import is_step, step_config, step_from_config


def functional_config(model):
    """A described model as a dictionary: its layers, and how they are called."""
    from tandem.keras._symbolic import KerasTensor
    from tandem.keras._layer import Layer

    graph = model._tandem_graph
    names = {}
    for operation in graph.operations:
        names[id(operation)] = operation.name
    places = {}
    calls = {}
    for t in graph.flat_inputs:
        places[id(t)] = (t._node.operation.name, 0, t._index)
    for node in graph.nodes:
        own = calls.setdefault(id(node.operation), [])
        number = len(own)
        own.append(node)
        for output in node.output_tensors:
            places[id(output)] = (node.operation.name, number, output._index)

    def encode(value):
        if isinstance(value, KerasTensor):
            return {"class_name": "__keras_tensor__", "config": {"shape": tuple(value.shape), "dtype": value.dtype, "keras_history": list(places[id(value)])}}
        if isinstance(value, list):
            return [encode(v) for v in value]
        if isinstance(value, tuple):
            return {"class_name": "__tuple__", "items": [encode(v) for v in value]}
        if isinstance(value, dict):
            return {k: encode(v) for k, v in value.items()}
        if isinstance(value, slice):
            return {"class_name": "__slice__", "config": {k: encode(getattr(value, k)) for k in ("start", "stop", "step")}}
        if value is Ellipsis:
            return {"class_name": "__ellipsis__", "config": {}}
        return serialize_keras_object(value)

    layers = []
    for operation in graph.operations:
        if not isinstance(operation, Layer):
            layers.append(step_config(operation, calls[id(operation)][0], encode))
            continue
        entry = serialize_keras_object(operation)
        entry["name"] = operation.name
        entry["inbound_nodes"] = [{"args": tuple(encode(a) for a in n.args), "kwargs": {k: encode(v) for k, v in n.kwargs.items()}} for n in calls.get(id(operation), [])]
        layers.append(entry)
    place = lambda value: list(places[id(value)]) if isinstance(value, KerasTensor) else {k: place(v) for k, v in value.items()} if isinstance(value, dict) else [place(v) for v in value]  # noqa: E731
    return {"name": model.name, "trainable": model._trainable, "layers": layers, "input_layers": place(graph.inputs), "output_layers": place(graph.outputs)}


def functional_from_config(cls, config, custom_objects=None, clone_function=None):
    """The described model of a configuration."""
    layers, outputs = {}, {}
    pending = []

    class _Later(Exception):
        pass

    def decode(value):
        if isinstance(value, list):
            return [decode(v) for v in value]
        if isinstance(value, dict):
            name = value.get("class_name")
            if name == "__keras_tensor__":
                label, number, index = value["config"]["keras_history"]
                if (label, number) not in outputs:
                    raise _Later
                return outputs[(label, number)][index]
            if name == "__tuple__":
                return tuple(decode(v) for v in value["items"])
            if name == "__slice__":
                own = value.get("config")
                return slice(*[decode(v) for v in (value["items"] if own is None else [own[k] for k in ("start", "stop", "step")])])
            if name == "__ellipsis__":
                return Ellipsis
            if name is None:
                return {k: decode(v) for k, v in value.items()}
            return deserialize_keras_object(value)
        return value

    for entry in config["layers"]:
        if is_step(entry):
            layers[entry["name"]] = step_from_config(entry, decode)
            pending += [(entry["name"], i, node) for i, node in enumerate(entry["inbound_nodes"])]
            continue
        layer = deserialize_keras_object({k: v for k, v in entry.items() if k not in ("inbound_nodes", "name")}, custom_objects)
        if clone_function is not None:
            layer = clone_function(layer)
        layers[entry["name"]] = layer
        nodes = entry.get("inbound_nodes", [])
        if not nodes:
            outputs[(entry["name"], 0)] = [layer.output]
        for i, node in enumerate(nodes):
            pending.append((entry["name"], i, node))

    from tandem import nest

    while pending:
        rest = []
        for name, number, node in pending:
            try:
                args, kwargs = decode(list(node["args"])), decode(node["kwargs"])
            except _Later:
                rest.append((name, number, node))
                continue
            outputs[(name, number)] = nest.flatten(layers[name](*args, **kwargs))
        if len(rest) == len(pending):
            raise ValueError("the model's layers are not connected")
        pending = rest

    def find(place):
        if isinstance(place, dict):
            return {k: find(v) for k, v in place.items()}
        if len(place) == 3 and isinstance(place[0], str):
            return outputs[(place[0], place[1])][place[2]]
        return [find(p) for p in place]

    return cls(inputs=find(config["input_layers"]), outputs=find(config["output_layers"]), name=config.get("name"))


def cloned(model, clone_function):
    """A model of the same layers with new weights."""
    return functional_from_config(type(model), functional_config(model), None, clone_function)

"""Models as estimators of scikit-learn, keras.wrappers; scikit-learn is imported when it is there."""

import copy
import sys
import types

import numpy as np

try:
    import sklearn
    from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, TransformerMixin
except ImportError:
    sklearn = None
    BaseEstimator = ClassifierMixin = RegressorMixin = TransformerMixin = object

if sklearn is None:
    _BASES = {name: (object,) for name in ("classifier", "regressor", "transformer")}
else:
    _BASES = {"classifier": (ClassifierMixin, BaseEstimator), "regressor": (RegressorMixin, BaseEstimator), "transformer": (TransformerMixin, BaseEstimator)}


def _require_sklearn(estimator):
    if sklearn is None:
        raise ImportError(f"{type(estimator).__name__} requires `scikit-learn` to be installed. Run `pip install scikit-learn` to install it.")


def _validated(estimator, *arrays, **options):
    from sklearn.utils.validation import validate_data

    return validate_data(estimator, *arrays, **options)


def _as_columns(y):
    return y.reshape(-1, 1) if y.ndim == 1 else y


class _Wrapped:
    """What the estimators have in common: a compiled model, or a function of X and y that gives one, is fitted and asked."""

    def __init__(self, model, warm_start=False, model_kwargs=None, fit_kwargs=None):
        _require_sklearn(self)
        self.model, self.warm_start, self.model_kwargs, self.fit_kwargs = model, warm_start, model_kwargs, fit_kwargs

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True
        return tags

    def __sklearn_clone__(self):
        model = self.model if callable(self.model) and not hasattr(self.model, "get_weights") else copy.deepcopy(self.model)
        return type(self)(model, self.warm_start, self.model_kwargs, self.fit_kwargs)

    @property
    def epoch_(self):
        return getattr(self, "history_", {}).get("epoch", 0)

    def _model_for(self, X, y):
        from tandem.keras import Model
        from tandem.keras.models import clone_model

        if not isinstance(self.model, Model):
            return self.model(X=X, y=y, **(self.model_kwargs or {}))
        return self.model if self.warm_start else clone_model(self.model)

    def fit(self, X, y, **kwargs):
        """Trains a model on rows and their targets; `kwargs` are those of Model.fit."""
        X, y = _validated(self, X, y, multi_output=True)
        y = self._encoded(y)
        model = self._model_for(X, y)
        if not model.compiled or not model.loss or not model.optimizer:
            raise RuntimeError("Given model needs to be compiled, and have a loss and an optimizer.")
        self.history_ = model.fit(X, y, **{**(self.fit_kwargs or {}), **kwargs})
        self.model_ = model
        return self

    def _outputs(self, X):
        from sklearn.utils.validation import check_is_fitted

        check_is_fitted(self)
        return self.model_.predict(_validated(self, X, reset=False))

    def predict(self, X):
        """The predictions for rows, in the form of the targets."""
        return self._decoded(self._outputs(X))

    def _encoded(self, y):
        from sklearn.utils.multiclass import type_of_target

        if type_of_target(y) == "unknown":
            raise ValueError(f"Unknown label type for data: {y!r}")
        self._target_rank = y.ndim
        return _as_columns(y)

    def _decoded(self, y):
        return y[:, 0] if self._target_rank == 1 and y.ndim == 2 and y.shape[1] == 1 else y


class SKLearnClassifier(_Wrapped, *_BASES["classifier"]):
    """A classifier of scikit-learn: the model is given targets as one-hot rows."""

    def decision_function(self, X):
        """What the model gives for rows."""
        return self._outputs(X)

    def _encoded(self, y):
        from sklearn.preprocessing import OneHotEncoder
        from sklearn.utils.multiclass import type_of_target

        kind = type_of_target(y)
        if kind not in ("binary", "multiclass"):
            raise ValueError(f"Only binary and multiclass target types are supported. Target type: {kind}")
        self.classes_ = np.unique(y)
        if len(self.classes_) == 1:
            raise ValueError("Classifier can't train when only one class is present.")
        self._target_rank = y.ndim
        self._encoder = OneHotEncoder(sparse_output=False).fit(_as_columns(y))
        return self._encoder.transform(_as_columns(y))

    def _decoded(self, y):
        return super()._decoded(self._encoder.inverse_transform(y))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True
        return tags


class SKLearnRegressor(_Wrapped, *_BASES["regressor"]):
    """A regressor of scikit-learn."""

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True
        return tags


class SKLearnTransformer(_Wrapped, *_BASES["transformer"]):
    """A transformer of scikit-learn: what the model gives for rows takes their place."""

    def transform(self, X):
        """What the model gives for rows."""
        return self._outputs(X)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []
        return tags


# ---- The wrappers of Keras 2 ----


class _Built:
    """A function that gives a compiled model, with the arguments of that function, of fit and of predict."""

    def __init__(self, build_fn=None, **sk_params):
        self.build_fn, self.sk_params = build_fn, sk_params

    def get_params(self, deep=True):
        return {**self.sk_params, "build_fn": self.build_fn}

    def set_params(self, **params):
        self.build_fn = params.pop("build_fn", self.build_fn)
        self.sk_params.update(params)
        return self

    def __sklearn_tags__(self):
        return type("_Tags", _BASES[self._kind], {})().__sklearn_tags__()

    def _taken_by(self, function, given=()):
        import inspect

        names = inspect.signature(function).parameters
        return {**{k: v for k, v in self.sk_params.items() if k in names}, **dict(given)}

    def fit(self, x, y, **kwargs):
        """Makes a model and trains it."""
        make = self.build_fn if self.build_fn is not None else self.__call__
        self.model = make(**self._taken_by(make))
        self.history = self.model.fit(x, self._targets(np.asarray(y)), **self._taken_by(type(self.model).fit, kwargs.items()))
        return self.history

    def _targets(self, y):
        return y

    def _output(self, x, kwargs):
        return self.model.predict(x, **self._taken_by(type(self.model).predict, kwargs.items()))


class KerasClassifier(_Built):
    """Keras 2's classifier for scikit-learn."""

    _estimator_type = _kind = "classifier"

    def _targets(self, y):
        if y.ndim == 2 and y.shape[1] > 1:
            self.classes_ = np.arange(y.shape[1])
            return y
        self.classes_, y = np.unique(y, return_inverse=True)
        y = y.reshape(-1)
        loss = getattr(self.model.loss, "__name__", self.model.loss)
        return np.eye(len(self.classes_), dtype=np.float32)[y] if loss == "categorical_crossentropy" else y

    def predict_proba(self, x, **kwargs):
        """The probabilities of the classes."""
        found = self._output(x, kwargs)
        return np.hstack([1 - found, found]) if found.shape[1] == 1 else found

    def predict(self, x, **kwargs):
        """The classes of rows."""
        return self.classes_[np.argmax(self.predict_proba(x, **kwargs), -1)]

    def score(self, x, y, **kwargs):
        """The part of rows whose class is found."""
        y = np.asarray(y)
        return float(np.mean(self.predict(x, **kwargs) == (np.argmax(y, -1) if y.ndim == 2 and y.shape[1] > 1 else y.reshape(-1))))


class KerasRegressor(_Built):
    """Keras 2's regressor for scikit-learn."""

    _estimator_type = _kind = "regressor"

    def predict(self, x, **kwargs):
        """The predictions for rows."""
        return np.squeeze(self._output(x, kwargs), -1)

    def score(self, x, y, **kwargs):
        """The negative loss."""
        loss = self.model.evaluate(x, y, **self._taken_by(type(self.model).evaluate, kwargs.items()))
        return -float(loss[0] if isinstance(loss, list) else loss)


scikit_learn = sys.modules[f"{__name__}.scikit_learn"] = types.ModuleType(f"{__name__}.scikit_learn", "keras.wrappers.scikit_learn of Keras 2.")
scikit_learn.KerasClassifier, scikit_learn.KerasRegressor = KerasClassifier, KerasRegressor
__path__ = []  # A package to the import system, for the one module in it.

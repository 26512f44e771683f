"""Scopes of strategies: which one the present thread is in."""

import threading


class _Open(threading.local):
    def __init__(self):
        self.strategies = []


open_scopes = _Open()


class Scope:
    """A strategy's scope as a context manager, which may be entered again and again."""

    def __init__(self, strategy):
        self._strategy = strategy
        self._open = []

    def __enter__(self):
        current = open_scopes.strategies[-1] if open_scopes.strategies else None
        if current is self._strategy:
            self._open.append(None)
        else:
            scope = self._strategy._native.scope()
            scope.enter()
            self._open.append(scope)
        open_scopes.strategies.append(self._strategy)
        return self._strategy

    def __exit__(self, *exception):
        open_scopes.strategies.pop()
        scope = self._open.pop()
        if scope is not None:
            scope.exit()

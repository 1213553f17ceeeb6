"""The base class of everything whose state a checkpoint stores."""

from typing import Any


class Resumable:
    """An object whose state consists of some of its attributes."""

    #: Attributes that are numbers, text, arrays, iterates, or lists and dicts of them.
    state_names: tuple[str, ...] = ()
    #: Attributes that have a state of their own.
    stateful_parts: tuple[str, ...] = ()

    @property
    def has_state(self) -> bool:
        """Whether a checkpoint stores anything of this object."""
        named = bool(self.state_names or self.stateful_parts)
        return named or type(self).state is not Resumable.state

    def state(self) -> dict[str, Any]:
        """Return the state for a checkpoint.

        Returns
        -------
        dict
            The attributes ``state_names``, and the states of ``stateful_parts``.
        """
        values = {name: getattr(self, name) for name in self.state_names}
        return values | {name: getattr(self, name).state() for name in self.stateful_parts}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from what :meth:`state` returned.

        Parameters
        ----------
        state : dict
        """
        for name in self.state_names:
            setattr(self, name, state[name])
        for name in self.stateful_parts:
            getattr(self, name).restore(state[name])

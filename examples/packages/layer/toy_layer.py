"""A layer of one's own: it counts what runs beneath it. Installed, it does nothing; a program enters it by name:

with tp.plugins.layer("count_calls")() as counted:
    ...
print(counted.calls)
"""

from collections import Counter

from tripoint.plugin import Layer


class CountCalls(Layer, below="profile"):
    """Counts calls and elements by operator. ``only`` names the operators to count; of others the parts are counted."""

    def __init__(self, *only):
        self.only = only
        self.calls = Counter()
        self.elements = Counter()

    def handles(self, op):
        """Asked once for each plan: where it is False, the layer is not in the plan, and costs nothing."""
        return not self.only or op.name in self.only

    def __call__(self, op, call_next, args, meta):
        """``call_next`` dispatches again, with this layer and all above it off."""
        out = call_next(args, meta)
        self.calls[op.name] += 1
        self.elements[op.name] += getattr(out, "size", 1)
        return out

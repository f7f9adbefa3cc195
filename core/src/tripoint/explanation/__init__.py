"""What a call would do and why: the walk through every floor, from the Resolution that its plan is made from.

The room is not called ``explain``, so that no import of a module can take the place of the function `tripoint.explain`.
"""

from __future__ import annotations

from tripoint.explanation.data import Argument as Argument
from tripoint.explanation.data import Candidate as Candidate
from tripoint.explanation.data import Explanation as Explanation
from tripoint.explanation.walk import explain as explain

__all__ = ["Argument", "Candidate", "Explanation", "explain"]

"""What there is: every operator as data, and which operator works on which point.

The room is called neither ``ops`` nor ``coverage``, so that no import of a module can take the place of the functions
`tripoint.ops` and `tripoint.coverage`. ``python -m tripoint.support`` prints the support matrix.
"""

from __future__ import annotations

from tripoint.support.operators import Operator as Operator
from tripoint.support.operators import Operators as Operators
from tripoint.support.operators import ops as ops
from tripoint.support.survey import coverage as coverage
from tripoint.support.table import Cell as Cell
from tripoint.support.table import Coverage as Coverage
from tripoint.support.table import Mixed as Mixed
from tripoint.support.table import Place as Place

__all__ = ["Cell", "Coverage", "Mixed", "Operator", "Operators", "Place", "coverage", "ops"]

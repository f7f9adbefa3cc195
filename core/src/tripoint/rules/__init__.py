"""Rules of operator rows: which dtype is computed in and which comes out, which shape, and how metadata is normalised.

A shape rule takes the shapes of the operands (one entry per operand parameter: a shape, a tuple of shapes for a variadic
one, ``None`` for an absent one; ``()`` for a Python scalar) and the bound metadata by name. It is also the meta kernel
and the checker. A bind rule takes the shapes and the metadata in order and returns the metadata normalised.
"""

from __future__ import annotations

from tripoint.rules.results import Accepted as Accepted
from tripoint.rules.results import Computed as Computed
from tripoint.rules.results import DTypeRule as DTypeRule
from tripoint.rules.results import DTypes as DTypes
from tripoint.rules.results import absolute as absolute
from tripoint.rules.results import accumulated as accumulated
from tripoint.rules.results import check_conversion as check_conversion
from tripoint.rules.results import check_number as check_number
from tripoint.rules.results import compared as compared
from tripoint.rules.results import floated as floated
from tripoint.rules.results import in_range as in_range
from tripoint.rules.results import indices as indices
from tripoint.rules.results import kept as kept
from tripoint.rules.results import labelled as labelled
from tripoint.rules.results import like_first as like_first
from tripoint.rules.results import logical as logical
from tripoint.rules.results import promoted as promoted
from tripoint.rules.results import selected as selected
from tripoint.rules.results import truth as truth
from tripoint.rules.shapes import LARGEST as LARGEST
from tripoint.rules.shapes import Shape as Shape
from tripoint.rules.shapes import Shapes as Shapes
from tripoint.rules.shapes import arg_reduced as arg_reduced
from tripoint.rules.shapes import assigned as assigned
from tripoint.rules.shapes import bind_axes as bind_axes
from tripoint.rules.shapes import bind_axis as bind_axis
from tripoint.rules.shapes import bind_broadcast_to as bind_broadcast_to
from tripoint.rules.shapes import bind_concat as bind_concat
from tripoint.rules.shapes import bind_expand as bind_expand
from tripoint.rules.shapes import bind_flip as bind_flip
from tripoint.rules.shapes import bind_optional_axis as bind_optional_axis
from tripoint.rules.shapes import bind_permutation as bind_permutation
from tripoint.rules.shapes import bind_reshape as bind_reshape
from tripoint.rules.shapes import bind_shape as bind_shape
from tripoint.rules.shapes import bind_squeeze as bind_squeeze
from tripoint.rules.shapes import bind_take as bind_take
from tripoint.rules.shapes import broadcast as broadcast
from tripoint.rules.shapes import broadcast_shapes as broadcast_shapes
from tripoint.rules.shapes import check_shape as check_shape
from tripoint.rules.shapes import concatenated as concatenated
from tripoint.rules.shapes import expanded as expanded
from tripoint.rules.shapes import ints as ints
from tripoint.rules.shapes import matmul as matmul
from tripoint.rules.shapes import named as named
from tripoint.rules.shapes import normalise_axes as normalise_axes
from tripoint.rules.shapes import normalise_axis as normalise_axis
from tripoint.rules.shapes import permuted as permuted
from tripoint.rules.shapes import reduced as reduced
from tripoint.rules.shapes import reduced_nonempty as reduced_nonempty
from tripoint.rules.shapes import same as same
from tripoint.rules.shapes import squeezed as squeezed
from tripoint.rules.shapes import taken as taken
from tripoint.rules.shapes import trailing as trailing
from tripoint.rules.shapes import transposed as transposed
from tripoint.rules.windows import bind_conv as bind_conv
from tripoint.rules.windows import bind_index as bind_index
from tripoint.rules.windows import bind_pool as bind_pool
from tripoint.rules.windows import conv2d as conv2d
from tripoint.rules.windows import indexed as indexed
from tripoint.rules.windows import pair as pair
from tripoint.rules.windows import pooled as pooled

__all__ = ["DTypeRule"]

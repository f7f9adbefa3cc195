"""The operators, one file a family. Called, ``tripoint.ops(namespace=None)`` lists them as data: `tripoint.support.ops`."""

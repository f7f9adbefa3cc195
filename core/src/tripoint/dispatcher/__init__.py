"""From a call to a kernel: declaring operators, resolving calls, building plans.

`declare` makes the public function of a row, `resolve` decides what one combination of keys does and says it as data,
`plan` turns that data into a closure, `calls` is where look-ups that miss arrive.
"""

"""From a call to a kernel: declaring operators, resolving calls, building plans.

`declare` makes the public function of a row. `calls` is where look-ups that miss arrive. `resolve` decides what one
combination of keys does and says it as data; `plan` turns that data into a closure, with `views` for views that are derived
again and `outcome` for what kernels give and raise. `detour` runs a call at other points, through hooks or by fallback;
`refusals` words the errors of calls that nothing serves.
"""

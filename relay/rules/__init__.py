"""Rules shape what is relayed, between decode and route: `rows` selects rows, `columns` drops, replaces and
renames columns, `tables` renames databases and tables. They apply in this order.
"""

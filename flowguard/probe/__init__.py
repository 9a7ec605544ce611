"""The programs of ``flowguard probe``. Each asks AWS or an engine whether it does what a row of the table says.

A program has clients and a namespace, and sees nothing else of flowguard.
"""

"""What flowguard assumes of AWS. One table has a row for each behaviour. No deployed function loads it.

The rows of a service stand in one module. ``docs/explain/what-aws-does.md`` is made of them, and the tests in
``tests/aws_facts`` hold the code to them.
"""

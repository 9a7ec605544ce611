"""What AWS refuses of a request, by service. The AWS in memory and the one on moto share these rules.

A rule raises :class:`~flowguard.sim.limits.fault.Fault` in AWS's words. Sizes and characters are those of AWS's
documents; where a test on DynamoDB Local or ElasticMQ shows another answer, ``tests/refusals`` says so.
"""
